package laws

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
)

// writing is the way a snapshot is written.
type writing struct {
	old    bool // protocol 2, not 4
	turned bool // keys of dicts in the opposite order
}

// writer writes a pickle. Strings, frames and stacks are in its memo. It is faster than package pickletest, which writes as CPython does:
// the laws write each capture 25 times.
type writer struct {
	writing
	b      []byte
	memo   int
	texts  map[string]int // index in the memo
	calls  map[*call]int
	stacks map[*callers]int
}

// pickle returns a snapshot as a file.
func (s *snapshot) pickle(how writing) []byte {
	w := &writer{writing: how, texts: map[string]int{}, calls: map[*call]int{}, stacks: map[*callers]int{}}
	events := 0
	for _, trace := range s.traces {
		events += len(trace)
	}
	w.b = append(make([]byte, 0, 4096+80*events), 0x80, 4)
	if how.old {
		w.b[1] = 2
	}
	w.dict(4+len(s.rest)/2, func(i int) {
		switch {
		case i == 0:
			w.text("segments")
			w.list(len(s.segments), func(i int) { w.segment(&s.segments[i]) })
		case i == 1:
			w.text("device_traces")
			w.list(len(s.traces), func(i int) {
				trace := s.traces[i]
				w.list(len(trace), func(i int) { w.event(&trace[i]) })
			})
		case i == 2 && s.notes != nil:
			w.text("external_annotations")
			w.list(len(s.notes), func(i int) { w.note(&s.notes[i]) })
		case i == 3 && s.names != "":
			w.text("memlane")
			w.text(s.names)
		case i >= 4:
			w.pair(s.rest, i-4)
		}
	})
	return append(w.b, '.')
}

// dict writes a dict of n pairs.
func (w *writer) dict(n int, pair func(i int)) {
	w.b = append(w.b, '}', '(')
	for i := range n {
		if w.turned {
			i = n - 1 - i
		}
		pair(i)
	}
	w.b = append(w.b, 'u')
}

func (w *writer) list(n int, item func(i int)) {
	w.b = append(w.b, ']', '(')
	for i := range n {
		item(i)
	}
	w.b = append(w.b, 'e')
}

// pair writes the i-th pair of keys and values.
func (w *writer) pair(items []any, i int) {
	w.value(items[2*i])
	w.value(items[2*i+1])
}

// number writes a key and a number.
func (w *writer) number(key string, n int64) {
	w.text(key)
	w.integer(n)
}

// words writes a key and a text.
func (w *writer) words(key, text string) {
	w.text(key)
	w.text(text)
}

// remembered writes the value of an index of the memo.
func (w *writer) remembered(i int) {
	if i <= math.MaxUint8 {
		w.b = append(w.b, 'h', byte(i))
	} else {
		w.b = binary.LittleEndian.AppendUint32(append(w.b, 'j'), uint32(i))
	}
}

// remember puts the last value into the memo and returns its index.
func (w *writer) remember() int {
	if w.old {
		w.b = binary.LittleEndian.AppendUint32(append(w.b, 'r'), uint32(w.memo))
	} else {
		w.b = append(w.b, 0x94)
	}
	w.memo++
	return w.memo - 1
}

func (w *writer) text(s string) {
	if i, ok := w.texts[s]; ok {
		w.remembered(i)
		return
	}
	if w.old || len(s) > math.MaxUint8 {
		w.b = binary.LittleEndian.AppendUint32(append(w.b, 'X'), uint32(len(s)))
	} else {
		w.b = append(w.b, 0x8c, byte(len(s)))
	}
	w.b = append(w.b, s...)
	w.texts[s] = w.remember()
}

func (w *writer) integer(n int64) {
	if n == int64(int32(n)) {
		w.b = binary.LittleEndian.AppendUint32(append(w.b, 'J'), uint32(n))
	} else {
		w.b = binary.LittleEndian.AppendUint64(append(w.b, 0x8a, 8), uint64(n))
	}
}

