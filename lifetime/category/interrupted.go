package category

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// failures returns the failed requests that interrupted a span, as an exception does: the program frees most of what it
// holds of the span before its thread allocates again, or some of it and its thread never allocates again. A failure alone
// changes nothing; at the end of the recording it is only that end.
func (a *analysis) failures() (all []failure) {
	var failed *failure                                       // without an allocation since then
	var holds, held, freed int64                              // bytes of the span: now, at the failure, freed since then
	marks, span, thread := a.s.Marks, -1, program.ThreadID(0) // thread runs the span
	settle := func(ended bool) {
		if failed != nil && (2*freed > held || ended && freed > 0) {
			all = append(all, *failed)
		}
		failed = nil
	}
	for c := range a.s.Changes() {
		for ; len(marks) > 0 && marks[0].Begin < c.T; marks = marks[1:] {
			if m := &marks[0]; m.Kind == lifetime.OOM && failed == nil && span >= 0 && a.spans[span].end <= m.Begin && !a.r.place(m.Site).stack.thread.IsOther(thread) {
				failed, held, freed = &failure{m.Begin, span}, holds, 0
			}
		}
		b := &a.s.Buffers[c.Buffer]
		if c.Begin && !a.at(b).thread.IsOther(thread) {
			settle(false)
		}
		for ; c.Begin && span+1 < len(a.spans) && a.spans[span+1].begin <= c.T; span++ {
			holds = 0
		}
		switch {
		case c.Begin:
			if holds += b.Requested; !a.aside[c.Buffer] {
				thread = cmp.Or(a.at(b).thread, thread)
			}
		case span >= 0 && b.Begin >= a.spans[span].begin:
			holds -= b.Requested
			if failed != nil && b.Begin <= failed.t {
				freed += b.Requested
			}
		}
	}
	settle(true)
	return all
}

// failure is an instant at which memory ran out and interrupted a span. Both rise from one to the next.
type failure struct {
	t    int64
	span int
}

func (a *analysis) failedIn(span int) []failure {
	bySpan := func(f failure, span int) int { return f.span - span }
	from, _ := slices.BinarySearchFunc(a.failed, span, bySpan)
	n, _ := slices.BinarySearchFunc(a.failed[from:], span+1, bySpan)
	return a.failed[from : from+n]
}

func (a *analysis) failedFrom(t int64) []failure {
	i, _ := slices.BinarySearchFunc(a.failed, t, func(f failure, t int64) int { return cmp.Compare(f.t, t) })
	return a.failed[i:]
}

// interruptedPass returns the failure during the forward pass that allocated the buffer, or during its backward pass; nil if there is none. When and by
// whom the buffer was freed then does not tell what it was for: the exception frees it, or nobody.
func (v *view) interruptedPass() *failure {
	if v.asked {
		return v.interrupted
	}
	v.asked, v.interrupted = true, nil
	failed := v.failedFrom(v.b.Begin)
	for i := range failed {
		f := &failed[i]
		if !v.aliveAt(f.t) {
			return nil
		}
		if v.spans[f.span].phase != purpose.Forward && v.spans[f.span].phase != purpose.Backward {
			continue
		}
		whole := func(s span) bool { // the graph of the pass is gone after it
			return s.phase == purpose.OptimizerPhase || s.phase == purpose.Backward && !s.returns
		}
		if slices.ContainsFunc(v.spans[min(v.next, f.span):f.span], whole) {
			return nil
		}
		v.interrupted = f
		return f
	}
	return nil
}

