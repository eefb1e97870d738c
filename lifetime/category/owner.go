package category

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/internal/interned"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// backwardModules gives the buffers of backward passes the modules whose forward passes made the nodes that allocate them. Nothing records that in
// snapshots. But nodes run in the reverse order of the forward pass, and each lets go of what it has kept: of what the pass kept and that is alive, the
// node that runs uses the latest, and the first allocation after that is of the operation that made the node.
func (a *analysis) backwardModules() {
	var kept []int // of forward passes, in order; those that ended are dropped when they become the last
	modules := a.nextModules()
	first, forward := textID(0), false // module of the first allocation of the pass
	for i := range a.s.Buffers {
		b, p := &a.s.Buffers[i], &a.out[i]
		if b.Edge&lifetime.BeginUnseen != 0 {
			continue
		}
		if p.Phase == purpose.Forward {
			if !forward {
				first = p.Module
			}
			if a.flags[i]&heldByGraph != 0 {
				kept = append(kept, i)
			}
		}
		forward = p.Phase == purpose.Forward || forward && p.Phase == purpose.OtherPhase
		if p.Phase != purpose.Backward || p.Module != 0 {
			continue
		}
		for len(kept) > 0 && a.s.Buffers[kept[len(kept)-1]].End <= b.Begin {
			kept = kept[:len(kept)-1]
		}
		module := first
		if n := len(kept); n > 0 {
			module = modules[kept[n-1]]
			if a.keptBySelf(kept[n-1], b.Begin) {
				module = a.out[kept[n-1]].Module
			}
		}
		a.setModule(i, module)
	}
}

// nextModules returns, for each buffer of a forward pass, the module of the next allocation of the pass, or its own if it is the last.
func (a *analysis) nextModules() []textID {
	modules := make([]textID, len(a.s.Buffers))
	next, pass := textID(0), int32(-1)
	for i := len(a.s.Buffers) - 1; i >= 0; i-- {
		if a.out[i].Phase != purpose.Forward || a.s.Buffers[i].Edge&lifetime.BeginUnseen != 0 {
			continue
		}
		if a.next[i] != pass {
			next, pass = a.out[i].Module, a.next[i]
		}
		modules[i] = next
		next = a.out[i].Module
	}
	return modules
}

// keptBySelf reports whether the operation that allocated a buffer keeps it, as a normalization keeps its statistics:
// its result, which it allocated just before, is gone at t.
func (a *analysis) keptBySelf(i int, t int64) bool {
	b := &a.s.Buffers[i]
	for k := i - 1; k >= max(0, i-2); k-- {
		other := &a.s.Buffers[k]
		held := other.Edge&lifetime.BeginUnseen == 0 && a.flags[k]&heldByGraph != 0
		if held && other.Site == b.Site && other.End <= t && other.Size > b.Size {
			return true
		}
	}
	return false
}

// owners gives parameters and states the modules that own them: those of the gradients of the same size. Parameters and
// states are made in the order of the modules, gradients in the reverse order of the forward pass.
func (a *analysis) owners() {
	gradients := a.gradientModules()
	if len(gradients) == 0 {
		return
	}
	owned := map[purpose.Category]map[int64][]int{purpose.ModelParameter: {}, purpose.OptimizerState: {}}
	for i := range a.s.Buffers {
		p, b := &a.out[i], &a.s.Buffers[i]
		if of := owned[p.Category]; of != nil && gradients[b.Requested] != nil && b.Edge&lifetime.EndOpen != 0 {
			of[b.Requested] = append(of[b.Requested], i)
		}
	}
	for category, bySize := range owned {
		for size, buffers := range bySize {
			modules := gradients[size]
			if len(buffers)%len(modules) != 0 {
				continue
			}
			slices.SortStableFunc(buffers, a.byAge)
			each := len(buffers) / len(modules) // states of a parameter follow each other
			if category == purpose.ModelParameter {
				buffers, each = buffers[:len(modules)], 1 // copies of the model follow it, and have no gradients
			}
			for k, i := range buffers {
				a.setModule(i, modules[k/each])
			}
		}
	}
}

func (a *analysis) setModule(i int, module textID) {
	a.out[i].Module, a.out[i].ModuleInferred = module, module != 0
}

