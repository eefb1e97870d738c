package chrometrace

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/memlane/memlane/formats/chrometrace/internal/scan"
	"github.com/memlane/memlane/internal/units"
)

type callKind uint8

const (
	operator   callKind = iota // of PyTorch
	annotation                 // a range that the program named
	python                     // a Python function
	runtime                    // a call of the device's runtime or driver, or work of the profiler itself: only in the table of operations
	alone                      // not a call: a memory event outside all calls, in the table of operations
)

type thread struct {
	pid, tid string

	recent      []call // in the order of the file
	runs        []run  // the calls before recent; after sort, all calls in one run
	annotations []call // also in recent or runs
	operators   bool   // it ran operators or annotations
	runtime     bool   // it made calls of the runtime
}

// call is one run of an operator, annotation or function.
type call struct {
	begin, end int64  // nanoseconds, both included
	name       uint32 // of reader.names
	kind       callKind

	// Of python:
	id, parent uint32 // its number and that of its caller; 0 = not recorded
	from       uint32 // the file and line that called it

	// Of operator:
	dims, types uint32 // its inputs
	sequence    int64  // of the autograd node that it makes or runs; -1 = none
	forward     int64  // if it runs one: thread of the operator that made it; 0 = it makes one
}

func (r *reader) call(kind callKind, e *scan.Event) {
	t := r.thread(e.PID, e.TID)
	c := call{begin: e.TS.NS, end: units.AddSat(e.TS.NS, max(e.Dur.NS, 0)), name: r.names.id(e.Name), kind: kind, sequence: -1}
	switch kind {
	case python:
		c.from = r.names.id(e.Args.CallFrom)
		c.id, c.parent = pythonID(e.Args.Has&scan.HasPythonID, e.Args.PythonID),
			pythonID(e.Args.Has&scan.HasPythonParent, e.Args.PythonParent)
	case runtime:
		t.runtime = true
	case operator:
		t.operators = true
		c.dims, c.types = r.inputText(e.Args.Dims), r.inputText(e.Args.Types)
		if e.Args.Has&scan.HasSequence != 0 && e.Args.Sequence >= 0 {
			c.sequence, c.forward = e.Args.Sequence, e.Args.FwdThread
		}
		if c.dims == 0 && c.sequence < 0 {
			c.types = 0 // no tensors, or beyond maxInputs: sites must not differ in types only
		}
	case annotation:
		t.operators = true
		t.annotations = append(t.annotations, c)
	}
	t.add(&r.store, c)
}

func (t *thread) add(s *store, c call) {
	t.recent = append(doubled(t.recent), c)
	if len(t.recent) == pieceLen {
		t.pack(s)
	}
}

// pack moves the recent calls to a run.
func (t *thread) pack(s *store) {
	compare := func(x, y call) int { return inOrder(&x, &y) }
	if !slices.IsSortedFunc(t.recent, compare) {
		slices.SortStableFunc(t.recent, compare)
	}
	p := packer{store: s}
	if n := len(t.runs); n > 0 && inOrder(&t.runs[n-1].last, &t.recent[0]) <= 0 {
		p.run = t.runs[n-1]
		t.runs = t.runs[:n-1]
	}
	for i := range t.recent {
		p.add(&t.recent[i])
	}
	p.flush()
	t.runs = append(t.runs, p.run)
	t.recent = t.recent[:0]
}

// sort merges the runs into one, in the order of inOrder. PyTorch writes the operators of
// a thread in order, and then its functions.
func (t *thread) sort(s *store) {
	if len(t.recent) > 0 {
		t.pack(s)
	}
	t.recent = nil
	if len(t.runs) == 0 {
		t.runs = []run{{}}
	}
	for len(t.runs) > 1 {
		var merged []run
		for runs := range slices.Chunk(t.runs, maxMerge) {
			merged = append(merged, s.merge(runs))
		}
		t.runs = merged
	}
	slices.SortStableFunc(t.annotations, func(x, y call) int { return inOrder(&x, &y) })
}

// all yields the calls in order, after sort. Each is valid until the next one.
func (t *thread) all(s *store) iter.Seq[*call] { return t.runs[0].all(s) }

// query is a search for the calls around an instant of a thread.
type query struct {
	at int64
	id int // index into reader.memory
}

