package category

import (
	"fmt"
	"path"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/internal/interned"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// invocation is one run of a module: the n-th one of a chain in its caller's run.
type invocation struct {
	call   program.CallID
	caller runID // 0: the program called it
	number uint32
}

// runID is the number of an invocation; 0 = none.
type runID uint32

// layers numbers the calls of modules by the order of allocations. Stacks have the lines of calls, but not the modules:
// a line in a loop calls one layer after the other. A layer begins again with the line that allocated first in it.
type layers struct {
	r    *reader
	all  []invocation
	ids  interned.Table[invocation, runID]
	open []openCall // enclosing calls, outermost first
	most []uint32   // by callID: the highest number of a run
}

func newLayers(r *reader) *layers {
	l := &layers{r: r, most: make([]uint32, r.Calls())}
	l.ids = interned.New[invocation, runID](&l.all)
	return l
}

// openCall is a call that goes on.
type openCall struct {
	run    runID
	call   program.CallID
	first  firstOf
	others bool                        // there were other allocations since then
	calls  map[lifetime.FrameID]uint32 // how often each line of it called a module; kept for the next call at this depth
}

// maxKept bounds the lines of a map that is kept: it takes long to clear a large one.
const maxKept = 64

// firstOf is the first allocation of a call.
type firstOf struct {
	path program.PathID
	size int64
}

// at returns the run of the innermost module that an allocation belongs to; 0 if there is none. begins reports whether
// the program calls a root module again.
func (l *layers) at(f *facts, size int64, begins bool) runID {
	chain := l.r.Chain(f.call)
	if begins {
		l.open = l.open[:0]
	}
	inner := l.advances(chain)
	for depth, call := range chain {
		if depth < len(l.open) {
			o := &l.open[depth]
			isFirst := o.first == (firstOf{f.path, size})
			if o.call == call && (!isFirst || !o.others || depth < inner) {
				o.others = o.others || o.first.path != f.path
				continue
			}
			l.open = l.open[:depth]
		}
		l.enter(call, firstOf{f.path, size})
	}
	l.open = l.open[:len(chain)]
	if len(chain) == 0 {
		return 0
	}
	return l.open[len(chain)-1].run
}

// advances returns the depth of the innermost call that is that of a module of a Sequential, whose forward calls all in
// one line, while the calls around it go on; 0 if there is none.
func (l *layers) advances(chain []program.CallID) (inner int) {
	for depth := 0; depth < min(len(chain), len(l.open)); depth++ {
		is, was := chain[depth], l.open[depth].call
		if l.r.IsSequential(is) && (is == was || l.r.LineOf(is) == l.r.LineOf(was)) {
			inner = depth
		}
		if is != was {
			break
		}
	}
	return inner
}

// enter begins a call.
func (l *layers) enter(call program.CallID, first firstOf) {
	run := invocation{call: call}
	n := len(l.open)
	if n > 0 {
		o := &l.open[n-1]
		line := l.r.LineOf(call)
		run.caller, run.number = o.run, o.calls[line]
		if o.calls == nil {
			o.calls = map[lifetime.FrameID]uint32{}
		}
		o.calls[line]++
		l.most[call] = max(l.most[call], run.number)
	}
	if n == cap(l.open) {
		l.open = append(l.open, openCall{})
	}
	l.open = l.open[:n+1]
	calls := l.open[n].calls
	if len(calls) > maxKept {
		calls = nil
	}
	clear(calls)
	l.open[n] = openCall{run: l.ids.ID(run), call: call, first: first, calls: calls}
}

// names returns the names of all runs: the lines that call the modules, outermost first, and numbers from 0 where a
// line calls several: "model.py:18[3]/block.py:9". If one line calls all root modules, it is left out.
func (l *layers) names() []string {
	names := make([]string, len(l.all))
	roots := map[string]bool{}
	for _, run := range l.all[1:] {
		if run.caller == 0 {
			roots[l.line(run.call)] = true
		}
	}
	for i, run := range l.all[1:] {
		name := l.line(run.call)
		if l.most[run.call] > 0 {
			name = fmt.Sprintf("%s[%d]", name, run.number)
		}
		if run.caller > 0 && (len(roots) > 1 || l.all[run.caller].caller > 0) {
			name = names[run.caller] + "/" + name
		}
		names[i+1] = name
	}
	return names
}

// line returns the line that makes a call.
func (l *layers) line(call program.CallID) string {
	frame := &l.r.t.Frames[l.r.LineOf(call)]
	return fmt.Sprintf("%s:%d", path.Base(frame.File), frame.Line)
}

// layers gives the buffers of forward passes the modules that their stacks tell.
func (a *analysis) layers() {
	l := newLayers(a.r)
	runs := make([]runID, len(a.s.Buffers))
	last := int32(-1)
	for i := range a.s.Buffers {
		if a.out[i].Phase != purpose.Forward || a.out[i].Module != 0 {
			continue
		}
		b := &a.s.Buffers[i]
		if f := a.at(b); f.within == program.InModule {
			runs[i] = l.at(f, b.Requested, a.next[i] != last)
			last = a.next[i]
		}
	}
	var names []textID // of runs
	for _, name := range l.names() {
		names = append(names, a.r.texts.ids.ID(name))
	}
	for i, run := range runs {
		if run > 0 {
			a.out[i].Module, a.out[i].ModuleInferred = names[run], true
		}
	}
}
