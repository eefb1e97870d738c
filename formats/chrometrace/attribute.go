package chrometrace

import (
	"iter"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/loss"
)

// origin is the operator that encloses an allocation on its own thread.
type origin struct {
	operator    uint32 // the innermost one
	dims, types uint32 // of its inputs
	backward    uint32 // the running node of the backward pass
	sequence    int64  // of that node, and of the operator that made it; -1 = none
}

// within are the calls around an instant, without Python.
type within struct {
	origin
	scope int32 // the innermost operator or annotation that is a frame, in attribution.scopes
}

// trail are the calls around an instant. Its stack is built after all trails are known,
// as the callers of a function may have ended before.
type trail struct {
	within
	leaf int32 // the innermost Python call in the thread's callers; 0 = none, then scope counts
}

// scope is an operator or annotation.
type scope struct {
	frameKey
	outer int32            // the scope that encloses it; 0 = none
	stack lifetime.StackID // set after all scopes are known
}

type attribution struct {
	r       *reader
	frames  frameTable
	callers map[*thread]*callers
	scopes  []scope // from 1
	leftOut int32   // see outerCalls; 0 = none is left out
	cut     int64   // the file ends before its calls of Python do: none that begins later is known; MaxInt64 = all are
	equal   map[equalCalls]lifetime.StackID
	guessed int64 // allocations after cut
}

// equalCalls are operators within each other and the inputs of the innermost, the same wherever the program runs them.
type equalCalls struct {
	operators   lifetime.StackID
	dims, types uint32
}

// several is the stack of equal operators that several call sites run.
const several = math.MaxUint32

func (r *reader) attribute() {
	allocations := map[*thread][]query{}
	for i := range r.memory {
		if m := &r.memory[i]; m.bytes > 0 {
			allocations[m.thread] = append(allocations[m.thread], query{m.at, i})
		}
	}
	if len(allocations) == 0 {
		return
	}
	a := attribution{r: r, callers: map[*thread]*callers{}, scopes: make([]scope, 1), cut: r.lastPython(),
		equal: map[equalCalls]lifetime.StackID{}}
	trails := a.trails(allocations)
	made := r.madeBy(allocations, trails)
	inBackward := map[*thread][]query{} // where the forward operators ran
	for _, t := range r.order {
		for _, q := range allocations[t] {
			if f, ok := made[trails[q.id].sequence]; ok {
				inBackward[f.thread] = append(inBackward[f.thread], query{f.at, q.id})
			}
		}
	}
	forward := a.trails(inBackward)
	for t, c := range a.callers {
		c.find(t.runs[0].backward(&r.store))
	}
	a.frames = frameTable{r: r, plain: make([]lifetime.FrameID, len(r.names.all)), ids: map[frameKey]lifetime.FrameID{}}
	for i := 1; i < len(a.scopes); i++ {
		s := &a.scopes[i]
		s.stack = r.b.Call(a.frames.frame(s.frameKey), a.scopes[s.outer].stack)
	}
	if a.cut != math.MaxInt64 {
		for _, t := range r.order {
			a.learn(t, allocations[t], trails)
			a.learn(t, inBackward[t], forward)
		}
	}
	for _, t := range r.order {
		for _, q := range allocations[t] {
			if _, ok := made[trails[q.id].sequence]; !ok {
				r.memory[q.id].site = r.site(&trails[q.id].origin, a.stackAt(q.at, t, &trails[q.id]))
			}
		}
	}
	for _, t := range r.order {
		for _, q := range inBackward[t] {
			o := &trails[q.id].origin
			name := strings.TrimPrefix(r.names.text(o.backward), "autograd::engine::evaluate_function: ")
			node := r.b.Frame(frame.Frame{Function: name, Kind: frame.Node})
			r.memory[q.id].site = r.site(o, r.b.Call(node, a.stackAt(q.at, t, &forward[q.id])))
		}
	}
	if a.guessed > 0 {
		r.b.Lose(loss.CallsCut, a.guessed, 0, "")
	}
}

