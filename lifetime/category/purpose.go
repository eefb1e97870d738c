package category

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// judge finds the purpose of each buffer of a space, and whether the program is one of PyTorch. Buffers of other programs of
// which nothing is known have no purpose.
func (r *reader) judge(s *lifetime.Space) *analysis {
	a := &analysis{t: r.t, s: s, r: r, out: make([]verdict, len(s.Buffers))}
	a.phases()
	a.survey()
	if a.isTorch {
		a.judge()
		a.sizes = a.measure()
		a.judge()
		a.repeat()
		a.correspond()
		a.resume()
		a.parts()
		a.modules()
		if a.hasLines() {
			a.layers()
		}
		a.backwardModules()
		a.owners()
	} else {
		a.scopes()
		a.judge()
		a.own()
	}
	return a
}

// Judge finds the purposes of buffers of a capture. It reads every stack once and every buffer a few times.
type Judge struct {
	r *reader
	n *numbers
}

// NewJudge returns a judge of the spaces of t, which is complete but for purposes.
func NewJudge(t *lifetime.Tables) *Judge {
	r := newReader(t)
	return &Judge{r, newNumbers(t, &r.texts)}
}

// Add sets the purposes of the buffers of a space of a program of PyTorch, and of other programs if any buffer has one.
func (j *Judge) Add(s *lifetime.Space) {
	a := j.r.judge(s)
	if !a.isTorch && !slices.ContainsFunc(a.out, func(v verdict) bool { return v != verdict{} }) {
		return
	}
	s.Purposes = make([]lifetime.PurposeID, len(a.out))
	for i := range a.out {
		s.Purposes[i] = j.n.of(&a.out[i], a.isTorch)
	}
}

// AddRows sets the purposes of rows of a space whose other buffers were not kept. Only what the site of a buffer tells is known
// then, so it does nothing for programs of PyTorch.
func (j *Judge) AddRows(s *lifetime.SpaceInfo, all ...[]lifetime.Row) {
	for _, rows := range all {
		space := &lifetime.Space{SpaceInfo: *s}
		for _, r := range rows {
			if r.Kind.OfBuffers() {
				space.Buffers = append(space.Buffers, lifetime.Buffer{Site: r.Site, Kind: r.Kind})
			}
		}
		a := j.r.judge(space)
		if a.isTorch {
			return
		}
		next := 0
		for i := range rows {
			if rows[i].Kind.OfBuffers() {
				rows[i].Purpose = j.n.of(&a.out[next], false)
				next++
			}
		}
	}
}

// analysis finds the purposes of one space.
type analysis struct {
	t *lifetime.Tables
	s *lifetime.Space
	r *reader
	timeline
	sure    []bool // the phase is known from frames, a record or the order of passes
	lasts   []bool // last allocation of a call of a root module
	out     []verdict
	next    []int32 // first span after the allocation
	flags   []uint8 // heldByGraph and so on
	scratch view    // of the buffer that rules look at: a view of its own for each would be allocated
	sizes   *sizes  // nil in the first pass
	isTorch bool

	candidates    []int                                 // older than the window, or of a part of the program that tells no category
	firstBackward int64                                 // of a compiled program: first allocation of its backward part
	arguments     map[lifetime.SiteID]purpose.Category  // of a compiled program
	shapes        map[string]bool                       // of the parameters of a compiled program
	hopperKnown   bool                                  // ofHopper is known
	ofHopper      int                                   // buffers that may be workspaces on Hopper, by their size
	failed        []failure                             // when memory ran out
	lasting       map[int64]bool                        // see ofParameterSize; nil = not computed
	rebound       map[int64]bool                        // see rebinds; nil = not computed
	previous      []int32                               // by buffer: 1 + the one whose place it takes; 0 = none
	replaced      []bool                                // by buffer: another took its place
	keeping       []int8                                // by span: see keepsMost; nil = not computed
	leaves        []int32                               // by span: see leavesSeveral; nil = not computed
	converts      map[lifetime.FrameID]purpose.Category // by frame of Module._apply; nil = not computed
}

// place is what a site says. There are few, so that each is read once.
type place struct {
	own        facts         // of the stack
	stack      *facts        // nil = not read
	allocation *facts        // the same, of an allocation; before the window it is nothing
	phase      purpose.Phase // that the stack of an allocation tells
	hasRegion  bool
}