// keptByPass reports whether a module of a forward pass, after which no backward pass was recorded or not all of one, keeps
// it to the end of the call, as most of the pass does.
func (v *view) keptByPass() bool {
	if v.phase != purpose.Forward || !v.sure || v.unseen || v.f.within != program.InModule || v.next == 0 || v.lasts[v.i] || v.aside[v.i] {
		return false
	}
	end, f := v.spans[v.next-1].end, v.interruptedPass()
	backward, whole := v.backwardFollows()
	isCut := f == nil && v.open && (backward && !whole || v.next == len(v.spans) && !v.over)
	switch {
	case f == nil && (whole || backward && !v.open), isCut && v.fateOf(v.next-1, v.i) != stays,
		f != nil && f.span == v.next-1 && v.fateOf(v.next-1, v.i) == drops,
		f == nil && !v.open && v.crosses(v.next, math.MaxInt64, purpose.Forward) == len(v.spans)-v.next && v.fateOf(v.next-1, -1) == stays:
		return false // or the graph still holds others
	case f != nil && f.span == v.next-1:
		end = f.t
	}
	return (v.open || v.b.End > end) && v.keepsMost(v.next-1, v.f.rootCall, end)
}

// mayHaveGraph reports whether a graph may hold what a call of a root module keeps. If no_grad decorates a function around the call, there is none. A line that
// keeps what it made on the way to its result tells, too. Else a backward pass does that follows a call of the same line or, if the recording has none, an
// optimizer.
func (a *analysis) mayHaveGraph(span int, root program.PathID) bool {
	keeps, drops := a.onTheWay(span)
	switch {
	case a.r.IsBelow(root, program.WithoutGrad), drops && !keeps:
		return false
	case keeps:
		return true
	case !a.trains:
		return a.optimizes() || len(a.steps) > 0
	case a.followed == nil:
		a.followed = map[program.PathID]bool{}
		for i := range a.s.Buffers {
			if b := &a.s.Buffers[i]; a.out[i].Phase == purpose.Forward && a.flags[i]&heldByGraph != 0 {
				a.followed[a.at(b).rootCall] = true
			}
		}
	}
	return a.followed[root]
}

// onTheWay reports whether a span keeps what only a graph holds: several of the buffers that a line makes in a row and of these returns one. Two lines do so
// three times each, or a normalization of PyTorch, which keeps its statistics; compiled code with a backward pass does. drops: normalizations keep none,
// though no checkpoint will make them again.
func (a *analysis) onTheWay(span int) (keeps, drops bool) {
	end, times := a.spans[span].end, map[*frame.Frame]int{}
	lines, dropped := 0, 0
	of, kept, several := -1, 0, false // what a line made first in a row, and what is kept of the row
	settle := func() {
		if of < 0 {
			return
		}
		f := a.at(&a.s.Buffers[of])
		_, line := a.r.Callers(f.path)
		isNorm := several && program.IsFunctional(line) && program.OperatorOf(line.Function).Is(program.OpNorm)
		switch {
		case f.within != program.InModule || f.flags&(program.Multiplies|program.Cublas|program.CublasLt) != 0:
		case f.flags&program.OfFunction != 0 && a.r.IsBelow(f.path, program.RunsAhead):
			keeps = true
		case kept > 1:
			if times[line]++; times[line] == 3 {
				lines++
				keeps = keeps || isNorm || lines > 1
			}
		case isNorm && !a.r.IsBelow(f.path, program.Checkpoints):
			dropped++
		}
	}
	for i := a.allocatedBefore(a.spans[span].begin); i < len(a.s.Buffers) && a.s.Buffers[i].Begin <= end; i++ {
		b := &a.s.Buffers[i]
		isSame := of >= 0 && a.at(b).path == a.at(&a.s.Buffers[of]).path
		if !isSame && a.aside[i] {
			continue
		}
		if !isSame {
			settle()
			of, kept, several = i, 0, false
		}
		several = several || b.Requested != a.s.Buffers[of].Requested
		if b.End > end {
			kept++
		}
	}
	settle()
	return keeps, dropped > 2
}

// backwardFollows reports whether a backward pass follows the forward passes of the buffer, and whether something else
// follows it. If the recording ends in it, what is alive then does not tell who holds it.
func (v *view) backwardFollows() (follows, whole bool) {
	i := v.next
	for i < len(v.spans) && v.spans[i].phase == purpose.Forward {
		i++
	}
	first := i
	for i < len(v.spans) && v.spans[i].phase == purpose.Backward {
		i++
	}
	return i > first, i > first && i < len(v.spans)
}

