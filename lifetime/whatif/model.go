package whatif

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/replay"
)

// buffer is a buffer of a program that edits change.
type buffer struct {
	begin, end  moment
	requestFree int   // event with which the program freed it before end, as other streams still used it; else noEvent
	size        int64 // requested
	like        int32 // recorded buffer that it is, or is like
	site        int32
	pass        int32 // -1 = none
	category    purpose.Category
	phase       purpose.Phase
	part        purpose.Part
	added       bool // an edit made it
	saved       bool // autograd keeps it for a backward pass
	dropped     bool // autograd kept it, and no backward pass ran over it
	late        bool // a gradient that the program may free later, right before the last backward pass
}

func (b *buffer) isOlder() bool { return b.begin.event < 0 }
func (b *buffer) isFreed() bool { return b.end != never }

// isScratch reports whether nothing else is allocated or freed while a buffer lives: no operation hands it on.
func (b *buffer) isScratch() bool { return !b.saved && b.end.event == b.begin.event+1 }

// diesWithin reports whether a buffer is freed after an event and before another one.
func (b *buffer) diesWithin(from, to int) bool { return b.end.event > from && b.end.event < to }

// other is a call of the allocator without a buffer: a request that failed, or empty_cache.
type other struct {
	at      moment
	kind    replay.CallKind
	request int
	failed  buffer // what a request that failed would have been
}

// pass is program.Pass in numbers of events.
type pass struct {
	begin, backward, end int
	round                int
	cut                  bool
}

// trains reports whether a backward pass runs over the forward pass.
func (p *pass) trains() bool { return p.backward < p.end }

// round is program.Round in numbers of events.
type round struct {
	begin, optimizer, end int
	step                  int
	open                  bool
}

// model is a program as a list of buffers.
type model struct {
	t     *lifetime.Tables
	s     *lifetime.Space
	h     *replay.History
	paths *program.CallPaths

	buffers []*buffer // in order of begin
	others  []other
	passes  []pass
	rounds  []round
	cuts    []int // events of requests that failed and ended what the program did
	axis    []int // of each recorded event: the number of the event now
	step    int   // first recorded event of the step that was added
	again   []int // of each event of that step: the number of the event that is added like it; empty if none was
	n       int   // events
	sorted  int   // buffers that are in order
	moved   bool  // moments are not events
	closure bool  // the optimizer calls the passes of its round
	apart   bool  // another reading of a program whose operators are not recorded: see readApart
	longest bool  // the one of these in which buffers live the longest
	halved  bool  // parameters have two bytes an element
	gaps    []gap // of a program that was made shorter

	ofBiases       map[int64]bool       // see biases
	isContribution func(b *buffer) bool // see contributions; nil = not read yet

	recomputed int64 // buffers that are computed again, in the last step
	copied     int64 // bytes that are copied from and to the host, in the last step
	allocated  open  // how the recording leaves the peak open
	reserved   open
}

// clone returns a model that edits may change.
func (m *model) clone() *model {
	c := *m
	all := make([]buffer, len(m.buffers))
	c.buffers = make([]*buffer, len(m.buffers))
	for i, b := range m.buffers {
		all[i] = *b
		c.buffers[i] = &all[i]
	}
	c.others, c.axis, c.passes = slices.Clone(m.others), slices.Clone(m.axis), slices.Clone(m.passes)
	c.again = slices.Clone(m.again)
	c.rounds, c.gaps = slices.Clone(m.rounds), slices.Clone(m.gaps)
	return &c
}

// failed returns what requests that failed would have been.
func (m *model) failed() (all []*buffer) {
	for i := range m.others {
		if o := &m.others[i]; o.kind == replay.Fail {
			all = append(all, &o.failed)
		}
	}
	return all
}

func (m *model) any(which func(b *buffer) bool) bool { return slices.ContainsFunc(m.buffers, which) }
func (m *model) op(b *buffer) string                 { return m.paths.Sites[b.site].Op }
func (m *model) does(b *buffer, flags program.Operator) bool {
	return m.paths.Sites[b.site].Does.Is(flags)
}
func (m *model) hasCall(b *buffer, text string) bool {
	return slices.ContainsFunc(m.paths.Sites[b.site].Calls, func(c int32) bool { return strings.Contains(m.paths.Calls[c].Function, text) })
}
func (m *model) pieceOf(b *buffer) program.Piece { return m.paths.PieceOf(b.site, b.size) }

// sameOperation reports whether one call of an operator, or several from one line, made two buffers.
func (m *model) sameOperation(x, y *buffer) bool {
	return m.stack(x) == m.stack(y) && m.op(x) == m.op(y) && (m.op(x) != "" || !m.apart || x.isScratch())
}

// stack returns a number that is the same for equal stacks; -1 without one.
func (m *model) stack(b *buffer) int32   { return m.paths.Sites[b.site].Stack() }
func (m *model) module(b *buffer) string { return m.t.Purpose(m.s.PurposeOf(int(b.like))).Module }

// nameOf returns the recorded name of a buffer; "" if it has none.
func (m *model) nameOf(b *buffer) string {
	if h := m.t.HolderOf(m.s, int(b.like)); h != nil {
		return h.Name
	}
	return ""
}

func (m *model) isNorm(b *buffer) bool {
	c := m.paths.Innermost(b.site)
	return m.does(b, program.OpNorm) || c != nil && strings.Contains(c.Function, "norm")
}

func is(category purpose.Category) func(b *buffer) bool {
	return func(b *buffer) bool { return b.category == category }
}

var isParameter = is(purpose.ModelParameter)