// value writes data of unpickle.
func (w *writer) value(v any) {
	switch v := v.(type) {
	case nil:
		w.b = append(w.b, 'N')
	case bool:
		if v {
			w.b = append(w.b, 0x88)
		} else {
			w.b = append(w.b, 0x89)
		}
	case int64:
		w.integer(v)
	case *big.Int:
		size := v.BitLen()/8 + 1
		b := new(big.Int).And(v, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(8*size)), big.NewInt(1))).FillBytes(make([]byte, size))
		slices.Reverse(b)
		w.b = append(append(w.b, 0x8a, byte(size)), b...)
	case float64:
		w.b = binary.BigEndian.AppendUint64(append(w.b, 'G'), math.Float64bits(v))
	case string:
		w.text(v)
	case *list:
		w.list(len(v.items), func(i int) { w.value(v.items[i]) })
	case *dict:
		w.dict(len(v.items)/2, func(i int) { w.pair(v.items, i) })
	case tuple:
		w.b = append(w.b, '(')
		for _, item := range v {
			w.value(item)
		}
		w.b = append(w.b, 't')
	default:
		panic(fmt.Sprintf("no pickle of %T", v))
	}
}

// frames writes a key and a stack; nothing if there is no stack.
func (w *writer) frames(c *callers) {
	if c == nil {
		return
	}
	w.text("frames")
	if i, ok := w.stacks[c]; ok {
		w.remembered(i)
		return
	}
	w.list(len(c.of), func(i int) { w.call(c.of[i]) })
	w.stacks[c] = w.remember()
}

func (w *writer) call(f *call) {
	if i, ok := w.calls[f]; ok {
		w.remembered(i)
		return
	}
	w.dict(3+len(f.rest)/2, func(i int) {
		switch i {
		case 0:
			w.words("name", f.name)
		case 1:
			w.words("filename", f.file)
		case 2:
			w.text("line")
			if f.noLine {
				w.value(new(big.Int).SetUint64(math.MaxUint64))
			} else {
				w.integer(f.line)
			}
		default:
			w.pair(f.rest, i-3)
		}
	})
	w.calls[f] = w.remember()
}

func (w *writer) event(e *event) {
	w.dict(6+len(e.rest)/2, func(i int) {
		switch {
		case i == 0:
			w.words("action", e.action)
		case i == 1:
			w.number("size", e.size)
		case i == 2:
			w.number("stream", e.stream)
		case i == 3 && !e.noAddr:
			w.number("addr", e.addr)
		case i == 4 && !e.noTime:
			w.number("time_us", e.time)
		case i == 5:
			w.frames(e.frames)
		case i > 5:
			w.pair(e.rest, i-6)
		}
	})
}

func (w *writer) segment(g *segment) {
	w.dict(7+len(g.rest)/2, func(i int) {
		switch i {
		case 0:
			w.number("device", g.device)
		case 1:
			w.number("address", g.addr)
		case 2:
			w.number("total_size", g.size)
		case 3:
			w.number("stream", g.stream)
		case 4:
			w.text("is_expandable")
			w.value(g.expandable)
		case 5:
			w.frames(g.frames)
		case 6:
			w.text("blocks")
			w.list(len(g.blocks), func(i int) { w.block(&g.blocks[i]) })
		default:
			w.pair(g.rest, i-7)
		}
	})
}

func (w *writer) block(b *block) {
	w.dict(5+len(b.rest)/2, func(i int) {
		switch {
		case i == 0:
			w.number("size", b.size)
		case i == 1:
			w.words("state", b.state)
		case i == 2 && !b.noAddr:
			w.number("address", b.addr)
		case i == 3 && !b.noRequested:
			w.number("requested_size", b.requested)
		case i == 4:
			w.frames(b.frames)
		case i > 4:
			w.pair(b.rest, i-5)
		}
	})
}

func (w *writer) note(n *note) {
	w.dict(4, func(i int) {
		switch {
		case i == 0:
			w.words("stage", n.stage)
		case i == 1:
			w.words("name", n.name)
		case i == 2:
			w.number("time_us", n.time)
		case i == 3 && !n.noDevice:
			w.number("device", n.device)
		}
	})
}