// lastPython returns the begin of the last call of Python in a file that ends early; MaxInt64 if it does not, or has
// none. PyTorch writes these calls behind all others, by their begin, so from there on the innermost are missing.
func (r *reader) lastPython() (begin int64) {
	if !r.truncated {
		return math.MaxInt64
	}
	known := false
	for _, t := range r.order {
		for c := range t.all(&r.store) {
			if c.kind == python {
				begin, known = max(begin, c.begin), true
			}
		}
	}
	if !known {
		return math.MaxInt64
	}
	return begin
}

// learn notes which call site runs which operators, before the calls of Python are cut off.
func (a *attribution) learn(t *thread, queries []query, trails []trail) {
	for _, q := range queries {
		if at := &trails[q.id]; q.at <= a.cut && at.leaf != 0 && at.scope != 0 {
			calls, stack := a.callsOf(at), a.stack(t, at)
			if known, ok := a.equal[calls]; ok && known != stack {
				stack = several
			}
			a.equal[calls] = stack
		}
	}
}

func (a *attribution) callsOf(at *trail) equalCalls {
	return equalCalls{a.scopes[at.scope].stack, at.dims, at.types}
}

// stackAt returns the stack of a trail at an instant. Where calls of Python were cut off, it is that of the only call
// site that ran equal operators before, else the operators: the outer calls that are left would be another call site.
func (a *attribution) stackAt(at int64, t *thread, of *trail) lifetime.StackID {
	if at <= a.cut || of.leaf == 0 {
		return a.stack(t, of)
	}
	if a.guessed++; of.scope == 0 {
		return a.stack(t, of)
	}
	if known, ok := a.equal[a.callsOf(of)]; ok && known != several {
		return known
	}
	return a.scopes[of.scope].stack
}

// trails returns the trails of queries by query.id. It sorts the queries.
func (a *attribution) trails(queries map[*thread][]query) []trail {
	if len(queries) == 0 {
		return nil
	}
	trails := make([]trail, len(a.r.memory))
	for _, t := range a.r.order {
		if len(queries[t]) == 0 {
			continue
		}
		if a.callers[t] == nil {
			a.callers[t] = &callers{links: make([]link, 1), byID: map[uint32]int32{}}
		}
		t.enclosing(&a.r.store, queries[t], func(id int, o *open) { trails[id] = a.trail(a.callers[t], o) })
	}
	return trails
}

func (a *attribution) trail(c *callers, o *open) trail {
	t := trail{within: within{origin: origin{sequence: -1}}, leaf: a.leaf(c, o)}
	if inner := o.enclosed(o.calls, a.enter); inner != nil {
		t.within = inner.within
	}
	if t.leaf != 0 {
		t.backward, t.sequence = 0, -1
	}
	return t
}

// enter sets within of an open call that is not a Python function.
func (a *attribution) enter(c, outer *opened, leftOut bool) {
	c.within = within{origin: origin{sequence: -1}}
	switch {
	case outer != nil:
		c.within = outer.within
	case leftOut:
		c.within.scope = a.outerCalls()
	}
	if c.kind == operator {
		c.within.operator, c.within.dims, c.within.types = c.name, c.dims, c.types
	}
	if c.sequence >= 0 && c.forward != 0 {
		c.within.backward, c.within.sequence = c.name, c.sequence
	}
	if c.kind == annotation && numbered.MatchString(a.r.names.text(c.name)) {
		return // a step: each one would be a separate site
	}
	a.scopes = append(doubled(a.scopes), scope{frameKey: frameKey{c.name, 0, c.kind}, outer: c.within.scope})
	c.within.scope = int32(len(a.scopes) - 1)
}

// outerCalls returns the scope that stands for calls that open.enclosed leaves out.
func (a *attribution) outerCalls() int32 {
	if a.leftOut == 0 {
		a.scopes = append(a.scopes, scope{frameKey: frameKey{a.leftOutName(), 0, annotation}})
		a.leftOut = int32(len(a.scopes) - 1)
	}
	return a.leftOut
}

