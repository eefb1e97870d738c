package xplane

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
)

// Names of the events of allocators, from XProf's HostEventType.
const (
	allocationName = "MemoryAllocation"
	freeName       = "MemoryDeallocation"
)

// host reads the plane of the host, whose lines are threads.
type host struct {
	r       *reader
	p       *plane
	decoder decoder
	schema

	tooLarge []int64 // offsets of events larger than maxEvent

	spaces []hostSpace // in order of their first event
	byRef  map[allocatorRef]build.SpaceRef
	byName map[allocatorID]build.SpaceRef
	sites  map[siteKey]lifetime.SiteID
	read   map[textRef]string // texts of sites
	steps  []step
	calls  calls
	linked bool // events may be producers or consumers, or may not nest

	reported      lifetime.AllocatorEvent // of the current event
	lastAllocator allocatorRef            // usually the allocator of the next event too
	lastSpace     build.SpaceRef
}

// siteKey identifies a site by numbers of the file.
type siteKey struct {
	op, region, shape textRef
	dtype             int64
	stack             lifetime.StackID // of the events around it
}

// allocatorID identifies an allocator by its name, or by the number of its device (-1: none).
type allocatorID struct {
	name   string
	device int64
}

// allocatorRef is an allocatorID as an event encodes it.
type allocatorRef struct {
	name   textRef
	device int64
}

type hostSpace struct {
	allocatorID
	ref build.SpaceRef
}

// readHost reads the events of the host's allocators.
func (r *reader) readHost(p *plane) error {
	h := &host{r: r, p: p, sites: map[siteKey]lifetime.SiteID{}, read: map[textRef]string{}}
	h.forget()
	var err error
	if h.schema, err = r.schema(p); err != nil {
		return err
	}
	h.linked = h.stats.has(producerID) || h.stats.has(consumerID) || h.stats.has(isAsync)
	h.decoder.stats = &h.stats
	if p.cut && !h.complete() {
		r.nameless = len(p.lines) > 0
		return nil
	}
	if h.allocation < 0 && h.free < 0 {
		return nil
	}
	if r.b.Keeps(build.Reports) {
		return h.keepReports()
	}
	var unordered map[span]bool
	for {
		// Read again if a line must be sorted, or if the model needs all buffers.
		err := h.merge(unordered)
		_, order := errors.AsType[*errOrder](err)
		switch {
		case order:
			// Find all unordered lines in one pass: there may be millions.
			if unordered, err = h.unordered(); err != nil {
				return err
			}
		case err != nil:
			return err
		case r.b.StartOver(h.refs()...):
		default:
			return h.describe()
		}
		h.forget()
	}
}

// unordered returns the lines whose relevant events are not in order of time. Like merge, it reads launches too:
// otherwise it would not find the line at which merge stopped.
func (h *host) unordered() (map[span]bool, error) {
	found := map[span]bool{}
	nesting := &nesting{spare: &h.calls.spare}
	err := h.eachLine(func(l *line) error {
		l.nesting = nesting
		l.window(windowBytes)
		err := l.each(l.next, func() {})
		if _, order := errors.AsType[*errOrder](err); order {
			found[l.body] = true
			return nil
		}
		return err
	})
	return found, err
}

// forget discards the spaces read so far.
func (h *host) forget() {
	for _, s := range h.spaces {
		h.r.b.Forget(s.ref)
	}
	h.spaces, h.steps, h.tooLarge = nil, nil, nil
	h.calls.producers = nil
	h.byRef, h.byName = map[allocatorRef]build.SpaceRef{}, map[allocatorID]build.SpaceRef{}
	h.lastAllocator = allocatorRef{device: math.MinInt64} // no event's
}

// complete reports whether the plane names everything that is needed to interpret allocator events.
func (h *host) complete() bool {
	return h.allocation >= 0 && h.free >= 0 && h.stats.has(address, allocationBytes, bytesAllocated) &&
		(h.stats.has(allocatorName) || h.stats.has(indexOnHost))
}

// eachLine calls use with every line of the plane, ready to be read. There may be millions of empty lines, so
// use keeps only those it needs.
func (h *host) eachLine(use func(*line) error) error {
	for i, body := range h.p.lines {
		if err := use(&line{h: h, body: body}); err != nil {
			return fmt.Errorf("lines[%d]: %w", i, err)
		}
	}
	return nil
}