// place returns what a site says.
func (r *reader) place(id lifetime.SiteID) *place {
	p := &r.places[id]
	if p.stack == nil {
		site := &r.t.Sites[id]
		p.own, p.phase = r.of(site.Stack)
		p.stack, p.allocation, p.hasRegion = &p.own, &p.own, site.Region != ""
		if site.Unseen {
			p.allocation, p.phase = &noFacts, purpose.UnknownPhase
		}
	}
	return p
}

// at returns what the stack of an allocation says. Before the window it is nothing, unless the allocator still knew the stack: a
// program that begins to record again.
func (a *analysis) at(b *lifetime.Buffer) *facts {
	if b.Edge&lifetime.SiteFromFree != 0 {
		return &noFacts
	}
	return a.r.place(b.Site).allocation
}

// freed returns what the stack of a free says; nil if it was not recorded.
func (a *analysis) freed(i int) *facts {
	b := &a.s.Buffers[i]
	if b.Edge&(lifetime.EndOpen|lifetime.EndInferred) != 0 || a.s.FreeSites == nil {
		return nil
	}
	return a.r.place(a.freeSite(i)).stack
}

// freeSite returns the site of a recorded free.
func (a *analysis) freeSite(i int) lifetime.SiteID {
	if site := a.s.FreeSites[i]; site != 0 {
		return site
	}
	return a.s.Buffers[i].Site // freed where it was allocated
}

// phaseOf returns the phase that the stack of an allocation or a record of a step tells; UnknownPhase if none does.
func (a *analysis) phaseOf(b *lifetime.Buffer) purpose.Phase {
	phase := purpose.UnknownPhase
	if b.Edge&lifetime.SiteFromFree == 0 {
		phase = a.r.place(b.Site).phase
	}
	if phase == purpose.UnknownPhase {
		if _, ok := a.stepAt(b.Begin); ok {
			return purpose.OptimizerPhase
		}
	}
	return phase
}

// phases finds the phase of each allocation in the window: from its stack, then from those before and after it.
func (a *analysis) phases() {
	a.optimizerSteps(a.s.Marks)
	if !a.hasLines() {
		a.closures()
	}
	a.sure, a.lasts = make([]bool, len(a.s.Buffers)), make([]bool, len(a.s.Buffers))
	calls := rootCalls{last: -1}
	lines := a.hasLines()
	between := false // the program allocated outside of all passes since the last span
	returned := a.returned()
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if b.Edge&lifetime.BeginUnseen != 0 {
			if b.Edge&lifetime.SiteFromFree == 0 {
				a.out[i].Phase = a.r.place(b.Site).phase
			}
			a.sure[i] = a.out[i].Phase != purpose.UnknownPhase
			a.isTorch = a.isTorch || a.sure[i] || a.r.named(a.at(b).path) != purpose.UnknownCategory
			continue
		}
		f, phase := a.at(b), a.phaseOf(b)
		calls.ended = calls.ended || returned[i]
		if phase == purpose.UnknownPhase {
			calls.ended = calls.ended || f.python
			between = between || f.rooted || !lines
			if !lines || !calls.sameLine(f) || a.last() != purpose.Forward {
				continue
			}
			phase, between = purpose.Forward, false // works on the result of the call
		}
		a.isTorch = true
		a.out[i].Phase, a.sure[i] = phase, true
		begins := phase == purpose.Forward && calls.add(i, f, a.lasts) || phase == purpose.Backward && between
		if phase == purpose.OtherPhase || phase == purpose.OptimizerPhase && a.last() == purpose.Backward && a.r.inEngine(f) {
			continue // an optimizer that steps within the backward pass does not end it
		}
		a.add(phase, b.Begin, begins)
		if phase == purpose.Backward && f.flags&returnsGrads != 0 {
			a.spans[len(a.spans)-1].returns = true
		}
		between = false
	}
	calls.end(a.lasts)
	a.passesWithoutModules()
	a.addSteps()
	hasPasses := slices.ContainsFunc(a.spans, func(s span) bool { return s.phase != purpose.OptimizerPhase })
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if !a.isTorch || b.Edge&lifetime.BeginUnseen != 0 || a.out[i].Phase != purpose.UnknownPhase || !hasPasses && !a.at(b).python {
			continue
		}
		a.out[i].Phase, a.sure[i] = a.between(b)
		if a.out[i].Phase == purpose.OtherPhase && a.byGraph(i) && a.afterForward(b.Begin) {
			a.out[i].Phase, a.sure[i] = purpose.Forward, true
		}
	}
}

