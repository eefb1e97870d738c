package hlo

import (
	"math"
	"math/bits"
	"strconv"
)

// elementTypes are the types of xla_data.proto by number: the name that XLA prints
// and the bits of one element.
var elementTypes = [...]struct {
	name string
	bits uint64
}{
	1: {"pred", 8}, 2: {"s8", 8}, 3: {"s16", 16}, 4: {"s32", 32}, 5: {"s64", 64}, 6: {"u8", 8}, 7: {"u16", 16}, 8: {"u32", 32}, 9: {"u64", 64},
	10: {"f16", 16}, 11: {"f32", 32}, 12: {"f64", 64}, 13: {"", 0}, 14: {"opaque", 64}, 15: {"c64", 64}, 16: {"bf16", 16}, 17: {"token", 0},
	18: {"c128", 128}, 19: {"f8e5m2", 8}, 20: {"f8e4m3fn", 8}, 21: {"s4", 4}, 22: {"u4", 4}, 23: {"f8e4m3b11fnuz", 8}, 24: {"f8e5m2fnuz", 8},
	25: {"f8e4m3fnuz", 8}, 26: {"s2", 2}, 27: {"u2", 2}, 28: {"f8e4m3", 8}, 29: {"f8e3m4", 8}, 30: {"s1", 1}, 31: {"u1", 1}, 32: {"f4e2m1fn", 4},
	33: {"f8e8m0fnu", 8},
}

const tupleType = 13

// pointerBytes is the size of an entry of a tuple: a table of pointers.
const pointerBytes = 8

// maxShapeDepth bounds tuples in tuples.
const maxShapeDepth = 64

// shape is a ShapeProto. A shape is a tuple of shapes or an array.
type shape struct {
	element    uint64
	dimensions []int64
	dynamic    []int64 // 1 where the dimension is an upper bound
	parts      []span  // of a tuple
	layout     layout
	hasLayout  bool
}

// layout is a LayoutProto.
type layout struct {
	minorToMajor []int64
	tiles        []span
	elementBits  uint64 // 0 = those of the type
	memorySpace  uint64
	tailPadding  uint64 // elements that the size is a multiple of
}

// shapeAt reads the shape at a place.
func (p *program) shapeAt(at span) (shape, error) {
	var s shape
	m := scan(p.proto, at)
	for f, ok := m.next(); ok; f, ok = m.next() {
		switch f.tag {
		case shapeElement:
			s.element = f.value
		case shapeDimension, shapeDimensions:
			s.dimensions = m.ints(s.dimensions, f)
		case shapeDynamicFlag, shapeDynamicFlags:
			s.dynamic = m.ints(s.dynamic, f)
		case shapeTupleShapes:
			s.parts = append(s.parts, f.body)
		case shapeLayout:
			var err error
			s.hasLayout = true
			s.layout, err = p.layoutAt(f.body)
			m.inside("layout", -1, err)
		}
	}
	return s, m.err
}

func (p *program) layoutAt(at span) (layout, error) {
	var l layout
	m := scan(p.proto, at)
	for f, ok := m.next(); ok; f, ok = m.next() {
		switch f.tag {
		case layoutMinorToMajor, layoutMinorToMajorOne:
			l.minorToMajor = m.ints(l.minorToMajor, f)
		case layoutTiles:
			l.tiles = append(l.tiles, f.body)
		case layoutElementBits:
			l.elementBits = f.value
		case layoutMemorySpace:
			l.memorySpace = f.value
		case layoutTailPadding:
			l.tailPadding = f.value
		}
	}
	return l, m.err
}

// dtype returns the name of the type of the elements, "" for a tuple.
func (s *shape) dtype() string {
	if s.element == 0 || s.element >= uint64(len(elementTypes)) {
		return "type" + strconv.FormatUint(s.element, 10)
	}
	return elementTypes[s.element].name
}

