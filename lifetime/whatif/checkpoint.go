package whatif

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime/purpose"
)

// chosenBlocks returns which blocks, or calls of modules, counted from 0, a value of checkpoint means; nil if it means none.
func chosenBlocks(v string) func(block int) bool {
	kind, of, _ := strings.Cut(v, ":")
	switch from, to, _ := strings.Cut(of, "-"); {
	case v == "blocks", kind == "module" && of != "":
		return func(int) bool { return true }
	case kind == "every" && isCount(of) == nil:
		return func(i int) bool { return (i+1)%count(of) == 0 }
	case kind == "layers":
		a, err := strconv.Atoi(from)
		b, errB := strconv.Atoi(to)
		if err == nil && errB == nil && a >= 0 && a <= b {
			return func(i int) bool { return i >= a && i <= b }
		}
	}
	return nil
}

func isBlocks(v string) error {
	if chosenBlocks(v) == nil {
		return fmt.Errorf("use blocks, every:N such as every:2, layers:A-B such as layers:0-3, or module:NAMES such as module:*.mlp")
	}
	return nil
}

// checkpointed is what checkpointing changes.
type checkpointed struct {
	m     *model
	ends  map[*buffer]moment
	open  []*buffer // computed again after the recording
	units int       // of the last pass that has some

	unpacked func(end moment) moment // of the pass that is changed: see model.unpacked
}

// checkpoint keeps only the outputs of blocks that are chosen, or of calls of modules with some names, and computes each again in the backward
// pass, up to the last buffer that it saves.
func (m *model) checkpoint(v string) string {
	c := checkpointed{m: m, ends: map[*buffer]moment{}}
	_, modules, _ := strings.Cut(v, "module:")
	chosen := chosenBlocks(v)
	again := func(b *buffer) bool {
		return b.part == purpose.Recomputation && b.phase == purpose.Forward && !b.added
	}
	switch {
	case modules != "" && !m.recordsModules():
		return "modules are not recorded: record with memlane.record(modules=True)"
	case m.any(again):
		return "the program already computes parts of its forward pass again"
	case m.any(func(b *buffer) bool { return b.dropped }) && !m.any(func(b *buffer) bool { return b.saved }):
		return "no backward pass runs over what the forward passes keep: use no_grad"
	}
	units, callers := make([][]unit, len(m.passes)), map[int32]bool{}
	for k := range m.passes {
		if _, units[k] = m.blocks(k); modules != "" {
			units[k] = m.modules(k, func(name string) bool { return Matches(modules, name) })
		}
		if len(units[k]) > 0 && m.passes[k].trains() {
			callers[m.callerOf(units[k][0])] = true
		}
	}
	for k, units := range units {
		if len(units) == 0 {
			continue
		}
		c.units = len(units)
		ran, uses := m.redoneOf(k, units, chosen), m.lastUses(k, nil)
		isCalled := callers[m.callerOf(units[0])] || len(callers) == 0
		for _, r := range ran {
			if isCalled { // else an evaluation calls the blocks from another line, which stays as it is
				c.drop(r, uses)
			}
		}
		c.pass(k, slices.DeleteFunc(ran, func(r redone) bool { return r.last == 0 }), uses)
	}
	switch {
	case c.units == 0 && modules != "":
		return "no module that ran forward has such a name; memlane peak --by layer shows where they are"
	case c.units == 0:
		return "no block of the program repeats: name its modules, such as checkpoint=module:*.mlp"
	case len(c.ends) == 0 && modules != "":
		return "these modules save nothing but their results"
	case len(c.ends) == 0:
		return fmt.Sprintf("the change names none of the %d blocks of the program, or these save nothing", c.units)
	}
	m.untilAll(c.ends)
	m.widen(sizeOf(c.open)/2, 0) // when it is computed again is not known
	return ""
}

// redone is a unit that a backward pass computes again.
type redone struct {
	unit unit
	in   []*buffer // what it takes, if no backward pass needs that: checkpointing keeps it
	out  *buffer   // what it hands on
	all  []*buffer // everything that the pass makes from its first to its last buffer, in order
	end  int       // the next buffer of the pass begins
	dies int       // what it saves is freed from here on
	last int       // what it saves last begins; 0 if it saves nothing but out
	done int       // all that it saves is freed
}

// redoneOf returns the units of pass k that are chosen.
func (m *model) redoneOf(k int, units []unit, chosen func(block int) bool) (found []redone) {
	all := m.forward(k)
	for j, u := range units {
		if !chosen(j) {
			continue
		}
		r := redone{unit: u, out: m.output(u), end: m.passes[k].backward, dies: noEvent}
		before, first := units[max(j-1, 0)], firstFrom(all, u.first().begin.event)
		isNext := j == 0 || first > 0 && all[first-1] == before.last() // the caller makes nothing in between
		in := m.output(before)
		var there []*buffer // as it begins
		for _, b := range all {
			if !b.saved && b.begin.compare(u.first().begin) < 0 && b.end.compare(u.first().begin) > 0 {
				there = append(there, b)
			}
			switch {
			case b.size == in.size && b.begin.compare(in.begin) > 0 && b.begin.compare(u.first().begin) < 0 && b.end.compare(u.first().begin) > 0:
				in = b // such as the sum with what the one before took
			case b.begin.event > u.last().begin.event:
				r.end = min(r.end, b.begin.event)
			case b.begin.event >= u.first().begin.event:
				r.all = append(r.all, b)
				if b.saved && b != r.out {
					r.dies, r.last, r.done = min(r.dies, b.end.event), b.begin.event, max(r.done, b.end.event)
				}
			}
		}
		for _, b := range there {
			isArgument := isNext && b.size > smallest && b.end.event > u.last().begin.event && b.end.event < r.end && b.category != purpose.Workspace // the call holds it
			if b == in && j > 0 || isArgument {
				r.in = append(r.in, b)
			}
		}
		found = append(found, r)
	}
	return found
}

// drop ends what a unit kept for a backward pass that never ran, as in an evaluation: nothing computes it again.
func (c *checkpointed) drop(r redone, uses map[*buffer]moment) {
	for _, b := range r.all {
		if end := freedBy(r.end, uses[b]); b.dropped && b != r.out && end.compare(b.end) < 0 {
			c.ends[b] = end
		}
	}
}

// freedBy returns when something is freed that was used last at a moment: at an event at the latest.
func freedBy(event int, used moment) moment {
	if end := at(event).earlier(used); end.rank != itself {
		return end
	}
	return frees.at(event)
}

// pass computes units of pass k again. A failed request may keep the backward pass from some of them: then the largest of these counts.
func (c *checkpointed) pass(k int, ran []redone, uses map[*buffer]moment) {
	if len(ran) == 0 {
		return
	}
	m, p := c.m, c.m.passes[k]
	c.unpacked = m.unpacked(k)
	computed := 0
	var most []*buffer
	for _, r := range slices.Backward(ran) {
		anchor, isReached := p.end, p.trains() && (!p.cut || r.dies < p.end)
		if isReached {
			anchor = m.backwardBegins(k, r.unit, r.dies, false)
		}
		again := c.again(k, r, anchor, isReached, uses)
		for _, b := range r.in {
			if p.trains() {
				c.ends[b] = b.end.later(after.at(min(r.done, p.end)))
			}
		}
		switch {
		case isReached:
			computed += len(again)
			m.buffers = append(m.buffers, again...)
		case sizeOf(again) > sizeOf(most):
			most = again
		}
	}
	if most != nil && (m.isOpen(k) || p.cut) { // a backward pass does it at some time, after what uses the last unit
		computed += len(most)
		c.open, m.buffers = most, append(m.buffers, most...)
		last := ran[len(ran)-1].out.begin.event
		for _, b := range m.ofPass(k) {
			isOver := b.saved && b.begin.event > last || b.phase == purpose.Backward && b.category == purpose.TemporaryData
			if isOver && b.end.event > p.end {
				c.ends[b] = released.at(p.end)
			}
		}
	}
	m.recomputed = max(m.recomputed, int64(computed))
}

// again returns what a unit of pass k makes when it is computed again after an event, and ends what it does not save any more.
func (c *checkpointed) again(k int, r redone, anchor int, isReached bool, uses map[*buffer]moment) (all []*buffer) {
	cutOff := c.m.passes[k].cut && isReached
	for _, b := range r.all {
		again := *b
		again.begin, again.end = recomputes.at(anchor).by(b.begin.event), c.unpacked(b.end)
		switch {
		case b == r.out:
			continue
		case b.saved:
			c.ends[b] = freedBy(r.end, uses[b])
		case b.isFreed() && b.end.event < c.m.passes[k].backward && b.begin.event < r.last:
			again.end = recomputes.at(anchor).by(min(b.end.event, r.last+1))
		default:
			continue
		}
		if end := released.at(c.m.passes[k].end); cutOff && again.end.compare(end) > 0 {
			again.end = end
		}
		if again.end.compare(again.begin) <= 0 { // a node outside of the unit freed it before
			continue
		}
		again.added, again.saved, again.part, again.requestFree = true, false, purpose.Recomputation, noEvent
		all = append(all, &again)
	}
	return all
}