// closures takes the closures out of steps of optimizers that call them, if stacks do not tell their forward passes: what is after the last
// backward pass in a step is of the optimizer.
func (a *analysis) closures() {
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if b.Edge&(lifetime.BeginUnseen|lifetime.SiteFromFree) != 0 || a.r.place(b.Site).phase != purpose.Backward {
			continue
		}
		if n, ok := a.stepAt(b.Begin); ok {
			a.steps[n].Begin = b.Begin + 1
		}
	}
}

// returned returns, by buffer, whether the program freed something outside of all calls since the allocation before: what a line assigns the
// result of a call to is freed when the call has ended.
func (a *analysis) returned() []bool {
	all, has := make([]bool, len(a.s.Buffers)), false
	if a.s.FreeSites == nil || !a.hasLines() {
		return all
	}
	for c := range a.s.Changes() {
		if c.Begin {
			all[c.Buffer], has = has, false
		} else if f := a.freed(c.Buffer); f != nil && f.python && f.rooted && f.within == noPart {
			has = true
		}
	}
	return all
}

// rootCalls finds the calls of root modules: runs of allocations below one call. What the program allocates outside of modules
// ends a call.
type rootCalls struct {
	root  pathID
	last  int  // buffer of the current call; -1 = none
	ended bool // the program allocated outside since then
}

// add takes the next allocation of a forward pass, and reports whether a call begins with it. lasts gets the last allocation of
// the call before.
func (r *rootCalls) add(i int, f *facts, lasts []bool) bool {
	if f.within != inModule {
		return false
	}
	begins := r.last < 0 || r.ended || f.rootCall != r.root
	if begins {
		r.end(lasts)
	}
	r.root, r.last, r.ended = f.rootCall, i, false
	return begins
}

// sameLine reports whether the line that made the last call allocated.
func (r *rootCalls) sameLine(f *facts) bool { return r.last >= 0 && f.python && f.path == r.root }

// hasLines reports whether stacks have the lines of calls. Those of traces have functions.
func (a *analysis) hasLines() bool {
	return a.s.Source < len(a.t.Sources) && a.t.Sources[a.s.Source].Traits.Stacks
}

func (r *rootCalls) end(lasts []bool) {
	if r.last >= 0 {
		lasts[r.last] = true
	}
}

// passesWithoutModules finds the forward passes of a program that has no modules: from the first allocation that the graph
// keeps to the backward pass.
func (a *analysis) passesWithoutModules() {
	if !a.trains || slices.ContainsFunc(a.spans, func(s span) bool { return s.phase == purpose.Forward }) {
		return
	}
	old := a.spans
	var all []span
	last := int64(math.MinInt64) // end of the span before
	for _, s := range old {
		if s.phase == purpose.Backward {
			if begin, end, ok := a.keptBetween(last, s); ok {
				all = append(all, span{phase: purpose.Forward, begin: begin, end: end})
			}
		}
		all = append(all, s)
		last = s.end
	}
	a.spans = all
}

// keptBetween returns the first allocation after an instant that a backward pass frees without Python, and the last allocation
// before the pass. Allocations of its callers just before it belong to the pass.
func (a *analysis) keptBetween(after int64, backward span) (begin, end int64, ok bool) {
	var callers []lifetime.Buffer
	from, _ := slices.BinarySearchFunc(a.s.Buffers, after+1, func(b lifetime.Buffer, t int64) int { return cmp.Compare(b.Begin, t) })
	for i := from; i < len(a.s.Buffers) && a.s.Buffers[i].Begin < backward.begin; i++ {
		b := &a.s.Buffers[i]
		if b.Edge&lifetime.BeginUnseen != 0 {
			continue
		}
		switch kept := !ok && b.End >= backward.begin && a.byGraph(i); {
		case kept:
			begin, ok = b.Begin, true
			for _, c := range slices.Backward(callers) {
				if !a.r.Reaches(a.at(&c).path, a.at(b).path) {
					break
				}
				begin = c.Begin
			}
		case !ok:
			callers = append(callers, *b)
		}
		end = b.Begin
	}
	return begin, end, ok
}