// bytes returns the size of the elements alone, without the padding of a
// layout: XProf's unpadded size. Elements narrower than a byte are packed where
// the layout tells their bits, else they take a byte each. It saturates at 1 EiB;
// ok is false when the type of the elements is not known.
func (s *shape) bytes() (n int64, ok bool) {
	if s.element == tupleType {
		return int64(len(s.parts)) * pointerBytes, true
	}
	if s.element == 0 || s.element >= uint64(len(elementTypes)) {
		return 0, false
	}
	product := s.layout.elementBits
	if product == 0 { // whole bytes
		product = (elementTypes[s.element].bits + 7) / 8 * 8
	}
	for _, d := range s.dimensions {
		hi, lo := bits.Mul64(product, uint64(max(d, 0)))
		if hi != 0 || lo > math.MaxInt64 {
			lo = math.MaxInt64
		}
		product = lo
	}
	return int64(product/8 + (product%8+7)/8), true
}

// commentEvery is how often XLA numbers the elements of a tuple that it prints.
const commentEvery = 5

// appendShape adds the text of a shape as XLA prints it: the element type, the
// dimensions and the layout, f32[64,256]{1,0:T(8,128)S(1)}.
func (p *program) appendShape(text []byte, s *shape, depth int) ([]byte, error) {
	if depth > maxShapeDepth {
		return append(text, "..."...), nil
	}
	if s.element == tupleType {
		text = append(text, '(')
		for i, part := range s.parts {
			if i > 0 {
				text = append(text, ", "...)
			}
			if i > 0 && i%commentEvery == 0 {
				text = strconv.AppendInt(append(text, "/*index="...), int64(i), 10)
				text = append(text, "*/"...)
			}
			inner, err := p.shapeAt(part)
			if err != nil {
				return text, err
			}
			if text, err = p.appendShape(text, &inner, depth+1); err != nil {
				return text, err
			}
		}
		return append(text, ')'), nil
	}
	text = append(append(text, s.dtype()...), '[')
	for i, d := range s.dimensions {
		if i > 0 {
			text = append(text, ',')
		}
		if i < len(s.dynamic) && s.dynamic[i] != 0 {
			text = append(text, "<="...)
		}
		text = appendDimension(text, d, '?')
	}
	text = append(text, ']')
	if !s.hasLayout || s.element == tokenType {
		return text, nil
	}
	return p.appendLayout(text, &s.layout, len(s.dimensions) == 0)
}

const tokenType = 17

// appendDimension adds a dimension; the smallest number stands for one that has
// no number.
func appendDimension(text []byte, d int64, none byte) []byte {
	if d == math.MinInt64 {
		return append(text, none)
	}
	return strconv.AppendInt(text, d, 10)
}

// appendLayout adds the order of the dimensions, minor first, and behind a
// colon what else there is: tiles, padding of the tail, bits of an element,
// memory space. A scalar has a layout only for the latter.
func (p *program) appendLayout(text []byte, l *layout, scalar bool) ([]byte, error) {
	var extra []byte
	if len(l.tiles) > 0 {
		extra = append(extra, 'T')
	}
	for _, at := range l.tiles {
		var err error
		if extra, err = p.appendTile(extra, at); err != nil {
			return text, err
		}
	}
	for _, k := range []struct {
		name        string
		value, none uint64
	}{{"L", l.tailPadding, 1}, {"E", l.elementBits, 0}, {"S", l.memorySpace, 0}} {
		if k.value != 0 && k.value != k.none {
			extra = append(strconv.AppendInt(append(append(extra, k.name...), '('), int64(k.value), 10), ')')
		}
	}
	if scalar && len(l.minorToMajor)+len(extra) == 0 {
		return text, nil
	}
	text = append(text, '{')
	for i, d := range l.minorToMajor {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, d, 10)
	}
	if len(extra) > 0 {
		text = append(append(text, ':'), extra...)
	}
	return append(text, '}'), nil
}

// appendTile adds the dimensions of a tile in parentheses; "*" is one that is
// combined with the next.
func (p *program) appendTile(text []byte, at span) ([]byte, error) {
	var dimensions []int64
	m := scan(p.proto, at)
	for f, ok := m.next(); ok; f, ok = m.next() {
		switch f.tag {
		case tileDimension, tileDimensions:
			dimensions = m.ints(dimensions, f)
		}
	}
	text = append(text, '(')
	for i, d := range dimensions {
		if i > 0 {
			text = append(text, ',')
		}
		text = appendDimension(text, d, '*')
	}
	return append(text, ')'), m.err
}
