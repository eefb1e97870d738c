package whatif

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/replay"
)

// pos is a place in the order of events: that of event n, or before or after it, in the order of the other numbers.
type pos struct{ n, a, b, c float64 }

func at(n float64) pos { return pos{n: n} }

// never is the end of a buffer that is not freed, noEvent its number.
var (
	noEvent = math.Inf(1)
	never   = at(noEvent)
)

// later returns the later one of two places.
func (p pos) later(o pos) pos {
	if p.compare(o) < 0 {
		return o
	}
	return p
}

func (p pos) compare(o pos) int {
	return cmp.Or(cmp.Compare(p.n, o.n), cmp.Compare(p.a, o.a), cmp.Compare(p.b, o.b), cmp.Compare(p.c, o.c))
}

// buffer is a buffer of a program that edits change.
type buffer struct {
	begin, end  pos
	requestFree float64 // event with which the program freed it before end, as other streams still used it; else noEvent
	size        int64   // requested
	like        int32   // recorded buffer that it is, or is like
	place       int32
	pass, step  int32 // -1 = none
	category    purpose.Category
	phase       purpose.Phase
	part        purpose.Part
	start       bool // older than the recording
	added       bool // an edit made it
	saved       bool // autograd keeps it for a backward pass
	dropped     bool // autograd kept it, and no backward pass ran over it
	late        bool // a gradient that the program may free later, right before the last backward pass
}

// other is a call of the allocator without a buffer: a request that failed, or empty_cache.
type other struct {
	at      pos
	kind    replay.CallKind
	request int
	failed  buffer // what a request that failed would have been
}

// call is a frame of a stack without those of libraries below and above Python.
type call struct {
	user     bool
	function string
	file     string
	line     int
	where    int32 // function and file: equal for all lines of a function
}

// place is what made a buffer: a stack and an operation.
type place struct {
	calls []int32 // outermost first, indexes of model.calls
	paths []int32 // of calls: number of the path from the outermost one to this one
	op    string
	user  int // of calls: the innermost one of the program; -1 = none
}

// stack returns a number that is the same for equal stacks.
func (p *place) stack() int32 {
	if len(p.paths) == 0 {
		return -1
	}
	return p.paths[len(p.paths)-1]
}

// pass is a forward pass and the backward pass over it. Its parts are half open, in numbers of events.
type pass struct {
	begin, back, end float64 // back == end: there was no backward pass
	step             int32
	cut              bool // a request failed at its end, and what it held was freed without another request, as an exception does
}

// step is one iteration of training. Its optimizer runs from optimizer to end.
type step struct {
	begin, optimizer, end float64
	open                  bool // the recording ends before its optimizer runs
}

// model is a program as a list of buffers.
type model struct {
	t *lifetime.Tables
	s *lifetime.Space
	h *replay.History

	calls  []call
	places []place

	buffers []buffer // in order of begin
	others  []other
	passes  []pass
	steps   []step
	axis    []float64 // of each recorded event: the number of the event now
	n       int       // events
	sorted  int       // buffers that are in order
	moved   bool      // positions are not numbers of events
	longer  bool      // a step was added after the recorded ones
	closure bool      // the optimizer calls the passes of its step, as with Lightning
	halved  bool      // parameters have two bytes an element
	gaps    []gap     // of a program that was made shorter

	recomputed int64    // buffers that are computed again, in the last step
	copied     int64    // bytes that are copied from and to the host, in the last step
	sums       []buffer // scratch that sums over more rows may need; see sumMore
	less, more int64    // bytes by which the peak may be lower and higher, as the recording leaves it open
}