// afterForward reports whether the last phase before t is a forward pass.
func (a *analysis) afterForward(t int64) bool {
	last, _ := a.around(t)
	return last >= 0 && a.spans[last].phase == purpose.Forward
}

// byGraph reports whether the autograd graph was the last to hold a buffer: the engine freed it without any Python. If
// frees have no stacks, the time tells.
func (a *analysis) byGraph(i int) bool {
	b := &a.s.Buffers[i]
	if b.Edge&(lifetime.EndOpen|lifetime.EndInferred) != 0 {
		return false
	}
	if f := a.freed(i); f != nil {
		return f.engine && !f.python || f.within == inBackwardCall
	}
	last, _ := a.around(b.End)
	return last >= 0 && a.spans[last].phase == purpose.Backward && b.End <= a.spans[last].end
}

// judge gives each buffer the category of the first rule that fits.
func (a *analysis) judge() {
	for i := range a.s.Buffers {
		if b := &a.s.Buffers[i]; !a.isTorch && b.Kind == lifetime.Plain && !a.r.place(b.Site).hasRegion {
			continue // no general rule fits
		}
		if p := &a.out[i]; p.Rule == 0 || a.sizes != nil && a.sizes.marks[i] != 0 {
			a.apply(i)
		}
	}
}

// own keeps the categories of producers that are none of memlane: "autograd detail" of PyTorch's memory timeline, and the
// arguments, results and constants of compiled programs whose role is not known.
func (a *analysis) own() {
	for i := range a.s.Buffers {
		b, p := &a.s.Buffers[i], &a.out[i]
		if p.Category != purpose.UnknownCategory {
			continue
		}
		switch region := a.t.Sites[b.Site].Region; {
		case region == autogradDetail:
			p.Own = a.r.texts.ids.ID(region)
		case b.Kind == lifetime.Parameter:
			p.Own = a.r.texts.ids.ID("argument")
		case b.Kind == lifetime.Output, b.Kind == lifetime.Constant:
			p.Own = a.r.texts.ids.ID(b.Kind.String())
		default:
			continue
		}
		p.Evidence, p.Rule = purpose.FromRecord, 1
	}
}

// autogradDetail is a category of PyTorch's memory timeline: temporaries of autograd. (torch/profiler/_memory_profiler.py)
const autogradDetail = "autograd detail"

// apply applies the rules to one buffer.
func (a *analysis) apply(i int) {
	v := a.look(i)
	which := groups
	if !a.isTorch {
		which = general
	}
	id := ruleID(1)
	for g := range which {
		rules := which[g].rules
		if !which[g].apply(v) {
			id += ruleID(len(rules))
			continue
		}
		for k := range rules {
			r := &rules[k]
			if category, phase, ok := r.of(v); ok {
				p := &a.out[i]
				p.Category, p.Evidence, p.Rule = category, r.Evidence, id
				if phase != purpose.UnknownPhase {
					p.Phase = phase
				}
				return
			}
			id++
		}
	}
}

// repeat gives buffers without an answer the category of the buffers with the same size and site, or, from before the window,
// with the same size and place of their free.
func (a *analysis) repeat() {
	type key struct {
		site lifetime.SiteID
		size int64
		free bool
	}
	asked := map[key][]int{} // buffers without an answer
	sites := make([]bool, len(a.t.Sites))
	for i := range a.s.Buffers {
		b, p := &a.s.Buffers[i], &a.out[i]
		var k key
		switch {
		case b.Edge&lifetime.BeginUnseen != 0 && a.s.FreeSites != nil && a.s.FreeSites[i] != 0 &&
			(p.Rule == 0 || p.Evidence == purpose.FromSize):
			k = key{a.s.FreeSites[i], b.Requested, true}
		case b.Edge&lifetime.BeginUnseen == 0 && b.Edge&lifetime.EndOpen != 0 && p.Rule == 0:
			k = key{b.Site, b.Requested, false}
		default:
			continue
		}
		asked[k] = append(asked[k], i)
		sites[k.site] = true
	}
	counts := map[key]*[categories]int{}
	count := func(k key, p *verdict) {
		if asked[k] == nil {
			return
		}
		if counts[k] == nil {
			counts[k] = &[categories]int{}
		}
		counts[k][p.Category]++
	}
	for i := range a.s.Buffers {
		b, p := &a.s.Buffers[i], &a.out[i]
		if p.Category == purpose.UnknownCategory || b.Edge&(lifetime.EndOpen|lifetime.BeginUnseen) != 0 || a.inFailedSpan(b.Begin) {
			continue
		}
		if sites[b.Site] {
			count(key{b.Site, b.Requested, false}, p)
		}
		if a.s.FreeSites != nil && a.s.FreeSites[i] != 0 && sites[a.s.FreeSites[i]] {
			count(key{a.s.FreeSites[i], b.Requested, true}, p)
		}
	}
	for k, c := range counts {
		best, share := most(c)
		if share < mostOf {
			continue
		}
		for _, i := range asked[k] {
			p := &a.out[i]
			if best == purpose.TemporaryData && (k.free && !a.beforeAll(a.s.Buffers[i].End) || !k.free && a.out[i].Phase == purpose.OptimizerPhase) {
				continue // others like it are temporary, but something says that this one is kept
			}
			p.Category, p.Evidence, p.Rule = best, purpose.FromLifetime, repeats
		}
	}
}

