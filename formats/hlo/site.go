package hlo

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/memlane/memlane/formats/internal/wire"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/frame"
)

// definition is an instruction as the origin of the values that it defines.
type definition struct {
	id                   int64
	name, opcode, opName string
	shape                wire.Span
	stack, source        lifetime.StackID
	role                 compiled.Role
	frame                int64       // of its source
	leaf                 frame.Frame // line
}

// site is the site of a value in the model.
type site struct {
	id       lifetime.SiteID
	unpadded int64 // bytes
	stack    bool
	known    bool // the instruction and the part of its result exist
}

// array is the part of a site that depends on its shape. A program has some hundred shapes and tens of
// thousands of values.
type array struct {
	dtype, text, plain string // plain: without its layout
	rank               int    // number of dimensions
	unpadded           int64
	known              bool
}

// sites creates the sites of values, each once.
type sites struct {
	p       *program
	b       *build.Builder
	made    map[origin]site
	parted  map[place]*definition     // of instructions whose parts are values; most instructions have one value
	once    definition                // of others
	tuples  map[wire.Span][]wire.Span // parts of the tuples read so far
	scoped  []lifetime.FrameID        // of an op_name, innermost first
	sources map[int64]source
	origins origins
}

// definedAt returns the instruction that defines a value, by its ID or in old files its name, and the part of its result. It is nowhere if that is missing.
func (p *program) definedAt(v *value) (at item, err error) {
	id, name := int64(0), wire.Span{}
	err = wire.Read(p.proto, v.definedAt, wire.Into{{definedInstructionID, &id}, {definedInstructionName, &name}, {definedShapeIndex, &at.path}})
	if at.place = p.graph.places[id]; id == 0 && name.End > name.At {
		at.place = p.named()[p.text(name)]
	}
	return at, err
}

// of returns the site of a value. If its instruction is missing, only the size is known.
func (s *sites) of(v *value) (site, error) {
	from, err := s.p.definedAt(v)
	if err != nil {
		return site{}, err
	}
	if from.in == nil {
		s.p.skip("logical buffer %d: no such instruction", v.id)
		return site{unpadded: v.size}, nil
	}
	at := origin{from.operation().id, braced(from.path)}
	found, ok := s.made[at]
	if !ok {
		d := s.parted[from.place]
		if d == nil {
			if d = &s.once; len(from.path) > 0 {
				d = &definition{}
				s.parted[from.place] = d
			}
			err = s.define(d, from.place)
		}
		if err == nil {
			found, err = s.make(d, at.path, from.path)
		}
		if err != nil {
			return site{}, err
		}
		s.made[at] = found
	}
	if !found.known {
		s.p.skip("logical buffer %d: its instruction has no such part or type in its result", v.id)
		found.unpadded = v.size
	}
	return found, nil
}

// braced returns a path through tuples in XLA's notation.
func braced(path []int64) string {
	if len(path) == 0 {
		return ""
	}
	return "{" + string(appendList(nil, path)) + "}"
}

// named returns the instructions by name.
func (p *program) named() map[string]place {
	if p.byName == nil {
		p.byName = map[string]place{}
		for _, id := range slices.Sorted(maps.Keys(p.graph.places)) {
			var name wire.Span
			if at := p.graph.places[id]; wire.Read(p.proto, at.operation().at, wire.Into{{instructionName, &name}}) == nil {
				p.byName[p.text(name)] = at
			}
		}
	}
	return p.byName
}

// make creates the site of a part of a result. If the result has no such part, the site is that of the instruction.
func (s *sites) make(d *definition, index string, path []int64) (site, error) {
	made := lifetime.Site{Stack: d.stack, Source: d.source, Op: d.opName, Instr: d.name, Opcode: d.opcode, Role: d.role}
	out := site{stack: d.stack != 0}
	part, ok, err := s.part(d.shape, path)
	if err != nil {
		return out, err
	}
	if ok {
		made.Instr += index
		if last := len(path) - 1; last > 0 && s.b.Keeps(build.XProf) { // it follows only the last number, and shows that part or else the whole
			if part, ok, err = s.part(d.shape, path[last:]); err != nil {
				return out, err
			} else if !ok {
				part = d.shape
			}
		}
		a, err := s.p.array(part)
		if err != nil {
			return site{}, err
		}
		out.unpadded, out.known = a.unpadded, a.known
		made.DType, made.Shape = a.dtype, a.text
		if of := s.p.shardings.of[origin{d.id, index}]; a.rank > 0 && (of.Split == "" || strings.Count(of.Split, "x")+1 == a.rank) {
			made.Sharding = of
		}
	}
	out.id = s.b.Site(made)
	return out, nil
}

