package whatif

import (
	"cmp"
	"slices"
	"sort"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/replay"
)

func modelOf(p *program.Program, s *lifetime.Space, h *replay.History) *model {
	t := &p.Tables
	w := p.Work(s)
	m := &model{t: t, s: s, h: h, paths: w.Paths, buffers: make([]*buffer, len(s.Buffers))}
	all := make([]buffer, len(s.Buffers))
	for i := range s.Buffers {
		is := t.Purpose(s.PurposeOf(i))
		all[i] = buffer{
			begin: at(-1), end: never, requestFree: noEvent, size: s.Buffers[i].Requested, like: int32(i), site: int32(s.Buffers[i].Site),
			pass: -1, category: is.Category, phase: is.Phase, part: is.Part,
		}
		m.buffers[i] = &all[i]
	}
	m.readWork(w, all, m.readCalls(all))
	slices.SortStableFunc(m.buffers, func(x, y *buffer) int { return x.begin.compare(y.begin) })
	m.sorted = len(m.buffers)
	m.readSums()
	m.leaveOutOnce()
	m.findSaved()
	m.findFailed()
	return m
}

// readCalls reads the calls of the allocator, and returns their instants.
func (m *model) readCalls(all []buffer) (instants []int64) {
	failures := slices.DeleteFunc(slices.Clone(m.s.Marks), func(k lifetime.Mark) bool { return k.Kind != lifetime.OOM })
	last := m.s.Begin
	for c := range m.h.Calls() {
		now := at(m.n)
		switch c.Kind {
		case replay.Allocate:
			all[c.Request].begin, last = now, m.s.Buffers[c.Request].Begin
		case replay.Free:
			all[c.Request].end, last = now, m.s.Buffers[c.Request].End
		case replay.RequestFree:
			all[c.Request].requestFree, last = now.event, m.s.FreeRequests[c.Request]
		default:
			o := other{at: now, kind: c.Kind, request: c.Request}
			if c.Kind == replay.Fail && len(failures) > 0 {
				o.failed = buffer{size: m.h.SizeOf(c.Request), like: -1, site: int32(failures[0].Site), pass: -1}
				last, failures = failures[0].Begin, failures[1:]
			}
			m.others = append(m.others, o)
		}
		instants, m.axis = append(instants, last), append(m.axis, m.n)
		m.n++
	}
	return instants
}

func (m *model) readWork(w *program.Work, all []buffer, instants []int64) {
	event := func(t int64) int { return sort.Search(m.n, func(i int) bool { return instants[i] >= t }) }
	failures := map[int64]int{} // events by instants
	for _, o := range slices.Backward(m.others) {
		if o.kind == replay.Fail {
			failures[instants[o.at.event]] = o.at.event
		}
	}
	m.closure = w.Closure
	for _, t := range w.Cuts {
		if failed, ok := failures[t]; ok {
			m.cuts = append(m.cuts, failed)
		}
	}
	for _, r := range w.Rounds {
		m.rounds = append(m.rounds, round{event(r.Begin), event(r.Optimizer), event(r.End), r.Step, r.Open})
	}
	for _, p := range w.Passes {
		of := pass{event(p.Begin), event(p.Backward), event(p.End), p.Round, p.Cut}
		if failed, ok := failures[p.End-1]; ok && p.Cut {
			of.end = failed
			of.backward = min(of.backward, of.end)
		}
		m.passes = append(m.passes, of)
	}
	trains := slices.ContainsFunc(m.passes, func(p pass) bool { return p.trains() })
	for i, k := range w.PassOf {
		b := &all[i]
		if k >= 0 {
			b.pass = k
		}
		if trains && b.category == purpose.Cache && b.part == purpose.Setup {
			b.category = purpose.UnknownCategory // a store, as of a rollout
		}
	}
}

