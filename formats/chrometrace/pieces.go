package chrometrace

import (
	"cmp"
	"encoding/binary"
	"iter"
	"os"
	"slices"
)

// A trace may have millions of calls, and the relevant ones are known only after the
// last memory event. So all calls are packed into about 11 bytes each, the calls after
// the first maxInMemory bytes in a temporary file: memory does not grow with the trace.
const (
	pieceLen    = 256      // calls in a piece
	maxInMemory = 16 << 20 // bytes of packed calls
	maxMerge    = 32       // runs that are merged at once
)

// store keeps packed calls, those beyond a limit in a temporary file.
type store struct {
	limit    int    // of inMemory
	packed   []byte // the current piece
	inMemory int    // bytes
	file     *os.File
	size     int64 // of the file
	full     bool  // writing to the file failed
	err      error // reading from the file failed
}

// piece contains packed calls in the order of inOrder.
type piece struct {
	data []byte // nil = in the file
	at   int64  // offset in the file
	size int
}

// keep stores the current piece. It stays in memory if it cannot be written.
func (s *store) keep() piece {
	p := piece{size: len(s.packed)}
	if s.inMemory+p.size > s.limit && s.write(s.packed) {
		p.at = s.size
		s.size += int64(p.size)
	} else {
		s.inMemory += p.size
		p.data = slices.Clone(s.packed)
	}
	s.packed = s.packed[:0]
	return p
}

func (s *store) write(packed []byte) bool {
	if s.full {
		return false
	}
	var err error
	if s.file == nil {
		if s.file, err = os.CreateTemp("", "memlane-*"); err == nil {
			os.Remove(s.file.Name()) // now, so that a killed process leaves none; Windows refuses
		}
	}
	if err == nil {
		_, err = s.file.WriteAt(packed, s.size)
	}
	s.full = err != nil
	return err == nil
}

// load returns a piece's packed calls, in buffer if they are in the file. If reading
// fails, it returns nil and sets err.
func (s *store) load(p *piece, buffer *[]byte) []byte {
	if p.data != nil {
		return p.data
	}
	*buffer = slices.Grow((*buffer)[:0], p.size)[:p.size]
	if _, err := s.file.ReadAt(*buffer, p.at); err != nil {
		s.err = cmp.Or(s.err, err)
		return nil
	}
	return *buffer
}

func (s *store) close() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
	}
}

type run struct {
	pieces []piece
	last   call
}

// packer makes a run of calls that come in its order.
type packer struct {
	store *store
	run   run
	n     int
	base  base
}

func (p *packer) add(c *call) {
	p.store.packed = p.base.pack(p.store.packed, c)
	if p.n++; p.n == pieceLen {
		p.flush()
	}
	p.run.last = *c
}

func (p *packer) flush() {
	if p.n > 0 {
		p.run.pieces = append(p.run.pieces, p.store.keep())
		p.n, p.base = 0, base{}
	}
}

type cursor struct {
	call
	store  *store
	pieces []piece // after the current one
	packed []byte  // the rest of the current piece
	buffer []byte
	base   base
}

func (c *cursor) next() bool {
	for len(c.packed) == 0 {
		if len(c.pieces) == 0 {
			return false
		}
		c.packed = c.store.load(&c.pieces[0], &c.buffer)
		c.pieces, c.base = c.pieces[1:], base{}
	}
	c.packed = c.base.unpack(c.packed, &c.call)
	return true
}

// all yields the calls of a run. Each is valid until the next one.
func (r *run) all(s *store) iter.Seq[*call] {
	return func(yield func(*call) bool) {
		c := cursor{store: s, pieces: r.pieces}
		for c.next() && yield(&c.call) {
		}
	}
}

// backward yields the calls of a run in reverse order.
func (r *run) backward(s *store) iter.Seq[*call] {
	return func(yield func(*call) bool) {
		calls := make([]call, 0, pieceLen)
		c := cursor{store: s}
		for i := range slices.Backward(r.pieces) {
			c.pieces = r.pieces[i : i+1]
			for calls = calls[:0]; c.next(); {
				calls = append(calls, c.call)
			}
			for i := range slices.Backward(calls) {
				if !yield(&calls[i]) {
					return
				}
			}
		}
	}
}

// inOrder compares calls: by begin, and a call before those that it encloses.
func inOrder(x, y *call) int { return cmp.Or(cmp.Compare(x.begin, y.begin), cmp.Compare(y.end, x.end)) }

// merge merges runs into one, and frees their memory. Equal calls keep the order of their runs.
func (s *store) merge(runs []run) run {
	var cursors []*cursor
	for i := range runs {
		if c := (&cursor{store: s, pieces: runs[i].pieces}); c.next() {
			cursors = append(cursors, c)
		}
	}
	out := packer{store: s}
	for len(cursors) > 0 {
		least := 0
		for i := 1; i < len(cursors); i++ {
			if inOrder(&cursors[i].call, &cursors[least].call) < 0 {
				least = i
			}
		}
		out.add(&cursors[least].call)
		if !cursors[least].next() {
			cursors = slices.Delete(cursors, least, least+1)
		}
	}
	out.flush()
	for i := range runs {
		for k := range runs[i].pieces {
			s.inMemory -= len(runs[i].pieces[k].data)
			runs[i].pieces[k].data = nil
		}
	}
	return out.run
}

// base is the previous call, from which most numbers of a packed call differ little.
type base struct {
	begin, sequence int64
	id              uint32
}

// pack appends a call: its kind, and its numbers as varints.
func (p *base) pack(b []byte, c *call) []byte {
	b = append(b, byte(c.kind))
	b = binary.AppendVarint(b, c.begin-p.begin)
	b = binary.AppendUvarint(b, uint64(c.end-c.begin))
	b = binary.AppendUvarint(b, uint64(c.name))
	p.begin = c.begin
	switch c.kind {
	case python:
		b = binary.AppendVarint(b, int64(c.id)-int64(p.id))
		b = binary.AppendVarint(b, int64(c.id)-int64(c.parent))
		b = binary.AppendUvarint(b, uint64(c.from))
		p.id = c.id
	case operator:
		b = binary.AppendUvarint(b, uint64(c.dims))
		b = binary.AppendUvarint(b, uint64(c.types))
		if c.sequence < 0 {
			return append(b, 0)
		}
		b = append(b, 1)
		b = binary.AppendVarint(b, c.sequence-p.sequence)
		b = binary.AppendVarint(b, c.forward)
		p.sequence = c.sequence
	}
	return b
}

// unpack reads the call at the start of b, and returns the rest of b.
func (p *base) unpack(b []byte, c *call) []byte {
	*c = call{kind: callKind(b[0]), sequence: -1}
	b = b[1:]
	signed := func() int64 {
		v, n := binary.Varint(b)
		b = b[n:]
		return v
	}
	unsigned := func() uint64 {
		v, n := binary.Uvarint(b)
		b = b[n:]
		return v
	}
	p.begin += signed()
	c.begin, c.end, c.name = p.begin, p.begin+int64(unsigned()), uint32(unsigned())
	switch c.kind {
	case python:
		p.id += uint32(signed())
		c.id, c.parent, c.from = p.id, p.id-uint32(signed()), uint32(unsigned())
	case operator:
		c.dims, c.types = uint32(unsigned()), uint32(unsigned())
		if unsigned() != 0 {
			p.sequence += signed()
			c.sequence, c.forward = p.sequence, signed()
		}
	}
	return b
}
