package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
)

// pickler writes a pickle of protocol 2 as CPython's does: every list, dict and
// string goes into the memo, and what was written before is fetched from it.
type pickler struct {
	w       *bufio.Writer // keeps the first error
	memo    int           // entries so far
	strings map[string]int
}

func newPickler(w io.Writer) *pickler {
	p := &pickler{w: bufio.NewWriterSize(w, 1<<20), strings: map[string]int{}}
	p.w.WriteString("\x80\x02")
	return p
}

func (p *pickler) end() error {
	p.w.WriteByte('.')
	return p.w.Flush()
}

// remember puts what was just written into the memo, and returns where it is.
func (p *pickler) remember() int {
	p.reference('q', 'r', p.memo)
	p.memo++
	return p.memo - 1
}

// fetch writes what is in the memo.
func (p *pickler) fetch(i int) { p.reference('h', 'j', i) }

func (p *pickler) reference(short, long byte, i int) {
	if i < 256 {
		p.w.Write([]byte{short, byte(i)})
		return
	}
	p.w.Write(binary.LittleEndian.AppendUint32([]byte{long}, uint32(i)))
}

func (p *pickler) text(s string) {
	if at, ok := p.strings[s]; ok {
		p.fetch(at)
		return
	}
	p.w.Write(binary.LittleEndian.AppendUint32([]byte{'X'}, uint32(len(s))))
	p.w.WriteString(s)
	p.strings[s] = p.remember()
}

// int writes an integer that is not negative, as short as can be.
func (p *pickler) int(v int64) {
	switch {
	case v < 1<<8:
		p.w.Write([]byte{'K', byte(v)})
	case v < 1<<16:
		p.w.Write(binary.LittleEndian.AppendUint16([]byte{'M'}, uint16(v)))
	case v <= math.MaxInt32:
		p.w.Write(binary.LittleEndian.AppendUint32([]byte{'J'}, uint32(v)))
	default:
		b := binary.LittleEndian.AppendUint64(nil, uint64(v))
		for len(b) > 1 && b[len(b)-1] == 0 && b[len(b)-2] < 0x80 {
			b = b[:len(b)-1]
		}
		p.w.Write(append([]byte{0x8a, byte(len(b))}, b...))
	}
}

func (p *pickler) bool(v bool) {
	if v {
		p.w.WriteByte(0x88)
	} else {
		p.w.WriteByte(0x89)
	}
}

// dict writes a dict; items writes its keys and values in turns.
func (p *pickler) dict(items func()) int {
	p.w.WriteByte('}')
	at := p.remember()
	p.w.WriteByte('(')
	items()
	p.w.WriteByte('u')
	return at
}

// list writes a list of n items, which CPython does by the thousand, and returns
// where in the memo it is.
func (p *pickler) list(n int, item func(i int)) int {
	p.w.WriteByte(']')
	at := p.remember()
	for i := range n {
		if i%1000 == 0 {
			p.w.WriteByte('(')
		}
		item(i)
		if i%1000 == 999 || i == n-1 {
			p.w.WriteByte('e')
		}
	}
	return at
}

// intField, textField and boolField write an item of a dict.
func (p *pickler) intField(key string, v int64) {
	p.text(key)
	p.int(v)
}

func (p *pickler) textField(key, v string) {
	p.text(key)
	p.text(v)
}

func (p *pickler) boolField(key string, v bool) {
	p.text(key)
	p.bool(v)
}
