package chrometrace

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// hidden are the operators that PyTorch's tables omit (_filter_name of torch.autograd).
var hidden = map[string]bool{
	"profiler::_record_function_enter": true, "profiler::_record_function_enter_new": true,
	"profiler::_record_function_exit": true, "aten::is_leaf": true, "aten::output_nr": true, "aten::_version": true,
}

// changes contains running sums of allocated and freed bytes.
type changes struct {
	at        []int64
	allocated []int64 // before each event, and after the last
	freed     []int64
}

func (c *changes) add(at, bytes int64) {
	n := len(c.at)
	c.at = append(c.at, at)
	c.allocated = append(c.allocated, c.allocated[n]+max(bytes, 0))
	c.freed = append(c.freed, c.freed[n]+max(-bytes, 0))
}

func newChanges(n int) changes {
	return changes{at: make([]int64, 0, n), allocated: make([]int64, 1, n+1), freed: make([]int64, 1, n+1)}
}

// in sums up the events [from, to).
func (c *changes) in(from, to int) (b lifetime.OperationBytes) {
	b.Allocated, b.Freed = c.allocated[to]-c.allocated[from], c.freed[to]-c.freed[from]
	b.SelfBytes = b.Bytes()
	return b
}

// split is the changes of host and device memory. Both have all events, for common indices.
type split struct{ host, device changes }

func newSplit(n int) *split { return &split{newChanges(n), newChanges(n)} }

func (s *split) add(m *memoryEvent) {
	host, device := m.change(), int64(0)
	if !onHost(int64(m.heap.deviceType)) {
		host, device = device, host
	}
	s.host.add(m.at, host)
	s.device.add(m.at, device)
}

func (r *reader) byTime() []int {
	byTime := make([]int, len(r.memory))
	for i := range byTime {
		byTime[i] = i
	}
	slices.SortStableFunc(byTime, func(x, y int) int { return cmp.Compare(r.memory[x].at, r.memory[y].at) })
	return byTime
}

// operations adds the table of operators, equal to PyTorch's key_averages.
func (r *reader) operations(byTime []int) {
	t := table{r: r, rows: make([]uint32, len(r.names.all)+2), depth: make([]int, len(byTime)+1),
		functions: make([]function, len(r.names.all)), every: newSplit(len(byTime)), own: map[*thread]*split{}}
	for _, i := range byTime {
		m := &r.memory[i]
		if t.own[m.thread] == nil {
			t.own[m.thread] = newSplit(0)
		}
		t.own[m.thread].add(m)
		t.every.add(m)
	}
	for name := range hidden {
		if id := r.names.ids[name]; id != 0 {
			t.hidden = append(t.hidden, id)
		}
	}
	for _, th := range r.order {
		next := 0
		for c := range th.all(&r.store) {
			if t.nests(c) {
				from, to := t.during(t.every, c, &next)
				t.depth[from]++
				t.depth[to]--
			}
		}
	}
	outside := t.outside(byTime)
	for _, th := range r.order {
		t.thread(th, outside[th])
	}
	t.addFunctions()
	r.b.Operations(t.all...)
}

// adoptRuntime moves the runtime calls of threads that did nothing else, and of the profiler itself, to the thread that
// runs the steps, or else to the first that runs operators. PyTorch takes them for calls of the thread that stops the
// profiler.
func (r *reader) adoptRuntime() {
	isStep := func(c call) bool { return strings.HasPrefix(r.names.text(c.name), stepPrefix) }
	first := slices.IndexFunc(r.order, func(t *thread) bool { return slices.ContainsFunc(t.annotations, isStep) })
	if first < 0 {
		first = slices.IndexFunc(r.order, func(t *thread) bool { return t.operators })
	}
	if first < 0 {
		return
	}
	main := r.order[first]
	for _, t := range r.order {
		if t.runtime && !t.operators {
			for _, from := range []*thread{main, t} { // main first: of equal calls, operators enclose
				if len(from.recent) > 0 {
					from.pack(&r.store)
				}
			}
			main.runs, t.runs = append(main.runs, t.runs...), nil
		}
	}
}

