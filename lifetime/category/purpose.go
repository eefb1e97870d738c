package category

import (
	"hash/maphash"
	"math/bits"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/outline"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// judge finds the purpose of each buffer of a space, and whether the program is one of PyTorch. Buffers of other
// programs of which nothing is known have no purpose.
func (r *reader) judge(s *lifetime.Space) *analysis {
	a := &analysis{t: r.t, s: s, r: r, out: make([]verdict, len(s.Buffers)), fates: map[int]map[int]fate{}}
	a.phases()
	a.survey()
	if a.isTorch {
		a.judge()
		a.sizes, a.rebound = a.measure(), nil
		a.judge()
		for _, i := range a.replacedStates(a.sizes) {
			a.apply(i)
		}
		a.repeat()
		a.correspond()
		a.resume()
		a.sums()
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
	return &Judge{r, &numbers{texts: &r.texts, number: numbered(t)}}
}

// Add sets the purposes of the buffers of a space of a program of PyTorch, and of other programs if any buffer has one.
func (j *Judge) Add(s *lifetime.Space) {
	a := j.r.judge(s)
	if !a.isTorch && !slices.ContainsFunc(a.out, func(v verdict) bool { return v != verdict{} }) {
		return
	}
	s.Purposes = make([]lifetime.PurposeID, len(a.out))
	for i := range a.out {
		if a.isTorch {
			a.out[i].PhaseHow = a.phaseHow(i)
		}
		s.Purposes[i] = j.n.of(&a.out[i], a.isTorch)
	}
}

// AddRows sets the purposes of rows of a space whose other buffers were not kept. Only what the site of a buffer tells
// is known then, so it does nothing for programs of PyTorch.
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

type analysis struct {
	t *lifetime.Tables
	s *lifetime.Space
	r *reader
	timeline
	sure    []bool // the phase is known from frames, a record or the order of passes
	lasts   []bool // last allocation of a call of a root module
	aside   []bool // tells nothing of others: fleeting, or of another thread than the passes
	out     []verdict
	next    []int32 // first span after the allocation
	flags   []uint8 // heldByGraph and so on
	scratch view    // of the buffer that rules look at: a view of its own for each would be allocated
	sizes   *sizes  // nil in the first pass
	isTorch bool

	candidates    []int                                 // older than the window, or of a part of the program that tells no category
	firstBackward int64                                 // of a compiled program: first allocation of its backward part
	arguments     map[string]purpose.Category           // of a compiled program, by name
	shapes        map[string]bool                       // of the parameters of a compiled program
	ofHopper      int                                   // 1 + buffers that may be workspaces on Hopper, by their size; 0 = not counted
	failed        []failure                             // when memory ran out
	lasting       map[int64]bool                        // see ofParameterSize; nil = not computed
	rebound       map[int64]bool                        // see rebinds; nil = not computed
	previous      []int32                               // by buffer: 1 + the one whose place it takes; 0 = none
	replaced      []bool                                // by buffer: another took its place
	fates         map[int]map[int]fate                  // by span: see fateOf
	keeping       []int8                                // by span: see keepsMost; nil = not computed
	followed      map[program.PathID]bool               // calls of root modules after which a backward pass freed something; nil = not computed
	passedOn      map[lifetime.SiteID]bool              // lines of which a later call used something, and the program dropped it then
	regions       []int32                               // by buffer: see region.OfBuffers; nil = not computed
	ages          []int32                               // by buffer: allocations before it in the recording; nil = not computed
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

// at returns what the stack of an allocation says. Before the window it is nothing, unless the allocator still knew the
// stack: a program that begins to record again.
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

// phaseHow returns how the phase of an allocation is known: its stack or the record of a step says it, or it follows from
// the order of phases, or from a stack that lacks the root of all others.
func (a *analysis) phaseHow(i int) purpose.How {
	b := &a.s.Buffers[i]
	phase, f := a.phaseOf(b), a.at(b)
	if phase == purpose.UnknownPhase || phase != a.out[i].Phase || !f.engine && a.r.inEngine(f) {
		return purpose.Inferred
	}
	return purpose.Recorded
}

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

// sums names buffers of which only their sum is known.
func (a *analysis) sums() {
	for i := range a.out {
		if p := &a.out[i]; p.Category == purpose.UnknownCategory && a.sizes.is(i, ofSum) {
			p.Own, p.Evidence = a.r.texts.ids.ID(a.sizes.sum), purpose.FromSize
		}
	}
}

// own keeps the categories of producers that are none of memlane: "autograd detail" of PyTorch's memory timeline, and
// the arguments, results and constants of compiled programs whose role is not known.
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

// repeat gives buffers without an answer the category that all buffers of the same size and site have or, from before the
// window, of the same size and place of their free, if one of these was alive for as long: older inputs are inputs, too.
func (a *analysis) repeat() {
	type key struct {
		site lifetime.SiteID
		size int64
		free bool
	}
	type like struct {
		category purpose.Category // unknown if they differ
		age      int32
	}
	made := func(i int) key { return key{a.s.Buffers[i].Site, a.s.Buffers[i].Requested, false} }
	freed := func(i int) (k key) {
		if a.s.FreeSites != nil && a.s.FreeSites[i] != 0 {
			k = key{a.s.FreeSites[i], a.s.Buffers[i].Requested, true}
		}
		return k
	}
	asked, sites := map[int]key{}, make([]bool, len(a.t.Sites))
	for i := range a.s.Buffers {
		k, p := key{}, &a.out[i]
		switch edge := a.s.Buffers[i].Edge; {
		case edge&(lifetime.BeginUnseen|lifetime.EndOpen) == 0 || a.atEdge(i):
		case edge&lifetime.BeginUnseen == 0 && p.Rule == 0:
			k = made(i)
		case edge&lifetime.BeginUnseen != 0 && (p.Rule == 0 || p.Evidence == purpose.FromSize):
			k = freed(i)
		}
		if k.size != 0 {
			asked[i], sites[k.site] = k, true
		}
	}
	all := map[key]like{}
	for i := range a.s.Buffers {
		b, c := &a.s.Buffers[i], a.out[i].Category
		if c == purpose.UnknownCategory || b.Edge&(lifetime.EndOpen|lifetime.BeginUnseen) != 0 {
			continue
		}
		for _, k := range []key{made(i), freed(i)} {
			if !sites[k.site] {
				continue
			}
			if old, ok := all[k]; !ok || old.category == c {
				all[k] = like{c, max(old.age, a.age(i))}
			} else {
				all[k] = like{}
			}
		}
	}
	for i, k := range asked {
		p, c := &a.out[i], all[k].category
		isKept := c == purpose.TemporaryData && (p.Phase == purpose.OptimizerPhase || p.Phase == purpose.Backward)
		if c != purpose.UnknownCategory && (c == purpose.Input || a.age(i) <= all[k].age) && !isKept {
			p.Category, p.Evidence, p.Rule = c, purpose.FromLifetime, repeats
		}
	}
}

// age returns how many allocations came while a buffer was alive in the recording.
func (a *analysis) age(i int) int32 { return a.ageAt(i, a.s.Buffers[i].End) }

func (a *analysis) ageAt(i int, instant int64) int32 {
	if a.ages == nil {
		a.ages = make([]int32, len(a.s.Buffers)+1)
		for k, b := range a.s.Buffers {
			if a.ages[k+1] = a.ages[k]; b.Edge&lifetime.BeginUnseen == 0 && !a.aside[k] {
				a.ages[k+1]++
			}
		}
	}
	after := a.allocatedBefore(instant)
	return a.ages[max(after, i)] - a.ages[i]
}

// atEdge reports whether the recording ends in the span that allocated a buffer, or may have begun in the backward pass that freed it.
func (a *analysis) atEdge(i int) bool {
	b := &a.s.Buffers[i]
	if b.Edge&lifetime.BeginUnseen == 0 {
		return b.Edge&lifetime.EndOpen != 0 && int(a.next[i]) == len(a.spans) && !a.over
	}
	return b.End < a.begun
}

// correspond gives identical buffers of corresponding passes one category: passes correspond if they allocate the same
// sizes at the same sites in the same order, and buffers are identical if they have the same place in it and the same
// fate. For what a backward pass left, the fate is whether it lives for steps: its thread may by chance be the last to
// drop a gradient, so that one that Python freed tells what all of them are. Without agreement none is known.
func (a *analysis) correspond() {
	passes := map[uint64][][]int{} // by their sites and sizes
	for span := range a.spans {
		if len(a.failedIn(span)) == 0 {
			made := a.allocatedIn(span)
			order := a.order(made)
			passes[order] = append(passes[order], made)
		}
	}
	for _, alike := range passes {
		for place := range alike[0] {
			a.agree(alike, place)
		}
	}
}

// agree gives the buffers at one place of corresponding passes one category for each fate; if rules differ, none.
func (a *analysis) agree(passes [][]int, place int) {
	const left = isLong << 1
	isKept := func(c purpose.Category) bool { return c == purpose.Gradient || c == purpose.Activation }
	fate := func(i int) uint8 {
		if p := &a.out[i]; p.Phase == purpose.Backward && isKept(p.Category) {
			return a.flags[i]&isLong | left
		}
		return a.flags[i]
	}
	var said [left << 1]uint16 // by fate: a bit for each category
	for _, pass := range passes {
		if i := pass[place]; a.s.Buffers[i].Edge&lifetime.EndOpen == 0 {
			said[fate(i)] |= 1 << a.out[i].Category
		}
	}
	for _, pass := range passes {
		i := pass[place]
		p, k := &a.out[i], fate(i)
		switch {
		case a.s.Buffers[i].Edge&lifetime.EndOpen != 0, bits.OnesCount16(said[k]) == 1, p.Evidence == purpose.FromRecord:
		case k&left != 0:
			p.Category, p.Evidence, p.Rule = purpose.Gradient, purpose.FromLifetime, repeats
		default:
			p.Category, p.Evidence, p.Rule = purpose.UnknownCategory, purpose.NoEvidence, 0
		}
	}
}

// order returns a number for the sites and sizes of buffers in their order.
func (a *analysis) order(made []int) uint64 {
	var sum maphash.Hash
	sum.SetSeed(seed)
	for _, i := range made {
		maphash.WriteComparable(&sum, a.s.Buffers[i].Site)
		maphash.WriteComparable(&sum, a.s.Buffers[i].Requested)
	}
	return sum.Sum64()
}

// seed makes orders comparable with each other.
var seed = maphash.MakeSeed()

// Repeats is the name of the rule that compares buffers with others of their size and place.
const Repeats = "repeats"

// Of finds what the buffers of a capture are for. The categories of a person, if any, replace those that the rules find.
func Of(c *lifetime.Capture, own *Overrides) {
	judge := NewJudge(&c.Tables)
	for _, s := range c.Spaces {
		judge.r.knowMarks(s)
	}
	for _, s := range c.Spaces {
		judge.Add(s)
	}
	judge.r.Done()
	if own != nil {
		own.Add(&c.Tables, c.Spaces)
	}
}

// OfOutline is Of for an outline. A person's own categories need the whole capture.
func OfOutline(o *outline.Outline) {
	judge := NewJudge(&o.Tables)
	for _, s := range o.Spaces {
		if whole := s.Whole(); whole != nil {
			judge.r.knowMarks(whole)
		}
	}
	for _, s := range o.Spaces {
		if whole := s.Whole(); whole != nil {
			judge.Add(whole)
		} else {
			judge.AddRows(&s.SpaceInfo, s.PeakRows, s.EndRows)
		}
	}
	judge.r.Done()
	o.SetRows()
}
