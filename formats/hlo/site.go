package hlo

import (
	"sort"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// definition is what an instruction says of the values that it defines.
type definition struct {
	name, opcode, opName string
	shape                span
	stack, source        lifetime.StackID

	whole   site            // of the result as a whole
	isWhole bool            // whole was made
	parts   map[string]site // of its parts, by their path: "{0,1}"
}

// site is what a place is in the model.
type site struct {
	id       lifetime.SiteID
	unpadded int64 // bytes
	stack    bool
	known    bool // the instruction and the part of its result exist
}

// array is what a site says of a shape. A program has some hundred shapes, and
// values by the ten thousand.
type array struct {
	dtype, text string
	unpadded    int64
	known       bool
}

// sites makes the sites of values, each once.
type sites struct {
	p           *program
	b           *build.Builder
	definitions []*definition    // by instruction; nil until it is asked for
	tuples      map[span][]span  // the parts of those that were looked into
	shapes      map[string]array // by their bytes in the proto
	opcodes     map[string]string
	frames      []lifetime.FrameID // scratch of scopes
	sources     map[int64]source
}

func newSites(p *program, b *build.Builder) *sites {
	return &sites{p: p, b: b, definitions: make([]*definition, len(p.instructions)), tuples: map[span][]span{}, sources: map[int64]source{},
		shapes: map[string]array{}, opcodes: map[string]string{}}
}

// of returns the site of a value. Without one its size is what is known.
func (s *sites) of(v *value) (site, error) {
	var path []int64
	id, name := int64(0), span{}
	m := scan(s.p.proto, v.definedAt)
	for f, ok := m.next(); ok; f, ok = m.next() {
		switch f.tag {
		case definedInstructionID:
			id = int64(f.value)
		case definedInstructionName:
			name = f.body
		case definedShapeIndex, definedShapeIndexOne:
			path = m.ints(path, f)
		}
	}
	if m.err != nil {
		return site{}, m.err
	}
	i, ok := s.p.instruction(id, name)
	if !ok {
		s.p.skip("logical buffer %d: no such instruction", v.id)
		return site{unpadded: v.size}, nil
	}
	found, err := s.at(i, path)
	if err != nil {
		return site{}, err
	}
	if !found.known {
		s.p.skip("logical buffer %d: of a part or type that its instruction's result does not have", v.id)
		found.unpadded = v.size
	}
	return found, nil
}

// at returns the site of a place in the result of an instruction.
func (s *sites) at(instruction int32, path []int64) (site, error) {
	d := s.definitions[instruction]
	if d == nil {
		var err error
		if d, err = s.define(s.p.instructions[instruction].at); err != nil {
			return site{}, err
		}
		s.definitions[instruction] = d
	}
	if len(path) == 0 && d.isWhole {
		return d.whole, nil
	}
	index := braced(path)
	if found, ok := d.parts[index]; ok {
		return found, nil
	}
	made, err := s.make(d, index, path)
	switch {
	case len(path) == 0:
		d.whole, d.isWhole = made, true
	case d.parts == nil:
		d.parts = map[string]site{index: made}
	default:
		d.parts[index] = made
	}
	return made, err
}

// braced returns a path through tuples as XLA prints it.
func braced(path []int64) string {
	if len(path) == 0 {
		return ""
	}
	text := []byte{'{'}
	for i, n := range path {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, n, 10)
	}
	return string(append(text, '}'))
}

// instruction finds an instruction by its id, in old files by its name.
func (p *program) instruction(id int64, name span) (int32, bool) {
	if id == 0 && name.end > name.at {
		i, ok := p.named()[p.text(name)]
		return i, ok
	}
	i := sort.Search(len(p.instructions), func(i int) bool { return p.instructions[i].id > id }) - 1
	return int32(i), i >= 0 && p.instructions[i].id == id
}

// named returns the instructions by name.
func (p *program) named() map[string]int32 {
	if p.byName == nil {
		p.byName = map[string]int32{}
		for i := range p.instructions {
			m := scan(p.proto, p.instructions[i].at)
			for f, ok := m.next(); ok; f, ok = m.next() {
				if f.tag == instructionName {
					p.byName[p.text(f.body)] = int32(i)
					break
				}
			}
		}
	}
	return p.byName
}

