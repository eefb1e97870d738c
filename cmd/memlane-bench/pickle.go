package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"math/bits"
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
	b := p.w.AvailableBuffer()
	if i < 256 {
		b = append(b, short, byte(i))
	} else {
		b = binary.LittleEndian.AppendUint32(append(b, long), uint32(i))
	}
	p.w.Write(b)
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
	b := p.w.AvailableBuffer()
	switch {
	case v < 1<<8:
		b = append(b, 'K', byte(v))
	case v < 1<<16:
		b = binary.LittleEndian.AppendUint16(append(b, 'M'), uint16(v))
	case v <= math.MaxInt32:
		b = binary.LittleEndian.AppendUint32(append(b, 'J'), uint32(v))
	default:
		n := bits.Len64(uint64(v))/8 + 1 // with room for the sign
		b = binary.LittleEndian.AppendUint64(append(b, 0x8a, byte(n)), uint64(v))[:2+n]
	}
	p.w.Write(b)
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

// list writes a list of n items and returns where in the memo it is. CPython
// writes items by the thousand, and an only one without a mark.
func (p *pickler) list(n int, item func(i int)) int {
	const batch = 1000
	p.w.WriteByte(']')
	at := p.remember()
	if n == 1 {
		item(0)
		p.w.WriteByte('a')
		return at
	}
	for i := range n {
		if i%batch == 0 {
			p.w.WriteByte('(')
		}
		item(i)
		if i%batch == batch-1 || i == n-1 {
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