// readSums tells parameters from states where categories know their sum alone: all sizes have as many times the buffers that they have gradients. Which of
// equal ones is for which changes no peak.
func (m *model) readSums() {
	sums, times := map[int64][]*buffer{}, 0
	for _, b := range m.buffers {
		if m.t.Purpose(m.s.PurposeOf(int(b.like))).Own == purpose.ParametersAndStates {
			sums[b.size] = append(sums[b.size], b)
		}
	}
	trained, _ := m.mostGradients()
	for size, of := range sums {
		n := max(1, trained[size])
		if times = cmp.Or(times, len(of)/n); len(of) != times*n {
			return
		}
	}
	for size, of := range sums {
		for i, b := range of {
			if b.category = purpose.OptimizerState; i < trained[size] {
				b.category = purpose.ModelParameter
			}
		}
	}
}

// leaveOutOnce takes out of the first pass what it makes and keeps and no other pass makes: workspaces of libraries, caches. If it alone trains, no other
// pass could make its gradients. What others make again is not of the setup, though it is made before all forward passes.
func (m *model) leaveOutOnce() {
	compares := slices.ContainsFunc(m.passes[min(1, len(m.passes)):], func(p pass) bool { return p.trains() || !m.passes[0].trains() })
	later := map[program.Piece]bool{}
	for _, b := range m.buffers {
		if b.pass > 0 {
			later[m.pieceOf(b)] = true
		}
	}
	for _, b := range m.buffers {
		isOnce := !b.isFreed() && b.phase != purpose.OptimizerPhase && !later[m.pieceOf(b)]
		if b.pass == 0 && compares && isOnce {
			b.pass = -1
		}
		if b.pass == 0 && b.part == purpose.Setup && later[m.pieceOf(b)] {
			b.part = purpose.UnknownPart
		}
	}
}

// inner returns what passes make within operations that have a result beside it: only autograd holds it after them.
func (m *model) inner() map[*buffer]bool {
	inner := map[*buffer]bool{}
	for k := range m.passes {
		all := m.computed(k)
		ends := m.operations(all)
		var outlives map[int64]bool // sizes of what the operation makes later that outlives it
		for q, b := range slices.Backward(all) {
			next := m.passes[k].backward
			if ends[q] < len(all) {
				next = all[ends[q]].begin.event
			}
			if outlives == nil || q+1 == ends[q] {
				outlives = map[int64]bool{}
			}
			hasResult := len(outlives) > 1 || len(outlives) == 1 && !outlives[b.size]
			inner[b] = (m.isNorm(b) || hasResult) && m.isInner(all, ends, q)
			if b.end.event > next {
				outlives[b.size] = true
			}
		}
	}
	return inner
}

// findSaved finds what autograd keeps. That of a last forward pass without a backward pass is dropped if it replaces that of another pass. What a
// pass holds that a failed request cut off is kept for the backward pass that did not come.
func (m *model) findSaved() {
	var backward []int
	for _, b := range m.buffers {
		if b.phase == purpose.Backward && !b.isOlder() {
			backward = append(backward, b.begin.event)
		}
	}
	replaced := false
	m.held(func(*buffer, int, lifetime.SiteID) { replaced = true })
	inner := m.inner()
	var cutOff []*buffer          // held when a request failed
	ofDropped := map[int32]bool{} // sites whose results are dropped
	for _, b := range m.buffers {
		if b.pass < 0 || b.category == purpose.Workspace {
			continue
		}
		p := &m.passes[b.pass]
		if b.phase == purpose.OtherPhase && b.category == purpose.Activation && b.begin.event < p.backward && b.diesWithin(p.backward, p.end) {
			b.phase = purpose.Forward // a backward pass frees it
		}
		if b.phase != purpose.Forward {
			continue
		}
		k, _ := slices.BinarySearch(backward, b.begin.event)
		isOver := k < len(backward) && backward[k] < b.end.event
		switch {
		case p.cut && b.end.event > p.end && b.category == purpose.Activation:
			cutOff = append(cutOff, b)
		case p.outlives(b):
			k := sort.Search(len(m.passes), func(i int) bool { return m.passes[i].end >= b.end.event })
			b.saved = k < len(m.passes) && b.end.event > m.passes[k].backward // what is freed later, a variable held
			b.dropped = !b.saved && inner[b] && !p.cut                        // the graph lives as long as its loss
		case b.category != purpose.Activation || isOver:
		case b.isFreed() || replaced && !p.trains():
			b.dropped, ofDropped[b.site] = true, true
		default:
			b.saved = m.isOpen(int(b.pass)) // a backward pass may come
		}
	}
	m.findReleased()
	for _, b := range cutOff { // a backward pass would have come, unless none does over what is like it
		p := &m.passes[b.pass]
		b.dropped = !p.trains() && ofDropped[b.site]
		b.saved = !b.dropped && b.begin.event < p.backward
	}
}

