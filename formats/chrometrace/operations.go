package chrometrace

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// hidden are operators that PyTorch's tables leave out: torch.autograd's
// _filter_name.
var hidden = map[string]bool{
	"profiler::_record_function_enter": true, "profiler::_record_function_enter_new": true, "profiler::_record_function_exit": true,
	"aten::is_leaf": true, "aten::output_nr": true, "aten::_version": true,
}

// memoryRow is the name of the row of the events that no operator encloses.
const memoryRow = "[memory]"

// changes answers how many bytes were allocated less freed in a span of time,
// by whatever thread: so PyTorch counts.
type changes struct {
	at        []int64
	allocated []int64 // before each one; one more than at
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

// byTime returns the memory events in order of time.
func (r *reader) byTime() []int {
	byTime := make([]int, len(r.memory))
	for i := range byTime {
		byTime[i] = i
	}
	slices.SortStableFunc(byTime, func(x, y int) int { return cmp.Compare(r.memory[x].at, r.memory[y].at) })
	return byTime
}

// operations makes the table of operators as PyTorch's key_averages has it.
func (r *reader) operations(byTime []int) {
	t := table{r: r, rows: make([]uint32, len(r.names.all)+2), depth: make([]int, len(byTime)+1), functions: make([]function, len(r.names.all)+1)}
	t.host, t.device = newChanges(len(byTime)), newChanges(len(byTime))
	for _, i := range byTime {
		host, device := r.memory[i].bytes, int64(0)
		if !onHost(int64(r.memory[i].heap.deviceType)) {
			host, device = device, host
		}
		t.host.add(r.memory[i].at, host)
		t.device.add(r.memory[i].at, device)
	}
	for name := range hidden {
		if id := r.names.known([]byte(name)); id != 0 {
			t.hidden = append(t.hidden, id)
		}
	}
	for _, th := range r.order {
		next := 0
		for c := range th.all(&r.store) {
			if t.counts(c) {
				from, to := t.during(c, &next)
				t.depth[from]++
				t.depth[to]--
			}
		}
	}
	unseen := t.unseen(byTime)
	for _, th := range r.order {
		t.thread(th, unseen[th])
	}
	t.addFunctions()
	r.b.Operations(t.all...)
}

// function is the calls of a Python function. There may be many thousands: what
// a call adds to is in one place.
type function struct {
	calls, time  int64
	host, device lifetime.OperationBytes
}

// table collects the rows of operations.
type table struct {
	r            *reader
	host, device changes // all events in both, so that places are the same
	all          []lifetime.Operation
	rows         []uint32   // of operators and ranges in all, from 1, by name
	functions    []function // by name
	depth        []int      // of calls around each event, as the change from the event before
	hidden       []uint32   // names of calls that have no row
}

// counts reports whether a call has a row.
func (t *table) counts(c *call) bool { return c.kind != python && !slices.Contains(t.hidden, c.name) }

// during returns the events [from, to) that PyTorch counts to a call: those
// between its ends, as its arithmetic has them. next is where those of the call
// before began.
func (t *table) during(c *call, next *int) (from, to int) {
	begin, end := t.r.rounded(c.begin), t.r.rounded(c.end)
	for *next < len(t.host.at) && t.host.at[*next] < begin {
		*next++
	}
	// Most calls enclose few events: look near before looking far.
	to = *next
	for step := 1; to < len(t.host.at) && t.host.at[to] <= end; step *= 2 {
		if far := to + step; far < len(t.host.at) && t.host.at[far] <= end {
			to = far
			continue
		}
		rest := t.host.at[to:min(to+step, len(t.host.at))]
		to += sort.Search(len(rest), func(i int) bool { return rest[i] > end })
		break
	}
	return *next, to
}

// rounded returns a time as PyTorch compares it: from 2.2 on its tables divide
// nanoseconds since 1970 by 1000 and multiply them again, in floating point,
// which moves them by up to 128 ns. Versions that name the host (2.15) do not.
func (r *reader) rounded(ns int64) int64 {
	if r.base <= 0 || r.host != "" {
		return ns
	}
	at := lifetime.AddSat(ns, r.base)
	micros := float64(at/1000) + float64(at%1000)/1000
	return int64(micros*1000) - r.base
}

// lone is an event that no call encloses, as a call of its own.
type lone struct {
	call
	place int // in order of time
}

func (t *table) unseen(byTime []int) map[*thread][]lone {
	all := map[*thread][]lone{}
	depth := 0
	for place, i := range byTime {
		if depth += t.depth[place]; depth > 0 {
			continue
		}
		m := &t.r.memory[i]
		all[m.thread] = append(all[m.thread], lone{call{begin: m.at, end: m.at, name: t.r.names.id([]byte(memoryRow)), kind: alone}, place})
	}
	return all
}

// ran is a call, and what of it is known of those that it encloses.
type ran struct {
	name         uint32
	kind         callKind
	end          int64
	host, device lifetime.OperationBytes
	time, self   int64 // self is without its children, as host.SelfBytes
	children     int
}

// frame is a call that is not over yet. Its only child so far waits: if it stays
// the only one, and has the name of the call, it is left out.
type frame struct {
	ran
	waiting ran
}

// thread adds the calls of a thread, and the events of it that stand alone. A
// call is the child of the innermost one that encloses it.
func (t *table) thread(th *thread, unseen []lone) {
	var open []frame
	close := func() {
		last := &open[len(open)-1]
		switch {
		case last.children == 1 && last.waiting.name == last.name:
			last.host.SelfBytes, last.device.SelfBytes = last.waiting.host.SelfBytes, last.waiting.device.SelfBytes
			last.self, last.children = last.waiting.self, last.waiting.children
		case last.children == 1:
			t.add(&last.waiting)
		}
		n := last.ran
		open = open[:len(open)-1]
		if len(open) == 0 {
			t.add(&n)
			return
		}
		p := &open[len(open)-1]
		p.children++
		p.host.SelfBytes -= n.host.Bytes()
		p.device.SelfBytes -= n.device.Bytes()
		p.self -= n.time
		switch p.children {
		case 1:
			p.waiting = n
		case 2:
			t.add(&p.waiting)
			t.add(&n)
		default:
			t.add(&n)
		}
	}
	take := func(c *call, from, to int) {
		for len(open) > 0 && (c.begin >= open[len(open)-1].end || c.end > open[len(open)-1].end) {
			close()
		}
		open = append(open, frame{ran: ran{
			name: c.name, kind: c.kind, end: c.end, host: t.host.in(from, to), device: t.device.in(from, to), time: c.end - c.begin, self: c.end - c.begin,
		}})
	}
	next := 0
	for c := range th.all(&t.r.store) {
		if c.kind == python {
			t.function(c, &next)
		}
		if !t.counts(c) {
			continue
		}
		for len(unseen) > 0 && unseen[0].begin < c.begin {
			take(&unseen[0].call, unseen[0].place, unseen[0].place+1)
			unseen = unseen[1:]
		}
		from, to := t.during(c, &next)
		take(c, from, to)
	}
	for i := range unseen {
		take(&unseen[i].call, unseen[i].place, unseen[i].place+1)
	}
	for len(open) > 0 {
		close()
	}
}

// function adds a call of a Python function.
func (t *table) function(c *call, next *int) {
	f := &t.functions[c.name]
	f.calls++
	f.time += c.end - c.begin
	if from, to := t.during(c, next); from < to {
		host, device := t.host.in(from, to), t.device.in(from, to)
		host.SelfBytes, device.SelfBytes = 0, 0
		addBytes(&f.host, &host)
		addBytes(&f.device, &device)
	}
}

// addFunctions adds the rows of functions.
func (t *table) addFunctions() {
	n := 0
	for i := range t.functions {
		n += int(min(t.functions[i].calls, 1))
	}
	t.all = slices.Grow(t.all, n)
	for name := range t.functions {
		if f := &t.functions[name]; f.calls > 0 {
			t.all = append(t.all, lifetime.Operation{
				Name: t.r.names.text(uint32(name)), Kind: lifetime.Function, Calls: f.calls, Time: f.time, Host: f.host, Device: f.device,
			})
		}
	}
}

// add adds a call of an operator or range.
func (t *table) add(n *ran) {
	name, kind := n.name, lifetime.Operator
	if n.kind == annotation {
		kind = lifetime.Range
	}
	if strings.HasPrefix(t.r.names.text(name), stepPrefix) {
		name = 0 // all steps in one row
	}
	row := t.row(name, kind)
	row.Calls++
	row.Time += n.time
	row.SelfTime += n.self
	addBytes(&row.Host, &n.host)
	addBytes(&row.Device, &n.device)
}

// row returns the row of a name.
func (t *table) row(name uint32, kind lifetime.OperationKind) *lifetime.Operation {
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
