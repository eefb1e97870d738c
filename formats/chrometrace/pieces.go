package chrometrace

import (
	"cmp"
	"encoding/binary"
	"iter"
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
		s.file, err = os.CreateTemp("", "memlane-*")
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
		for i := range slices.Backward(r.pieces) {
			calls = calls[:0]
			for c := (cursor{store: s, pieces: r.pieces[i : i+1]}); c.next(); {
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

// What a packed call holds besides its times and name.
const (
	hasNumber = 4 << iota // its kind takes two bits
	hasFrom
	hasInputs
	hasSequence
)

// base is what a call is packed against: most of what it holds is near to that
// of the one before.
type base struct {
	begin, sequence int64
	id              uint32
}

// pack appends a call.
func (p *base) pack(b []byte, c *call) []byte {
	has := byte(c.kind)
	if c.id|c.parent != 0 {
		has |= hasNumber
	}
	if c.from != 0 {
		has |= hasFrom
	}
	if c.dims|c.types != 0 {
		has |= hasInputs
	}
	if c.sequence >= 0 {
		has |= hasSequence
	}
	b = append(b, has)
	b = binary.AppendVarint(b, c.begin-p.begin)
	b = binary.AppendUvarint(b, uint64(c.end-c.begin))
	b = binary.AppendUvarint(b, uint64(c.name))
	p.begin = c.begin
	if has&hasNumber != 0 {
		b = binary.AppendVarint(b, int64(c.id)-int64(p.id))
		b = binary.AppendVarint(b, int64(c.id)-int64(c.parent))
		p.id = c.id
	}
	if has&hasFrom != 0 {
		b = binary.AppendUvarint(b, uint64(c.from))
	}
	if has&hasInputs != 0 {
		b = binary.AppendUvarint(b, uint64(c.dims))
		b = binary.AppendUvarint(b, uint64(c.types))
	}
	if has&hasSequence != 0 {
		b = binary.AppendVarint(b, c.sequence-p.sequence)
		b = binary.AppendVarint(b, c.forward)
		p.sequence = c.sequence
	}
	return b
}

// unpack reads the call at the start of b, and returns what follows it.
func (p *base) unpack(b []byte, c *call) []byte {
	has := b[0]
	begin, b := signed(b[1:])
	length, b := unsigned(b)
	name, b := unsigned(b)
	p.begin += begin
	*c = call{kind: callKind(has & 3), begin: p.begin, end: p.begin + int64(length), name: uint32(name), sequence: -1}
	if has&hasNumber != 0 {
		var id, parent int64
		id, b = signed(b)
		parent, b = signed(b)
		p.id += uint32(id)
		c.id, c.parent = p.id, p.id-uint32(parent)
	}
	if has&hasFrom != 0 {
		var from uint64
		from, b = unsigned(b)
		c.from = uint32(from)
	}
	if has&hasInputs != 0 {
		var dims, types uint64
		dims, b = unsigned(b)
		types, b = unsigned(b)
		c.dims, c.types = uint32(dims), uint32(types)
	}
	if has&hasSequence != 0 {
		var sequence int64
		sequence, b = signed(b)
		c.forward, b = signed(b)
		p.sequence += sequence
		c.sequence = p.sequence
	}
	return b
}

func unsigned(b []byte) (uint64, []byte) {
	v, n := binary.Uvarint(b)
	return v, b[n:]
}

func signed(b []byte) (int64, []byte) {
	v, n := binary.Varint(b)
	return v, b[n:]
}