// findReleased finds what else a graph kept that ends without a backward pass, long after its own, as a variable held its loss: what is freed in one go with what only
// autograd can hold.
func (m *model) findReleased() {
	isFree := make([]bool, m.n+1)
	held := map[int][]*buffer{} // results that backward passes leave, by when they are freed
	for _, b := range m.buffers {
		if !b.isFreed() {
			continue
		}
		isFree[b.end.event] = true
		isResult := b.phase == purpose.Forward && b.category == purpose.Activation
		if b.pass >= 0 && isResult && !b.saved && m.passes[b.pass].outlives(b) && !m.passes[b.pass].cut {
			held[b.end.event] = append(held[b.end.event], b)
		}
	}
	var run []*buffer
	for event, free := range isFree {
		if run = append(run, held[event]...); free {
			continue
		}
		if slices.ContainsFunc(run, func(b *buffer) bool { return b.dropped }) {
			for _, b := range run {
				b.dropped = true
			}
		}
		run = run[:0]
	}
}

// outlives reports whether a buffer that is freed lives from before the backward pass into it, or beyond.
func (p *pass) outlives(b *buffer) bool {
	return p.trains() && b.begin.event < p.backward && b.isFreed() && b.end.event > p.backward
}

// isUnnamed reports whether operators are not recorded.
func (m *model) isUnnamed() bool {
	return m.any(func(b *buffer) bool { return b.phase == purpose.Forward && m.op(b) == "" && b.pass >= 0 })
}

// readApart returns other readings of a program whose operators are not recorded: each buffer of a line is of an operation of its own, sums of biases
// come last in their nodes, an evaluation keeps what it holds until its end for a backward pass. In the second one no variable holds what is freed after
// a backward pass, each result is a sum that lives until the same statement runs again, and what is between two blocks of a backward pass is of one
// node. None if they are, or no edit needs them.
func (m *model) readApart(s Scenario) []*model {
	if !m.isUnnamed() || !slices.ContainsFunc(s, func(edit Edit) bool { return edit.kind.off.ofOperations }) {
		return nil
	}
	other := m.clone()
	other.apart = true
	for k, p := range other.passes {
		if all := other.computed(k); !p.trains() && len(all) > 0 {
			last := all[len(all)-1].begin.event
			for _, b := range all {
				b.dropped = b.dropped || !b.saved && b.isFreed() && (b.end.event > last || b.category == purpose.UnknownCategory)
			}
		}
	}
	longest := other.clone()
	longest.longest = true
	for k, p := range longest.passes {
		for _, b := range longest.computed(k) {
			b.saved = b.saved || b.phase == purpose.Forward && p.outlives(b)
		}
	}
	return []*model{other, longest}
}

