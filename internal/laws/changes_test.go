package laws

import (
	"cmp"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// events returns all events of a snapshot.
func (s *snapshot) events() (all []*event) {
	n := 0
	for _, trace := range s.traces {
		n += len(trace)
	}
	all = make([]*event, 0, n)
	for _, trace := range s.traces {
		for i := range trace {
			all = append(all, &trace[i])
		}
	}
	return all
}

// times returns the times of all events in order; nil if some have none.
func (s *snapshot) times() (all []int64) {
	events := s.events()
	all = make([]int64, 0, len(events))
	for _, e := range events {
		if e.noTime {
			return nil
		}
		all = append(all, e.time)
	}
	slices.Sort(all)
	return all
}

// unnamed returns a snapshot without the table of the recorder. It names what lives at the end, so it says nothing of another end.
func (s *snapshot) unnamed() *snapshot {
	if s.names == "" {
		return s
	}
	bare := *s
	bare.names = ""
	return &bare
}

// withEvents returns a snapshot with its events changed: to none, one or more each.
func (s *snapshot) withEvents(change func(device int, trace []event) []event) *snapshot {
	out := *s
	out.traces = nil
	for device, trace := range s.traces {
		out.traces = append(out.traces, change(device, trace))
	}
	return &out
}

// withNotes returns a snapshot with the annotations that keep wants.
func (s *snapshot) withNotes(keep func(n *note) bool) *snapshot {
	out := *s
	if s.notes != nil {
		out.notes = []note{}
		for i := range s.notes {
			if keep(&s.notes[i]) {
				out.notes = append(out.notes, s.notes[i])
			}
		}
	}
	return &out
}

// each returns a copy of a list with each item changed.
func each[T any](list []T, change func(*T)) []T {
	all := slices.Clone(list)
	for i := range all {
		change(&all[i])
	}
	return all
}

// withStacks returns a snapshot with other stacks. Equal stacks stay shared.
func (s *snapshot) withStacks(change func(*callers) *callers) *snapshot {
	known := map[*callers]*callers{nil: nil}
	swap := func(to **callers) {
		changed, ok := known[*to]
		if !ok {
			changed = change(*to)
			known[*to] = changed
		}
		*to = changed
	}
	out := s.withEvents(func(_ int, trace []event) []event { return each(trace, func(e *event) { swap(&e.frames) }) })
	out.segments = each(s.segments, func(g *segment) {
		swap(&g.frames)
		g.blocks = each(g.blocks, func(b *block) { swap(&b.frames) })
	})
	return out
}

// withCalls returns a snapshot with other frames.
func (s *snapshot) withCalls(change func(*call)) *snapshot {
	known := map[*call]*call{}
	return s.withStacks(func(c *callers) *callers {
		changed := &callers{}
		for _, f := range c.of {
			if known[f] == nil {
				g := *f
				change(&g)
				known[f] = &g
			}
			changed.of = append(changed.of, known[f])
		}
		return changed
	})
}

// elsewhere matches files that are not of the program itself.
var elsewhere = regexp.MustCompile(`site-packages|dist-packages|/torch/|/lib/python[\d.]+/|^<`)

// ours reports whether a frame is of the program itself.
func (f *call) ours() bool {
	return (f.line > 0 || f.noLine) && strings.HasSuffix(f.file, ".py") && !elsewhere.MatchString(f.file)
}

// native reports whether a frame is of a compiled language.
func (f *call) native() bool {
	return f.line == 0 && !f.noLine || !strings.HasSuffix(f.file, ".py") && !strings.HasPrefix(f.file, "<")
}

// hasStacks reports whether allocations have stacks.
func (s *snapshot) hasStacks() bool {
	return slices.ContainsFunc(s.events(), func(e *event) bool { return e.action == "alloc" && e.frames.len() > 0 })
}

// moving changes numbers of a snapshot; nil keeps them.
type moving struct {
	addr, device    func(int64) int64
	size, requested func(int64) int64 // what the allocator rounded or reserved; what the program requested
}

// moved returns a snapshot with other numbers.
func (s *snapshot) moved(m moving) *snapshot {
	apply := func(to *int64, change func(int64) int64) {
		if change != nil {
			*to = change(*to)
		}
	}
	addr := func(to *int64) {
		if *to != 0 {
			apply(to, m.addr)
		}
	}
	out := s.withEvents(func(_ int, trace []event) []event {
		return each(trace, func(e *event) {
			addr(&e.addr)
			if strings.HasPrefix(e.action, "segment") {
				apply(&e.size, m.size)
			} else {
				apply(&e.size, m.requested)
			}
		})
	})
	out.segments = each(s.segments, func(g *segment) {
		apply(&g.device, m.device)
		addr(&g.addr)
		apply(&g.size, m.size)
		g.blocks = each(g.blocks, func(b *block) {
			addr(&b.addr)
			apply(&b.size, m.size)
			apply(&b.requested, m.requested)
		})
	})
	return out
}

// with returns a snapshot with what another one has.
func (s *snapshot) with(other *snapshot) *snapshot {
	out := *s
	out.traces = slices.Concat(s.traces, other.traces)
	out.segments = slices.Concat(s.segments, other.segments)
	return &out
}

// stepEnds returns the instants at which recorded steps end: those of the profiler, else of the optimizer. Fewer than four tell nothing.
func (s *snapshot) stepEnds() []int64 {
	for _, prefix := range []string{"ProfilerStep#", "Optimizer.step#"} {
		var ends []int64
		for _, n := range s.notes {
			if n.stage == "END" && strings.HasPrefix(n.name, prefix) {
				ends = append(ends, n.time)
			}
		}
		if len(ends) >= 4 {
			slices.Sort(ends)
			return ends
		}
	}
	return nil
}

// endedAt returns the snapshot as if it had been dumped at an instant: the later events did not happen, and are undone in the state of its
// end. It returns nil if that cannot be said: blocks without addresses (PyTorch 2.0), pages of expandable segments, and blocks that are not
// where the events say.
func (s *snapshot) endedAt(instant int64) *snapshot {
	for i := range s.segments {
		if slices.ContainsFunc(s.segments[i].blocks, func(b block) bool { return b.noAddr }) {
			return nil
		}
	}
	out := s.withNotes(func(n *note) bool { return n.time <= instant })
	out.traces, out.segments = nil, nil
	some := false
	for device, trace := range s.traces {
		n := 0
		for i := range trace {
			if trace[i].time <= instant {
				n++
			}
		}
		state := s.stateOf(int64(device))
		if !state.undo(trace[:n], trace[n:]) {
			return nil
		}
		segments, ok := state.filled()
		if !ok {
			return nil
		}
		out.traces = append(out.traces, trace[:n])
		out.segments = append(out.segments, segments...)
		some = some || n > 0
	}
	if !some {
		return nil
	}
	return out
}

// state is the memory of one device at an instant.
type state struct {
	device   int64
	segments map[int64]segment // by address
	live     map[int64]block
}

func (s *snapshot) stateOf(device int64) *state {
	now := &state{device, map[int64]segment{}, map[int64]block{}}
	for _, g := range s.segments {
		if g.device != device {
			continue
		}
		now.segments[g.addr] = g
		for _, b := range g.blocks {
			if b.state != inactive {
				now.live[b.addr] = b
			}
		}
	}
	return now
}

// undo takes back the later events. It reports whether that is possible.
func (now *state) undo(earlier, later []event) bool {
	born := map[int64]*callers{}
	for i := range earlier {
		if e := &earlier[i]; e.action == "alloc" {
			born[e.addr] = e.frames
		}
	}
	for i := len(later) - 1; i >= 0; i-- {
		switch e := &later[i]; e.action {
		case "segment_map", "segment_unmap":
			return false
		case "alloc":
			if _, ok := now.live[e.addr]; !ok {
				return false
			}
			delete(now.live, e.addr)
		case "free_completed":
			frames := born[e.addr]
			if frames == nil {
				frames = &callers{}
			}
			now.live[e.addr] = block{addr: e.addr, size: (e.size + 511) / 512 * 512, requested: e.size, state: "active_pending_free", frames: frames}
		case "free_requested":
			if b, ok := now.live[e.addr]; ok {
				b.state = "active_allocated"
				now.live[e.addr] = b
			}
		case "segment_alloc":
			delete(now.segments, e.addr)
		case "segment_free":
			now.segments[e.addr] = segmentOf(now.device, e.addr, e.size, e.stream, e.rest)
		}
	}
	return true
}

// smallSegment is the size of a segment for small requests.
const smallSegment = 2 << 20

// segmentOf returns an empty segment of the pool that the fields of its event name.
func segmentOf(device, addr, size, stream int64, fields []any) segment {
	kind, pool := "large", any(tuple{int64(0), int64(0)})
	if size <= smallSegment {
		kind = "small"
	}
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == "pool_id" {
			pool = fields[i+1]
		}
	}
	return segment{device: device, addr: addr, size: size, stream: stream, frames: &callers{},
		rest: []any{"segment_type", kind, "segment_pool_id", pool}}
}