// function sums up the calls of a Python function. It is smaller than a row, as a trace
// may have many thousands of functions.
type function struct {
	calls, time  int64
	host, device lifetime.OperationBytes
}

type table struct {
	r         *reader
	every     *split // of all threads: PyTorch credits an operator with what any thread allocates
	own       map[*thread]*split
	all       []lifetime.Operation
	rows      []uint32   // of operators and ranges in all, from 1, by name
	functions []function // by name
	depth     []int      // number of calls around each event, minus that of the event before
	hidden    []uint32   // names of calls that have no row
}

// nests reports whether a call may be the parent or child of another one. Python calls do since PyTorch 2.13, without a
// row: its key_averages builds the tree from all calls and drops these rows at the end.
func (t *table) nests(c *call) bool {
	if c.kind == python {
		return t.r.since213()
	}
	return !slices.Contains(t.hidden, c.name)
}

// during returns the events [from, to) of a call, with PyTorch's rounded times. next is the from of the previous call.
func (t *table) during(in *split, c *call, next *int) (from, to int) {
	at := in.host.at
	begin, end := t.r.rounded(c.begin), t.r.rounded(c.end)
	*next = passed(at, *next, max(begin, math.MinInt64+1)-1) // each thread begins anew, so it may be far
	return *next, passed(at, *next, end)
}

// passed returns the index of the first event after a time, from an index on. Most calls enclose few events, so an
// exponential search is fast.
func passed(at []int64, from int, t int64) int {
	for step := 1; from < len(at) && at[from] <= t; step *= 2 {
		if far := from + step; far < len(at) && at[far] <= t {
			from = far
			continue
		}
		rest := at[from:min(from+step, len(at))]
		return from + sort.Search(len(rest), func(i int) bool { return rest[i] > t })
	}
	return from
}

// since213 reports whether PyTorch 2.13 or later wrote the trace: earlier versions do not record the host name.
func (r *reader) since213() bool { return r.host != "" }

// rounded returns the time that PyTorch's tables compare. Since 2.2 they divide nanoseconds since 1970 by 1000 and
// multiply them again, in floating point, an error of up to 128 ns. Since 2.13 at the latest they do not.
func (r *reader) rounded(ns int64) int64 {
	if r.base <= 0 || r.since213() {
		return ns
	}
	at := units.AddSat(ns, r.base)
	micros := float64(at/1000) + float64(at%1000)/1000
	return int64(micros*1000) - r.base
}

// lone is an event outside all calls, in the form of a call.
type lone struct {
	call
	place int // index in order of time
}

func (t *table) outside(byTime []int) map[*thread][]lone {
	all := map[*thread][]lone{}
	depth := 0
	for place, i := range byTime {
		m := &t.r.memory[i]
		name := memoryRow
		if m.failed {
			name = failedRow
		}
		if depth += t.depth[place]; depth == 0 || m.failed {
			all[m.thread] = append(all[m.thread],
				lone{call{begin: m.at, end: m.at, name: t.r.names.id([]byte(name)), kind: alone}, place})
		}
	}
	return all
}

// ran is a call with its children, as far as they are known.
type ran struct {
	name         uint32
	kind         callKind
	end          int64
	host, device lifetime.OperationBytes
	time, self   int64 // self excludes children, like host.SelfBytes
	children     int
}

// running is an open call. Its first child waits: if it remains the only child, and has the same name, it gets no row.
type running struct {
	ran
	waiting ran
}

// thread adds the calls of a thread, and its events outside all calls. A call is the
// child of the innermost call that encloses it.
func (t *table) thread(th *thread, outside []lone) {
	var n nesting
	next, nextOwn := 0, 0
	own := cmp.Or(t.own[th], newSplit(0))
	for c := range th.all(&t.r.store) {
		if c.kind == python {
			t.function(c, own, &nextOwn)
		}
		if !t.nests(c) {
			continue
		}
		for len(outside) > 0 && outside[0].begin < c.begin {
			n.open(t, &outside[0].call, outside[0].place, outside[0].place+1)
			outside = outside[1:]
		}
		from, to := t.during(t.every, c, &next)
		n.open(t, c, from, to)
	}
	for i := range outside {
		n.open(t, &outside[i].call, outside[i].place, outside[i].place+1)
	}
	for len(n) > 0 {
		n.close(t)
	}
}