// modelOf returns the program of a space.
func modelOf(t *lifetime.Tables, s *lifetime.Space, h *replay.History) *model {
	m := &model{t: t, s: s, h: h, buffers: make([]buffer, 0, len(s.Buffers))}
	m.readPlaces()
	for i := range s.Buffers {
		b := &s.Buffers[i]
		p := t.Purpose(s.PurposeOf(i))
		m.buffers = append(m.buffers, buffer{
			begin: at(-1), end: never, requestFree: noEvent, size: b.Requested, like: int32(i), place: int32(b.Site), pass: -1, step: -1,
			category: p.Category, phase: p.Phase, part: p.Part,
		})
	}
	for _, i := range h.StartRequests() {
		m.buffers[i].start = true
	}
	for c := range h.Calls() {
		p := at(float64(m.n))
		switch c.Kind {
		case replay.Allocate:
			m.buffers[c.Request].begin = p
		case replay.Free:
			m.buffers[c.Request].end = p
		case replay.RequestFree:
			m.buffers[c.Request].requestFree = p.n
		default:
			m.others = append(m.others, other{at: p, kind: c.Kind, request: c.Request})
		}
		m.n++
	}
	m.axis = make([]float64, m.n)
	for i := range m.axis {
		m.axis[i] = float64(i)
	}
	slices.SortStableFunc(m.buffers, func(x, y buffer) int { return x.begin.compare(y.begin) })
	m.sorted = len(m.buffers)
	m.findSteps()
	m.findPasses()
	m.findFailed()
	return m
}

// findFailed finds what requests that failed were for: as a buffer of equal size from the same place, else as what their pass makes.
func (m *model) findFailed() {
	if !slices.ContainsFunc(m.others, func(o other) bool { return o.kind == replay.Fail }) {
		return
	}
	type likeness struct {
		place int32
		size  int64
	}
	known := map[likeness]*buffer{}
	for i := range m.buffers {
		b := &m.buffers[i]
		known[likeness{b.place, b.size}] = b
	}
	failed := 0 // of others: the next one
	for i := range m.s.Marks {
		mark := &m.s.Marks[i]
		if mark.Kind != lifetime.OOM {
			continue
		}
		for failed < len(m.others) && m.others[failed].kind != replay.Fail {
			failed++
		}
		if failed == len(m.others) {
			return
		}
		o := &m.others[failed]
		failed++
		o.failed = buffer{size: m.h.SizeOf(o.request), like: -1, place: int32(mark.Site), pass: -1, step: -1}
		if b := known[likeness{o.failed.place, o.failed.size}]; b != nil {
			o.failed.category, o.failed.phase, o.failed.part = b.category, b.phase, b.part
			continue
		}
		if slices.ContainsFunc(m.steps, func(s step) bool { return s.optimizer <= o.at.n && o.at.n <= s.end && s.optimizer < s.end }) {
			o.failed.category, o.failed.phase = purpose.TemporaryData, purpose.OptimizerPhase
			continue
		}
		for _, p := range m.passes {
			switch {
			case o.at.n < p.begin || o.at.n > p.end:
			case p.back < p.end:
				o.failed.category, o.failed.phase = purpose.TemporaryData, purpose.Backward
			default:
				o.failed.category, o.failed.phase = purpose.Activation, purpose.Forward
			}
		}
	}
}

// requests yields all buffers, also those that requests which failed would have been.
func (m *model) requests(yield func(b *buffer) bool) {
	for i := range m.buffers {
		if !yield(&m.buffers[i]) {
			return
		}
	}
	m.failed(yield)
}

// failed yields what requests that failed would have been.
func (m *model) failed(yield func(b *buffer) bool) {
	for i := range m.others {
		if o := &m.others[i]; o.kind == replay.Fail && !yield(&o.failed) {
			return
		}
	}
}

// clone returns a model that edits may change.
func (m *model) clone() *model {
	c := *m
	c.buffers, c.others, c.axis = slices.Clone(m.buffers), slices.Clone(m.others), slices.Clone(m.axis)
	c.passes, c.steps, c.gaps = slices.Clone(m.passes), slices.Clone(m.steps), slices.Clone(m.gaps)
	return &c
}