// filled returns the segments with the live blocks and the holes between them. It reports whether each block lies in a segment.
func (now *state) filled() (all []segment, ok bool) {
	var rest []block
	for _, b := range now.live {
		rest = append(rest, b)
	}
	slices.SortFunc(rest, func(x, y block) int { return cmp.Compare(x.addr, y.addr) })
	next := func(end int64) int64 {
		if len(rest) == 0 {
			return end
		}
		return min(rest[0].addr, end)
	}
	for _, g := range now.segments {
		all = append(all, g)
	}
	slices.SortFunc(all, func(x, y segment) int { return cmp.Compare(x.addr, y.addr) })
	for i := range all {
		g := &all[i]
		g.blocks = nil
		for at, end := g.addr, g.addr+g.size; at < end; {
			to := next(end)
			if to < at {
				return nil, false
			}
			b := block{addr: at, size: to - at, state: inactive, frames: &callers{}}
			if to == at {
				b, rest = rest[0], rest[1:]
			}
			b.size = min(b.size, next(end)-at)
			g.blocks = append(g.blocks, b)
			at += b.size
		}
	}
	return all, len(rest) == 0
}

// probed returns a snapshot with memory that is allocated and freed at once, on a stream of its own: after each n-th allocation of a device,
// or only after the n-th if once. thread allocates it from a thread of its own, else a function that the program calls there does. It comes
// never within one operator.
func (s *snapshot) probed(n int, once, thread bool, times int) *snapshot {
	probe := &call{name: "probe", file: "/srv/monitor/gauge.py", line: 17}
	poll := &callers{[]*call{{name: "poll", file: probe.file, line: 7}, {name: "run", file: "/usr/lib/python3.11/threading.py", line: 982}}}
	called := map[*callers]*callers{}
	callerOf := func(c *callers) *callers {
		by, known := called[c]
		if known {
			return by
		}
		if i := slices.IndexFunc(c.of, (*call).ours); i >= 0 {
			by = &callers{append([]*call{probe}, c.of[i:]...)}
		}
		called[c] = by
		return by
	}
	top, stream := int64(0), int64(0)
	for i := range s.segments {
		top, stream = max(top, s.segments[i].addr+s.segments[i].size), max(stream, s.segments[i].stream)
	}
	for _, e := range s.events() {
		if e.addr != 0 {
			top = max(top, e.addr+e.size)
		}
		stream = max(stream, e.stream)
	}
	stream++
	var segments []segment
	out := s.withEvents(func(device int, trace []event) (all []event) {
		base, count := (top+int64(device+1)<<30)>>21<<21, 0
		own := state{int64(device), map[int64]segment{base: segmentOf(int64(device), base, smallSegment, stream, nil)}, nil}
		filled, _ := own.filled()
		segments = append(segments, filled...)
		all = make([]event, 0, len(trace)*(1+times))
		for i := range trace {
			e := &trace[i]
			all = append(all, *e)
			if e.action != "alloc" || e.frames.len() == 0 {
				continue
			}
			after := trace[i+1 : min(i+4, len(trace))]
			if k := slices.IndexFunc(after, func(e event) bool { return e.action == "alloc" }); k >= 0 && after[k].frames.same(e.frames) {
				continue
			}
			count++
			if once && count != n || !once && count%n != 0 {
				continue
			}
			caller := poll
			if !thread {
				caller = callerOf(e.frames)
			}
			if caller == nil {
				continue
			}
			new := event{addr: base, size: 4096, stream: stream, time: e.time, noTime: e.noTime, frames: caller, rest: e.rest}
			for range times {
				for _, action := range []string{"alloc", "free_requested", "free_completed"} {
					new.action = action
					all = append(all, new)
				}
			}
		}
		return all
	})
	out.segments = slices.Concat(s.segments, segments)
	return out
}

