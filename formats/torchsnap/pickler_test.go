package torchsnap_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/memlane/memlane/formats/torchsnap"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/native"
)

// Python data for tests. Keys of a dict keep their order and may repeat.
type (
	dict  []any // key, value, key, value ...
	list  []any
	tuple []any
	raw   string // opcodes as they are
)

// shared is a value that stands in several places: the first use writes it,
// the others fetch it from the memo.
type shared struct{ v any }

// pickler writes Python data the way protocol 2 does.
type pickler struct {
	bytes.Buffer
	memo map[*shared]int
}

func pickled(v any) []byte {
	p := &pickler{memo: map[*shared]int{}}
	p.WriteString("\x80\x02")
	p.put(v)
	p.WriteByte('.')
	return p.Bytes()
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
	case dict:
		p.all("}(", v, "u")
	case list:
		p.WriteByte(']')
		for batch := range slices.Chunk(v, 1000) { // as Python does
			p.all("(", batch, "e")
		}
	case tuple:
		p.all("(", v, "t")
	case raw:
		p.WriteString(string(v))
	case *shared:
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

// power returns 2^n.
func power(n uint) *big.Int { return new(big.Int).Lsh(big.NewInt(1), n) }

// event is a trace event; more holds further keys and values.
func event(action string, addr, size any, us any, more ...any) dict {
	return append(dict{"action", action, "addr", addr, "size", size, "stream", 0, "time_us", us}, more...)
}

// stackOf is a frames list with one frame per function.
func stackOf(functions ...string) list {
	l := list{}
	for i, f := range functions {
		l = append(l, dict{"name", f, "filename", "train.py", "line", i + 1})
	}
	return l
}

// segment is a segment whose blocks lie one behind the other.
func segment(device, addr any, size any, blocks ...any) dict {
	return dict{"device", device, "address", addr, "total_size", size, "allocated_size", size, "active_size", size, "stream", 0,
		"segment_type", "large", "segment_pool_id", tuple{0, 0}, "is_expandable", false, "frames", list{}, "blocks", list(blocks)}
}

func block(addr, size, requested any, state string) dict {
	return dict{"address", addr, "size", size, "requested_size", requested, "state", state, "frames", list{}}
}

// snapshot is a whole snapshot; traces has one list of events per device.
func snapshot(segments list, traces ...any) dict {
	return dict{"segments", segments, "device_traces", list(traces)}
}

// readBytes reads a snapshot the way formats.Open does. What it accepts passes
// Check, reads the same a second time, and is the same after a trip through
// native text.
func readBytes(t testing.TB, data []byte) (*lifetime.Capture, error) {
	t.Helper()
	var texts []string
	var c *lifetime.Capture
	for range 2 {
		b := lifetime.NewBuilder()
		if err := torchsnap.Read("test.pickle", bytes.NewReader(data), b); err != nil {
			return nil, err
		}
		var err error
		if c, err = b.Finish(); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, nativetest.Text(t, c))
	}
	if err := c.Check(); err != nil {
		t.Errorf("check: %v", err)
	}
	if texts[0] != texts[1] {
		t.Errorf("two reads of one file differ:\n%s\n%s", texts[0], texts[1])
	}
	b := lifetime.NewBuilder()
	if err := native.Read("test.native", bytes.NewReader([]byte(texts[0])), b); err != nil {
		t.Errorf("native: %v\n%.3000s", err, texts[0])
		return c, nil
	}
	again, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Check(); err != nil {
		t.Errorf("check after native: %v", err)
	}
	if text := nativetest.Text(t, again); text != texts[0] {
		t.Errorf("native text changes when it is read and written again:\n%s\n%s", texts[0], text)
	}
	return c, nil
}