// readPlaces reads the stacks of all sites.
func (m *model) readPlaces() {
	type edge struct{ from, to int32 }
	calls, wheres, paths := map[call]int32{}, map[[2]string]int32{}, map[edge]int32{}
	m.places = make([]place, len(m.t.Sites))
	for i := range m.t.Sites {
		p := &m.places[i]
		p.op, p.user = strings.TrimPrefix(m.t.Sites[i].Op, "aten::"), -1
		for f := range m.t.NearFramesOf(m.t.Sites[i].Stack) {
			if f.Kind != frame.User && f.Kind != frame.Framework || strings.Contains(f.Function, "_call_impl") {
				continue
			}
			where := intern(wheres, [2]string{f.Function, f.File})
			c := call{f.Kind == frame.User, f.Function, f.File, f.Line, where}
			n := intern(calls, c)
			if int(n) == len(m.calls) {
				m.calls = append(m.calls, c)
			}
			p.calls = append(p.calls, n)
		}
		slices.Reverse(p.calls)
		last := int32(-1)
		for k, c := range p.calls {
			last = intern(paths, edge{last, c})
			p.paths = append(p.paths, last)
			if m.calls[c].user {
				p.user = k
			}
		}
	}
}

// intern returns the number of a key, which is new if it is not known.
func intern[K comparable](known map[K]int32, key K) int32 {
	n, ok := known[key]
	if !ok {
		n = int32(len(known))
		known[key] = n
	}
	return n
}

// innermost returns the innermost call of a place; nil without a stack.
func (m *model) innermost(p *place) *call {
	if len(p.calls) == 0 {
		return nil
	}
	return &m.calls[p.calls[len(p.calls)-1]]
}

// hasCall reports whether a function of PyTorch whose name contains text is on the stack of a buffer.
func (m *model) hasCall(b *buffer, text string) bool {
	return slices.ContainsFunc(m.places[b.place].calls, func(c int32) bool { return strings.Contains(m.calls[c].function, text) })
}

// findSteps finds when the optimizer runs: by PyTorch's annotations, else by its allocations.
func (m *model) findSteps() {
	var ran [][2]float64
	times := make([]int64, 0, m.n) // of events that have one
	numbers := make([]float64, 0, m.n)
	for c := range m.s.Changes() {
		b := &m.s.Buffers[c.Buffer]
		if c.Begin && b.Begin == m.s.Begin {
			continue
		}
		times = append(times, c.T)
	}
	byBuffer := make([]*buffer, len(m.s.Buffers))
	for i := range m.buffers {
		byBuffer[m.buffers[i].like] = &m.buffers[i]
	}
	for c := range m.s.Changes() {
		b := byBuffer[c.Buffer]
		switch {
		case c.Begin && b.begin.n < 0:
		case c.Begin:
			numbers = append(numbers, b.begin.n)
		default:
			numbers = append(numbers, b.end.n)
		}
	}
	number := func(t int64) float64 {
		i, _ := slices.BinarySearch(times, t)
		if i >= len(numbers) {
			return float64(m.n)
		}
		return numbers[i]
	}
	for i := range m.s.Marks {
		if k := &m.s.Marks[i]; strings.HasPrefix(k.Text, "Optimizer.step") && k.End > k.Begin {
			ran = append(ran, [2]float64{number(k.Begin), number(k.End)})
		}
	}
	for k := range ran {
		for _, b := range m.between(ran[k][0], ran[k][1]) {
			if b.phase == purpose.Forward || b.phase == purpose.Backward {
				ran[k][0], m.closure = b.begin.n+1, true
			}
		}
	}
	if ran == nil {
		open := false
		for i := range m.buffers {
			b := &m.buffers[i]
			switch {
			case b.begin.n < 0:
			case b.phase == purpose.OptimizerPhase && !open:
				ran, open = append(ran, [2]float64{b.begin.n, b.begin.n + 1}), true
			case b.phase == purpose.OptimizerPhase:
				ran[len(ran)-1][1] = b.begin.n + 1
			case b.phase == purpose.Forward || b.phase == purpose.Backward:
				open = false
			}
		}
	}
	begin := 0.0
	for i := range m.buffers {
		if b := &m.buffers[i]; b.category == purpose.ModelParameter && b.begin.n >= begin {
			if len(ran) > 0 && b.begin.n >= ran[0][0] {
				break
			}
			begin = b.begin.n + 1
		}
	}
	for _, r := range ran {
		if r[0] < begin {
			continue
		}
		m.steps = append(m.steps, step{begin: begin, optimizer: r[0], end: max(r[1], r[0])})
		begin = max(r[1], r[0])
	}
	if begin < float64(m.n) { // the last step may be incomplete
		m.steps = append(m.steps, step{begin, float64(m.n), float64(m.n), true})
	}
}

