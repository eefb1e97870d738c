package fleet

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// Version is that of what records say: it is part of their binary form and of the
// keys of caches.
const Version = 1

// magic begins the binary form.
const magic = "memlane fleet "

// ErrVersion is that of records that another version made.
var ErrVersion = errors.New("made by another version of memlane; make it again from the captures")

// amounts are the figures of a site in their order of the binary form.
func (t *SiteTotals) amounts() [12]*int64 {
	a, p, e, l := &t.Allocated, &t.AtPeak, &t.AtEnd, &t.Leaked
	return [...]*int64{&a.Count, &a.Bytes, &a.Requested, &p.Count, &p.Bytes, &p.Requested, &e.Count, &e.Bytes, &e.Requested, &l.Count, &l.Bytes, &l.Requested}
}

// figures are those of a memory, likewise.
func (m *Memory) figures() [15]*int64 {
	return [...]*int64{&m.Begin, &m.End, &m.Allocations, &m.Frees, &m.Base, &m.Stack, &m.Peak, &m.PeakRequested, &m.AtEnd, &m.Growth, &m.Leaked,
		&m.Reserved, &m.ReservedPeak, &m.Free, &m.LargestFree}
}

// names are the texts of a memory, likewise.
func (m *Memory) names() [6]*string {
	return [...]*string{&m.Rank, &m.Host, &m.Process, &m.Device, &m.Memory, &m.Allocator}
}

// pack writes the totals of sites: for each its number and its figures, of which
// most are 0, behind a mask of those that are not. Sites that are alike are one.
func (f *Fleet) pack(all []SiteTotals) []byte {
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
	var b []byte
	for _, n := range numbers {
		b = appendTotals(b, n, sums[n])
	}
	return b
}

func appendTotals(b []byte, n uint32, t *SiteTotals) []byte {
	b = binary.AppendUvarint(b, uint64(n))
	figures := t.amounts()
	mask := uint64(0)
	for i, v := range figures {
		if *v != 0 {
			mask |= 1 << i
		}
	}
	b = binary.AppendUvarint(b, mask)
	for _, v := range figures {
		if *v != 0 {
			b = binary.AppendVarint(b, *v)
		}
	}
	return b
}

// totalsOf returns the sites of a memory of a record with what they did there.
func (f *Fleet) totalsOf(k *kept, memory int) iter.Seq2[uint32, SiteTotals] {
	return func(yield func(uint32, SiteTotals) bool) {
		for r := (reader{data: k.totals[memory]}); len(r.data) > 0; {
			n, t := r.totals(uint64(len(f.sites.list)))
			if !yield(n, t) {
				return
			}
		}
	}
}

// AppendBinary appends the canonical form of the set.
func (f *Fleet) AppendBinary(b []byte) []byte {
	records := f.inOrder()

	// What records no longer say, as another of their name took their place, is left out.
	used := make([]bool, len(f.sites.list))
	for _, k := range records {
		for i := range k.Memories {
			for n := range f.totalsOf(k, i) {
				used[n] = true
			}
		}
	}
	var sites []uint32
	usedFrames := make([]bool, len(f.frames.list))
	texts := map[string]uint32{}
	say := func(all ...string) {
		for _, s := range all {
			texts[s] = 0
		}
	}
	for n, ok := range used {
		if !ok {
			continue
		}
		sites = append(sites, uint32(n))
		s := f.site(uint32(n))
		say(s.Op, s.Shape, s.DType, s.Region)
		for _, fr := range s.Frames {
			say(fr.Function, fr.File)
		}
		for _, n := range f.framesOf(uint32(n)) {
			usedFrames[n] = true
		}
	}
	for _, k := range records {
		say(k.Format, k.Producer)
		for _, l := range k.Losses {
			say(l.Reason)
		}
		for i := range k.Memories {
			for _, s := range k.Memories[i].names() {
				say(*s)
			}
		}
		for _, found := range k.Findings {
			say(found.Rule, found.Severity, found.Place)
		}
	}
	w := writer{b: append(b, magic...), texts: texts}
	w.uint(Version)
	sorted := make([]string, 0, len(texts))
	for s := range texts {
		sorted = append(sorted, s)
	}
	slices.Sort(sorted)
	w.uint(uint64(len(sorted)))
	for n, s := range sorted {
		texts[s] = uint32(n)
		w.string(s)
	}

	var frames []uint32
	for n, ok := range usedFrames {
		if ok {
			frames = append(frames, uint32(n))
		}
	}
	slices.SortFunc(frames, func(a, b uint32) int { return f.compareFrames(a, b) })
	frameAt := make([]uint32, len(f.frames.list))
	w.uint(uint64(len(frames)))
	for at, n := range frames {
		frameAt[n] = uint32(at)
		fr := f.frames.list[n]
		w.text(f.strings.list[fr.function])
		w.text(f.strings.list[fr.file])
		w.int(int64(fr.line))
		w.uint(uint64(fr.kind))
	}

	slices.SortFunc(sites, func(a, b uint32) int { return f.compareSites(a, b) })
	siteAt := make([]uint32, len(f.sites.list))
	w.uint(uint64(len(sites)))
	for at, n := range sites {
		siteAt[n] = uint32(at)
		s := f.sites.list[n]
		stack := f.framesOf(n)
		w.uint(uint64(len(stack)))
		for _, n := range stack {
			w.uint(uint64(frameAt[n]))
		}
		for _, n := range []uint32{s.op, s.shape, s.dtype, s.region} {
			w.text(f.strings.list[n])
		}
	}

	w.uint(uint64(len(records)))
	for _, k := range records {
		f.appendRecord(&w, k, siteAt)
	}
	return w.b
}