// keepsMost reports whether a span keeps, until an instant, a quarter of the buffers that modules allocate in it, or
// something of half of their lines: so does a graph.
func (a *analysis) keepsMost(span int, root program.PathID, until int64) bool {
	if a.keeping == nil {
		a.keeping = make([]int8, len(a.spans))
	}
	known := &a.keeping[span]
	if *known == 0 {
		kept, all, lines, keeping := 0, 0, map[lifetime.SiteID]bool{}, 0
		for _, i := range a.allocatedIn(span) {
			b := &a.s.Buffers[i]
			if b.Begin > until || a.at(b).within != program.InModule {
				continue
			}
			all++
			keeps := b.Edge&lifetime.EndOpen != 0 || b.End > until
			if keeps {
				kept++
				if !lines[b.Site] {
					keeping++
				}
			}
			lines[b.Site] = lines[b.Site] || keeps
		}
		*known = -1
		if kept > 10 && (kept*4 >= all || keeping*2 >= len(lines)) && a.mayHaveGraph(span, root) {
			*known = 1
		}
	}
	return *known > 0
}

// fate is what the buffers that a line made in a span tell of one of them that is alive where the span is cut.
type fate int8

const (
	unsure fate = iota
	drops       // the line freed others as old and kept none for longer
	stays       // it is older than those that the line freed, or the line kept three and freed none
)

// fateOf returns the fate of a buffer where memory ran out in the span that allocated it, or the recording ends. Buffers are of one line if they have its
// stack, a size and a place in what it makes in a row. i < 0 asks for the most of the span.
func (a *analysis) fateOf(span, i int) fate {
	if a.fates[span] != nil {
		return a.fates[span][i]
	}
	type line struct {
		site lifetime.SiteID
		size int64
		row  int
	}
	instant := a.s.End
	if failed := a.failedFrom(a.spans[span].begin); len(failed) > 0 {
		instant = failed[0].t
	}
	isAlive := func(i int) bool { return a.s.Buffers[i].Edge&lifetime.EndOpen != 0 || a.s.Buffers[i].End > instant }
	all, lines, rowOf, of := a.allocatedIn(span), map[line][]int{}, map[int]line{}, line{}
	for _, i := range all {
		b := &a.s.Buffers[i]
		if b.Begin > instant {
			break
		}
		if of.row++; of.site != b.Site {
			of.row = 1
		}
		of.site, of.size = b.Site, b.Requested
		whole := line{b.Site, b.Requested, 0}
		lines[of], lines[whole], rowOf[i] = append(lines[of], i), append(lines[whole], i), of
	}
	fates := map[int]fate{}
	for of, made := range lines {
		if of.row > 0 && len(made) == 1 {
			continue // it is compared with the whole line
		}
		longest := int32(0)
		for _, i := range made {
			if !isAlive(i) {
				longest = max(longest, a.age(i))
			}
		}
		isOld := func(i int) bool { return isAlive(i) && a.ageAt(i, instant) > longest }
		keeps := slices.ContainsFunc(made, isOld)
		for _, i := range made {
			switch {
			case isOld(i) && (longest > 0 || len(made) > 2):
				fates[i], fates[-1] = stays, stays
			case isAlive(i) && !keeps && fates[i] != stays && (of.row > 0 || len(lines[rowOf[i]]) == 1):
				fates[i] = drops
			}
		}
	}
	a.fates[span] = fates
	return fates[i]
}

func (v *view) aliveAt(t int64) bool { return !v.unseen && v.b.Begin <= t && (v.open || v.b.End > t) }