// make makes the site of a place. One that the result does not have is the
// instruction's own.
func (s *sites) make(d *definition, index string, path []int64) (site, error) {
	made := lifetime.Site{Stack: d.stack, Source: d.source, Op: d.opName, Instr: d.name, Opcode: d.opcode}
	out := site{stack: d.stack != 0}
	part, ok, err := s.part(d.shape, path)
	if err != nil {
		return out, err
	}
	if ok {
		made.Instr += index
		a, err := s.array(part)
		if err != nil {
			return site{}, err
		}
		out.unpadded, out.known = a.unpadded, a.known
		made.DType, made.Shape = a.dtype, a.text
	}
	out.id = s.b.Site(made)
	return out, nil
}

// array returns what is said of the shape at a place.
func (s *sites) array(at span) (array, error) {
	bytes := s.p.proto[at.at:at.end]
	if found, ok := s.shapes[string(bytes)]; ok {
		return found, nil
	}
	shape, err := s.p.shapeAt(at)
	if err != nil {
		return array{}, err
	}
	text, err := s.p.appendShape(nil, &shape, 0)
	if err != nil {
		return array{}, err
	}
	made := array{dtype: shape.dtype(), text: string(text)}
	made.unpadded, made.known = shape.bytes()
	s.shapes[string(bytes)] = made
	return made, nil
}

// part follows a path through the tuples of a shape.
func (s *sites) part(at span, path []int64) (span, bool, error) {
	for _, i := range path {
		parts, ok := s.tuples[at]
		if !ok {
			shape, err := s.p.shapeAt(at)
			if err != nil {
				return span{}, false, err
			}
			parts = shape.parts
			s.tuples[at] = parts
		}
		if i < 0 || i >= int64(len(parts)) {
			return span{}, false, nil
		}
		at = parts[i]
	}
	return at, true, nil
}

// define reads an instruction.
func (s *sites) define(at span) (*definition, error) {
	d := &definition{}
	var metadata span
	m := scan(s.p.proto, at)
	for f, ok := m.next(); ok; f, ok = m.next() {
		switch f.tag {
		case instructionName:
			d.name = s.p.upTo(maxName, f.body)
		case instructionOpcode:
			d.opcode = s.opcode(f.body)
		case instructionShape:
			d.shape = f.body
		case instructionMetadata:
			metadata = f.body
		}
	}
	m.inside("metadata", -1, s.describe(d, metadata))
	return d, m.err
}

// opcode reads the text of an opcode: there are some hundred.
func (s *sites) opcode(at span) string {
	bytes := s.p.proto[at.at:at.end]
	text, ok := s.opcodes[string(bytes)]
	if !ok {
		text = s.p.text(at)
		s.opcodes[string(bytes)] = text
	}
	return text
}

// describe reads an OpMetadata: the scopes that the instruction was made in,
// and the place in the program that it comes from.
func (s *sites) describe(d *definition, metadata span) error {
	var from source
	var file span
	var line, column, frame int64
	m := scan(s.p.proto, metadata)
	for f, ok := m.next(); ok; f, ok = m.next() {
		switch f.tag {
		case metadataOpName:
			d.opName = s.p.text(f.body)
		case metadataSourceFile:
			file = f.body
		case metadataSourceLine:
			line = int64(f.value)
		case metadataSourceColumn:
			column = int64(f.value)
		case metadataStackFrame:
			frame = int64(f.value)
		}
	}
	from = s.source(frame)
	if file.end > file.at { // an older way to say it, and the first choice of XProf
		from.leaf = lifetime.Frame{File: s.p.text(file), Line: lineNumber(line), Column: lineNumber(column)}
	}
	d.stack, d.source = s.scopes(d, from.leaf), from.stack
	return m.err
}

// scopes returns the parts of an op_name as a stack, innermost first; that one
// has the place in the source. Without an op_name the instruction stands for
// the scope, if the place is known.
func (s *sites) scopes(d *definition, leaf lifetime.Frame) lifetime.StackID {
	ids := s.frames[:0]
	for rest := d.opName; rest != ""; {
		at := strings.LastIndexByte(rest, '/')
		name := rest[at+1:]
		if rest = rest[:max(at, 0)]; name == "" {
			continue
		}
		f := lifetime.Frame{Function: name, Kind: lifetime.Scope}
		if len(ids) == 0 {
			f.File, f.Line, f.Column = leaf.File, leaf.Line, leaf.Column
		}
		ids = append(ids, s.b.Frame(f))
	}
	if len(ids) == 0 && leaf.File != "" {
		leaf.Function, leaf.Kind = d.name, lifetime.Scope
		ids = append(ids, s.b.Frame(leaf))
	}
	s.frames = ids
	return s.b.Stack(ids)
}