// byAge orders buffers by their allocation, those from before the window by address.
func (a *analysis) byAge(x, y int) int {
	p, q := &a.s.Buffers[x], &a.s.Buffers[y]
	if p.Edge&q.Edge&lifetime.BeginUnseen != 0 {
		return cmp.Compare(p.Addr, q.Addr)
	}
	return cmp.Compare(p.Begin, q.Begin)
}

// gradientModules returns the modules of the gradients of each size, in the order of the forward pass, of the backward pass that makes most.
func (a *analysis) gradientModules() map[int64][]textID {
	best, most, count, pass := int32(-1), 0, 0, int32(-1)
	a.eachGradient(func(i int) {
		if in := a.passOf(i); in != pass {
			count, pass = 0, in
		}
		if count++; count > most {
			best, most = pass, count
		}
	})
	made := map[int64][]textID{}
	a.eachGradient(func(i int) {
		if a.passOf(i) == best {
			size := a.s.Buffers[i].Requested
			made[size] = append(made[size], a.out[i].Module)
		}
	})
	for _, modules := range made {
		slices.Reverse(modules)
	}
	return made
}

func (a *analysis) eachGradient(take func(i int)) {
	for i := range a.s.Buffers {
		p := &a.out[i]
		if p.Category == purpose.Gradient && p.Phase == purpose.Backward && a.s.Buffers[i].Edge&lifetime.BeginUnseen == 0 {
			take(i)
		}
	}
}

// modules finds the module of each buffer: the one that the metadata of the allocation names, or else the innermost one
// whose call encloses the allocation, by annotations or by the stack.
func (a *analysis) modules() {
	noted := map[lifetime.NoteID]textID{}
	marks := rangesOf(a.marks(isModuleMark), a.s.End)
	var open []lifetime.Mark // enclosing ones, outermost first
	next := 0
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if b.Edge&lifetime.BeginUnseen != 0 {
			continue
		}
		for ; next < len(marks) && marks[next].Begin <= b.Begin; next++ {
			open = append(open, marks[next])
		}
		if name := a.notedModule(i, noted); name != 0 {
			a.out[i].Module = name
			continue
		}
		open = slices.DeleteFunc(open, func(m lifetime.Mark) bool { return m.End <= b.Begin })
		if n := len(open); n > 0 && open[n-1].Text != "" && (a.out[i].Phase == purpose.Forward || a.out[i].Part == purpose.Recomputation) {
			a.out[i].Module = a.r.texts.ids.ID(open[n-1].Text)
			continue
		}
		a.out[i].Module = a.r.place(b.Site).stack.module
	}
}

// ofFSDP begins the names of what PyTorch's FSDP does. (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py)
const ofFSDP = "FSDP::"

func isModuleMark(m *lifetime.Mark) bool {
	_, isModule := program.ModuleName(m.Text)
	return m.Kind == lifetime.Annotation && (isModule || strings.HasPrefix(m.Text, ofFSDP))
}

// rangesOf returns the calls of modules that marks tell, with the names of the modules, in order: also from before the forward pass of a module that FSDP shards
// to after it. Some versions name that module only where they gather its parameters; "" = not known.
func rangesOf(marks []lifetime.Mark, end int64) (all []lifetime.Mark) {
	var open []int // of FSDP, in all
	for _, m := range marks {
		if !isModuleMark(&m) {
			continue
		}
		what, name, _ := strings.Cut(strings.TrimSuffix(m.Text, ")"), " (")
		n := len(open)
		if module, isModule := program.ModuleName(m.Text); isModule {
			all = append(all, lifetime.Mark{Begin: m.Begin, End: m.End, Text: module})
		} else if what == ofFSDP+"pre_forward" {
			open, all = append(open, len(all)), append(all, lifetime.Mark{Begin: m.Begin, End: end, Text: name})
		} else if n > 0 && what == ofFSDP+"all_gather_copy_out" && all[open[n-1]].Text == "" {
			all[open[n-1]].Text = name
		} else if n > 0 && what == ofFSDP+"post_forward" {
			all[open[n-1]].End, open = m.Begin, open[:n-1]
		}
	}
	return all
}

// knowMarks adds a space to those whose marks may be about others.
func (r *reader) knowMarks(s *lifetime.Space) {
	if len(s.Marks) > 0 {
		r.marked = append(r.marked, s)
	}
}