// resume gives buffers of passes in which memory ran out the purposes of those that an earlier pass allocated at the
// same place of its order. Where the recording ends in a pass, all that began with the same allocations must agree.
func (a *analysis) resume() {
	done, cut := map[int]bool{}, append(slices.Clip(a.failed), failure{a.s.End, len(a.spans) - 1})
	var whole [purpose.OtherPhase + 1][]int // spans of each phase without failures
	for span, s := range a.spans {
		if len(a.failedIn(span)) == 0 {
			whole[s.phase] = append(whole[s.phase], span)
		}
	}
	for _, f := range cut {
		for span := f.span; span >= 0 && !done[span]; span-- {
			done[span] = true
			earlier := whole[a.spans[span].phase]
			n, _ := slices.BinarySearch(earlier, span)
			a.resumeSpan(span, f.t, earlier[max(n-8, 0):n])
			if a.spans[span].phase == purpose.Forward && (span == 0 || a.spans[span-1].phase != purpose.Forward) {
				break
			}
		}
	}
}

// resumeSpan compares a span with the one of earlier ones that begins with most of the same allocations, and changes what was alive at
// an instant. Where memory ran out, further allocations of the same stacks in the same order, as of a larger batch, only fill gaps.
func (a *analysis) resumeSpan(span int, instant int64, earlier []int) {
	var best []int
	var like [][]int // what spans that began with all of it allocated
	mine := a.allocatedIn(span)
	mayGrow := a.spans[span].phase == purpose.Forward && len(a.failedIn(span)) > 0 // the engine has no lines
	for _, other := range slices.Backward(earlier) {
		theirs := a.allocatedIn(other)
		same, stacks := 0, 0
		for ; stacks < min(len(mine), len(theirs)) && a.s.Buffers[mine[stacks]].Site == a.s.Buffers[theirs[stacks]].Site; stacks++ {
			if same == stacks && a.s.Buffers[mine[stacks]].Requested == a.s.Buffers[theirs[stacks]].Requested {
				same++
			}
		}
		if same == len(mine) {
			like = append(like, theirs[:same])
		}
		if mayGrow {
			same = stacks
		}
		if same > len(best) {
			best = theirs[:same]
		}
	}
	for k, i := range best {
		p, from := &a.out[mine[k]], a.out[i].Category
		v := a.view(mine[k])
		isSame := a.s.Buffers[i].Requested == v.b.Requested
		differs := isSame && instant == a.s.End && from != p.Category
		if differs {
			from = a.agreed(like, k)
		}
		switch {
		case !v.aliveAt(instant) || a.out[i].Category == purpose.UnknownCategory || p.Evidence >= purpose.FromFrames,
			!isSame && p.Category != purpose.UnknownCategory:
		case from != purpose.UnknownCategory:
			p.Category, p.Evidence, p.Rule = from, purpose.FromLifetime, repeats
		case differs:
			p.Category, p.Evidence, p.Rule = purpose.UnknownCategory, purpose.NoEvidence, 0
		}
	}
}

// agreed returns the category that all spans which still had their buffer k when they allocated the last one gave it; unknown if they differ.
func (a *analysis) agreed(spans [][]int, k int) (all purpose.Category) {
	for _, of := range spans {
		c := a.out[of[k]].Category
		switch {
		case a.s.Buffers[of[k]].End <= a.s.Buffers[of[len(of)-1]].Begin:
		case all != purpose.UnknownCategory && c != all:
			return purpose.UnknownCategory
		default:
			all = c
		}
	}
	return all
}

func (a *analysis) allocatedBefore(t int64) int {
	return sort.Search(len(a.s.Buffers), func(i int) bool { return a.s.Buffers[i].Begin >= t })
}

func (a *analysis) allocatedIn(span int) []int {
	from, to := a.allocatedBefore(a.spans[span].begin), len(a.s.Buffers)
	if span+1 < len(a.spans) {
		to = a.allocatedBefore(a.spans[span+1].begin)
	}
	all := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		if a.s.Buffers[i].Edge&lifetime.BeginUnseen == 0 && !a.aside[i] {
			all = append(all, i)
		}
	}
	return all
}
