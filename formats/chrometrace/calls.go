package chrometrace

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/memlane/memlane/formats/chrometrace/internal/scan"
	"github.com/memlane/memlane/lifetime"
)

type callKind uint8

const (
	operator   callKind = iota // of PyTorch
	annotation                 // a range that the program named
	python                     // a Python function
	alone                      // no call: an event of memory outside of any, in the table of operations
)

// thread is the calls of one thread.
type thread struct {
	pid, tid string

	recent      []call // as they come in the file
	runs        []run  // those before; a single one once sort was called
	annotations []call // again, as they become marks
}

// call is one run of an operator, annotation or function.
type call struct {
	begin, end int64  // nanoseconds, both included
	name       uint32 // of reader.names
	kind       callKind

	// Of python:
	id, parent uint32 // its number and that of its caller; 0 = not told
	from       uint32 // the place that it was called from

	// Of operator:
	dims, types uint32 // its inputs
	sequence    int64  // of the autograd node that it makes or runs; -1 = none
	forward     int64  // of one that runs: thread of the operator that made it; 0 = it makes one
}

func (r *reader) call(kind callKind, e *scan.Event) {
	t := r.thread(e.PID, e.TID)
	c := call{begin: e.TS.NS, end: lifetime.AddSat(e.TS.NS, max(e.Dur.NS, 0)), name: r.names.id(e.Name), kind: kind, sequence: -1}
	switch kind {
	case python:
		c.from = r.names.id(e.Args.CallFrom)
		c.id, c.parent = pythonID(e.Args.Has&scan.HasPythonID, e.Args.PythonID), pythonID(e.Args.Has&scan.HasPythonParent, e.Args.PythonParent)
	case operator:
		c.dims, c.types = r.inputText(e.Args.Dims), r.inputText(e.Args.Types)
		if e.Args.Has&scan.HasSequence != 0 && e.Args.Sequence >= 0 {
			c.sequence, c.forward = e.Args.Sequence, e.Args.FwdThread
		}
		if c.dims == 0 && c.sequence < 0 {
			c.types = 0 // no tensors, or more shapes than are kept: then sites would differ in types alone
		}
	case annotation:
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

// pack packs the calls since the last time.
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

// sort brings the calls in order: what encloses comes before what it encloses.
// PyTorch writes the operators of a thread in order, and then its functions.
func (t *thread) sort(s *store) {
	if len(t.recent) > 0 {
		t.pack(s)
	}
	t.recent = nil
	for len(t.runs) > 1 {
		var merged []run
		for runs := range slices.Chunk(t.runs, maxMerge) {
			merged = append(merged, s.merge(runs))
		}
		t.runs = merged
	}
	slices.SortStableFunc(t.annotations, func(x, y call) int { return inOrder(&x, &y) })
}

// all yields the calls in order, each good until the next one.
func (t *thread) all(s *store) iter.Seq[*call] { return t.sorted().all(s) }

// backward is all, the last call first.
func (t *thread) backward(s *store) iter.Seq[*call] { return t.sorted().backward(s) }

func (t *thread) sorted() *run {
	if len(t.runs) == 0 {
		return &run{}
	}
	return &t.runs[0]
}

// query asks what encloses an instant of a thread.
type query struct {
	at int64
	id int // of the one who asks
}

// open is the calls that are open at an instant, in order of their begin. Some
// below the last may have ended: calls that overlap without enclosing are rare.
type open struct {
	at     int64
	calls  []opened // but for Python
	python []opened
}

// opened is a call that is open, and what was found out of the calls that enclose
// it. That holds until one of these ends: no query walks through all of them again.
type opened struct {
	call
	until  int64  // the last instant at which the rest holds
	link   int32  // of Python, in callers.links
	within within // of others
}

// enclosed brings the innermost call of a list up to date and returns it; nil where
// none is open. find is called for each call of which nothing is known at the
// instant, outermost first, with the call that encloses it (nil = none).
func (o *open) enclosed(calls []opened, find func(c, outer *opened)) *opened {
	var outer *opened
	var unknown []*opened // innermost first
	for i := len(calls) - 1; i >= 0 && outer == nil; i-- {
		c := &calls[i]
		switch {
		case c.end < o.at:
		case c.until >= o.at:
			outer = c
		default:
			unknown = append(unknown, c)
		}
	}
	for _, c := range slices.Backward(unknown) {
		find(c, outer)
		if c.until = c.end; outer != nil {
			c.until = min(c.until, outer.until)
		}
		outer = c
	}
	return outer
}

// enclosing answers queries: answer gets the calls that enclose the instant,
// good until it returns.
func (t *thread) enclosing(s *store, queries []query, answer func(id int, o *open)) {
	slices.SortStableFunc(queries, func(x, y query) int { return cmp.Compare(x.at, y.at) })
	var o open
	tell := func(before int64) { // answers what is asked of instants before one
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
		tell(c.begin)
		if c.kind == python {
			o.python = append(unended(o.python, c.begin), opened{call: *c, until: math.MinInt64})
		} else {
			o.calls = append(unended(o.calls, c.begin), opened{call: *c, until: math.MinInt64})
		}
	}
	tell(math.MaxInt64)
}

// unended drops the last calls as long as they ended before an instant, and all
// that did where the list would grow.
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

// doubled makes room for more in a list that is full: as much as it holds. Lists
// that grow by a quarter leave four times their size behind.
func doubled[T any](list []T) []T {
	if len(list) == cap(list) {
		return slices.Grow(list, len(list)+8)
	}
	return list
}

// pythonID returns the number of a Python call, 0 where it is not told.
func pythonID(has uint32, id int64) uint32 {
	if has == 0 || id < 0 || id >= math.MaxUint32 {
		return 0
	}
	return uint32(id) + 1
}

// maxInputs bounds the texts of operators' inputs that are kept. Programs have
// some hundreds.
const maxInputs = 1 << 14

// inputText interns the inputs of an operator; once maxInputs texts are known
// what is new is left out.
func (r *reader) inputText(text []byte) uint32 {
	if len(r.inputs.all) == maxInputs {
		return r.inputs.known(text)
	}
	return r.inputs.id(text)
}
