// Package pickletest writes pickles of made-up Python data: PyTorch snapshots, and files that only look like one.
//
// Its place in the pipeline: none; only tests and cmd/memlane-bench import it.
package pickletest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
)

// Python data. Keys of a Dict keep their order and may repeat.
type (
	Dict  []any // key, value, key, value ...
	List  []any
	Tuple []any
	Raw   string // opcodes, written unchanged
)

// Stream is a list of N items that are made one at a time, in order. It may be larger than memory.
type Stream struct {
	N    int
	Item func(i int) any
}

// Shared is a value that occurs several times: the first use writes it, the others fetch it from the memo.
type Shared struct {
	v    any
	by   *pickler // that wrote it last
	memo int      // its index in the memo of by
}

// Share returns v as a value that may occur several times. For Write, v is a list or a dict.
func Share(v any) *Shared { return &Shared{v: v} }

// Pickle returns the pickle of v in protocol 2. Only Shared values are in the memo.
func Pickle(v any) []byte {
	var b bytes.Buffer
	(&pickler{Writer: bufio.NewWriter(&b)}).pickle(v) // a Buffer does not fail
	return b.Bytes()
}

// Write writes the pickle of v in protocol 2 as CPython does: every list, dict and string goes into the memo, integers
// are as short as possible, and a list of one item has no mark.
func Write(w io.Writer, v any) error {
	p := &pickler{Writer: bufio.NewWriterSize(w, 1<<20), texts: map[string]int{}}
	return p.pickle(v)
}

// WriteFramed is Write in protocol 4, the default of Python 3.8 to 3.13: PyTorch writes it.
func WriteFramed(w io.Writer, v any) error {
	p := &pickler{texts: map[string]int{}, framed: w}
	p.Writer = bufio.NewWriter(&p.frame)
	if _, err := io.WriteString(w, "\x80\x04"); err != nil {
		return err
	}
	p.put(v)
	p.WriteByte('.')
	p.endFrame()
	return p.err
}

type pickler struct {
	*bufio.Writer                // keeps the first error
	memo          int            // entries in the memo
	texts         map[string]int // their indexes in the memo; nil in Pickle

	framed io.Writer    // gets the frames; nil in protocol 2
	frame  bytes.Buffer // with what Writer holds, the frame so far
	err    error        // of framed
}

func (p *pickler) pickle(v any) error {
	p.WriteString("\x80\x02")
	p.put(v)
	p.WriteByte('.')
	return p.Flush()
}

// frameBytes is the size from which CPython ends a frame.
const frameBytes = 64 << 10

// endFrame writes a frame.
func (p *pickler) endFrame() {
	p.Flush() // a Buffer does not fail
	head := binary.LittleEndian.AppendUint64([]byte{0x95}, uint64(p.frame.Len()))
	if _, err := p.framed.Write(head); err != nil && p.err == nil {
		p.err = err
	}
	if _, err := p.frame.WriteTo(p.framed); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *pickler) put(v any) {
	if p.framed != nil && p.frame.Len()+p.Buffered() >= frameBytes {
		p.endFrame()
	}
	switch v := v.(type) {
	case nil:
		p.WriteByte('N')
	case bool:
		p.WriteByte(map[bool]byte{true: 0x88, false: 0x89}[v])
	case int:
		p.integer(big.NewInt(int64(v)))
	case int64:
		p.integer(big.NewInt(v))
	case uint64:
		p.integer(new(big.Int).SetUint64(v))
	case *big.Int:
		p.integer(v)
	case float64:
		p.Write(binary.BigEndian.AppendUint64([]byte{'G'}, math.Float64bits(v)))
	case string:
		p.text(v)
	case Dict:
		p.begin('}')
		p.all(v, 'u')
	case List:
		p.list(len(v), func(i int) any { return v[i] })
	case Stream:
		p.list(v.N, v.Item)
	case Tuple:
		p.all(v, 't')
	case Raw:
		p.WriteString(string(v))
	case *Shared:
		p.shared(v)
	default:
		panic(fmt.Sprintf("no pickle of %T", v))
	}
}

// begin writes the opcode of an empty list or dict.
func (p *pickler) begin(op byte) {
	p.WriteByte(op)
	if p.texts != nil {
		p.remember()
	}
}

func (p *pickler) all(items []any, end byte) {
	p.WriteByte('(')
	for _, item := range items {
		p.put(item)
	}
	p.WriteByte(end)
}

// list writes a list in batches of 1000 items, as CPython does.
func (p *pickler) list(n int, item func(i int) any) {
	const batch = 1000
	p.begin(']')
	if n == 1 && p.texts != nil {
		p.put(item(0))
		p.WriteByte('a')
		return
	}
	for i := range n {
		if i%batch == 0 {
			p.WriteByte('(')
		}
		p.put(item(i))
		if i%batch == batch-1 || i == n-1 {
			p.WriteByte('e')
		}
	}
}

func (p *pickler) text(s string) {
	if at, ok := p.texts[s]; ok {
		p.reference('h', 'j', at)
		return
	}
	if p.framed != nil && len(s) <= math.MaxUint8 {
		p.Write([]byte{0x8c, byte(len(s))})
	} else {
		p.Write(binary.LittleEndian.AppendUint32([]byte{'X'}, uint32(len(s))))
	}
	p.WriteString(s)
	if p.texts != nil {
		p.texts[s] = p.memo
		p.remember()
	}
}

func (p *pickler) shared(s *Shared) {
	switch {
	case s.by == p:
		p.reference('h', 'j', s.memo)
	case p.texts != nil: // the memo gets it while it is empty
		s.by, s.memo = p, p.memo
		p.put(s.v)
	default:
		p.put(s.v)
		s.by, s.memo = p, p.memo
		p.remember()
	}
}

// remember puts the last value into the memo.
func (p *pickler) remember() {
	if p.framed != nil {
		p.WriteByte(0x94)
	} else {
		p.reference('q', 'r', p.memo)
	}
	p.memo++
}

func (p *pickler) reference(short, long byte, i int) {
	if p.texts != nil && i <= math.MaxUint8 {
		p.Write([]byte{short, byte(i)})
		return
	}
	p.Write(binary.LittleEndian.AppendUint32([]byte{long}, uint32(i)))
}

func (p *pickler) integer(n *big.Int) {
	v := n.Int64()
	switch short := p.texts != nil && v >= 0; {
	case !n.IsInt64() || v != int64(int32(v)):
		p.long(n)
	case short && v <= math.MaxUint8:
		p.Write([]byte{'K', byte(v)})
	case short && v <= math.MaxUint16:
		p.Write(binary.LittleEndian.AppendUint16([]byte{'M'}, uint16(v)))
	default:
		p.Write(binary.LittleEndian.AppendUint32([]byte{'J'}, uint32(v)))
	}
}

// long writes an integer of more than 32 bits in two's complement.
func (p *pickler) long(n *big.Int) {
	size := n.BitLen()/8 + 1
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	b := n.FillBytes(make([]byte, size))
	slices.Reverse(b)
	p.Write([]byte{0x8a, byte(size)})
	p.Write(b)
}
