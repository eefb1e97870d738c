package chrometrace

import (
	"cmp"
	"encoding/binary"
	"iter"
	"math/bits"
	"os"
	"slices"
)

// Calls may be millions, and which of them matter is known only when the last
// event of memory was read. So they are kept packed, about 14 bytes each,
// and from maxHeld on in a temporary file: memory does not grow with the trace.
const (
	pieceLen = 256      // calls that are packed, and read back, at once
	maxHeld  = 16 << 20 // bytes of packed calls that stay in memory
	maxMerge = 32       // runs that are merged at once
)

// store keeps packed calls, those beyond a limit in a temporary file.
type store struct {
	limit  int    // of held
	packed []byte // of the piece that is being made
	held   int    // bytes in memory
	file   *os.File
	size   int64 // of the file
	full   bool  // the file takes no more
	err    error // why a piece cannot be read back
}

// piece is packed calls in order of their begin.
type piece struct {
	data []byte // nil = in the file
	at   int64  // there
	size int
}

// keep stores the piece that is being made. Where there is no room for a file,
// or no more in it, that stays in memory.
func (s *store) keep() piece {
	s.packed = append(s.packed, make([]byte, slack)...)
	p := piece{size: len(s.packed)}
	if s.held+p.size > s.limit && s.write(s.packed) {
		p.at = s.size
		s.size += int64(p.size)
	} else {
		s.held += p.size
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
			os.Remove(s.file.Name()) // where open files may go, none is left behind whatever happens
		}
	}
	if err == nil {
		_, err = s.file.WriteAt(packed, s.size)
	}
	s.full = err != nil
	return err == nil
}

// load returns a piece's packed calls, in buffer if they come from the file:
// none when that fails, as err tells then.
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

// drop forgets pieces that are in memory.
func (s *store) drop(pieces []piece) {
	for i := range pieces {
		s.held -= len(pieces[i].data)
		pieces[i].data = nil
	}
}

func (s *store) close() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
	}
}

// run is pieces that go on from one to the next in order.
type run struct {
	pieces []piece
	last   call
}

// packer makes a run of calls that come in order.
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

// cursor goes through the calls of a run.
type cursor struct {
	call
	store  *store
	pieces []piece // behind this one
	packed []byte  // of this one, behind the call
	buffer []byte
	base   base
}

// next goes to the next call, and reports whether there is one.
func (c *cursor) next() bool {
	for len(c.packed) <= slack {
		if len(c.pieces) == 0 {
			return false
		}
		c.packed = c.store.load(&c.pieces[0], &c.buffer)
		c.pieces, c.base = c.pieces[1:], base{}
	}
	c.packed = c.base.unpack(c.packed, &c.call)
	return true
}

// all yields the calls of a run, each good until the next one.
func (r *run) all(s *store) iter.Seq[*call] {
	return func(yield func(*call) bool) {
		c := cursor{store: s, pieces: r.pieces}
		for c.next() && yield(&c.call) {
		}
	}
}

// backward yields the calls of a run, the last one first.
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

// inOrder brings what encloses before what it encloses.
func inOrder(x, y *call) int { return cmp.Or(cmp.Compare(x.begin, y.begin), cmp.Compare(y.end, x.end)) }

// merge makes one run of several; of equal calls those of earlier runs come
// first.
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
		s.drop(runs[i].pieces)
	}
	return out.run
}

// base is what a call is packed against: most of what it holds is near to that
// of the one before.
type base struct {
	begin, sequence int64
	id              uint32
}

// numbers is how many numbers make up a packed call. Before them stand their
// lengths in bytes and the kind of the call, in four bits each.
const (
	numbers  = 7
	packHead = 4
	maxPack  = packHead + 8*numbers
	slack    = 8 // bytes behind the last call: numbers are read eight bytes at a time
)

// pack appends a call.
func (p *base) pack(b []byte, c *call) []byte {
	n := [numbers]uint64{zigzag(c.begin - p.begin), uint64(c.end - c.begin), uint64(c.name)}
	p.begin = c.begin
	switch c.kind {
	case python:
		n[3], n[4], n[5] = zigzag(int64(c.id)-int64(p.id)), zigzag(int64(c.id)-int64(c.parent)), uint64(c.from)
		p.id = c.id
	case operator:
		n[3], n[4] = uint64(c.dims), uint64(c.types)
		if c.sequence >= 0 {
			n[5], n[6] = zigzag(c.sequence-p.sequence)+1, uint64(c.forward)
			p.sequence = c.sequence
		}
	}
	from := len(b)
	b = slices.Grow(b, maxPack)[:from+maxPack]
	head, at := uint32(c.kind)<<(4*numbers), from+packHead
	for i, v := range n {
		size := (bits.Len64(v) + 7) / 8
		head |= uint32(size) << (4 * i)
		binary.LittleEndian.PutUint64(b[at:], v)
		at += size
	}
	binary.LittleEndian.PutUint32(b[from:], head)
	return b[:at]
}

// unpack reads the call at the start of b, and returns what follows it.
func (p *base) unpack(b []byte, c *call) []byte {
	head, at := binary.LittleEndian.Uint32(b), packHead
	next := func() uint64 {
		size := head & 15
		v := binary.LittleEndian.Uint64(b[at:]) & (1<<(8*size) - 1)
		head >>= 4
		at += int(size)
		return v
	}
	*c = call{kind: callKind(head >> (4 * numbers)), sequence: -1}
	p.begin += unzigzag(next())
	c.begin, c.end, c.name = p.begin, p.begin+int64(next()), uint32(next())
	switch c.kind {
	case python:
		p.id += uint32(unzigzag(next()))
		c.id, c.parent, c.from = p.id, p.id-uint32(unzigzag(next())), uint32(next())
	case operator:
		c.dims, c.types = uint32(next()), uint32(next())
		if n := next(); n != 0 {
			p.sequence += unzigzag(n - 1)
			c.sequence, c.forward = p.sequence, int64(next())
		}
	}
	return b[at:]
}

func zigzag(v int64) uint64   { return uint64(v<<1) ^ uint64(v>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }
