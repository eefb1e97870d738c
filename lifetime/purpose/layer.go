package purpose

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// callID is a chain of calls of modules in the source: which line calls what, from which chain. 0 = none.
type callID uint32

// moduleCallSite is one element of a chain.
type moduleCallSite struct {
	line   lifetime.FrameID // that calls the module
	callee string           // file and function of its forward: a line in a loop may call several classes
	caller callID
}

// invocation is one run of a module: the n-th one of a chain in its caller's run.
type invocation struct {
	call   callID
	caller int // index of the caller's run; -1: the program called it
	number int
}

// layers numbers the calls of modules by the order of allocations. Stacks have the lines of calls, but not the modules: a
// line in a loop calls one layer after the other. A layer begins again with the line that allocated first in it.
type layers struct {
	r     *reader
	all   []invocation
	known map[invocation]int
	open  []openCall // enclosing calls, outermost first
	most  map[callID]int
}

// openCall is a call that goes on.
type openCall struct {
	run    int
	call   callID
	first  firstOf
	others bool                     // there were other allocations since then
	calls  map[lifetime.FrameID]int // how often each line of it called a module
}

// firstOf is the first allocation of a call.
type firstOf struct {
	path pathID
	size int64
}

// at returns the run of the innermost module that an allocation belongs to; -1 if there is none. begins reports whether the
// program calls a root module again.
func (l *layers) at(f *facts, size int64, begins bool) int {
	chain := l.r.chain(f.call)
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
		return -1
	}
	return l.open[len(chain)-1].run
}

// advances returns the depth of the innermost call that is that of a module of a Sequential, whose forward calls all in one line,
// while the calls around it go on; 0 if there is none.
func (l *layers) advances(chain []callID) (inner int) {
	for depth := 0; depth < min(len(chain), len(l.open)); depth++ {
		line := l.r.calls[chain[depth]].line
		if l.r.calls[l.open[depth].call].line == line && strings.HasSuffix(l.r.t.Frames[line].File, "torch/nn/modules/container.py") {
			inner = depth
		}
		if l.open[depth].call != chain[depth] {
			break
		}
	}
	return inner
}

// enter begins a call.
func (l *layers) enter(call callID, first firstOf) {
	run := invocation{call: call, caller: -1}
	if n := len(l.open); n > 0 {
		o := &l.open[n-1]
		line := l.r.calls[call].line
		run.caller, run.number = o.run, o.calls[line]
		if o.calls == nil {
			o.calls = map[lifetime.FrameID]int{}
		}
		o.calls[line]++
		l.most[call] = max(l.most[call], run.number)
	}
	i, ok := l.known[run]
	if !ok {
		i = len(l.all)
		l.known[run] = i
		l.all = append(l.all, run)
	}
	l.open = append(l.open, openCall{run: i, call: call, first: first})
}

// names returns the names of all runs: the lines that call the modules, outermost first, and numbers from 0 where a line calls
// several: "model.py:18[3]/block.py:9". If one line calls all root modules, it is left out.
func (l *layers) names() []string {
	names := make([]string, len(l.all))
	roots := map[string]bool{}
	for _, run := range l.all {
		if run.caller < 0 {
			roots[l.line(run.call)] = true
		}
	}
	for i, run := range l.all {
		name := l.line(run.call)
		if l.most[run.call] > 0 {
			name = fmt.Sprintf("%s[%d]", name, run.number)
		}
		if run.caller >= 0 && (len(roots) > 1 || l.all[run.caller].caller >= 0) {
			name = names[run.caller] + "/" + name
		}
		names[i] = name
	}
	return names
}

// line returns the line that makes a call.
func (l *layers) line(call callID) string {
	frame := &l.r.t.Frames[l.r.calls[call].line]
	return fmt.Sprintf("%s:%d", path.Base(frame.File), frame.Line)
}

// chain returns the calls of a chain, outermost first, the first maxDepth of them.
func (r *reader) chain(id callID) []callID {
	chain, ok := r.chains[id]
	if ok || id == 0 {
		return chain
	}
	for at := id; at != 0; at = r.calls[at].caller {
		chain = append(chain, at)
	}
	slices.Reverse(chain)
	chain = slices.Clone(chain[:min(len(chain), maxDepth)])
	r.chains[id] = chain
	return chain
}

// maxDepth bounds the names of modules.
const maxDepth = 48

// called returns the chain that a line and the function that it calls add to a chain.
func (r *reader) called(c moduleCallSite) callID {
	id, ok := r.callIDs[c]
	if !ok {
		id = callID(len(r.calls))
		r.callIDs[c] = id
		r.calls = append(r.calls, c)
	}
	return id
}

// layers gives the buffers of forward passes the modules that their stacks tell.
func (a *analysis) layers() {
	l := layers{r: a.r, known: map[invocation]int{}, most: map[callID]int{}}
	runs := make([]int, len(a.s.Buffers))
	last := int32(-1)
	for i := range a.s.Buffers {
		runs[i] = -1
		b := &a.s.Buffers[i]
		if f := a.at(b); f.within == inModule && a.out[i].Phase == lifetime.Forward && a.out[i].Module == "" {
			runs[i] = l.at(f, b.Requested, a.next[i] != last)
			last = a.next[i]
		}
	}
	names := l.names()
	for i, run := range runs {
		if run >= 0 {
			a.out[i].Module, a.out[i].ModuleInferred = names[run], true
		}
	}
}