// failing returns a snapshot whose last request fails: the allocator gave back all segments that are free. size returns what is requested from
// the largest hole, the bytes of all segments, and the last request that no hole could have served.
func (s *snapshot) failing(size func(hole, reserved, last int64) int64) *snapshot {
	device := s.busiest()
	trace, now := s.traces[device], int64(math.MinInt64)
	var idle, kept []segment
	hole, reserved := int64(0), int64(0)
	for _, g := range s.segments {
		reserved += g.size
		if g.device == int64(device) && !slices.ContainsFunc(g.blocks, func(b block) bool { return b.state != inactive }) {
			idle = append(idle, g)
			continue
		}
		kept = append(kept, g)
		for _, b := range g.blocks {
			if b.state == inactive {
				hole = max(hole, b.size)
			}
		}
	}
	var last event
	for i := range trace {
		if e := &trace[i]; e.action == "alloc" && (last.action == "" || e.size > hole || last.size <= hole) {
			last = *e
		}
	}
	for _, trace := range s.traces {
		if len(trace) > 0 {
			now = max(now, trace[len(trace)-1].time)
		}
	}
	last.time = now + 1
	all := slices.Clone(trace)
	for _, g := range idle {
		e := last
		e.action, e.addr, e.size, e.stream = "segment_free", g.addr, g.size, g.stream
		all = append(all, e)
	}
	out := *s
	out.traces, out.segments = slices.Clone(s.traces), kept
	out.traces[device] = append(all, last.failed(size(hole, reserved, last.size)))
	return &out
}