// findPasses finds the forward passes and the backward passes over them, and what they save.
func (m *model) findPasses() {
	k := 0
	open := -1 // pass that goes on
	cuts := m.cuts()
	cut := func(until float64) { // ends the pass that goes on at a request that failed before an event
		for len(cuts) > 0 && cuts[0] < until {
			if p := m.last(); open >= 0 && p.begin <= cuts[0] && cuts[0] < m.steps[p.step].optimizer {
				p.back, p.end, p.cut, open = min(p.back, cuts[0]), cuts[0], true, -1
			}
			cuts = cuts[1:]
		}
	}
	for i := range m.buffers {
		b := &m.buffers[i]
		cut(b.begin.n)
		for k < len(m.steps) && b.begin.n >= m.steps[k].end {
			k, open = k+1, -1
		}
		if b.begin.n < 0 || k == len(m.steps) || b.begin.n < m.steps[k].begin || b.begin.n >= m.steps[k].optimizer {
			continue
		}
		b.step = int32(k)
		forward, backward := b.phase == purpose.Forward && b.part != purpose.Recomputation, b.phase == purpose.Backward
		switch p := m.steps[k]; {
		case open < 0:
			begin := p.begin
			if last := m.last(); last != nil && int(last.step) == k { // it was cut off
				begin = b.begin.n
			}
			m.passes = append(m.passes, pass{begin: begin, back: p.optimizer, end: p.optimizer, step: int32(k)})
			open = len(m.passes) - 1
		case forward && m.passes[open].back < p.optimizer:
			m.passes[open].end = b.begin.n
			m.passes = append(m.passes, pass{begin: b.begin.n, back: p.optimizer, end: p.optimizer, step: int32(k)})
			open = len(m.passes) - 1
		}
		if backward {
			m.passes[open].back = min(m.passes[open].back, b.begin.n)
		}
		b.pass = int32(open)
	}
	cut(math.Inf(1))
	m.leaveOutOnce()
	m.findSaved()
}

// last returns the last pass; nil if there is none.
func (m *model) last() *pass {
	if len(m.passes) == 0 {
		return nil
	}
	return &m.passes[len(m.passes)-1]
}

// cuts returns the requests that failed and ended what the program did, as an exception does: most of the memory that was allocated since
// the one before is freed until the next request, or all is that ever is.
func (m *model) cuts() (all []float64) {
	since := 0.0
	for _, o := range m.others {
		if o.kind != replay.Fail {
			continue
		}
		next := float64(m.n)
		if later := m.between(o.at.n, math.Inf(1)); len(later) > 0 {
			next = later[0].begin.n
		}
		held, freed := int64(0), int64(0)
		for _, b := range m.between(since, o.at.n) {
			if b.end.n > o.at.n && !keeps[b.category] && b.category != purpose.Gradient {
				held += b.size
				if b.end.n < next {
					freed += b.size
				}
			}
		}
		if next == float64(m.n) || 2*freed > held {
			all, since = append(all, o.at.n), o.at.n
		}
	}
	return all
}

// leaveOutOnce takes out of the first pass what it makes and keeps and no other pass makes: workspaces of libraries, caches.
func (m *model) leaveOutOnce() {
	if len(m.passes) < 2 {
		return
	}
	later := map[piece]bool{}
	for i := range m.buffers {
		if b := &m.buffers[i]; b.pass > 0 {
			later[m.pieceOf(b)] = true
		}
	}
	for i := range m.buffers {
		if b := &m.buffers[i]; b.pass == 0 && b.end == never && (b.phase == purpose.Forward || b.phase == purpose.Backward) && !later[m.pieceOf(b)] {
			b.pass, b.step = -1, -1
		}
	}
}

