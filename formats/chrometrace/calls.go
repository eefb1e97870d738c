package chrometrace

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/memlane/memlane/formats/chrometrace/scan"
	"github.com/memlane/memlane/lifetime"
)

type callKind uint8

const (
	operator   callKind = iota // of PyTorch
	annotation                 // a range that the program named
	python                     // a Python function
	alone                      // no call: an event of memory outside of any, in the table of operations
)

// thread is the calls of one thread, in pieces: a list that grows would be
// copied again and again.
type thread struct {
	pid, tid string

	pieces [][]call
}

// pieceLen is the number of calls of a piece.
const pieceLen = 4096

func (t *thread) add(c call) {
	n := len(t.pieces)
	if n == 0 || len(t.pieces[n-1]) == cap(t.pieces[n-1]) {
		t.pieces = append(t.pieces, make([]call, 0, min(pieceLen, 16<<min(2*n, 8)))) // traces may have thousands of threads
		n++
	}
	t.pieces[n-1] = append(t.pieces[n-1], c)
}

// all yields the calls, in order of their begin once sort was called.
func (t *thread) all() iter.Seq[*call] {
	return func(yield func(*call) bool) {
		for _, piece := range t.pieces {
			for i := range piece {
				if !yield(&piece[i]) {
					return
				}
			}
		}
	}
}

// call is one run of an operator, annotation or function. There may be millions.
type call struct {
	begin, end int64  // nanoseconds, both included
	name       uint32 // of reader.names
	extra      uint32 // of python: the place that it was called from; else index+1 into details
	id, parent uint32 // of python: its number and that of its caller; 0 = not told
	kind       callKind
}

// details is what operators have besides.
type details struct {
	sequence    int64 // of the autograd node that it makes or runs; -1 = none
	forward     int64 // of one that runs: thread of the operator that made it; 0 = it makes one
	dims, types uint32
}

// detailsOf returns the details of a call, nil where it has none.
func (r *reader) detailsOf(c *call) *details {
	if c.kind != operator || c.extra == 0 {
		return nil
	}
	return &r.details[c.extra-1]
}

func (r *reader) call(kind callKind, e *scan.Event) {
	t := r.thread(e.PID, e.TID)
	c := call{begin: e.TS.NS, end: lifetime.AddSat(e.TS.NS, max(e.Dur.NS, 0)), name: r.names.id(e.Name), kind: kind}
	switch kind {
	case python:
		c.extra = r.names.id(e.Args.CallFrom)
		c.id, c.parent = pythonID(e.Args.Has&scan.HasPythonID, e.Args.PythonID), pythonID(e.Args.Has&scan.HasPythonParent, e.Args.PythonParent)
	case operator:
		d := details{sequence: -1, dims: r.inputText(e.Args.Dims), types: r.inputText(e.Args.Types)}
		if e.Args.Has&scan.HasSequence != 0 {
			d.sequence, d.forward = e.Args.Sequence, e.Args.FwdThread
		}
		if d.sequence >= 0 || d.dims != 0 {
			r.details = append(doubled(r.details), d)
			c.extra = uint32(len(r.details))
		}
	}
	t.add(c)
}

// sort brings the calls in order: what encloses comes before what it encloses.
// As a rule they are.
func (t *thread) sort() {
	inOrder := func(x, y call) int { return cmp.Or(cmp.Compare(x.begin, y.begin), cmp.Compare(y.end, x.end)) }
	var last *call
	disorder := false
	for c := range t.all() {
		disorder = disorder || last != nil && inOrder(*last, *c) > 0
		last = c
	}
	if disorder {
		all := slices.Concat(t.pieces...)
		slices.SortStableFunc(all, inOrder)
		t.pieces = [][]call{all}
	}
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
	calls  []*call // but for Python
	python []*call
}

// enclosing answers queries: answer gets the calls that enclose the instant,
// good until it returns.
func (t *thread) enclosing(queries []query, answer func(id int, o *open)) {
	slices.SortStableFunc(queries, func(x, y query) int { return cmp.Compare(x.at, y.at) })
	var o open
	tell := func(before int64) { // answers what is asked of instants before one
		for ; len(queries) > 0 && queries[0].at < before; queries = queries[1:] {
			o.at = queries[0].at
			o.calls, o.python = unended(o.calls, o.at), unended(o.python, o.at)
			answer(queries[0].id, &o)
		}
	}
	for c := range t.all() {
		if len(queries) == 0 {
			return
		}
		tell(c.begin)
		if c.kind == python {
			o.python = append(unended(o.python, c.begin), c)
		} else {
			o.calls = append(unended(o.calls, c.begin), c)
		}
	}
	tell(math.MaxInt64)
}

// unended drops the last calls as long as they ended before an instant, and all
// that did where the list would grow.
func unended(calls []*call, at int64) []*call {
	for len(calls) > 0 && calls[len(calls)-1].end < at {
		calls = calls[:len(calls)-1]
	}
	if len(calls) == cap(calls) {
		calls = slices.DeleteFunc(calls, func(c *call) bool { return c.end < at })
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

// innermost yields those of the calls that are open, the innermost first.
func (o *open) innermost(calls []*call) iter.Seq[*call] {
	return func(yield func(*call) bool) {
		for _, c := range slices.Backward(calls) {
			if c.end >= o.at && !yield(c) {
				return
			}
		}
	}
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
	if r.inputTexts == maxInputs {
		return r.names.known(text)
	}
	before := len(r.names.all)
	id := r.names.id(text)
	r.inputTexts += len(r.names.all) - before
	return id
}