func (f *Fleet) appendRecord(w *writer, k *kept, siteAt []uint32) {
	w.string(k.Name)
	w.string(k.Content)
	w.uint(uint64(k.State))
	w.string(k.Reason)
	w.text(k.Format)
	w.text(k.Producer)
	w.uint(uint64(len(k.Losses)))
	for _, l := range k.Losses {
		w.text(l.Reason)
		w.int(l.Count)
		w.int(l.Bytes)
	}
	w.uint(uint64(len(k.Memories)))
	for i := range k.Memories {
		m := &k.Memories[i]
		for _, s := range m.names() {
			w.text(*s)
		}
		for _, v := range m.figures() {
			w.int(*v)
		}
		w.uint(math.Float64bits(m.Fragmentation))
		w.uint(uint64(len(m.Usage)))
		for _, v := range m.Usage {
			w.int(v)
		}
		var totals []SiteTotals
		var numbers []uint32
		for n, t := range f.totalsOf(k, i) {
			totals, numbers = append(totals, t), append(numbers, siteAt[n])
		}
		order := make([]int, len(numbers))
		for j := range order {
			order[j] = j
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(numbers[a], numbers[b]) })
		w.uint(uint64(len(order)))
		for _, j := range order {
			w.b = appendTotals(w.b, numbers[j], &totals[j])
		}
	}
	w.uint(uint64(len(k.Findings)))
	for i := range k.Findings {
		found := &k.Findings[i]
		w.text(found.Rule)
		w.text(found.Severity)
		w.text(found.Place)
		w.uint(uint64(found.Memory))
		w.int(found.Amount.Count)
		w.int(found.Amount.Bytes)
		w.int(found.Amount.Requested)
		w.uint(math.Float64bits(found.BytesPerStep))
		w.string(found.Description)
	}
}

func (f *Fleet) compareFrames(a, b uint32) int {
	x, y := f.frames.list[a], f.frames.list[b]
	return cmp.Or(strings.Compare(f.strings.list[x.function], f.strings.list[y.function]), strings.Compare(f.strings.list[x.file], f.strings.list[y.file]),
		cmp.Compare(x.line, y.line), cmp.Compare(x.kind, y.kind))
}

func (f *Fleet) compareSites(a, b uint32) int {
	x, y := f.sites.list[a], f.sites.list[b]
	if x.stack != y.stack {
		if c := slices.CompareFunc(f.framesOf(a), f.framesOf(b), f.compareFrames); c != 0 {
			return c
		}
	}
	for _, pair := range [...][2]uint32{{x.op, y.op}, {x.shape, y.shape}, {x.dtype, y.dtype}, {x.region, y.region}} {
		if c := strings.Compare(f.strings.list[pair[0]], f.strings.list[pair[1]]); c != 0 {
			return c
		}
	}
	return 0
}

// writer appends the binary form: numbers as varints, texts by their number.
type writer struct {
	b     []byte
	texts map[string]uint32
}

func (w *writer) uint(v uint64)   { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) int(v int64)     { w.b = binary.AppendVarint(w.b, v) }
func (w *writer) string(s string) { w.uint(uint64(len(s))); w.b = append(w.b, s...) }
func (w *writer) text(s string)   { w.uint(uint64(w.texts[s])) }

