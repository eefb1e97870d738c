package hlo

import (
	"cmp"
	"math"
	"math/bits"
	"strconv"

	"github.com/memlane/memlane/formats/internal/wire"
)

// elementTypes lists the types of xla_data.proto by number: the name that XLA prints and the bits per element.
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

// pointerBytes is the size of a tuple entry, a pointer.
const pointerBytes = 8

// maxShapeDepth bounds the nesting of tuples.
const maxShapeDepth = 64

// shape is a ShapeProto: an array or a tuple of shapes.
type shape struct {
	element    uint64
	dimensions []int64
	dynamic    []int64     // 1 where the dimension is an upper bound
	parts      []wire.Span // of a tuple
	layout     layout
	hasLayout  bool
}

// layout is a LayoutProto.
type layout struct {
	minorToMajor []int64
	tiles        []wire.Span
	elementBits  uint64 // 0: those of the type
	memorySpace  uint64
	tailPadding  uint64 // the size is a multiple of this number of elements
	splits       []wire.Span
}

// shapeAt reads the ShapeProto at a place.
func (p *program) shapeAt(at wire.Span) (s shape, err error) {
	var layout wire.Span
	m := wire.Scanner{Err: wire.Read(p.proto, at, wire.Into{{shapeElement, &s.element}, {shapeDimensions, &s.dimensions}, {shapeDynamicFlags, &s.dynamic},
		{shapeTupleShapes, &s.parts}, {shapeLayout, &layout}})}
	l := &s.layout
	s.hasLayout = layout.End > 0
	m.Inside("layout", -1, wire.Read(p.proto, layout, wire.Into{{layoutMinorToMajor, &l.minorToMajor}, {layoutTiles, &l.tiles},
		{layoutElementBits, &l.elementBits}, {layoutMemorySpace, &l.memorySpace}, {layoutTailPadding, &l.tailPadding}, {layoutSplit, &l.splits}}))
	return s, m.Err
}

// dtype returns the name of the element type, "" for a tuple.
func (s *shape) dtype() string {
	if s.element == 0 || s.element >= uint64(len(elementTypes)) {
		return "type" + strconv.FormatUint(s.element, 10)
	}
	return elementTypes[s.element].name
}

// bytes returns the size of the elements in bytes without layout padding: XProf's unpadded size. Elements
// narrower than a byte are packed if the layout states their bits, otherwise each takes a byte. The size
// saturates at 1 EiB. ok is false if the element type is not known.
func (s *shape) bytes() (n int64, ok bool) {
	if s.element == tupleType {
		return int64(len(s.parts)) * pointerBytes, true
	}
	if s.element == 0 || s.element >= uint64(len(elementTypes)) {
		return 0, false
	}
	product := s.layout.elementBits
	if product == 0 { // round up to whole bytes
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

// commentEvery is the interval at which XLA numbers the printed elements of a tuple.
const commentEvery = 5

// appendShape appends the text of a shape as XLA prints it: element type, dimensions and layout, for example
// f32[64,256]{1,0:T(8,128)S(1)}.
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

// appendDimension appends a dimension, or none for math.MinInt64, which stands for an unknown dimension.
func appendDimension(text []byte, d int64, none byte) []byte {
	if d == math.MinInt64 {
		return append(text, none)
	}
	return strconv.AppendInt(text, d, 10)
}

// appendLayout appends the order of the dimensions, minor first, then after a colon the tiles ("*" marks a dimension that is combined with the
// next), the tail padding, the element bits, the memory space and where dimensions are split between cores. A scalar has a layout only if it has one
// of those.
func (p *program) appendLayout(text []byte, l *layout, scalar bool) ([]byte, error) {
	var extra []byte
	var err error
	if len(l.tiles) > 0 {
		extra = append(extra, 'T')
	}
	for _, at := range l.tiles {
		var dimensions []int64
		err = cmp.Or(err, wire.Read(p.proto, at, wire.Into{{tileDimensions, &dimensions}}))
		extra = append(appendList(append(extra, '('), dimensions), ')')
	}
	for _, k := range []struct {
		name        string
		value, none uint64
	}{{"L", l.tailPadding, 1}, {"E", l.elementBits, 0}, {"S", l.memorySpace, 0}} {
		if k.value != 0 && k.value != k.none {
			extra = append(strconv.AppendInt(append(append(extra, k.name...), '('), int64(k.value), 10), ')')
		}
	}
	for _, at := range l.splits {
		var dimension int64
		var indices []int64
		err = cmp.Or(err, wire.Read(p.proto, at, wire.Into{{splitDimension, &dimension}, {splitIndices, &indices}}))
		extra = strconv.AppendInt(append(extra, "SC("...), dimension, 10)
		extra = append(appendList(append(extra, ':'), indices), ')')
	}
	if err != nil {
		return text, err
	}
	if scalar && len(l.minorToMajor)+len(extra) == 0 {
		return text, nil
	}
	text = appendList(append(text, '{'), l.minorToMajor)
	if len(extra) > 0 {
		text = append(append(text, ':'), extra...)
	}
	return append(text, '}'), nil
}

// appendList appends numbers, "*" for math.MinInt64.
func appendList(text []byte, all []int64) []byte {
	for i, n := range all {
		if i > 0 {
			text = append(text, ',')
		}
		text = appendDimension(text, n, '*')
	}
	return text
}