// findFailed finds what requests that failed were for: as a buffer of equal size from the same site, else as what their pass makes.
func (m *model) findFailed() {
	if m.failed() == nil {
		return
	}
	known := map[likes]*buffer{}
	for _, b := range m.buffers {
		known[likes{b.site, b.size}] = b
	}
	for i := range m.others {
		switch o, f := &m.others[i], &m.others[i].failed; {
		case f.like == 0: // the recording does not say where
		case known[likes{f.site, f.size}] != nil:
			b := known[likes{f.site, f.size}]
			f.category, f.phase, f.part = b.category, b.phase, b.part
		default:
			f.category, f.phase = m.madeAt(o.at.event)
		}
	}
}

// madeAt returns what a program makes at an event, as its place in a pass or a round tells.
func (m *model) madeAt(event int) (category purpose.Category, phase purpose.Phase) {
	for k := sort.Search(len(m.rounds), func(i int) bool { return m.rounds[i].optimizer > event }) - 1; k >= 0 && event <= m.rounds[k].end; k-- {
		if m.rounds[k].optimizer < m.rounds[k].end {
			return purpose.TemporaryData, purpose.OptimizerPhase
		}
	}
	switch k := sort.Search(len(m.passes), func(i int) bool { return m.passes[i].begin > event }) - 1; {
	case k < 0 || event > m.passes[k].end:
		return purpose.UnknownCategory, purpose.UnknownPhase
	case m.passes[k].trains():
		return purpose.TemporaryData, purpose.Backward
	}
	return purpose.Activation, purpose.Forward
}

// isOpen reports whether pass k ends in its forward part: the recording ends there, or a request failed.
func (m *model) isOpen(k int) bool {
	p := &m.passes[k]
	return !p.trains() && (p.cut || p.end == m.n)
}

// isUnfinished reports whether the recording ends, or a request failed, in a pass that goes on further than any other one of it or makes more: what
// the rest of the pass needs is not known, nor what an optimizer needs that did not run yet.
func (m *model) isUnfinished() bool {
	p, last := m.last(), len(m.passes)-1
	if p == nil {
		return false
	}
	if m.isLarger() {
		return true
	}
	states := m.any(is(purpose.OptimizerState)) // what the optimizer keeps is known
	if of := m.rounds[p.round]; !of.open {
		failed := slices.ContainsFunc(m.cuts, func(event int) bool { return event >= of.optimizer })
		ran := slices.ContainsFunc(m.rounds, func(r round) bool { return r.optimizer < of.optimizer })
		older := m.any(func(b *buffer) bool { return b.isOlder() && b.category == purpose.OptimizerState })
		return failed && !ran && !older
	}
	trains := p.trains() || m.any(func(b *buffer) bool { return b.saved || b.dropped })
	ends := m.any(func(b *buffer) bool { return int(b.pass) == last && b.saved && !b.isFreed() }) ||
		slices.ContainsFunc(m.others, func(o other) bool { return o.kind == replay.Fail && o.at.event >= p.begin })
	if !ends || !trains {
		return ends && last == 0
	}
	isWhole := func(p pass) bool { return p.trains() && !p.cut }
	return !slices.ContainsFunc(m.passes[:last], isWhole) || !states && p.round == 0
}

// isLarger reports whether a pass that was cut off made something that no whole pass makes beside the state of the optimizer: it had another
// batch, or longer sequences.
func (m *model) isLarger() bool {
	made := 0 // the last state
	for _, b := range m.states(smallest) {
		made = max(made, b.begin.event)
	}
	known := map[program.Piece]bool{} // made by whole passes: beside states?
	for _, b := range m.buffers {
		if b.pass >= 0 && !m.passes[b.pass].cut {
			of := m.pieceOf(b)
			known[of] = known[of] || m.passes[b.pass].end > made
		}
	}
	return m.any(func(b *buffer) bool {
		if b.pass < 0 || !b.saved || b.size <= smallest || !m.passes[b.pass].cut {
			return false
		}
		beside, isKnown := known[m.pieceOf(b)]
		return !isKnown || !beside && b.begin.event > made
	})
}