// retried returns a snapshot in which each nth request failed before it was served.
func (s *snapshot) retried(n int) *snapshot {
	return s.withEvents(func(_ int, trace []event) (all []event) {
		k := 0
		for _, e := range trace {
			if e.action == "alloc" {
				if k++; k%n == 0 {
					all = append(all, e.failed(e.size))
				}
			}
			all = append(all, e)
		}
		return all
	})
}

// failed returns the event of a request for size bytes that fails, made as e was.
func (e event) failed(size int64) event {
	e.action, e.size, e.noAddr = "oom", size, true
	e.rest = append(slices.Clone(e.rest), "device_free", int64(0))
	return e
}

// busiest returns the device with most events.
func (s *snapshot) busiest() (device int) {
	for i := range s.traces {
		if len(s.traces[i]) > len(s.traces[device]) {
			device = i
		}
	}
	return device
}

// twice returns a snapshot of a program that runs again: at other addresses, a second later. Its marks go on counting.
func (s *snapshot) twice() *snapshot {
	times := s.times()
	first, last := times[0], times[len(times)-1]
	if s.events()[0].action == "segment_alloc" {
		first -= 1_000_000 // what came before is of the same run
	} // else it is of steps that the ring lost
	out := s.withNotes(func(n *note) bool { return first <= n.time && n.time <= last+1_000_000 })
	named := map[string]bool{}
	for _, n := range out.notes {
		if oneStep.MatchString(n.name) {
			named[n.name] = true
		}
	}
	later := last - times[0] + 2_001_000
	apart := int64(1 << 44)
	for _, g := range s.segments { // a program that ran twice is elsewhere again
		apart = max(apart, (g.addr+g.size+1<<44-1)>>44<<44)
	}
	again := s.moved(moving{addr: func(a int64) int64 { return a + apart }})
	traces := out.traces
	out.traces = nil
	for i := range traces {
		second := each(again.traces[i], func(e *event) { e.time += later })
		out.traces = append(out.traces, slices.Concat(traces[i], second))
	}
	out.segments = slices.Concat(s.segments, again.segments)
	out.notes = slices.Concat(out.notes, each(out.notes, func(n *note) {
		n.time += later
		n.name = numbered(n.name, len(named))
	}))
	return out
}

var (
	oneStep    = regexp.MustCompile(`(?i)^\D*step\D?\d+$`)
	stepNumber = regexp.MustCompile(`(?i)^(.*step.)(\d+)$`)
	protocol   = regexp.MustCompile(`^(<.*>|__\w+__|forward|backward|step|zero_grad|closure|setup_context|apply|training_step|validation_step)$`)
)

// inFolders puts a frame into another home and another environment.
func inFolders(f *call) {
	const packages = "site-packages/"
	if i := strings.LastIndex(f.file, packages); i >= 0 {
		f.file = "/home/u/x/env/lib/python3.12/" + f.file[i:]
	} else if f.ours() {
		f.file = "/home/u/x/" + path.Base(f.file)
	}
}

// renamed gives a function of the program another name, unless PyTorch or Python calls it by its name.
func renamed(f *call) {
	if !f.ours() || protocol.MatchString(f.name) {
		return
	}
	letters := []rune(f.name)
	slices.Reverse(letters)
	f.name = "fn_" + strings.ReplaceAll(string(letters), ".", "_")
}

// numbered adds n to the number of a step in a name.
func numbered(name string, n int) string {
	parts := stepNumber.FindStringSubmatch(name)
	if parts == nil {
		return name
	}
	number, _ := strconv.Atoi(parts[2])
	return parts[1] + strconv.Itoa(number+n)
}