// leftOutName returns the name of the frame that stands for calls that open.enclosed leaves out.
func (a *attribution) leftOutName() uint32 { return a.r.names.id([]byte(frame.OuterCalls)) }

// stack returns the stack of a trail on a thread: the innermost Python call and its
// callers, or the operators if Python was not recorded.
func (a *attribution) stack(t *thread, at *trail) lifetime.StackID {
	if at.leaf == 0 {
		return a.scopes[at.scope].stack
	}
	links := a.callers[t].links
	return a.r.b.Call(a.frames.frame(frameKey{links[at.leaf].name, 0, python}), a.outer(links, at.leaf))
}

// outer returns the stack of a Python call's caller. The line of a frame is that of the
// def, unless the call inside has the line that called it (PyTorch 2.15).
func (a *attribution) outer(links []link, n int32) lifetime.StackID {
	var calls []int32 // without a stack so far, innermost first
	for at := n; links[at].found && !links[at].stacked; at = links[at].caller {
		calls = append(calls, at)
	}
	for _, at := range slices.Backward(calls) {
		l := &links[at]
		if caller := &links[l.caller]; caller.found {
			l.outer = a.r.b.Call(a.frames.frame(frameKey{caller.name, l.from, python}), caller.outer)
		}
		l.stacked = true
	}
	return links[n].outer
}

// filterBits is the size of callers.filter.
const filterBits = 1 << 17

// callers are the Python calls of a thread that are on stacks of allocations.
type callers struct {
	links   []link                  // from 1
	byID    map[uint32]int32        // the callers
	filter  [filterBits / 64]uint64 // a bit for each caller's number, modulo filterBits
	missing int                     // links that are not found yet
}

type link struct {
	name, from uint32
	caller     int32
	found      bool
	stacked    bool             // outer is set
	outer      lifetime.StackID // the stack of its caller
}

// leaf returns the link of the innermost Python call. Its callers follow from numbers in the trace, or else from times.
func (a *attribution) leaf(s *callers, o *open) int32 {
	inner := o.enclosed(o.python, func(c, outer *opened, leftOut bool) {
		l := link{name: c.name, from: c.from, found: true}
		switch {
		case c.parent != 0:
			l.caller = s.caller(&c.call)
		case outer != nil:
			l.caller = outer.link
		case leftOut:
			s.links = append(doubled(s.links), link{name: a.leftOutName(), found: true})
			l.caller = int32(len(s.links) - 1)
		} // else it has no caller, or none was recorded
		s.links = append(doubled(s.links), l)
		c.link = int32(len(s.links) - 1)
	})
	if inner == nil {
		return 0
	}
	return inner.link
}

// caller returns the link of a call's caller. Callers have smaller numbers.
func (s *callers) caller(c *call) int32 {
	if c.parent == 0 || c.parent >= c.id {
		return 0
	}
	n := s.byID[c.parent]
	if n == 0 {
		n = int32(len(s.links))
		s.links = append(doubled(s.links), link{})
		s.byID[c.parent] = n
		s.filter[c.parent%filterBits/64] |= 1 << (c.parent % 64)
		s.missing++
	}
	return n
}

// find finds the callers among the calls of their thread. It gets the last call first,
// so that a call comes before its caller.
func (s *callers) find(backward iter.Seq[*call]) {
	if s.missing == 0 {
		return
	}
	for c := range backward {
		if c.kind != python || c.id == 0 || s.filter[c.id%filterBits/64]>>(c.id%64)&1 == 0 {
			continue // most calls
		}
		if n := s.byID[c.id]; n != 0 && !s.links[n].found {
			caller := s.caller(c)
			s.links[n] = link{name: c.name, from: c.from, caller: caller, found: true}
			if s.missing--; s.missing == 0 {
				return
			}
		}
	}
}