// maxWindows bounds the memory of all line windows together, in bytes.
const maxWindows = 16 << 20

// merge reads the relevant events of all lines in order of time.
func (h *host) merge(unordered map[span]bool) error {
	q := &queue{}
	room := min(max(maxWindows/max(len(h.p.lines), 1), 4<<10), windowBytes)
	var spare []byte // the buffer of a line that had no relevant event
	spareNesting := &nesting{spare: &h.calls.spare}
	err := h.eachLine(func(l *line) error {
		if !unordered[l.body] {
			l.nesting = spareNesting
		}
		if cap(spare) < room { // a smaller buffer would make reading slow
			l.window(room)
		} else {
			l.w = window{in: h.r.in, size: h.r.size, buf: spare}
			spare = nil
		}
		start := l.open
		if unordered[l.body] {
			start = l.sort
		}
		if err := start(); err != nil {
			return err
		}
		more, err := l.next()
		if !more {
			spare = l.w.buf
		} else {
			spareNesting = &nesting{spare: &h.calls.spare}
			q.lines = append(q.lines, l)
		}
		return err
	})
	if err != nil {
		return err
	}
	heap.Init(q)
	for len(q.lines) > 0 {
		l, second := q.lines[0], q.second()
		more := true
		for more && (second == nil || l.before(second)) { // threads allocate in bursts
			h.take(l)
			var err error
			if more, err = l.next(); err != nil {
				return fmt.Errorf("lines[%d]: %w", slices.Index(h.p.lines, l.body), err)
			}
		}
		if more {
			heap.Fix(q, 0)
		} else {
			heap.Pop(q)
		}
	}
	return nil
}

// queue is a heap of lines by the time of their next event.
type queue struct{ lines []*line }

func (q *queue) Len() int      { return len(q.lines) }
func (q *queue) Swap(i, j int) { q.lines[i], q.lines[j] = q.lines[j], q.lines[i] }
func (q *queue) Less(i, j int) bool {
	return q.lines[i].before(q.lines[j])
}
func (q *queue) Push(x any) { q.lines = append(q.lines, x.(*line)) }
func (q *queue) Pop() any {
	l := q.lines[len(q.lines)-1]
	q.lines = q.lines[:len(q.lines)-1]
	return l
}

// second returns the line with the second earliest event, or nil.
func (q *queue) second() *line {
	switch {
	case len(q.lines) < 2:
		return nil
	case len(q.lines) > 2 && q.Less(2, 1):
		return q.lines[2]
	}
	return q.lines[1]
}

// before reports whether the next event of l comes before that of m.
func (l *line) before(m *line) bool {
	switch { // runs once per event: no cmp.Or
	case l.at.ns != m.at.ns:
		return l.at.ns < m.at.ns
	case l.at.ps != m.at.ps:
		return l.at.ps < m.at.ps
	}
	return l.body.at < m.body.at
}

func (h *host) take(l *line) {
	e := &l.event
	if e.is(isRoot) {
		end := after(l.stamp, units.AddSat(e.offset, e.duration)).ns
		h.steps = append(h.steps, step{begin: l.at.ns, end: end, meta: e.meta, number: e.number(stepNum, -1)})
	}
	if of, ok := e.launches(); ok && l.nesting != nil {
		h.calls.produce(produced{of, l.at, h.innermost(l)})
	}
	switch {
	case e.meta == h.free: // the model has no sites of frees
		h.report(e, l.at.ns, 0, -1)
	case e.meta == h.allocation && l.nesting != nil:
		h.report(e, l.at.ns, h.site(e, h.innermost(l)), -1)
	case e.meta == h.allocation:
		h.report(e, l.at.ns, h.site(e, nil), -1)
	}
}

func (h *host) reports(e *event) bool { return e.meta == h.allocation || e.meta == h.free }

func (h *host) report(e *event, ns int64, site lifetime.SiteID, step int32) {
	h.r.events++
	e.report(&h.reported, e.meta == h.free)
	h.reported.Site, h.reported.Step = site, step
	h.r.b.Report(h.space(e), ns, &h.reported)
}

