package chrometrace

import (
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
	backward    uint32 // the node of the backward pass that ran, on a thread of its own
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
	r.number()
	forward := r.forwardOperators()
	origins := make([]origin, len(r.memory))
	askedForward := map[*thread][]query{}
	frames := frameTable{r: r, plain: make([]lifetime.FrameID, len(r.names.all)+1), ids: map[frameKey]lifetime.FrameID{}}
	for _, t := range r.order {
		t.enclosing(asked[t], func(id int, o *open) {
			m := &r.memory[id]
			origins[id] = r.originOf(o)
			if stack := frames.python(nil, o); len(stack) > 0 {
				m.site = r.site(origins[id], stack)
				return
			}
			if f, node, ok := r.forwardOf(forward, o); ok {
				origins[id].backward = node
				askedForward[f.thread] = append(askedForward[f.thread], query{f.at, id})
				return
			}
			m.site = r.site(origins[id], frames.operators(nil, o))
		})
	}
	for _, t := range r.order {
		t.enclosing(askedForward[t], func(id int, o *open) {
			name := strings.TrimPrefix(r.names.text(origins[id].backward), "autograd::engine::evaluate_function: ")
			node := []lifetime.FrameID{r.b.Frame(lifetime.Frame{Function: "backward: " + name, Kind: lifetime.Framework})}
			stack := frames.python(node, o)
			if len(stack) == len(node) {
				stack = frames.operators(node, o)
			}
			r.memory[id].site = r.site(origins[id], stack)
		})
	}
}

// number finds the Python calls by their numbers. They count the calls of a
// trace; numbers far beyond that are no such and are left out.
func (r *reader) number() {
	most, n := uint32(0), uint32(0)
	for _, t := range r.order {
		for c := range t.all() {
			n++
			most = max(most, c.id)
		}
	}
	r.byID = make([]*call, min(most, 16*n)+1)
	for _, t := range r.order {
		for c := range t.all() {
			if c.id != 0 && int(c.id) < len(r.byID) {
				r.byID[c.id] = c
			}
		}
	}
}

// caller returns the Python call with the number that a call gives as its
// caller's, nil when there is none. Callers have smaller numbers.
func (r *reader) caller(c *call) *call {
	if c.parent >= c.id || int(c.parent) >= len(r.byID) {
		return nil
	}
	return r.byID[c.parent]
}

// originOf returns the innermost operator among the calls that are open.
func (r *reader) originOf(open *open) origin {
	for c := range open.innermost(open.calls) {
		if c.kind == operator {
			o := origin{operator: c.name}
			if d := r.detailsOf(c); d != nil {
				o.dims, o.types = d.dims, d.types
			}
			return o
		}
	}
	return origin{}
}

// site interns the site of an allocation; stack is leaf first.
func (r *reader) site(o origin, stack []lifetime.FrameID) lifetime.SiteID {
	return r.b.Site(lifetime.Site{
		Stack: r.b.Stack(stack), Op: r.names.text(o.operator), Shape: r.tensors(o.dims), DType: r.tensors(o.types),
	})
}

// tensors returns the inputs of an operator that are tensors, from JSON such as
// [[300000], []] or ["float", "Scalar", ""].
func (r *reader) tensors(id uint32) string {
	short, ok := r.inputs[id]
	if !ok {
		short = strings.Join(elements(r.names.text(id)), ", ")
		r.inputs[id] = short
	}
	return short
}

// noTensors are elements of the lists of inputs and their types that are not of
// tensors.
var noTensors = []string{"", "[]", "Scalar", "ScalarList"}

// elements splits a JSON list.
func elements(list string) (kept []string) {
	list = strings.NewReplacer(" ", "", `"`, "").Replace(list)
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

// made is where a node of the backward pass was made.
type made struct {
	thread *thread
	at     int64
}

// forwardOperators finds the operators that made the nodes of the backward
// pass, by sequence number: the first one that has it.
func (r *reader) forwardOperators() map[int64]made {
	found := map[int64]made{}
	for _, t := range r.order {
		for c := range t.all() {
			d := r.detailsOf(c)
			if d == nil || d.sequence < 0 || d.forward != 0 {
				continue
			}
			if m, ok := found[d.sequence]; !ok || c.begin < m.at {
				found[d.sequence] = made{t, c.begin}
			}
		}
	}
	return found
}

// forwardOf returns where the innermost node of the backward pass among the
// open calls was made, and its name.
func (r *reader) forwardOf(forward map[int64]made, o *open) (made, uint32, bool) {
	for c := range o.innermost(o.calls) {
		if d := r.detailsOf(c); d != nil && d.sequence >= 0 && d.forward != 0 {
			m, ok := forward[d.sequence]
			return m, c.name, ok
		}
	}
	return made{}, 0, false
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

// python appends the Python calls at an instant, leaf first: the innermost one
// and its callers, by their numbers where the trace has them, else by time. The
// line of a call is that of the def, unless the call inside of it tells from
// where it was called (PyTorch 2.15).
func (t *frameTable) python(stack []lifetime.FrameID, o *open) []lifetime.FrameID {
	from := uint32(0)
	add := func(c *call) {
		stack = append(stack, t.frame(frameKey{c.name, from, python}))
		from = c.extra
	}
	for c := range o.innermost(o.python) {
		add(c)
		if c.parent == 0 {
			continue // its caller is not told, or there is none
		}
		for c = t.r.caller(c); c != nil; c = t.r.caller(c) {
			add(c)
		}
		break
	}
	return stack
}

// operators appends the operators and annotations at an instant, leaf first:
// what there is where Python calls were not recorded.
func (t *frameTable) operators(stack []lifetime.FrameID, o *open) []lifetime.FrameID {
	for c := range o.innermost(o.calls) {
		if c.kind == annotation && numbered.MatchString(t.r.names.text(c.name)) {
			continue // a step: every one would be a site of its own
		}
		stack = append(stack, t.frame(frameKey{c.name, 0, c.kind}))
	}
	return stack
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