// findSaved finds what autograd keeps. That of a last forward pass without a backward pass is dropped if it replaces that of another pass. What a
// pass holds that a failed request cut off is kept for the backward pass that did not come.
func (m *model) findSaved() {
	var backward []float64
	gradients := false
	for i := range m.buffers {
		b := &m.buffers[i]
		if b.phase == purpose.Backward && !b.start {
			backward = append(backward, b.begin.n)
		}
		gradients = gradients || b.category == purpose.Gradient
	}
	replaced := false
	m.held(func(*buffer, float64, lifetime.SiteID) { replaced = true })
	var cutOff []*buffer          // held when a request failed
	ofDropped := map[int32]bool{} // places whose results are dropped
	for i := range m.buffers {
		b := &m.buffers[i]
		if b.pass < 0 || b.phase != purpose.Forward || b.category == purpose.Workspace {
			continue
		}
		p := &m.passes[b.pass]
		k, _ := slices.BinarySearch(backward, b.begin.n)
		switch isOver := k < len(backward) && backward[k] < b.end.n; {
		case p.cut && b.end.n > p.end && b.category == purpose.Activation && (!gradients || len(backward) > 0):
			cutOff = append(cutOff, b)
		case p.back < p.end && b.begin.n < p.back && b.end != never && b.end.n > p.back:
			b.saved = true
		case b.category != purpose.Activation || isOver || gradients && len(backward) == 0:
		case b.end != never || replaced && p.back == p.end:
			b.dropped, ofDropped[b.place] = true, true
		default:
			b.saved = m.open(int(b.pass)) // a backward pass may come
		}
	}
	for _, b := range cutOff { // a backward pass would have come, unless none does over what is like it
		p := &m.passes[b.pass]
		b.dropped = p.back == p.end && ofDropped[b.place]
		b.saved = !b.dropped && b.begin.n < p.back
	}
}

// open reports whether pass k ends in its forward part: the recording ends there, or a request failed.
func (m *model) open(k int) bool {
	p := m.passes[k]
	return p.back == p.end && (p.cut || p.end == float64(m.n))
}

// unfinished reports whether the recording ends, or a request failed, in a pass that goes on further than any other one of it or makes more: what
// the rest of the pass needs is not known, nor what an optimizer needs that did not run yet.
func (m *model) unfinished() bool {
	last := len(m.passes) - 1
	if last < 0 {
		return false
	}
	if m.isLarger() {
		return true
	}
	p := &m.passes[last]
	if of := m.steps[p.step]; !of.open {
		ran := func(s step) bool { return s.optimizer < of.optimizer }
		old := func(b buffer) bool { return b.start && b.category == purpose.OptimizerState }
		failed := slices.ContainsFunc(m.cuts(), func(n float64) bool { return n >= of.optimizer })
		return failed && !slices.ContainsFunc(m.steps, ran) && !slices.ContainsFunc(m.buffers, old)
	}
	trains := p.back < p.end
	ends := slices.ContainsFunc(m.others, func(o other) bool { return o.kind == replay.Fail && o.at.n >= p.begin })
	state := false // what the optimizer keeps is known
	for i := range m.buffers {
		b := &m.buffers[i]
		isKept := b.saved || b.dropped
		trains = trains || isKept
		ends = ends || int(b.pass) == last && b.saved && b.end == never
		state = state || b.category == purpose.OptimizerState
	}
	if !ends {
		return false
	}
	if !trains {
		return last == 0
	}
	whole := func(q pass) bool { return q.back < q.end && !q.cut }
	return !slices.ContainsFunc(m.passes[:last], whole) || !state && p.step == 0
}

// isLarger reports whether a pass that was cut off made something that no whole pass makes beside the state of the optimizer: it had another
// batch, or longer sequences.
func (m *model) isLarger() bool {
	if !slices.ContainsFunc(m.passes, func(p pass) bool { return p.cut }) {
		return false
	}
	made := 0.0 // the last state
	for i := range m.buffers {
		if b := &m.buffers[i]; b.category == purpose.OptimizerState && b.size > smallest {
			made = max(made, b.begin.n)
		}
	}
	known := map[piece]bool{} // made by whole passes: beside states?
	for i := range m.buffers {
		if b := &m.buffers[i]; b.pass >= 0 && !m.passes[b.pass].cut {
			of := m.pieceOf(b)
			known[of] = known[of] || m.passes[b.pass].end > made
		}
	}
	return slices.ContainsFunc(m.buffers, func(b buffer) bool {
		if b.pass < 0 || !b.saved || b.size <= smallest || !m.passes[b.pass].cut {
			return false
		}
		beside, is := known[m.pieceOf(&b)]
		return !is || !beside && b.begin.n > made
	})
}