// beforeAll reports whether t is in the phase in which the window began. Only a temporary of that phase can be older than the
// window.
func (a *analysis) beforeAll(t int64) bool { return len(a.spans) < 2 || t <= a.spans[1].begin }

// categories is the number of categories.
const categories = int(purpose.Cache) + 1

// mostOf is the share of buffers that must have a category before the others like them get it.
const mostOf = 0.75

// most returns the most frequent category and its share.
func most(counts *[categories]int) (best purpose.Category, share float64) {
	sum := 0
	for k, n := range counts {
		if sum += n; n > counts[best] {
			best = purpose.Category(k)
		}
	}
	return best, float64(counts[best]) / float64(max(sum, 1))
}

// correspond gives identical buffers of corresponding passes one category: passes correspond if they allocate the same sizes at the
// same sites in the same order, and buffers are identical if they have the same place in it and the same fate. For what a backward
// pass left, the fate is whether it lives for steps: its thread may by chance be the last to drop a gradient, so that one that Python
// freed tells what all of them are. Without agreement none is known.
func (a *analysis) correspond() {
	var order []int // buffers of all passes
	var sum maphash.Hash
	passes := map[uint64][][]int{} // by their sites and sizes
	begin := 0
	end := func() {
		pass := order[begin:]
		begin = len(order)
		passes[sum.Sum64()] = append(passes[sum.Sum64()], pass)
		sum.Reset()
	}
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if b.Edge&lifetime.BeginUnseen != 0 || a.inFailedSpan(b.Begin) {
			continue
		}
		if begin < len(order) && a.next[i] != a.next[order[begin]] {
			end()
		}
		order = append(order, i)
		maphash.WriteComparable(&sum, b.Site)
		maphash.WriteComparable(&sum, b.Requested)
	}
	end()
	for _, alike := range passes {
		for place := range alike[0] {
			a.agree(alike, place)
		}
	}
}

// agree gives the buffers at one place of corresponding passes one category for each fate.
func (a *analysis) agree(passes [][]int, place int) {
	const left = isLong << 1
	isKept := func(c purpose.Category) bool { return c == purpose.Gradient || c == purpose.Activation }
	fate := func(i int) uint8 {
		if p := &a.out[i]; p.Phase == purpose.Backward && isKept(p.Category) {
			return a.flags[i]&isLong | left
		}
		return a.flags[i]
	}
	var counts [left << 1][categories]int
	closed := func(yield func(i int) bool) {
		for _, pass := range passes {
			if i := pass[place]; a.s.Buffers[i].Edge&lifetime.EndOpen == 0 && !yield(i) {
				return
			}
		}
	}
	for i := range closed {
		counts[fate(i)][a.out[i].Category]++
	}
	for i := range closed {
		p, k := &a.out[i], fate(i)
		best, share := most(&counts[k])
		switch {
		case share == 1 || k&left != 0 && (p.Category == purpose.Gradient || counts[k][purpose.Gradient] == 0):
		case k&left != 0:
			p.Category, p.Evidence, p.Rule = purpose.Gradient, purpose.FromLifetime, repeats
		case best == p.Category && share >= mostOf:
		case share < mostOf || best == purpose.UnknownCategory:
			p.Category, p.Evidence, p.Rule = purpose.UnknownCategory, purpose.NoEvidence, 0
		default:
			p.Category, p.Evidence, p.Rule = best, purpose.FromLifetime, repeats
		}
	}
}