// array returns the properties of the shape at a place.
func (p *program) array(at wire.Span) (array, error) {
	bytes := p.proto[at.At:at.End]
	if found, ok := p.shapes[string(bytes)]; ok {
		return found, nil
	}
	shape, err := p.shapeAt(at)
	if err != nil {
		return array{}, err
	}
	text, err := p.appendShape(nil, &shape, 0)
	made := array{dtype: shape.dtype(), text: string(text), rank: len(shape.dimensions)}
	made.unpadded, made.known = shape.bytes()
	if made.plain, _, _ = strings.Cut(made.text, "{"); err == nil {
		p.shapes[string(bytes)] = made
	}
	return made, err
}

// part follows a path through the tuples of a shape.
func (s *sites) part(where wire.Span, path []int64) (wire.Span, bool, error) {
	for _, i := range path {
		parts, ok := s.tuples[where]
		if !ok {
			shape, err := s.p.shapeAt(where)
			if err != nil {
				return wire.Span{}, false, err
			}
			parts = shape.parts
			s.tuples[where] = parts
		}
		if i < 0 || i >= int64(len(parts)) {
			return wire.Span{}, false, nil
		}
		where = parts[i]
	}
	return where, true, nil
}

// define reads an instruction, its scopes and its place in the Python program.
func (s *sites) define(d *definition, at place) error {
	in := at.operation()
	*d = definition{id: in.id, role: s.p.roles[in.id], opcode: in.opcode, shape: in.shape, frame: in.frame}
	var name, metadata, op, file wire.Span
	var line, column int64
	m := wire.Scanner{Err: wire.Read(s.p.proto, in.at, wire.Into{{instructionName, &name}, {instructionMetadata, &metadata}})}
	m.Inside("metadata", -1, wire.Read(s.p.proto, metadata, wire.Into{{metadataOpName, &op}, {metadataSourceFile, &file}, {metadataSourceLine, &line},
		{metadataSourceColumn, &column}}))
	d.name, d.opName = s.p.upTo(maxName, name), s.p.text(op)
	from := s.source(d.frame)
	if file.End > file.At { // the older form, which XProf prefers
		from.leaf = frame.Frame{File: s.p.text(file), Line: int(line), Column: int(column)}
	}
	d.stack, d.source, d.leaf = s.scopes(d, from.leaf), from.stack, from.leaf
	return m.Err
}

// label returns the name of an argument, or the line of the program that an instruction comes from, or else its name.
func (s *sites) label(at place) string {
	var d definition
	if s.define(&d, at) != nil {
		return ""
	}
	if d.opcode == "parameter" {
		return cmp.Or(d.opName, d.name)
	}
	if all := s.calls(d.frame, &s.origins.budget); len(all) > 0 {
		return s.frame(all[0]).Place()
	}
	return cmp.Or(d.opName, d.name)
}

// scopes returns the parts of an op_name as a stack; the innermost one carries the source location. Without an op_name
// the instruction itself is the scope, if the location is known.
func (s *sites) scopes(d *definition, leaf frame.Frame) (stack lifetime.StackID) {
	names := strings.TrimRight(d.opName, "/")
	switch leaf.Kind = frame.Scope; {
	case names == "" && leaf.File == "":
		return 0
	case names == "":
		leaf.Function = d.name
		return s.b.Call(s.b.Frame(leaf), 0)
	}
	for s.scoped = s.scoped[:0]; names != ""; leaf = (frame.Frame{Kind: frame.Scope}) {
		at := strings.LastIndexByte(names, '/')
		leaf.Function = names[at+1:]
		s.scoped = append(s.scoped, s.b.Frame(leaf))
		names = strings.TrimRight(names[:max(at, 0)], "/")
	}
	for _, f := range slices.Backward(s.scoped) {
		stack = s.b.Call(f, stack)
	}
	return stack
}
