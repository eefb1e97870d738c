package fleet

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
)

// Version is the version of the content of records. It is part of their binary form. Those since oldest are read too;
// what they do not have is unknown, and their steps, leaks and categories are as the version judged that made them. Since 8 a
// call site is judged by its own thread.
const (
	Version = 8
	oldest  = 5
)

// magic begins the binary form.
const magic = "memlane fleet "

// ErrVersion is the error of records that another version made.
var ErrVersion = errors.New("made by another version of memlane; make it again from the captures")

// AppendBinary appends the canonical form of the set. It leaves out table entries that no record refers to any more.
func (f *Fleet) AppendBinary(b []byte) []byte {
	records := f.inOrder()
	c := codec{f: f, version: Version, strings: newRefs(), frames: newRefs(), sites: newRefs()}
	list(&c, &records, c.record) // finds the entries that records refer to
	c.sites.sort(f.compareSites)
	entries(&c, &c.sites, &f.sites, c.site)
	c.frames.sort(f.compareFrames)
	entries(&c, &c.frames, &f.frames, c.frame)
	c.strings.sort(func(a, b uint32) int { return strings.Compare(f.strings.list[a], f.strings.list[b]) })

	c.data = binary.AppendUvarint(append(b, magic...), Version)
	c.everything(&records)
	return c.data
}

// ReadBinary puts the records of a binary form into the set. If it fails, it adds none of them.
func (f *Fleet) ReadBinary(data []byte) error {
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok {
		return errors.New("not a record of memlane-fleet")
	}
	c := codec{f: f, data: rest, reading: true}
	if c.uint(&c.version); c.err == nil && (c.version < oldest || c.version > Version) {
		return ErrVersion
	}
	var records []*kept
	c.everything(&records)
	if c.err == nil && len(c.data) > 0 {
		c.err = fmt.Errorf("%d bytes follow the last record", len(c.data))
	}
	if c.err != nil {
		return fmt.Errorf("damaged record of memlane-fleet: %w", c.err)
	}
	for _, k := range records {
		f.keep(k)
	}
	return nil
}

// codec reads or writes the binary form. Its methods read a field into their argument, or append their argument, so
// that each list of fields serves both directions. After an error it reads zeros.
type codec struct {
	f                      *Fleet
	version                uint64
	data                   []byte // written so far, or left to read
	reading                bool
	err                    error
	strings, frames, sites refs
}

// refs are the numbers of the entries of a table: those of the fleet, and those of the binary form.
type refs struct {
	fleet []uint32          // by number in the form
	form  map[uint32]uint32 // by number in the fleet, for writing
}

func newRefs() refs { return refs{form: map[uint32]uint32{}} }

// sort numbers the entries that were referred to.
func (r *refs) sort(compare func(a, b uint32) int) {
	r.fleet = slices.SortedFunc(maps.Keys(r.form), compare)
	for at, n := range r.fleet {
		r.form[n] = uint32(at)
	}
}

func (c *codec) everything(records *[]*kept) {
	entries(c, &c.strings, &c.f.strings, c.string)
	entries(c, &c.frames, &c.f.frames, c.frame)
	entries(c, &c.sites, &c.f.sites, c.site)
	list(c, records, c.record)
}

// entries reads or writes the entries of a table.
func entries[T comparable](c *codec, r *refs, t *table[T], entry func(*T)) {
	list(c, &r.fleet, func(n *uint32) {
		var v T
		if !c.reading {
			v = t.list[*n]
		}
		if entry(&v); c.reading && c.err == nil {
			*n = t.number(v)
		}
	})
}

func (c *codec) frame(fr *frameKey) {
	c.ref(&fr.function, &c.strings)
	c.ref(&fr.file, &c.strings)
	line := int64(fr.line)
	c.int(&line)
	fr.line = int(line)
	below(c, &fr.kind, int(frame.Runtime)+1)
}

func (c *codec) site(s *site) {
	var stack []uint32
	if !c.reading {
		stack = c.f.framesOf(s.stack)
	}
	list(c, &stack, func(n *uint32) { c.ref(n, &c.frames) })
	if c.reading && c.err == nil {
		s.stack = c.f.stack(stack)
	}
	for _, n := range []*uint32{&s.op, &s.shape, &s.dtype, &s.region} {
		c.ref(n, &c.strings)
	}
	below(c, &s.unseen, 2)
}

