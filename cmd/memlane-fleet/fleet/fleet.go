package fleet

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/memlane/memlane/lifetime/frame"
)

// Fleet is a set of records, one per name. The zero value is empty and ready.
type Fleet struct {
	strings table[string]
	frames  table[frameKey]
	stacks  table[string]
	sites   table[site]
	records map[string]*kept
}

// frameKey and site are frame.Frame and lifetime.Site with numbers of the tables. A stack is a string
// with four bytes for the number of each frame, because it must be comparable.
type (
	frameKey struct {
		function, file uint32
		line           int
		kind           frame.Kind
	}
	site struct {
		stack, op, shape, dtype, region uint32
		unseen                          uint8 // 1 = it is
	}
)

// kept is a record in the set. The totals of its memories are packed, because each has hundreds of sites.
type kept struct {
	Record
	totals [][]byte // by memory
}

// table numbers values in the order of their first use.
type table[T comparable] struct {
	numbers map[T]uint32
	list    []T
}

func (t *table[T]) number(v T) uint32 {
	n, ok := t.numbers[v]
	if !ok {
		if t.numbers == nil {
			t.numbers = map[T]uint32{}
		}
		n = uint32(len(t.list))
		t.numbers[v] = n
		t.list = append(t.list, v)
	}
	return n
}

func (f *Fleet) stack(frames []uint32) uint32 {
	b := make([]byte, 0, 256)
	for _, n := range frames {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	if n, ok := f.stacks.numbers[string(b)]; ok { // without a copy
		return n
	}
	return f.stacks.number(string(b))
}

func (f *Fleet) framesOf(stack uint32) (frames []uint32) {
	for b := []byte(f.stacks.list[stack]); len(b) > 0; b = b[4:] {
		frames = append(frames, binary.LittleEndian.Uint32(b))
	}
	return frames
}

// Len returns the number of records.
func (f *Fleet) Len() int { return len(f.records) }

// Add puts a record into the set. Of two records with the same name, Add keeps the one that was read, otherwise the one
// that exists, otherwise the one with the greater hash, otherwise the one with the greater binary form. So a capture
// that was overwritten meanwhile counts once, and always as the same record.
func (f *Fleet) Add(r *Record) {
	k := &kept{Record: *r}
	k.Memories = slices.Clone(r.Memories)
	for i := range k.Memories {
		m := &k.Memories[i]
		k.totals = append(k.totals, f.pack(m.Sites))
		m.Sites = nil
	}
	f.keep(k)
}

func (f *Fleet) keep(k *kept) {
	if f.records == nil {
		f.records = map[string]*kept{}
	}
	have := f.records[k.Name]
	if have == nil {
		f.records[k.Name] = k
		return
	}
	order := cmp.Or(cmp.Compare(k.State, have.State), cmp.Compare(have.Content, k.Content))
	if order == 0 {
		order = bytes.Compare(f.alone(have), f.alone(k))
	}
	if order < 0 {
		f.records[k.Name] = k
	}
}

func (f *Fleet) alone(k *kept) []byte {
	all := f.records
	defer func() { f.records = all }()
	f.records = map[string]*kept{k.Name: k}
	return f.AppendBinary(nil)
}

func (f *Fleet) inOrder() []*kept {
	all := make([]*kept, 0, len(f.records))
	for _, name := range slices.Sorted(maps.Keys(f.records)) {
		all = append(all, f.records[name])
	}
	return all
}

func (f *Fleet) number(s *Site) uint32 {
	var frames []uint32
	for _, fr := range s.Frames {
		key := frameKey{f.strings.number(fr.Function), f.strings.number(fr.File), fr.Line, fr.Kind}
		frames = append(frames, f.frames.number(key))
	}
	text := f.strings.number
	made := site{f.stack(frames), text(s.Op), text(s.Shape), text(s.DType), text(s.Region), 0}
	if s.Unseen {
		made.unseen = 1
	}
	return f.sites.number(made)
}

func (f *Fleet) site(n uint32) Site {
	s, text := f.sites.list[n], f.strings.list
	out := Site{Op: text[s.op], Shape: text[s.shape], DType: text[s.dtype], Region: text[s.region], Unseen: s.unseen != 0}
	for _, n := range f.framesOf(s.stack) {
		fr := f.frames.list[n]
		out.Frames = append(out.Frames, frame.Frame{Function: text[fr.function], File: text[fr.file], Line: fr.line, Kind: fr.kind})
	}
	return out
}
