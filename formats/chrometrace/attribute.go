package chrometrace

import (
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// origin is what encloses an allocation on its own thread, but for Python.
type origin struct {
	operator    uint32 // the innermost one
	dims, types uint32 // of its inputs
	backward    uint32 // the node of the backward pass that runs
	sequence    int64  // which the operator has that made that node; -1 = there is none
}

// within is what encloses an instant, but for Python.
type within struct {
	origin
	scope int32 // the innermost operator or annotation that is a frame, in attribution.scopes
}

// trail is what encloses an instant. Its stack is made when all trails are
// known: the callers of a function may be long over.
type trail struct {
	within
	leaf int32 // the innermost Python call in the thread's callers; 0 = none, and the scope counts
}

// scope is an operator or annotation and the one that encloses it, 0 = none.
type scope struct {
	frameKey
	outer int32
	stack lifetime.StackID // once all are known
}

// attribution finds the sites of allocations.
type attribution struct {
	r       *reader
	frames  frameTable
	callers map[*thread]*callers
	scopes  []scope // from 1
}

// attribute finds the site of every allocation.
func (r *reader) attribute() {
	asked := map[*thread][]query{}
	for i := range r.memory {
		if m := &r.memory[i]; m.bytes > 0 {
			asked[m.thread] = append(asked[m.thread], query{m.at, i})
		}
	}
	if len(asked) == 0 {
		return
	}
	a := attribution{r: r, callers: map[*thread]*callers{}, scopes: make([]scope, 1)}
	trails := a.trails(asked)
	made := r.madeBy(asked, trails)
	askedForward := map[*thread][]query{}
	for _, t := range r.order {
		for _, q := range asked[t] {
			if f, ok := made[trails[q.id].sequence]; ok {
				askedForward[f.thread] = append(askedForward[f.thread], query{f.at, q.id})
			}
		}
	}
	forward := a.trails(askedForward)
	for t, c := range a.callers {
		c.find(t.backward(&r.store))
	}
	a.frames = frameTable{r: r, plain: make([]lifetime.FrameID, len(r.names.all)+1), ids: map[frameKey]lifetime.FrameID{}}
	for i := 1; i < len(a.scopes); i++ {
		s := &a.scopes[i]
		s.stack = r.b.Call(a.frames.frame(s.frameKey), a.scopes[s.outer].stack)
	}
	for _, t := range r.order {
		for _, q := range asked[t] {
			if _, ok := made[trails[q.id].sequence]; !ok {
				r.memory[q.id].site = r.site(&trails[q.id].origin, a.stack(t, &trails[q.id]))
			}
		}
	}
	for _, t := range r.order {
		for _, q := range askedForward[t] {
			o := &trails[q.id].origin
			name := strings.TrimPrefix(r.names.text(o.backward), "autograd::engine::evaluate_function: ")
			node := r.b.Frame(lifetime.Frame{Function: "backward: " + name, Kind: lifetime.Framework})
			r.memory[q.id].site = r.site(o, r.b.Call(node, a.stack(t, &forward[q.id])))
		}
	}
}

// trails answers what encloses instants, which it sorts.
func (a *attribution) trails(asked map[*thread][]query) []trail {
	if len(asked) == 0 {
		return nil
	}
	trails := make([]trail, len(a.r.memory))
	for _, t := range a.r.order {
		if len(asked[t]) == 0 {
			continue
		}
		if a.callers[t] == nil {
			a.callers[t] = &callers{links: make([]link, 1), byID: map[uint32]int32{}}
		}
		t.enclosing(&a.r.store, asked[t], func(id int, o *open) { trails[id] = a.trail(a.callers[t], o) })
	}
	return trails
}

func (a *attribution) trail(c *callers, o *open) trail {
	t := trail{within: within{origin: origin{sequence: -1}}, leaf: c.leaf(o)}
	if inner := o.enclosed(o.calls, a.enter); inner != nil {
		t.within = inner.within
	}
	if t.leaf != 0 {
		t.backward, t.sequence = 0, -1
	}
	return t
}

// enter finds out what is inside a call that is no function.
func (a *attribution) enter(c, outer *opened) {
	c.within = within{origin: origin{sequence: -1}}
	if outer != nil {
		c.within = outer.within
	}
	if c.kind == operator {
		c.within.operator, c.within.dims, c.within.types = c.name, c.dims, c.types
	}
	if c.sequence >= 0 && c.forward != 0 {
		c.within.backward, c.within.sequence = c.name, c.sequence
	}
	if c.kind == annotation && numbered.MatchString(a.r.names.text(c.name)) {
		return // a step: every one would be a site of its own
	}
	a.scopes = append(doubled(a.scopes), scope{frameKey: frameKey{c.name, 0, c.kind}, outer: c.within.scope})
	c.within.scope = int32(len(a.scopes) - 1)
}

// stack returns the stack of a trail on a thread: the innermost Python call and its
// callers, or where Python was not recorded the operators.
func (a *attribution) stack(t *thread, at *trail) lifetime.StackID {
	if at.leaf == 0 {
		return a.scopes[at.scope].stack
	}
	links := a.callers[t].links
	return a.r.b.Call(a.frames.frame(frameKey{links[at.leaf].name, 0, python}), a.outer(links, at.leaf))
}

// outer returns the stack that a Python call was called from. The line of a call is
// that of the def, unless the call inside of it tells from where it was called
// (PyTorch 2.15).
func (a *attribution) outer(links []link, n int32) lifetime.StackID {
	var calls []int32 // whose callers have no stack yet, innermost first
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

// askedLen is the number of bits by which most numbers are known to be none of a
// caller.
const askedLen = 1 << 17

// callers is the Python calls of a thread that allocations lead to.
type callers struct {
	links   []link                // from 1
	byID    map[uint32]int32      // those that are callers
	asked   [askedLen / 64]uint64 // a bit for some of their numbers: none where there is none
	missing int                   // links that are not found
}

// link is a Python call.
type link struct {
	name, from uint32
	caller     int32
	found      bool
	stacked    bool             // outer is known
	outer      lifetime.StackID // that it was called from
}

// leaf returns the link of the innermost Python call. Who called it is told by
// numbers where the trace has them, else by time.
func (s *callers) leaf(o *open) int32 {
	inner := o.enclosed(o.python, func(c, outer *opened) {
		l := link{name: c.name, from: c.from, found: true}
		switch {
		case c.parent != 0:
			l.caller = s.caller(&c.call)
		case outer != nil:
			l.caller = outer.link
		} // else its caller is not told, or there is none
		s.links = append(doubled(s.links), l)
		c.link = int32(len(s.links) - 1)
	})
	if inner == nil {
		return 0
	}
	return inner.link
}

// caller returns the link of the caller of a call. Callers have smaller numbers.
func (s *callers) caller(c *call) int32 {
	if c.parent == 0 || c.parent >= c.id {
		return 0
	}
	n := s.byID[c.parent]
	if n == 0 {
		n = int32(len(s.links))
		s.links = append(doubled(s.links), link{})
		s.byID[c.parent] = n
		s.asked[c.parent%askedLen/64] |= 1 << (c.parent % 64)
		s.missing++
	}
	return n
}

// find finds the callers among the calls of their thread. It gets the last call
// first, so that it meets callers behind those that they called.
func (s *callers) find(backward iter.Seq[*call]) {
	if s.missing == 0 {
		return
	}
	for c := range backward {
		if c.kind != python || c.id == 0 {
			continue
		}
		if s.asked[c.id%askedLen/64]>>(c.id%64)&1 == 0 {
			continue // as are most calls
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

// made is where a node of the backward pass was made.
type made struct {
	thread *thread
	at     int64
}

// madeBy finds the operators that made the nodes of the backward pass, by
// sequence number: the first one that has it.
func (r *reader) madeBy(asked map[*thread][]query, trails []trail) map[int64]made {
	sequences := map[int64]bool{}
	for _, queries := range asked {
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
			if m, ok := found[c.sequence]; !ok || c.begin < m.at {
				found[c.sequence] = made{t, c.begin}
			}
		}
	}
	return found
}

// site interns the site of an allocation.
func (r *reader) site(o *origin, stack lifetime.StackID) lifetime.SiteID {
	return r.b.Site(lifetime.Site{
		Stack: stack, Op: r.names.text(o.operator), Shape: r.tensorText(o.dims), DType: r.tensorText(o.types),
	})
}

// tensorText returns the inputs of an operator that are tensors, from JSON such as
// [[300000], []] or ["float", "Scalar", ""].
func (r *reader) tensorText(id uint32) string {
	short, ok := r.tensors[id]
	if !ok {
		short = strings.Join(elements(r.inputs.text(id)), ", ")
		r.tensors[id] = short
	}
	return short
}

// noTensors are elements of the lists of inputs and their types that are not of
// tensors.
var noTensors = []string{"", "[]", "Scalar", "ScalarList"}

var noise = strings.NewReplacer(" ", "", `"`, "")

// elements splits a JSON list.
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

// frameTable makes frames of calls.
type frameTable struct {
	r     *reader
	plain []lifetime.FrameID // of Python calls by name, as most are asked for
	ids   map[frameKey]lifetime.FrameID
}

type frameKey struct {
	name uint32
	from uint32 // the place in it from which the next call was made; 0 = not told
	kind callKind
}

// numbered matches the names of ranges that count: "ProfilerStep#3", "step 12".
var numbered = regexp.MustCompile(`[# ][0-9]+$`)

func (t *frameTable) frame(key frameKey) lifetime.FrameID {
	if key.kind == python && key.from == 0 {
		if t.plain[key.name] == 0 {
			t.plain[key.name] = t.r.b.Frame(frameOf(t.r.names.text(key.name)))
		}
		return t.plain[key.name]
	}
	id, ok := t.ids[key]
	if ok {
		return id
	}
	f := lifetime.Frame{Function: t.r.names.text(key.name), Kind: lifetime.Scope}
	if key.kind == python {
		f = frameOf(f.Function)
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