// marks returns the marks of the space, or if it has none of those that asked reports, those of another device of its process: PyTorch
// writes a mark at one device, and it is about all.
func (a *analysis) marks(asked func(m *lifetime.Mark) bool) []lifetime.Mark {
	has := func(s *lifetime.Space) bool {
		return slices.ContainsFunc(s.Marks, func(m lifetime.Mark) bool { return asked(&m) })
	}
	if a.s.Axis == lifetime.Time && !has(a.s) {
		for _, s := range a.r.marked {
			if s.Axis == a.s.Axis && s.Source == a.s.Source && s.Host == a.s.Host && s.Process == a.s.Process && has(s) {
				return s.Marks
			}
		}
	}
	return a.s.Marks
}

// notedModule returns the module that the metadata of an allocation names; 0 if it names none.
func (a *analysis) notedModule(i int, known map[lifetime.NoteID]textID) textID {
	if a.s.BufNotes == nil || a.s.BufNotes[i] == 0 {
		return 0
	}
	note := a.s.BufNotes[i]
	id, ok := known[note]
	if !ok {
		id = a.r.texts.ids.ID(program.NotedModule(a.t.Notes[note]))
		known[note] = id
	}
	return id
}

// invocation is one run of a module: the n-th one of a chain in its caller's run.
type invocation struct {
	call   program.CallID
	caller runID // 0: the program called it
	number uint32
}

// element is what calls of modules have in common that differ in their number.
type element struct {
	line  lifetime.FrameID
	class string // of the library; "" = of the program
}

// runID is the number of an invocation; 0 = none.
type runID uint32

// layers numbers the calls of modules by the order of allocations. Stacks have the lines of calls, but not the modules: a line in a loop calls one layer
// after the other. A layer begins again with the line that allocated first in it, unless that line itself is in a loop within the layer: see rounds.
type layers struct {
	r      *reader
	all    []invocation
	ids    interned.Table[invocation, runID]
	open   []openCall // enclosing calls, outermost first
	most   []uint32   // by callID: the highest number of a run
	rounds []int      // by callID: how often a call begins with its first line; 0 = once
	made   []content  // of all calls
}

type content struct {
	call  program.CallID
	first int32            // the first of the calls of its line in a row, in made
	count int32            // of allocations
	line  lifetime.FrameID // its own line that allocates, or calls what does; several
	hash  uint64           // of the allocations, in order
}

// several stands for more than one line.
const several = ^lifetime.FrameID(0)

func newLayers(r *reader, rounds []int) *layers {
	l := &layers{r: r, most: make([]uint32, r.Calls()), rounds: rounds}
	l.ids = interned.New[invocation, runID](&l.all)
	return l
}

type openCall struct {
	run    runID
	call   program.CallID
	first  firstOf
	others bool               // there were other allocations since then
	round  int                // how often it began with its first line, but for the first time
	made   int32              // in layers.made
	child  int32              // the last call that it made, in layers.made; 0 = none
	calls  map[element]uint32 // how often it made a call; kept for the next call at this depth
}

type firstOf struct {
	path program.PathID
	size int64
}

// at returns the run of the innermost module that an allocation belongs to; 0 if there is none. begins reports whether
// the program calls a root module again.
func (l *layers) at(f *facts, size int64, begins bool) runID {
	chain, what := l.r.Chain(f.call), firstOf{f.path, size}
	if begins {
		l.open = l.open[:0]
	}
	l.open = l.open[:l.goOn(chain, what)]
	for depth, call := range chain {
		if depth == len(l.open) {
			l.enter(call, what)
		}
		o := &l.open[depth]
		o.others = o.others || o.first.path != f.path
		if f.flags&(program.Cublas|program.CublasLt) == 0 { // only the first layer makes workspaces
			l.made[o.made].allocates(what, l.lineIn(f, chain, depth))
		}
	}
	if len(chain) == 0 {
		return 0
	}
	return l.open[len(chain)-1].run
}

