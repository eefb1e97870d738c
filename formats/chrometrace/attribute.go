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

// trail is what encloses an instant. Its stack is made when all trails are
// known: the callers of a function may be long over.
type trail struct {
	origin
	leaf           int32 // the innermost Python call in the thread's callers; 0 = none
	scopes, ending int32 // else: operators and annotations, as part of attribution.scopes
}

// attribution finds the sites of allocations.
type attribution struct {
	r       *reader
	frames  frameTable
	callers map[*thread]*callers
	scopes  []frameKey
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
	a := attribution{r: r, callers: map[*thread]*callers{}}
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
	for _, t := range r.order {
		for _, q := range asked[t] {
			if _, ok := made[trails[q.id].sequence]; !ok {
				r.memory[q.id].site = r.site(&trails[q.id].origin, a.stack(nil, t, &trails[q.id]))
			}
		}
	}
	for _, t := range r.order {
		for _, q := range askedForward[t] {
			o := &trails[q.id].origin
			name := strings.TrimPrefix(r.names.text(o.backward), "autograd::engine::evaluate_function: ")
			node := []lifetime.FrameID{r.b.Frame(lifetime.Frame{Function: "backward: " + name, Kind: lifetime.Framework})}
			r.memory[q.id].site = r.site(o, a.stack(node, t, &forward[q.id]))
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
	t := trail{origin: originOf(o), leaf: c.leaf(o)}
	if t.leaf != 0 {
		return t
	}
	t.backward, t.sequence = nodeOf(o)
	t.scopes = int32(len(a.scopes))
	for c := range o.innermost(o.calls) {
		if c.kind == annotation && numbered.MatchString(a.r.names.text(c.name)) {
			continue // a step: every one would be a site of its own
		}
		a.scopes = append(doubled(a.scopes), frameKey{c.name, 0, c.kind})
	}
	t.ending = int32(len(a.scopes))
	return t
}

// stack appends the frames of a trail on a thread, leaf first: the innermost
// Python call and its callers, or where Python was not recorded the operators.
// The line of a Python call is that of the def, unless the call inside of it
// tells from where it was called (PyTorch 2.15).
func (a *attribution) stack(stack []lifetime.FrameID, t *thread, at *trail) []lifetime.FrameID {
	from := uint32(0)
	links := a.callers[t].links
	for n := at.leaf; links[n].found; n = links[n].caller {
		stack = append(stack, a.frames.frame(frameKey{links[n].name, from, python}))
		from = links[n].from
	}
	for _, key := range a.scopes[at.scopes:at.ending] {
		stack = append(stack, a.frames.frame(key))
	}
	return stack
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
	last    call                  // that was a leaf
	leaf1   int32
}

// link is a Python call.
type link struct {
	name, from uint32
	caller     int32
	found      bool
}

// leaf returns the link of the innermost Python call. Who called it is told by
// numbers where the trace has them, else by time.
func (s *callers) leaf(o *open) int32 {
	leaf, inner := int32(0), int32(0)
	for c := range o.innermost(o.python) {
		if leaf == 0 && c.parent != 0 && *c == s.last {
			return s.leaf1
		}
		n := int32(len(s.links))
		s.links = append(doubled(s.links), link{name: c.name, from: c.from, found: true})
		if leaf == 0 {
			leaf = n
			s.last, s.leaf1 = *c, n
		} else {
			s.links[inner].caller = n
		}
		if c.parent != 0 {
			s.links[n].caller = s.caller(c)
			break
		} // else its caller is not told, or there is none
		inner = n
	}
	return leaf
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
			s.links[n] = link{c.name, c.from, caller, true}
			if s.missing--; s.missing == 0 {
				return
			}
		}
	}
}

// originOf returns the innermost operator among the calls that are open.
func originOf(open *open) origin {
	for c := range open.innermost(open.calls) {
		if c.kind == operator {
			return origin{operator: c.name, dims: c.dims, types: c.types, sequence: -1}
		}
	}
	return origin{sequence: -1}
}

// nodeOf returns the innermost node of the backward pass among the calls that
// are open: its name and sequence number, -1 where there is none.
func nodeOf(open *open) (name uint32, sequence int64) {
	for c := range open.innermost(open.calls) {
		if c.sequence >= 0 && c.forward != 0 {
			return c.name, c.sequence
		}
	}
	return 0, -1
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

// site interns the site of an allocation; stack is leaf first.
func (r *reader) site(o *origin, stack []lifetime.FrameID) lifetime.SiteID {
	return r.b.Site(lifetime.Site{
		Stack: r.b.Stack(stack), Op: r.names.text(o.operator), Shape: r.tensorText(o.dims), DType: r.tensorText(o.types),
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