func (h *host) space(e *event) build.SpaceRef {
	key := allocatorRef{e.text(allocatorName), e.number(indexOnHost, -1)}
	if key == h.lastAllocator {
		return h.lastSpace
	}
	ref, ok := h.byRef[key]
	if !ok {
		// Several numbers may stand for the same text.
		id := allocatorID{h.text(key.name), key.device}
		if ref, ok = h.byName[id]; !ok {
			ref = h.r.b.Space()
			h.r.b.ReportsInOrder(ref)
			h.r.b.FreesName(ref)
			h.byName[id] = ref
			h.spaces = append(h.spaces, hostSpace{id, ref})
		}
		h.byRef[key] = ref
	}
	h.lastAllocator, h.lastSpace = key, ref
	return ref
}

// text returns the text that an event refers to. XLA writes "(null)" for a missing text. It is kept only for
// exports in XProf's format, because XProf displays it.
func (h *host) text(ref textRef) (text string) {
	switch {
	case ref == noText:
		return ""
	case ref < 0:
		text = h.decoder.inline[-1-ref]
	default:
		var ok bool
		if text, ok = h.read[ref]; !ok {
			text = h.texts.get(int64(ref))
			h.read[ref] = text
		}
	}
	if text == "(null)" && !h.r.b.Keeps(build.Reports) {
		return ""
	}
	return text
}

// site returns the site of an event. c is the innermost event around it; nil = not known.
func (h *host) site(e *event, c *call) lifetime.SiteID {
	key := siteKey{e.text(tfOp), e.text(regionType), e.text(tensorShape), e.number(dataType, 0), h.stack(c, 0)}
	id, ok := h.sites[key]
	if !ok {
		op := h.text(key.op)
		id = h.r.b.Site(lifetime.Site{
			Stack: h.inOperator(op, c, key.stack), Op: op, Region: h.text(key.region), Shape: h.text(key.shape),
			DType: dtypeName(key.dtype),
		})
		h.sites[key] = id
	}
	return id
}

// describe records the identity, marks and losses of the spaces.
func (h *host) describe() error {
	marks, err := h.marks()
	if err != nil {
		return err
	}
	refs := h.refs()
	for _, s := range h.spaces {
		info := lifetime.SpaceInfo{Source: h.r.source, Host: h.r.host, Allocator: s.name, Axis: lifetime.Time, Facts: lifetime.Clock}
		if s.device >= 0 {
			info.Device = strings.ToLower(cmp.Or(h.r.accelerator(), "device")) + ":" + strconv.FormatInt(s.device, 10)
		}
		h.r.b.Describe(s.ref, info)
	}
	for _, at := range h.tooLarge {
		h.r.b.Lose(loss.IncompleteRecord, 1, 0, fmt.Sprintf("byte %d: event larger than 16 MiB", at))
	}
	h.r.b.MarkAll(refs, marks)
	h.r.found += len(refs)
	return nil
}

func (h *host) refs() []build.SpaceRef {
	refs := make([]build.SpaceRef, len(h.spaces))
	for i, s := range h.spaces {
		refs[i] = s.ref
	}
	return refs
}

// step is a root event: one iteration that the program marked, or a function that it called.
type step struct {
	begin, end int64 // nanoseconds
	meta       int64
	number     int64 // step_num; -1: none
}

// marks returns the steps as marks: the roots that are not nested in another root, on any thread. Work that a
// step starts on another thread belongs to that step.
func (h *host) marks() ([]lifetime.Mark, error) {
	slices.SortStableFunc(h.steps, func(x, y step) int { return cmp.Or(cmp.Compare(x.begin, y.begin), cmp.Compare(y.end, x.end)) })
	var outer []step
	names := map[int64]string{}
	for _, s := range h.steps {
		if n := len(outer); n > 0 && s.end <= outer[n-1].end {
			continue
		}
		outer = append(outer, s)
		names[s.meta] = ""
	}
	if len(outer) == 0 {
		return nil, nil
	}
	err := h.r.entries(h.p, planeEventMeta, func(e entry, name []byte) error {
		if _, used := names[e.id]; used {
			names[e.id] = string(name)
		}
		return nil
	})
	var marks []lifetime.Mark
	for _, s := range outer {
		text := names[s.meta]
		if s.number >= 0 {
			text = fmt.Sprintf("%s %d", text, s.number)
		}
		marks = append(marks, lifetime.Mark{Begin: s.begin, End: max(s.end, s.begin+1), Kind: lifetime.Step, Text: text})
	}
	return marks, err
}