// between returns the buffers that begin from one event to another, which does not count. Those that an edit added are not among them until
// settle.
func (m *model) between(begin, end float64) []buffer {
	find := func(n float64) int {
		i, _ := slices.BinarySearchFunc(m.buffers[:m.sorted], n, func(b buffer, n float64) int { return cmp.Compare(b.begin.n, n) })
		return i
	}
	return m.buffers[find(begin):find(end)]
}

// inPass returns the buffers that begin in pass k.
func (m *model) inPass(k int) []buffer { return m.between(m.passes[k].begin, m.passes[k].end) }

// inStep returns the buffers that begin in step k.
func (m *model) inStep(k int) []buffer { return m.between(m.steps[k].begin, m.steps[k].end) }

// forward returns the buffers of the forward pass k.
func (m *model) forward(k int) (all []*buffer) {
	of := m.inPass(k)
	for i := range of {
		if b := &of[i]; b.pass >= 0 && b.phase == purpose.Forward && b.part != purpose.Recomputation {
			all = append(all, b)
		}
	}
	return all
}

// ofPass returns the buffers of pass k of a phase.
func (m *model) ofPass(k int, phase purpose.Phase) (all []*buffer) {
	of := m.inPass(k)
	for i := range of {
		if b := &of[i]; b.phase == phase {
			all = append(all, b)
		}
	}
	return all
}

// item is the begin or end of a buffer, or another call.
type item struct {
	rank  int8 // of equal positions, frees come first
	index int32
}

const (
	rankRequestFree int8 = iota
	rankFree
	rankOther
	rankAllocate
)

// at returns the position of an item.
func (m *model) at(it item) pos {
	switch it.rank {
	case rankAllocate:
		return m.buffers[it.index].begin
	case rankFree:
		return m.buffers[it.index].end
	case rankRequestFree:
		return at(m.buffers[it.index].requestFree)
	}
	return m.others[it.index].at
}

// order returns all calls of the program in order.
func (m *model) order() (all []item) {
	if m.moved {
		all, _ = m.byEvent()
		return all
	}
	all = make([]item, m.n) // positions are numbers of events
	for p, it := range m.positions {
		all[int(p.n)] = it
	}
	return all
}

// byEvent returns all calls of the program in order, and where those begin that are not before event n.
func (m *model) byEvent() (all []item, begins []int32) {
	begins = make([]int32, m.n+2)
	event := func(p pos) int { return int(min(p.n, float64(m.n))) }
	for p := range m.positions {
		begins[event(p)+1]++
	}
	for n := range m.n + 1 {
		begins[n+1] += begins[n]
	}
	all = make([]item, begins[m.n+1])
	for p, it := range m.positions { // moves begins to the next event
		n := event(p)
		all[begins[n]] = it
		begins[n]++
	}
	copy(begins[1:], begins)
	begins[0] = 0
	for n := range m.n + 1 {
		if of := all[begins[n]:begins[n+1]]; len(of) > 1 {
			slices.SortFunc(of, func(x, y item) int {
				return cmp.Or(m.at(x).compare(m.at(y)), cmp.Compare(x.rank, y.rank), cmp.Compare(x.index, y.index))
			})
		}
	}
	return all, begins
}

// positions calls yield for all calls of the program.
func (m *model) positions(yield func(p pos, it item) bool) {
	put := func(p pos, rank int8, i int) bool { return p == never || p.n < 0 || yield(p, item{rank, int32(i)}) }
	for i := range m.buffers {
		b := &m.buffers[i]
		if !put(b.begin, rankAllocate, i) || !put(b.end, rankFree, i) || !put(at(b.requestFree), rankRequestFree, i) {
			return
		}
	}
	for i := range m.others {
		if !put(m.others[i].at, rankOther, i) {
			return
		}
	}
}