// ReadBinary puts the records of a binary form into the set, none of them where it
// fails.
func (f *Fleet) ReadBinary(data []byte) error {
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok {
		return errors.New("no record of memlane-fleet")
	}
	r := reader{data: rest}
	if v := r.uint(); r.err == nil && v != Version {
		return ErrVersion
	}
	r.texts = make([]string, r.count())
	for i := range r.texts {
		r.texts[i] = r.string()
	}
	texts := make([]uint32, len(r.texts))
	for i, text := range r.texts {
		texts[i] = f.strings.number(text)
	}
	text := func() uint32 {
		n := r.below(uint64(len(texts)))
		if r.err != nil {
			return 0
		}
		return texts[n]
	}
	frames := make([]uint32, r.count())
	for i := range frames {
		fr := frame{text(), text(), int(r.int()), lifetime.FrameKind(r.below(uint64(lifetime.Scope) + 1))}
		if r.err != nil {
			break
		}
		frames[i] = f.frames.number(fr)
	}
	sites := make([]uint32, r.count())
	var stack []byte
	for i := range sites {
		stack = stack[:0]
		for n := r.count(); n > 0 && r.err == nil; n-- {
			if at := r.below(uint64(len(frames))); r.err == nil {
				stack = binary.LittleEndian.AppendUint32(stack, frames[at])
			}
		}
		s := site{f.stack(stack), text(), text(), text(), text()}
		if r.err != nil {
			break
		}
		sites[i] = f.sites.number(s)
	}
	var records []*kept
	for n := r.count(); n > 0 && r.err == nil; n-- {
		records = append(records, r.record(sites))
	}
	if r.err == nil && len(r.data) > 0 {
		r.err = fmt.Errorf("%d bytes follow the last record", len(r.data))
	}
	if r.err != nil {
		return fmt.Errorf("damaged record of memlane-fleet: %w", r.err)
	}
	for _, k := range records {
		f.keep(k)
	}
	return nil
}

// reader takes the binary form apart. After an error it gives zeros.
type reader struct {
	data  []byte
	texts []string
	err   error
}

var errShort = errors.New("it ends too early")

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.data = nil
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.fail(errShort)
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.data)
	if n <= 0 {
		r.fail(errShort)
		return 0
	}
	r.data = r.data[n:]
	return v
}

// count reads how many things follow, each of which takes a byte at least.
func (r *reader) count() int {
	n := r.uint()
	if n > uint64(len(r.data)) {
		r.fail(errShort)
		return 0
	}
	return int(n)
}

// below reads a number of one of n things.
func (r *reader) below(n uint64) uint64 {
	v := r.uint()
	if v >= n && r.err == nil {
		r.fail(fmt.Errorf("number %d of %d", v, n))
	}
	if r.err != nil {
		return 0
	}
	return v
}

func (r *reader) string() string {
	n := r.count()
	s := string(r.data[:n])
	r.data = r.data[n:]
	return s
}

func (r *reader) text() string {
	n := r.below(uint64(len(r.texts)))
	if r.err != nil {
		return ""
	}
	return r.texts[n]
}

func (r *reader) totals(sites uint64) (uint32, SiteTotals) {
	var t SiteTotals
	n := r.below(sites)
	mask := r.uint()
	for i, v := range t.amounts() {
		if mask&(1<<i) != 0 {
			*v = r.int()
		}
	}
	return uint32(n), t
}

// record reads a record, whose sites have other numbers in the set.
func (r *reader) record(sites []uint32) *kept {
	out := &kept{Record: Record{
		Name: r.string(), Content: r.string(), State: State(r.below(uint64(Missing) + 1)), Reason: r.string(), Format: r.text(), Producer: r.text(),
	}}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		out.Losses = append(out.Losses, Loss{r.text(), r.int(), r.int()})
	}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		var m Memory
		for _, s := range m.names() {
			*s = r.text()
		}
		for _, v := range m.figures() {
			*v = r.int()
		}
		m.Fragmentation = math.Float64frombits(r.uint())
		for n := r.count(); n > 0 && r.err == nil; n-- {
			m.Usage = append(m.Usage, r.int())
		}
		var totals []byte
		next := uint32(0) // sites are in order, so that none is there twice
		for n := r.count(); n > 0 && r.err == nil; n-- {
			at, t := r.totals(uint64(len(sites)))
			if at < next {
				r.fail(errors.New("sites are not in order"))
			}
			if r.err == nil {
				totals = appendTotals(totals, sites[at], &t)
			}
			next = at + 1
		}
		out.Memories, out.totals = append(out.Memories, m), append(out.totals, totals)
	}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		out.Findings = append(out.Findings, Finding{
			Rule: r.text(), Severity: r.text(), Place: r.text(), Memory: int(r.below(uint64(len(out.Memories)))),
			Amount: lifetime.Amount{Count: r.int(), Bytes: r.int(), Requested: r.int()}, BytesPerStep: math.Float64frombits(r.uint()), Description: r.string(),
		})
	}
	return out
}
