package xplane

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

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

	tooLarge []int64 // where events stand that are too large to be one

	spaces []hostSpace // in order of their first event
	byRef  map[allocatorRef]build.SpaceRef
	byName map[allocatorID]build.SpaceRef
	sites  siteTable
	steps  []step

	said          lifetime.Report // by the event at hand
	lastAllocator allocatorRef    // as a rule space and site are those of the event before
	lastSpace     build.SpaceRef
}

// allocatorID names an allocator: by its name, else by the number of its device,
// -1 when there is none.
type allocatorID struct {
	name   string
	device int64
}

// allocatorRef is the same as an event has it.
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
	h := &host{r: r, p: p}
	h.forget()
	var err error
	if h.schema, err = r.schema(p); err != nil {
		return err
	}
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
		// Start over where a line has to be sorted, or the model needs all buffers.
		err := h.merge(unordered)
		var order *errOrder
		switch {
		case errors.As(err, &order):
			// All of them at once: there may be millions.
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

// unordered returns the lines whose wanted events are not in order of time.
func (h *host) unordered() (map[span]bool, error) {
	found := map[span]bool{}
	for i, l := range h.lines() {
		l.window(windowBytes)
		err := l.open()
		for more := true; more && err == nil; {
			more, err = l.next()
		}
		var order *errOrder
		switch {
		case errors.As(err, &order):
			found[l.body] = true
		case err != nil:
			return nil, fmt.Errorf("lines[%d]: %w", i, err)
		}
	}
	return found, nil
}

// forget leaves the spaces so far behind.
func (h *host) forget() {
	for _, s := range h.spaces {
		h.r.b.Forget(s.ref)
	}
	h.spaces, h.steps, h.tooLarge = nil, nil, nil
	h.byRef, h.byName = map[allocatorRef]build.SpaceRef{}, map[allocatorID]build.SpaceRef{}
	h.lastAllocator = allocatorRef{device: math.MinInt64} // no event's
}

// complete reports whether the names are there without which the events of
// allocators mean nothing.
func (h *host) complete() bool {
	return h.allocation >= 0 && h.free >= 0 && h.stats.has(address, allocationBytes, bytesAllocated) && (h.stats.has(allocatorName) || h.stats.has(indexOnHost))
}

// lines yields the lines of the plane, ready to be read. There may be millions that
// are empty: who is done with one need not keep it.
func (h *host) lines() iter.Seq2[int, *line] {
	return func(yield func(int, *line) bool) {
		for i, body := range h.p.lines {
			if !yield(i, &line{h: h, body: body}) {
				return
			}
		}
	}
}

// maxWindows bounds the memory of the windows of all lines together.
const maxWindows = 16 << 20

// merge reads the wanted events of all lines in order of time.
func (h *host) merge(unordered map[span]bool) error {
	q := &queue{}
	room := min(max(maxWindows/max(len(h.p.lines), 1), 4<<10), windowBytes)
	var spare []byte // the buffer of a long line without any event
	for i, l := range h.lines() {
		if cap(spare) < room { // that of a short line would be slow for a long one
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
			return fmt.Errorf("lines[%d]: %w", i, err)
		}
		more, err := l.next()
		if err != nil {
			return fmt.Errorf("lines[%d]: %w", i, err)
		}
		if !more {
			spare = l.w.buf
			continue
		}
		q.lines = append(q.lines, l)
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

// second returns the line that comes after the first one, nil when there is none.
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
	switch { // asked for every event
	case l.at.ns != m.at.ns:
		return l.at.ns < m.at.ns
	case l.at.ps != m.at.ps:
		return l.at.ps < m.at.ps
	}
	return l.body.at < m.body.at
}

// take hands on the event of a line.
func (h *host) take(l *line) {
	e := &l.event
	if e.is(isRoot) {
		h.steps = append(h.steps, step{begin: l.at.ns, end: after(l.stamp, lifetime.AddSat(e.offset, e.duration)).ns, meta: e.meta, number: e.number(stepNum, -1)})
	}
	if h.reports(e) {
		h.report(e, l.at.ns, -1)
	}
}

// reports tells whether an event is one of an allocator.
func (h *host) reports(e *event) bool { return e.meta == h.allocation || e.meta == h.free }

// report hands on what an allocator said.
func (h *host) report(e *event, ns int64, step int32) {
	h.r.events++
	e.report(&h.said, e.meta == h.free)
	h.said.Site, h.said.Step = h.site(e), step
	h.r.b.Report(h.space(e), ns, &h.said)
}

// space returns the space of an event.
func (h *host) space(e *event) build.SpaceRef {
	key := allocatorRef{e.text(allocatorName), e.number(indexOnHost, -1)}
	if key == h.lastAllocator {
		return h.lastSpace
	}
	ref, ok := h.byRef[key]
	if !ok {
		// One text may have several numbers.
		id := allocatorID{h.text(key.name), key.device}
		if ref, ok = h.byName[id]; !ok {
			ref = h.r.b.Space()
			h.r.b.ReportsInOrder(ref)
			h.byName[id] = ref
			h.spaces = append(h.spaces, hostSpace{id, ref})
		}
		h.byRef[key] = ref
	}
	h.lastAllocator, h.lastSpace = key, ref
	return ref
}

// text returns the text that an event refers to. XLA writes "(null)" where it
// has none, and XProf shows it.
func (h *host) text(ref textRef) (text string) {
	switch {
	case ref == noText:
		return ""
	case ref < 0:
		text = h.decoder.inline[-1-ref]
	default:
		text = h.texts.get(int64(ref))
	}
	if text == "(null)" && !h.r.b.Keeps(build.Reports) {
		return ""
	}
	return text
}

// site returns the site of an event.
func (h *host) site(e *event) lifetime.SiteID {
	key := siteKey{e.text(tfOp), e.text(regionType), e.text(tensorShape), e.number(dataType, 0)}
	slot := h.sites.slot(key)
	if !slot.used {
		id := h.r.b.Site(lifetime.Site{Op: h.text(key.op), Region: h.text(key.region), Shape: h.text(key.shape), DType: dtypeName(key.dtype)})
		slot = h.sites.put(key, id)
	}
	return slot.id
}

// describe says what the spaces are.
func (h *host) describe() error {
	marks, err := h.marks()
	if err != nil {
		return err
	}
	refs := h.refs()
	for _, s := range h.spaces {
		h.r.b.Describe(s.ref, h.identity(s))
	}
	for _, at := range h.tooLarge {
		h.r.b.Lose(loss.IncompleteRecord, 1, 0, fmt.Sprintf("byte %d: an event too large to be one", at))
	}
	h.r.b.MarkAll(refs, marks)
	h.r.found += len(refs)
	return nil
}

// refs returns the spaces of the allocators.
func (h *host) refs() []build.SpaceRef {
	refs := make([]build.SpaceRef, len(h.spaces))
	for i, s := range h.spaces {
		refs[i] = s.ref
	}
	return refs
}

func (h *host) identity(s hostSpace) lifetime.SpaceInfo {
	out := lifetime.SpaceInfo{Source: h.r.source, Host: h.r.host, Allocator: s.name, Axis: lifetime.Time, Facts: lifetime.Clock}
	if s.device >= 0 {
		out.Device = strings.ToLower(cmp.Or(h.r.accelerator(), "device")) + ":" + strconv.FormatInt(s.device, 10)
	}
	return out
}