// nesting is the open calls of a thread, innermost last.
type nesting []running

// open closes what ends before a call, and opens the call.
func (n *nesting) open(t *table, c *call, from, to int) {
	for len(*n) > 0 {
		if last := (*n)[len(*n)-1]; c.begin < last.end && c.end <= last.end {
			break
		}
		n.close(t)
	}
	*n = append(*n, running{ran: ran{
		name: c.name, kind: c.kind, end: c.end, host: t.every.host.in(from, to), device: t.every.device.in(from, to),
		time: c.end - c.begin, self: c.end - c.begin,
	}})
}

// close ends the innermost call. An only child of the same name gets no row: its parent takes over its children,
// as in PyTorch's _remove_dup_nodes.
func (n *nesting) close(t *table) {
	last := &(*n)[len(*n)-1]
	switch {
	case last.children == 1 && last.waiting.name == last.name:
		last.host.SelfBytes += last.waiting.host.SelfBytes
		last.device.SelfBytes += last.waiting.device.SelfBytes
		last.self += last.waiting.self
	case last.children == 1:
		t.add(&last.waiting)
	}
	done := last.ran
	*n = (*n)[:len(*n)-1]
	if len(*n) == 0 {
		t.add(&done)
		return
	}
	p := &(*n)[len(*n)-1]
	p.children++
	p.host.SelfBytes -= done.host.Bytes()
	p.device.SelfBytes -= done.device.Bytes()
	p.self -= done.time
	switch p.children {
	case 1:
		p.waiting = done
	case 2:
		t.add(&p.waiting)
		t.add(&done)
	default:
		t.add(&done)
	}
}

// function adds a call of a Python function, with the memory of its own thread.
func (t *table) function(c *call, own *split, next *int) {
	f := &t.functions[c.name]
	f.calls++
	f.time += c.end - c.begin
	if from, to := t.during(own, c, next); from < to {
		host, device := own.host.in(from, to), own.device.in(from, to)
		host.SelfBytes, device.SelfBytes = 0, 0
		addBytes(&f.host, &host)
		addBytes(&f.device, &device)
	}
}

func (t *table) addFunctions() {
	n := 0
	for i := range t.functions {
		n += int(min(t.functions[i].calls, 1))
	}
	t.all = slices.Grow(t.all, n)
	for name := range t.functions {
		if f := &t.functions[name]; f.calls > 0 {
			t.all = append(t.all, lifetime.Operation{
				Name: t.r.names.text(uint32(name)), Kind: "function", Calls: f.calls, Time: f.time, Host: f.host, Device: f.device,
			})
		}
	}
}

func (t *table) add(n *ran) {
	if n.kind == python {
		return
	}
	name, kind := n.name, "operator"
	switch n.kind {
	case annotation:
		kind = "range"
	case runtime:
		kind = "runtime"
	}
	if strings.HasPrefix(t.r.names.text(name), stepPrefix) {
		name = 0 // one row for all steps
	}
	row := t.row(name, kind)
	row.Calls++
	row.Time += n.time
	row.SelfTime += n.self
	addBytes(&row.Host, &n.host)
	addBytes(&row.Device, &n.device)
}

func (t *table) row(name uint32, kind string) *lifetime.Operation {
	if t.rows[name] == 0 {
		t.all = append(doubled(t.all), lifetime.Operation{Name: cmp.Or(t.r.names.text(name), "ProfilerStep*"), Kind: kind})
		t.rows[name] = uint32(len(t.all))
	}
	return &t.all[t.rows[name]-1]
}

func addBytes(to, b *lifetime.OperationBytes) {
	to.Allocated += b.Allocated
	to.Freed += b.Freed
	to.SelfBytes += b.SelfBytes
}