// open are the open calls at an instant, in order of their begin. A call below the last
// may have ended, as a few calls overlap without enclosing each other.
type open struct {
	at     int64
	calls  []opened // without Python
	python []opened
	again  int // calls that may get their properties again, before outer calls are left out
}

// opened is an open call, and the cached properties of the calls that enclose it. They
// are valid until one of those calls ends, so that most queries examine few calls.
type opened struct {
	call
	until  int64  // the last instant at which link and within are valid
	link   int32  // of Python, in callers.links
	within within // of others
}

// enclosed returns the innermost open call of a list with valid properties, nil if no call is open. It calls find to
// set the properties of each call whose properties are not valid, the outermost first, with the call that encloses it
// (nil = none). Where many calls overlap without enclosing each other, properties change with each end of an outer
// call: then only few of the innermost calls get theirs again, and leftOut is true for the outermost one of them.
func (o *open) enclosed(calls []opened, find func(c, outer *opened, leftOut bool)) *opened {
	var outer *opened
	var stale []*opened // innermost first
	again, leftOut := 0, false
	for i := len(calls) - 1; i >= 0 && outer == nil && !leftOut; i-- {
		c := &calls[i]
		switch {
		case c.end < o.at:
		case c.until >= o.at:
			outer = c
		case c.until != math.MinInt64 && o.again <= 0 && again == fewAgain:
			leftOut = true
		default:
			if stale = append(stale, c); c.until != math.MinInt64 {
				again++
			}
		}
	}
	o.again -= again
	for _, c := range slices.Backward(stale) {
		find(c, outer, leftOut)
		leftOut = false
		if c.until = c.end; outer != nil {
			c.until = min(c.until, outer.until)
		}
		outer = c
	}
	return outer
}

// fewAgain is how many calls around an instant get their properties again at any rate, and perCall how many do for each
// call.
const fewAgain, perCall = 32, 4

// enclosing sorts queries, and calls answer for each with the open calls at its instant,
// which are valid until answer returns.
func (t *thread) enclosing(s *store, queries []query, answer func(id int, o *open)) {
	slices.SortStableFunc(queries, func(x, y query) int { return cmp.Compare(x.at, y.at) })
	var o open
	answerUntil := func(before int64) { // answers the queries before an instant
		for ; len(queries) > 0 && queries[0].at < before; queries = queries[1:] {
			o.at = queries[0].at
			o.calls, o.python = unended(o.calls, o.at), unended(o.python, o.at)
			answer(queries[0].id, &o)
		}
	}
	for c := range t.all(s) {
		if len(queries) == 0 {
			return
		}
		answerUntil(c.begin)
		o.again += perCall
		switch c.kind {
		case runtime:
		case python:
			o.python = append(unended(o.python, c.begin), opened{call: *c, until: math.MinInt64})
		default:
			o.calls = append(unended(o.calls, c.begin), opened{call: *c, until: math.MinInt64})
		}
	}
	answerUntil(math.MaxInt64)
}

// unended drops the last calls while they ended before an instant. Before the list grows, it drops all calls that did.
func unended(calls []opened, at int64) []opened {
	for len(calls) > 0 && calls[len(calls)-1].end < at {
		calls = calls[:len(calls)-1]
	}
	if len(calls) == cap(calls) {
		calls = slices.DeleteFunc(calls, func(c opened) bool { return c.end < at })
		calls = slices.Grow(calls, len(calls)+8)
	}
	return calls
}

// doubled doubles the capacity of a full list. append grows long lists by a quarter,
// which leaves garbage of four times their size.
func doubled[T any](list []T) []T {
	if len(list) == cap(list) {
		return slices.Grow(list, len(list)+8)
	}
	return list
}

// pythonID returns the number of a Python call, 0 if it is not recorded.
func pythonID(has uint32, id int64) uint32 {
	if has == 0 || id < 0 || id >= math.MaxUint32 {
		return 0
	}
	return uint32(id) + 1
}

// maxInputs bounds the different texts of operators' inputs. Programs have some hundreds.
const maxInputs = 1 << 14

// inputText interns the inputs of an operator. After maxInputs texts, it returns 0 for new ones.
func (r *reader) inputText(text []byte) uint32 {
	if len(r.inputs.all) > maxInputs {
		return r.inputs.ids[string(text)]
	}
	return r.inputs.id(text)
}
