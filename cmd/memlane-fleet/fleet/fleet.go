package fleet

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// Fleet is a set of records, one per name. The zero value is empty and ready.
type Fleet struct {
	strings table[string]
	frames  table[frame]
	stacks  table[string]
	sites   table[site]
	records map[string]*kept
}

// frame and site are lifetime.Frame and Site in numbers of the tables. A stack is the
// bytes of those of its frames, four each, so that it is comparable.
type (
	frame struct {
		function, file uint32
		line           int
		kind           lifetime.FrameKind
	}
	site struct {
		stack, op, shape, dtype, region uint32
	}
)

// kept is a record as the set holds it: the totals of its memories are packed, as
// there are hundreds of sites in each.
type kept struct {
	Record
	totals [][]byte // by memory
}

// table numbers values in order of their appearance.
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

// stack returns the number of a stack.
func (f *Fleet) stack(frames []byte) uint32 {
	if n, ok := f.stacks.numbers[string(frames)]; ok { // without a copy
		return n
	}
	return f.stacks.number(string(frames))
}

// Len returns the number of records.
func (f *Fleet) Len() int { return len(f.records) }

// Add puts a record into the set. Of two with one name that which was read stays, or
// else that which is there, or else that whose content has the greater hash: a
// capture that was written again while a fleet was read counts once, and always
// the same one.
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
	if have := f.records[k.Name]; have == nil || cmp.Or(cmp.Compare(k.State, have.State), cmp.Compare(have.Content, k.Content)) < 0 {
		f.records[k.Name] = k
	}
}

// Merge puts the records of o into the set. o stays as it is.
func (f *Fleet) Merge(o *Fleet) {
	if err := f.ReadBinary(o.AppendBinary(nil)); err != nil {
		panic(err) // what it wrote itself
	}
}

// inOrder returns the records by name.
func (f *Fleet) inOrder() []*kept {
	all := make([]*kept, 0, len(f.records))
	for _, name := range slices.Sorted(maps.Keys(f.records)) {
		all = append(all, f.records[name])
	}
	return all
}

// number returns the number of a site.
func (f *Fleet) number(s *Site) uint32 {
	var frames []byte
	for _, fr := range s.Frames {
		frames = binary.LittleEndian.AppendUint32(frames, f.frames.number(frame{f.strings.number(fr.Function), f.strings.number(fr.File), fr.Line, fr.Kind}))
	}
	return f.sites.number(site{f.stack(frames), f.strings.number(s.Op), f.strings.number(s.Shape), f.strings.number(s.DType), f.strings.number(s.Region)})
}

// site returns the site of a number.
func (f *Fleet) site(n uint32) Site {
	s := f.sites.list[n]
	out := Site{Op: f.strings.list[s.op], Shape: f.strings.list[s.shape], DType: f.strings.list[s.dtype], Region: f.strings.list[s.region]}
	for _, n := range f.framesOf(n) {
		fr := f.frames.list[n]
		out.Frames = append(out.Frames, lifetime.Frame{Function: f.strings.list[fr.function], File: f.strings.list[fr.file], Line: fr.line, Kind: fr.kind})
	}
	return out
}

// framesOf returns the numbers of the frames of a site.
func (f *Fleet) framesOf(site uint32) (all []uint32) {
	for b := f.stacks.list[f.sites.list[site].stack]; b != ""; b = b[4:] {
		all = append(all, uint32(b[0])|uint32(b[1])<<8|uint32(b[2])<<16|uint32(b[3])<<24)
	}
	return all
}