// made is where an operator made a node of the backward pass.
type made struct {
	thread *thread
	at     int64
	first  int64 // the begin of the first operator with the number
}

// madeBy returns the operators that made the nodes of the backward pass, by sequence
// number. Operators without a node have the number of the next node. So of those with a number, in the thread of the
// first one, the last one made the node. (Other threads count for themselves.)
func (r *reader) madeBy(allocations map[*thread][]query, trails []trail) map[int64]made {
	sequences := map[int64]bool{}
	for _, queries := range allocations {
		for _, q := range queries {
			if n := trails[q.id].sequence; n >= 0 {
				sequences[n] = true
			}
		}
	}
	if len(sequences) == 0 {
		return nil
	}
	found := map[int64]made{}
	for _, t := range r.order {
		for c := range t.all(&r.store) {
			if c.sequence < 0 || c.forward != 0 || !sequences[c.sequence] {
				continue
			}
			m, ok := found[c.sequence]
			switch {
			case !ok:
				m = made{t, c.begin, c.begin}
			case t == m.thread:
				m.first, m.at = min(m.first, c.begin), max(m.at, c.begin)
			case c.begin < m.first:
				m = made{t, c.begin, c.begin}
			}
			found[c.sequence] = m
		}
	}
	return found
}

func (r *reader) site(o *origin, stack lifetime.StackID) lifetime.SiteID {
	return r.b.Site(lifetime.Site{
		Stack: stack, Op: r.names.text(o.operator), Shape: r.tensorText(o.dims), DType: r.tensorText(o.types),
	})
}

// tensorText returns the shapes or types of an operator's tensors, from JSON of its
// inputs such as [[300000], []] or ["float", "Scalar", ""].
func (r *reader) tensorText(id uint32) string {
	short, ok := r.tensors[id]
	if !ok {
		short = strings.Join(elements(r.inputs.text(id)), ", ")
		r.tensors[id] = short
	}
	return short
}

// noTensors are the shapes and types of inputs that are not tensors.
var noTensors = []string{"", "[]", "Scalar", "ScalarList"}

var noise = strings.NewReplacer(" ", "", `"`, "")

// elements splits a JSON list, and drops noTensors.
func elements(list string) (kept []string) {
	list = noise.Replace(list)
	list = strings.TrimSuffix(strings.TrimPrefix(list, "["), "]")
	depth, from := 0, 0
	for i := 0; i <= len(list); i++ {
		switch {
		case i < len(list) && list[i] == '[':
			depth++
		case i < len(list) && list[i] == ']':
			depth--
		case i == len(list) || list[i] == ',' && depth <= 0:
			if element := list[from:i]; !slices.Contains(noTensors, element) {
				kept = append(kept, element)
			}
			from = i + 1
		}
	}
	return kept
}

type frameTable struct {
	r     *reader
	plain []lifetime.FrameID // of Python calls by name, the most frequent ones
	ids   map[frameKey]lifetime.FrameID
}

type frameKey struct {
	name uint32
	from uint32 // the line in it that made the next call; 0 = not recorded
	kind callKind
}

// numbered matches the number in names of ranges: "ProfilerStep#3", "step 12".
var numbered = regexp.MustCompile(`[# ][0-9]+$`)

func (t *frameTable) frame(key frameKey) lifetime.FrameID {
	if key.kind == python && key.from == 0 {
		if t.plain[key.name] == 0 {
			t.plain[key.name] = t.r.b.Frame(t.r.frameOfCall(python, key.name))
		}
		return t.plain[key.name]
	}
	id, ok := t.ids[key]
	if ok {
		return id
	}
	f := t.r.frameOfCall(key.kind, key.name)
	if key.kind == python {
		if file, line, ok := strings.Cut(t.r.names.text(key.from), ":"); ok && strings.HasSuffix(f.File, file) {
			if n, err := strconv.Atoi(line); err == nil {
				f.Line = n
			}
		}
	}
	id = t.r.b.Frame(f)
	t.ids[key] = id
	return id
}