func (m *model) sizes(which func(b *buffer) bool) map[int64]bool {
	all := map[int64]bool{}
	for _, b := range m.buffers {
		if which(b) {
			all[b.size] = true
		}
	}
	return all
}

func sizeOf(all []*buffer) (bytes int64) {
	for _, b := range all {
		bytes += b.size
	}
	return bytes
}

func numbersOf(all []*buffer) map[int64]int {
	of := map[int64]int{}
	for _, b := range all {
		of[b.size]++
	}
	return of
}

// weights returns the parameters in order.
func (m *model) weights() (all []*buffer) {
	return filter(m.buffers, func(b *buffer) bool { return isParameter(b) && !b.added })
}

func filter(from []*buffer, which func(b *buffer) bool) (all []*buffer) {
	for _, b := range from {
		if which(b) {
			all = append(all, b)
		}
	}
	return all
}

func (m *model) last() *pass {
	if len(m.passes) == 0 {
		return nil
	}
	return &m.passes[len(m.passes)-1]
}

// between returns the buffers that begin from one event to another, which does not count. Those that an edit added are not among them until
// settle.
func (m *model) between(begin, end int) []*buffer {
	sorted := m.buffers[:m.sorted]
	return sorted[firstFrom(sorted, begin):firstFrom(sorted, end)]
}

// during returns the buffers that begin while pass k runs.
func (m *model) during(k int) []*buffer { return m.between(m.passes[k].begin, m.passes[k].end) }

func (m *model) ofPass(k int) []*buffer {
	return filter(m.during(k), func(b *buffer) bool { return int(b.pass) == k })
}

// forward returns the buffers of the forward part of pass k.
func (m *model) forward(k int) (all []*buffer) {
	return filter(m.during(k), func(b *buffer) bool {
		return b.pass >= 0 && b.phase == purpose.Forward && b.part != purpose.Recomputation
	})
}

// computed is forward without workspaces, which libraries keep.
func (m *model) computed(k int) []*buffer {
	return filter(m.forward(k), func(b *buffer) bool { return b.category != purpose.Workspace })
}

// backward returns the buffers of the backward part of pass k.
func (m *model) backward(k int) []*buffer {
	return filter(m.during(k), func(b *buffer) bool { return b.phase == purpose.Backward })
}

// roundOf returns the round whose passes make a buffer; -1 if none does.
func (m *model) roundOf(b *buffer) int {
	if b.pass < 0 {
		return -1
	}
	return m.passes[b.pass].round
}

func (m *model) ofRound(k int) []*buffer {
	return filter(m.between(m.rounds[k].begin, m.rounds[k].end), func(b *buffer) bool { return m.roundOf(b) == k })
}

// repeat adds a buffer that is another one once more, saved if that is.
func (m *model) repeat(like *buffer, begin, end moment) *buffer {
	b := *like
	b.begin, b.end, b.requestFree, b.added = begin, end, noEvent, true
	m.buffers, m.moved = append(m.buffers, &b), true
	return &b
}

// add adds a buffer of another size like another one, which nothing saves.
func (m *model) add(like *buffer, begin, end moment, size int64) *buffer {
	b := m.repeat(like, begin, end)
	b.size, b.saved, b.dropped, b.late = size, false, false, false
	return b
}

// addTemporary is add of something that nothing keeps. It returns nil if it would end before it begins.
func (m *model) addTemporary(like *buffer, begin, end moment, size int64) *buffer {
	if begin.compare(end) >= 0 {
		return nil
	}
	b := m.add(like, begin, end, size)
	b.category = purpose.TemporaryData
	return b
}

func (m *model) until(b *buffer, end moment) {
	b.end, b.requestFree, m.moved = end, noEvent, true
}

func (m *model) untilAll(ends map[*buffer]moment) {
	for b, end := range ends {
		m.until(b, end)
	}
}

func (m *model) drop(which func(b *buffer) bool) {
	m.buffers = slices.DeleteFunc(m.buffers, which)
	m.others = slices.DeleteFunc(m.others, func(o other) bool { return o.kind == replay.Fail && which(&o.failed) })
	m.moved, m.sorted = true, len(m.buffers)
}

// open is by how many bytes a peak may be lower and higher.
type open struct{ less, more int64 }

// widen widens the ranges of both peaks.
func (m *model) widen(less, more int64) {
	m.allocated, m.reserved = open{m.allocated.less + less, m.allocated.more + more}, open{m.reserved.less + less, m.reserved.more + more}
}

// leaveOpen widens the ranges of the peaks up to those of other programs.
func (m *model) leaveOpen(others ...*model) {
	if len(others) == 0 {
		return
	}
	var allocated, reserved open
	here := m.run()
	for _, other := range others {
		there := other.run()
		by, byReserved := there.PeakLive-here.PeakLive, there.PeakReserved-here.PeakReserved
		allocated = open{max(allocated.less, -by), max(allocated.more, by)}
		reserved = open{max(reserved.less, -byReserved), max(reserved.more, byReserved)}
	}
	m.allocated = open{m.allocated.less + allocated.less, m.allocated.more + allocated.more}
	m.reserved = open{m.reserved.less + reserved.less, m.reserved.more + reserved.more}
}

// doubt widens the ranges of the peaks by shares of that of allocated bytes.
func (m *model) doubt(by off) {
	peak := float64(m.run().PeakLive)
	m.widen(int64(by.below*peak), int64(by.above*peak))
}

// lineOf names a line as edits do: "train.py:31".
func lineOf(file string, line int) string { return fmt.Sprintf("%s:%d", path.Base(file), line) }
