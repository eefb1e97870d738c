// Package pickletest writes pickles of Python data that tests make up: snapshots of
// PyTorch, and what only looks like one.
//
// Its place in the pipeline: none; only tests import it.
package pickletest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
)

// Python data. Keys of a Dict keep their order and may repeat.
type (
	Dict  []any // key, value, key, value ...
	List  []any
	Tuple []any
	Raw   string // opcodes as they are
)

// Shared is a value that stands in several places: the first use writes it,
// the others fetch it from the memo.
type Shared struct{ v any }

// Share returns v as a value that may stand in several places.
func Share(v any) *Shared { return &Shared{v} }

// Pickle returns the pickle of v, as protocol 2 has it.
func Pickle(v any) []byte {
	p := &pickler{memo: map[*Shared]int{}}
	p.WriteString("\x80\x02")
	p.put(v)
	p.WriteByte('.')
	return p.Bytes()
}

type pickler struct {
	bytes.Buffer
	memo map[*Shared]int
}

func (p *pickler) put(v any) {
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
		p.WriteByte('G')
		binary.Write(p, binary.BigEndian, math.Float64bits(v))
	case string:
		p.WriteByte('X')
		binary.Write(p, binary.LittleEndian, uint32(len(v)))
		p.WriteString(v)
	case Dict:
		p.all("}(", v, "u")
	case List:
		p.WriteByte(']')
		for batch := range slices.Chunk(v, 1000) { // as Python does
			p.all("(", batch, "e")
		}
	case Tuple:
		p.all("(", v, "t")
	case Raw:
		p.WriteString(string(v))
	case *Shared:
		i, known := p.memo[v]
		op := byte('j')
		if !known {
			p.put(v.v)
			i, op = len(p.memo), 'r'
			p.memo[v] = i
		}
		p.WriteByte(op)
		binary.Write(p, binary.LittleEndian, uint32(i))
	default:
		panic(fmt.Sprintf("no pickle of %T", v))
	}
}

func (p *pickler) all(open string, items []any, end string) {
	p.WriteString(open)
	for _, item := range items {
		p.put(item)
	}
	p.WriteString(end)
}

// integer writes n in the shortest form that Python uses.
func (p *pickler) integer(n *big.Int) {
	if n.IsInt64() && n.Int64() == int64(int32(n.Int64())) {
		p.WriteByte('J')
		binary.Write(p, binary.LittleEndian, int32(n.Int64()))
		return
	}
	size := n.BitLen()/8 + 1
	m := n
	if n.Sign() < 0 {
		m = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	b := m.FillBytes(make([]byte, size))
	slices.Reverse(b)
	p.Write([]byte{0x8a, byte(size)})
	p.Write(b)
}