// goOn returns how many of the open calls go on. Of those that an allocation may begin again, that is the innermost one.
func (l *layers) goOn(chain []program.CallID, what firstOf) (n int) {
	inner, again := l.advances(chain), -1
	for n < min(len(chain), len(l.open)) && l.r.Same(l.open[n].call, chain[n]) {
		if o := &l.open[n]; n >= inner && o.first == what && o.others {
			again = n
		}
		n++
	}
	if again < 0 {
		return n
	}
	if o := &l.open[again]; o.round+1 < l.rounds[o.call] {
		o.round, o.others = o.round+1, false
		return n
	}
	return again
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

func (l *layers) lineIn(f *facts, chain []program.CallID, depth int) lifetime.FrameID {
	if depth+1 < len(chain) {
		return l.r.LineOf(chain[depth+1])
	}
	return f.callee
}

func (l *layers) enter(call program.CallID, first firstOf) {
	run := invocation{call: call}
	n := len(l.open)
	if n > 0 {
		o := &l.open[n-1]
		of := element{l.r.LineOf(call), l.r.ClassOf(call)}
		run.caller, run.number = o.run, o.calls[of]
		if o.calls == nil {
			o.calls = map[element]uint32{}
		}
		o.calls[of]++
		l.most[call] = max(l.most[call], run.number)
	}
	if n == cap(l.open) {
		l.open = append(l.open, openCall{})
	}
	l.open = l.open[:n+1]
	calls := l.open[n].calls
	clear(calls)
	made := int32(len(l.made))
	l.open[n] = openCall{run: l.ids.ID(run), call: call, first: first, calls: calls, made: made}
	c := content{call: call, first: made}
	if n > 0 {
		caller := &l.open[n-1]
		if last := l.made[caller.child]; caller.child > 0 && last.call == call {
			c.first = last.first
		}
		caller.child = made
	}
	l.made = append(l.made, c)
}

// allocates notes what a call allocates, in which line of it.
func (c *content) allocates(what firstOf, line lifetime.FrameID) {
	const prime = 1099511628211 // of FNV
	if c.count++; c.count > 1 && line != c.line {
		line = several
	}
	c.line, c.hash = line, ((c.hash^uint64(what.path))*prime^uint64(what.size))*prime
}

// findRounds returns how often calls begin with their first line, if that is not once: a loop over chunks begins a call again and again,
// and only the last time it does what follows; a line may call several modules that begin alike. This happens at least twice.
func (l *layers) findRounds() []int {
	rounds, calls := make([]int, len(l.most)), make([]int, len(l.most))
	slices.SortStableFunc(l.made, func(x, y content) int { return cmp.Compare(x.first, y.first) }) // calls of one line in a row
	for row, rest := []content(nil), l.made; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(c content) bool { return c.first != rest[0].first })
		if n < 0 {
			n = len(rest)
		}
		row, rest = rest[:n], rest[n:]
		call := row[0].call
		n = 1 + slices.IndexFunc(row, func(c content) bool { return c.hash != row[0].hash })
		switch {
		case len(row) == 1: // not known
		case n < 2 || rounds[call] > 0 && rounds[call] != n || !inRounds(row, n):
			calls[call] -= len(row)
		default:
			rounds[call], calls[call] = n, calls[call]+len(row)
		}
	}
	for call := range rounds {
		if calls[call] < 2*rounds[call] {
			rounds[call] = 0
		}
	}
	return rounds
}

// inRounds reports whether each n-th call in a row does something else than those before it, which are equal: more than these, or all in one line.
func inRounds(row []content, n int) bool {
	oneLine := row[0].line != several
	for i, c := range row {
		as := row[0]
		if i%n == n-1 {
			as = row[n-1]
		}
		if c.hash != as.hash {
			return false
		}
		oneLine = oneLine && c.line == row[0].line
	}
	return len(row)%n == 0 && (oneLine || row[n-1].count > row[0].count)
}

// names returns the names of all runs: the lines that call the modules, outermost first, with the class of a module of PyTorch, and
// numbers from 0 where a line calls several: "model.py:18[3]/block.py:9 Linear". If one line calls all root modules, it is left out.
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

// line returns the line that makes a call, and the class of the module. Those of a Sequential are all called in one line of PyTorch.
func (l *layers) line(call program.CallID) string {
	frame, class := &l.r.t.Frames[l.r.LineOf(call)], l.r.ClassOf(call)
	if l.r.IsSequential(call) {
		return cmp.Or(class, "Sequential")
	}
	return strings.TrimSpace(fmt.Sprintf("%s:%d %s", path.Base(frame.File), frame.Line, class))
}

// layers gives the buffers of forward passes the modules that their stacks tell.
func (a *analysis) layers() {
	runs := make([]runID, len(a.s.Buffers))
	l := newLayers(a.r, make([]int, a.r.Calls()))
	a.number(l, runs)
	if rounds := l.findRounds(); slices.Max(append(rounds, 0)) > 0 {
		l = newLayers(a.r, rounds)
		a.number(l, runs)
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

func (a *analysis) number(l *layers, runs []runID) {
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
}