func (c *codec) record(to **kept) {
	if c.reading {
		*to = &kept{}
	}
	k := *to
	c.string(&k.Name)
	c.string(&k.Content)
	below(c, &k.State, int(Missing)+1)
	c.string(&k.Reason)
	c.text(&k.Format)
	c.text(&k.Producer)
	list(c, &k.Losses, func(l *Loss) {
		c.text(&l.Reason)
		c.int(&l.Count)
		c.int(&l.Bytes)
	})
	i := 0
	list(c, &k.Memories, func(m *Memory) {
		c.memory(m)
		c.totals(k, i)
		i++
	})
	list(c, &k.Findings, func(found *Finding) {
		c.text(&found.Rule)
		c.text(&found.Severity)
		c.text(&found.Place)
		below(c, &found.Memory, len(k.Memories))
		c.int(&found.Amount.Count)
		c.int(&found.Amount.Bytes)
		c.int(&found.Amount.Requested)
		c.float(&found.BytesPerStep)
		c.string(&found.Description)
		c.text(&found.HeldBy)
	})
}

func (c *codec) memory(m *Memory) {
	for _, s := range []*string{&m.Rank, &m.Host, &m.Process, &m.Device, &m.Memory, &m.Allocator} {
		c.text(s)
	}
	for _, v := range []*int64{&m.Begin, &m.End, &m.Allocations, &m.Frees, &m.Base, &m.Stack, &m.Peak, &m.PeakRequested,
		&m.AtEnd, &m.Growth, &m.Leaked, &m.Reserved, &m.ReservedPeak, &m.Free, &m.LargestFree} {
		c.int(v)
	}
	c.float(&m.Fragmentation)
	list(c, &m.Usage, c.int)
	list(c, &m.Categories, func(b *finding.CategoryBytes) {
		c.text(&b.Name)
		c.int(&b.Bytes)
	})
	list(c, &m.Parts, func(p *Part) {
		c.text(&p.Category)
		c.text(&p.Layer)
		c.int(&p.Bytes)
	})
	c.text(&m.Failed)
	c.text(&m.Requester)
	if c.version > 5 {
		c.text(&m.Change.Edits)
		c.text(&m.Change.Advice)
		for _, v := range []*int64{&m.Change.Peak, &m.Change.Low, &m.Change.High, &m.Change.Saved} {
			c.int(v)
		}
	}
	if c.version > 6 {
		list(c, &m.Roles, func(r *Role) {
			c.text(&r.Axis)
			c.int(&r.Number)
		})
	}
}

// numbered contains the totals of the site of a number.
type numbered struct {
	number uint32
	SiteTotals
}

func (f *Fleet) sortedTotals(k *kept, memory int, order func(site uint32) int) (all []numbered) {
	for n, t := range f.totalsOf(k, memory) {
		all = append(all, numbered{n, t})
	}
	slices.SortFunc(all, func(a, b numbered) int { return cmp.Compare(order(a.number), order(b.number)) })
	return all
}

// totals reads or writes the sites of a memory of a record, in their order in the form.
func (c *codec) totals(k *kept, memory int) {
	var all []numbered
	if !c.reading {
		all = c.f.sortedTotals(k, memory, func(n uint32) int { return int(c.sites.form[n]) })
	}
	var packed []byte
	next := uint32(0) // strictly ascending, so that no site occurs twice
	list(c, &all, func(t *numbered) {
		at := c.ref(&t.number, &c.sites)
		c.amounts(&t.SiteTotals)
		if !c.reading {
			return
		}
		if at < next {
			c.fail(errors.New("sites are not in order"))
		}
		next = at + 1
		packed = appendTotals(packed, t.number, &t.SiteTotals)
	})
	if c.reading {
		k.totals = append(k.totals, packed)
	}
}

// amounts reads or writes the figures of a site. Most are 0, so only the others follow a mask.
func (c *codec) amounts(t *SiteTotals) {
	a, p, e, l := &t.Allocated, &t.AtPeak, &t.AtEnd, &t.Leaked
	figures := [...]*int64{&a.Count, &a.Bytes, &a.Requested, &p.Count, &p.Bytes, &p.Requested,
		&e.Count, &e.Bytes, &e.Requested, &l.Count, &l.Bytes, &l.Requested}
	mask := uint64(0)
	for i, v := range figures {
		if *v != 0 {
			mask |= 1 << i
		}
	}
	c.uint(&mask)
	for i, v := range figures {
		if mask&(1<<i) != 0 {
			c.int(v)
		}
	}
}

// pack returns the totals of sites as the set keeps them. It adds up equal sites.
func (f *Fleet) pack(all []SiteTotals) (b []byte) {
	var numbers []uint32
	sums := map[uint32]*SiteTotals{}
	for i := range all {
		t := &all[i]
		n := f.number(&t.Site)
		if sums[n] == nil {
			sums[n] = &SiteTotals{}
			numbers = append(numbers, n)
		}
		sums[n].add(t)
	}
	for _, n := range numbers {
		b = appendTotals(b, n, sums[n])
	}
	return b
}