// settle makes positions numbers of events again.
func (m *model) settle() {
	if !m.moved {
		return
	}
	m.moved = false
	items, numbers := m.byEvent()
	for n, k := range numbers[:m.n+1] { // now: of the first event that is not before event n
		for int(k) < len(items) && m.at(items[k]).compare(at(float64(n))) < 0 {
			k++
		}
		numbers[n] = k
	}
	now := func(n float64) float64 {
		if n < 0 {
			return n
		}
		return float64(numbers[min(int(math.Ceil(n)), m.n)])
	}
	for i := range m.axis {
		m.axis[i] = now(m.axis[i])
	}
	m.movePasses(now)
	for n, it := range items {
		p := at(float64(n))
		switch it.rank {
		case rankAllocate:
			m.buffers[it.index].begin = p
		case rankFree:
			m.buffers[it.index].end = p
		case rankRequestFree:
			m.buffers[it.index].requestFree = p.n
		case rankOther:
			m.others[it.index].at = p
		}
	}
	m.n = len(items)
	from := make([]int32, 0, len(m.buffers)) // of each place: the buffer that comes there
	for i := range m.buffers {
		if m.buffers[i].begin.n < 0 {
			from = append(from, int32(i))
		}
	}
	for _, it := range items {
		if it.rank == rankAllocate {
			from = append(from, it.index)
		}
	}
	m.sorted = len(from)
	permute(m.buffers, from)
}

// movePasses gives events of passes, steps and gaps other numbers.
func (m *model) movePasses(now func(n float64) float64) {
	for i := range m.passes {
		p := &m.passes[i]
		p.begin, p.back, p.end = now(p.begin), now(p.back), now(p.end)
	}
	for i := range m.steps {
		s := &m.steps[i]
		s.begin, s.optimizer, s.end = now(s.begin), now(s.optimizer), now(s.end)
	}
	for i := range m.gaps {
		g := &m.gaps[i]
		g.begin, g.end = now(g.begin), now(g.end)
	}
}

// permute moves element from[i] of a list to i. It leaves -1 in from.
func permute[T any](list []T, from []int32) {
	for i := range from {
		if from[i] < 0 {
			continue
		}
		first, at := list[i], i
		for next := int(from[at]); next != i; next = int(from[at]) {
			list[at], from[at] = list[next], -1
			at = next
		}
		list[at], from[at] = first, -1
	}
}

// add adds a buffer like another one.
func (m *model) add(like *buffer, begin, end pos, size int64) *buffer {
	b := *like
	b.begin, b.end, b.requestFree, b.size, b.added, b.start, b.saved = begin, end, noEvent, size, true, false, false
	b.dropped, b.late = false, false
	m.buffers = append(m.buffers, b)
	m.moved = true
	return &m.buffers[len(m.buffers)-1]
}

// until ends a buffer at another position.
func (m *model) until(b *buffer, end pos) {
	b.end, b.requestFree, m.moved = end, noEvent, true
}

// drop removes buffers.
func (m *model) drop(which func(b *buffer) bool) {
	m.buffers = slices.DeleteFunc(m.buffers, func(b buffer) bool { return which(&b) })
	m.others = slices.DeleteFunc(m.others, func(o other) bool { return o.kind == replay.Fail && which(&o.failed) })
	m.moved, m.sorted = true, len(m.buffers)
}

