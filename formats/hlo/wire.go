package hlo

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Wire types, to be joined with a field number: a tag. A field whose wire type
// is not the expected one has another tag and is skipped, as unknown ones are.
const (
	number = 0
	packed = 2
)

// Tags of the messages of hlo.proto and xla_data.proto that are read.
const (
	protoModule     = 1<<3 | packed
	protoAssignment = 3<<3 | packed

	moduleName         = 1<<3 | packed
	moduleEntry        = 2<<3 | packed
	moduleComputations = 3<<3 | packed
	moduleID           = 5<<3 | number
	moduleFrames       = 17<<3 | packed

	computationInstructions = 2<<3 | packed

	instructionName     = 1<<3 | packed
	instructionOpcode   = 2<<3 | packed
	instructionShape    = 3<<3 | packed
	instructionMetadata = 7<<3 | packed
	instructionID       = 35<<3 | number

	metadataOpName       = 2<<3 | packed
	metadataSourceFile   = 3<<3 | packed
	metadataSourceLine   = 4<<3 | number
	metadataStackFrame   = 15<<3 | number
	metadataSourceColumn = 18<<3 | number

	framesFileNames     = 1<<3 | packed
	framesFunctionNames = 2<<3 | packed
	framesLocations     = 3<<3 | packed
	framesFrames        = 4<<3 | packed

	locationFile     = 1<<3 | number
	locationFunction = 2<<3 | number
	locationLine     = 3<<3 | number
	locationColumn   = 4<<3 | number

	frameLocation = 1<<3 | number
	frameParent   = 2<<3 | number

	assignmentBuffers     = 1<<3 | packed
	assignmentAllocations = 3<<3 | packed
	assignmentTraces      = 4<<3 | packed

	bufferID        = 1<<3 | number
	bufferSize      = 2<<3 | number
	bufferDefinedAt = 3<<3 | packed
	bufferColor     = 4<<3 | number

	definedInstructionName = 2<<3 | packed
	definedShapeIndex      = 3<<3 | packed
	definedShapeIndexOne   = 3<<3 | number
	definedInstructionID   = 4<<3 | number

	allocationIndex       = 1<<3 | number
	allocationSize        = 2<<3 | number
	allocationThreadLocal = 3<<3 | number
	allocationParameter   = 5<<3 | number
	allocationLiveOut     = 7<<3 | number
	allocationColor       = 8<<3 | number
	allocationAssigned    = 9<<3 | packed
	allocationTuple       = 11<<3 | number
	allocationConstant    = 12<<3 | number

	assignedBuffer = 1<<3 | number
	assignedOffset = 2<<3 | number

	traceEvents = 1<<3 | packed

	eventKind        = 1<<3 | number
	eventBuffer      = 2<<3 | number
	eventInstruction = 4<<3 | packed
	eventCanonical   = 5<<3 | number

	shapeElement      = 2<<3 | number
	shapeDimensions   = 3<<3 | packed
	shapeDimension    = 3<<3 | number
	shapeTupleShapes  = 4<<3 | packed
	shapeLayout       = 5<<3 | packed
	shapeDynamicFlags = 6<<3 | packed
	shapeDynamicFlag  = 6<<3 | number

	layoutMinorToMajor    = 1<<3 | packed
	layoutMinorToMajorOne = 1<<3 | number
	layoutTiles           = 6<<3 | packed
	layoutElementBits     = 7<<3 | number
	layoutMemorySpace     = 8<<3 | number
	layoutTailPadding     = 16<<3 | number

	tileDimensions = 1<<3 | packed
	tileDimension  = 1<<3 | number
)

// span is a message or a text: the bytes [at, end) of the proto.
type span struct{ at, end int }

// field is a tag and what follows it.
type field struct {
	tag   uint64
	value uint64 // of the wire type number
	body  span   // of the wire type packed
}

// flag reads a bool.
func (f field) flag() bool { return f.value != 0 }

// size reads a number of bytes, which is never negative.
func (f field) size() int64 { return max(int64(f.value), 0) }

// scanner reads the fields of one message in order. The first error ends it.
type scanner struct {
	proto []byte
	span
	err error
}

func scan(proto []byte, message span) *scanner { return &scanner{proto: proto, span: message} }

// next returns the next field. Wire types that no field of interest has are
// skipped.
func (s *scanner) next() (f field, ok bool) {
	for s.err == nil && s.at < s.end {
		rest := s.proto[s.at:s.end]
		num, typ, n := protowire.ConsumeTag(rest)
		if n < 0 {
			s.damaged(n)
			break
		}
		f = field{tag: uint64(num)<<3 | uint64(typ)}
		m := 0
		switch typ {
		case number:
			f.value, m = protowire.ConsumeVarint(rest[n:])
		case packed:
			var b []byte
			b, m = protowire.ConsumeBytes(rest[n:])
			f.body = span{s.at + n + m - len(b), s.at + n + m}
		default:
			m = protowire.ConsumeFieldValue(num, typ, rest[n:])
		}
		if m < 0 {
			s.damaged(m)
			break
		}
		s.at += n + m
		if typ == number || typ == packed {
			return f, true
		}
	}
	return field{}, false
}

// ints adds to list what a repeated field of numbers holds, packed or not.
func (s *scanner) ints(list []int64, f field) []int64 {
	if f.tag&7 == number {
		return append(list, int64(f.value))
	}
	for at := f.body.at; at < f.body.end; {
		v, n := protowire.ConsumeVarint(s.proto[at:f.body.end])
		if n < 0 {
			s.at = at
			s.damaged(n)
			break
		}
		list = append(list, int64(v))
		at += n
	}
	return list
}

// damaged notes that the bytes at hand do not parse; code is protowire's.
func (s *scanner) damaged(code int) {
	err := protowire.ParseError(code)
	what := "cannot be read: it is damaged"
	if errors.Is(err, io.ErrUnexpectedEOF) {
		what = "is cut short"
	}
	s.err = &damage{at: s.at, what: what}
}

// inside notes the error of a message inside this one: name is that of the
// field, i its number in a list or -1.
func (s *scanner) inside(name string, i int, err error) {
	if err == nil {
		return
	}
	if i >= 0 {
		name = fmt.Sprintf("%s[%d]", name, i)
	}
	var d *damage
	if errors.As(err, &d) {
		d.path = append(d.path, name)
	}
	s.err = err
}

// count returns how many fields of the message have a tag, as far as it can be
// read. That is what a list needs.
func count(proto []byte, message span, tag uint64) (n int) {
	s := scan(proto, message)
	for f, ok := s.next(); ok; f, ok = s.next() {
		if f.tag == tag {
			n++
		}
	}
	return n
}

// damage is a place where the proto is not as the wire format wants it.
type damage struct {
	path []string // names of fields, innermost first
	at   int      // offset in the proto
	what string
}

func (d *damage) Error() string {
	path := ""
	for _, name := range d.path {
		path = "." + name + path
	}
	if path = strings.TrimPrefix(path, "."); path == "" {
		path = "HloProto"
	}
	return fmt.Sprintf("%s: the field at byte %d %s", path, d.at, d.what)
}