func appendTotals(b []byte, n uint32, t *SiteTotals) []byte {
	c := codec{data: binary.AppendUvarint(b, uint64(n))}
	c.amounts(t)
	return c.data
}

// totalsOf returns the sites of a memory of a record and their totals there.
func (f *Fleet) totalsOf(k *kept, memory int) iter.Seq2[uint32, SiteTotals] {
	return func(yield func(uint32, SiteTotals) bool) {
		for c := (codec{data: k.totals[memory], reading: true}); len(c.data) > 0; {
			var n uint64
			var t SiteTotals
			c.uint(&n)
			c.amounts(&t)
			if !yield(uint32(n), t) {
				return
			}
		}
	}
}

func (f *Fleet) compareFrames(a, b uint32) int {
	x, y := f.frames.list[a], f.frames.list[b]
	return cmp.Or(strings.Compare(f.strings.list[x.function], f.strings.list[y.function]),
		strings.Compare(f.strings.list[x.file], f.strings.list[y.file]), cmp.Compare(x.line, y.line), cmp.Compare(x.kind, y.kind))
}

func (f *Fleet) compareSites(a, b uint32) int {
	x, y := f.sites.list[a], f.sites.list[b]
	if x.stack != y.stack {
		if c := slices.CompareFunc(f.framesOf(x.stack), f.framesOf(y.stack), f.compareFrames); c != 0 {
			return c
		}
	}
	for _, pair := range [...][2]uint32{{x.op, y.op}, {x.shape, y.shape}, {x.dtype, y.dtype}, {x.region, y.region}} {
		if c := strings.Compare(f.strings.list[pair[0]], f.strings.list[pair[1]]); c != 0 {
			return c
		}
	}
	return cmp.Compare(x.unseen, y.unseen)
}

var errShort = errors.New("it ends too early")

func (c *codec) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.data = nil
}

func (c *codec) uint(v *uint64) {
	if !c.reading {
		c.data = binary.AppendUvarint(c.data, *v)
		return
	}
	n := 0
	if *v, n = binary.Uvarint(c.data); n <= 0 {
		*v = 0
		c.fail(errShort)
		return
	}
	c.data = c.data[n:]
}

// int writes numbers near 0 short, also negative ones, as binary.AppendVarint does.
func (c *codec) int(v *int64) {
	zigzag := uint64(*v<<1) ^ uint64(*v>>63)
	c.uint(&zigzag)
	*v = int64(zigzag>>1) ^ -int64(zigzag&1)
}

func (c *codec) float(v *float64) {
	bits := math.Float64bits(*v)
	c.uint(&bits)
	*v = math.Float64frombits(bits)
}

// count reads or writes how many things follow. Each takes at least one byte.
func (c *codec) count(n int) int {
	v := uint64(n)
	if c.uint(&v); c.reading && v > uint64(len(c.data)) {
		c.fail(errShort)
		return 0
	}
	return int(v)
}

// below reads or writes a number less than n.
func below[T ~int | ~uint8 | ~uint32](c *codec, v *T, n int) {
	number := uint64(*v)
	if c.uint(&number); c.reading && number >= uint64(n) {
		c.fail(fmt.Errorf("number %d of %d", number, n))
		number = 0
	}
	*v = T(number)
}

func (c *codec) string(s *string) {
	n := c.count(len(*s))
	if !c.reading {
		c.data = append(c.data, *s...)
		return
	}
	*s, c.data = string(c.data[:n]), c.data[n:]
}

// ref reads or writes the number of a table entry, and returns its number in the form.
func (c *codec) ref(n *uint32, r *refs) (at uint32) {
	if c.reading {
		if below(c, &at, len(r.fleet)); c.err == nil {
			*n = r.fleet[at]
		}
		return at
	}
	at = r.form[*n]
	r.form[*n] = at // which marks it as used
	below(c, &at, len(r.fleet))
	return at
}

// text reads or writes a string by its number.
func (c *codec) text(s *string) {
	n := uint32(0)
	if !c.reading {
		n = c.f.strings.number(*s)
	}
	if c.ref(&n, &c.strings); c.reading && c.err == nil {
		*s = c.f.strings.list[n]
	}
}

// list reads or writes a list.
func list[T any](c *codec, all *[]T, item func(*T)) {
	n := c.count(len(*all))
	if c.reading {
		*all = slices.Grow(*all, min(n, 1<<10)) // a damaged n may be large
	}
	for i := 0; i < n && c.err == nil; i++ {
		if c.reading {
			*all = append(*all, *new(T))
		}
		item(&(*all)[i])
	}
}