// program returns the program as the allocator sees it, and the buffers in the order of its requests.
func (m *model) program() (*replay.History, []replay.Call) {
	m.settle()
	requests := make([]replay.Request, 0, len(m.buffers)+len(m.others))
	for i := range m.buffers {
		b := &m.buffers[i]
		requests = append(requests, replay.Request{Like: int(b.like), Size: max(b.size, 1), Start: b.start})
	}
	calls := make([]replay.Call, 0, m.n)
	kinds := [...]replay.CallKind{rankAllocate: replay.Allocate, rankFree: replay.Free, rankRequestFree: replay.RequestFree}
	for _, it := range m.order() {
		if it.rank != rankOther {
			calls = append(calls, replay.Call{Kind: kinds[it.rank], Request: int(it.index)})
			continue
		}
		o := &m.others[it.index]
		c := replay.Call{Kind: o.kind}
		if o.kind == replay.Fail {
			c.Request = len(requests)
			requests = append(requests, replay.Request{Like: o.request, Size: max(o.failed.size, 1)})
		}
		calls = append(calls, c)
	}
	h := m.h.Rewrite(requests, calls)
	for _, g := range m.gaps {
		h.Repeats = append(h.Repeats, [2]int{int(g.begin), int(g.end)})
	}
	return h, calls
}

// peak returns the highest allocated memory of the program, in bytes.
func (m *model) peak() int64 {
	h, _ := m.program()
	return h.Run(h.Settings, replay.Device{}).PeakLive // it does not depend on addresses
}

// levels yields what is in use after each call and the number of its event, in order; first what is at the start, at -1.
func (m *model) levels(sizeOf func(b *buffer) int64) iter.Seq2[float64, int64] {
	return func(yield func(n float64, level int64) bool) {
		level := int64(0)
		for i := range m.buffers {
			if b := &m.buffers[i]; b.begin.n < 0 {
				level += sizeOf(b)
			}
		}
		if !yield(-1, level) {
			return
		}
		for _, it := range m.order() {
			switch it.rank {
			case rankAllocate:
				level += sizeOf(&m.buffers[it.index])
			case rankFree:
				level -= sizeOf(&m.buffers[it.index])
			}
			if !yield(m.at(it).n, level) {
				return
			}
		}
	}
}

func (b *buffer) bytes() int64 { return b.size }

// peakEvent returns the number of the event with which most bytes are in use.
func (m *model) peakEvent() (event int) {
	most := int64(math.MinInt64)
	for n, level := range m.levels((*buffer).bytes) {
		if level > most {
			most, event = level, max(int(n), 0)
		}
	}
	return event
}

// peaks returns the highest allocated memory in passes and in steps of optimizers, one of which is peak; steps is 0 if they are not known, as where
// the optimizer calls the passes.
func (m *model) peaks(peak int64) (passes, steps int64) {
	k := 0 // the first step that does not end before
	for n, level := range m.levels((*buffer).bytes) {
		for k < len(m.steps) && n >= m.steps[k].end {
			k++
		}
		if !m.closure && k < len(m.steps) && n >= m.steps[k].optimizer {
			steps = max(steps, level)
		} else {
			passes = max(passes, level)
		}
	}
	split := peak - max(passes, steps) // what the allocator did not split off
	if steps > 0 {
		steps += split
	}
	return passes + split, steps
}

// inUse returns the bytes in use after an event of the recording, without what the allocator did not split off.
func (m *model) inUse(event int) (bytes int64) {
	if len(m.axis) == 0 {
		return 0
	}
	then := at(m.axis[event])
	for i := range m.buffers {
		b := &m.buffers[i]
		switch {
		case b.begin.compare(then) > 0 || b.end.compare(then) <= 0:
		case b.size == m.h.SizeOf(int(b.like)):
			bytes += m.h.BlockSizeOf(int(b.like))
		default:
			bytes += b.size
		}
	}
	return bytes
}

// doubt widens the range of the peak by shares of it, and returns the peak.
func (m *model) doubt(by off) (peak int64) {
	peak = m.peak()
	m.less, m.more = m.less+int64(by.below*float64(peak)), m.more+int64(by.above*float64(peak))
	return peak
}

// least returns the highest sum of what the program had in use at once, without what the allocator did not split off and workspaces of single
// calls, which libraries choose anew for other sizes. A program that only takes more has as much in use.
func (m *model) least() (most int64) {
	for _, level := range m.levels(func(b *buffer) int64 {
		if b.category == purpose.Workspace && b.end != never {
			return 0
		}
		return m.h.BlockSizeOf(int(b.like))
	}) {
		most = max(most, level)
	}
	return most
}