// Repeats is the name of the rule that compares buffers with others of their size and place.
const Repeats = "repeats"

// view is one buffer and what is known about it.
type view struct {
	*analysis
	i     int
	b     *lifetime.Buffer
	f     *facts // of the allocation
	freed *facts // of the free; nil = not recorded
	phase purpose.Phase
	sure  bool
	next  int // first span after the allocation

	unseen, open, byGraph bool
	outlives              bool // it was alive when another phase began
	long                  bool // it was alive in several steps, or from the set-up to the end
}

// flags of buffers
const (
	heldByGraph = 1 << iota // the autograd graph was the last to hold it
	outlives                // it was alive when another phase began
	isLong                  // it was alive in several steps, or from the set-up to the end
)

// survey finds what rules ask of every buffer, after the phases.
func (a *analysis) survey() {
	a.count()
	a.failed = a.failures()
	a.next, a.flags = make([]int32, len(a.s.Buffers)), make([]uint8, len(a.s.Buffers))
	if !a.isTorch {
		return // no general rule asks
	}
	next := 0
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		for next < len(a.spans) && a.spans[next].begin <= b.Begin {
			next++
		}
		a.next[i] = int32(next)
		if a.byGraph(i) {
			a.flags[i] |= heldByGraph
		}
		if next < len(a.spans) && (a.spans[next].begin < b.End || b.Edge&lifetime.EndOpen != 0) {
			a.flags[i] |= outlives
		}
		if a.isLong(b, next) {
			a.flags[i] |= isLong
		}
		f := a.at(b)
		lives := a.flags[i] != 0 || a.out[i].Phase == purpose.OtherPhase || !a.sure[i]
		if b.Edge&lifetime.BeginUnseen != 0 || (f.python || !a.hasLines()) && f.within == noPart && (lives || f.engine || !f.rooted) {
			a.candidates = append(a.candidates, i)
		}
	}
	a.successors()
}

// isLong reports whether a buffer was alive in several steps. next is the span after its allocation.
func (a *analysis) isLong(b *lifetime.Buffer, next int) bool {
	open := b.Edge&lifetime.EndOpen != 0
	switch {
	case b.Edge&lifetime.BeginUnseen != 0:
		return open
	case !a.trains:
		return a.crosses(next, b.End, purpose.Forward) >= longLived
	}
	n := a.crosses(next, b.End, purpose.Backward)
	// Several backward passes may follow one forward pass.
	passes := min(longLived-1, int(a.before[purpose.Forward][len(a.spans)]))
	return n >= longLived && a.crosses(next, b.End, purpose.Forward) >= passes || open && n > 0 && next == 0
}

// look returns the view of a buffer. It is good until the next call.
func (a *analysis) look(i int) *view {
	v := &a.scratch
	v.analysis = a
	v.set(i)
	return v
}

func (a *analysis) view(i int) view {
	v := view{analysis: a}
	v.set(i)
	return v
}

// set makes v the view of a buffer.
func (v *view) set(i int) {
	a, b, flags := v.analysis, &v.s.Buffers[i], v.flags[i]
	v.i, v.b, v.f, v.freed, v.phase, v.sure, v.next = i, b, a.at(b), a.freed(i), a.out[i].Phase, a.sure[i], int(a.next[i])
	v.unseen, v.open = b.Edge&lifetime.BeginUnseen != 0, b.Edge&lifetime.EndOpen != 0
	v.byGraph, v.outlives, v.long = flags&heldByGraph != 0, flags&outlives != 0, flags&isLong != 0
}

// follow counts the spans of a phase that begin after the allocation and before the free.
func (v *view) follow(phase purpose.Phase) int { return v.crosses(v.next, v.b.End, phase) }

// nextIs reports whether the next phase after the allocation is phase, and whether the buffer lived to see it.
func (v *view) nextIs(phase purpose.Phase) bool {
	return v.outlives && v.spans[v.next].phase == phase
}

// sortedBySize orders pairs of a size and a count.
func sortedBySize(counts map[int64]int) []int64 {
	var all []int64
	for size := range counts {
		all = append(all, size)
	}
	slices.SortFunc(all, func(x, y int64) int { return cmp.Compare(y, x) })
	return all
}
