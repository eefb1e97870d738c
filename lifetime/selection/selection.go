// Package selection makes captures of captures: a part of the spaces, of the window or of the buffers ([Selection],
// [Slice]), groups of buffers in place of call sites ([GroupBy]), and an axis of events in place of time ([ByEvent]).
// It also chooses what a command shows of a capture: memory IDs ([Choose], [Largest]) and an instant ([Moment]).
//
// Its place in the pipeline: after the model and before every answer and picture, which need not know that they see a
// part.
package selection

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/outline"
)

// Selection selects a part of a capture. The zero value selects all of it.
type Selection struct {
	Space  string // pattern of memory IDs, with or without host, as in path.Match; but "*" also matches "/"
	Module string // compiled program: "jit_f(5)", or "jit_f" for all with that name

	From, To *Instant // of the window; nil = its begin or end

	// Of buffers.
	MinSize  int64 // occupied bytes
	Category string
	Function *regexp.Regexp // a function of the call stack, or the operation
	Name     *regexp.Regexp // what the recorder found: the name of the tensor, or what holds it

	By By // what buffers are summed up by; "" = ByLine
}

// Instant is a point on the axis of a space.
type Instant struct {
	T     int64
	Since bool // T counts from the begin of the capture's first window
}

// NothingError reports that a capture has no data that matches the request.
type NothingError struct {
	File string
	Why  string
}

// Error returns the file and the reason.
func (e *NothingError) Error() string { return e.File + ": " + e.Why }

// AllBuffers reports whether the selection keeps all buffers of its spaces for the
// whole window. Peak and end are then those of the capture.
func (s *Selection) AllBuffers() bool {
	return s.From == nil && s.To == nil && s.MinSize == 0 && s.Category == "" && s.Function == nil && s.Name == nil
}

// BySpace reports whether the selection is limited to some spaces.
func (s *Selection) BySpace() bool { return s.Space != "" || s.Module != "" }

// has reports whether a space is selected. Module only selects compiled programs.
func (s *Selection) has(space *lifetime.SpaceInfo) bool {
	if s.Module != "" && space.Axis != lifetime.ProgramOrder {
		return false
	}
	name, _, _ := strings.Cut(space.Module, "(")
	return (s.Module == "" || s.Module == space.Module || s.Module == name) &&
		(s.Space == "" || matches(s.Space, space.ID()) || space.Host != "" &&
			matches(s.Space, strings.TrimPrefix(space.ID(), space.Host+"/")))
}

// matches is path.Match, except that "*" also matches "/": memory IDs are not paths.
func matches(pattern, id string) bool {
	ok, _ := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(id, "/", "\x00"))
	return ok
}

// names describes the selected spaces in the user's words.
func (s *Selection) names() string {
	var parts []string
	for _, p := range [][2]string{{"memory ID", s.Space}, {"program", s.Module}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+strconv.Quote(p[1]))
		}
	}
	return strings.Join(parts, " and ")
}

// Of returns the selected memory IDs and window of a capture, with all their buffers. It fails with a *NothingError if nothing
// is selected.
func (s *Selection) Of(c *lifetime.Capture) (*lifetime.Capture, error) {
	part := only(c, func(space *lifetime.Space) bool { return s.has(&space.SpaceInfo) })
	if err := empty(s, &c.Tables, c.Spaces, len(part.Spaces)); err != nil {
		return nil, err
	}
	return s.cut(part)
}

// Buffers returns what Of returned with the selected buffers, grouped. It fails like Of.
func (s *Selection) Buffers(of *lifetime.Capture) (*lifetime.Capture, error) {
	part, err := s.filter(of)
	if err != nil || s.By == "" {
		return part, err
	}
	return GroupBy(part, s.By)
}

// OfOutline returns the selected spaces of an outline. It requires AllBuffers and fails like Of.
func (s *Selection) OfOutline(o *outline.Outline) (*outline.Outline, error) {
	part := *o
	part.Spaces = slices.DeleteFunc(slices.Clone(o.Spaces), func(space *outline.Space) bool { return !s.has(&space.SpaceInfo) })
	return &part, empty(s, &o.Tables, o.Spaces, len(part.Spaces))
}

const maxIDs = 12

// empty returns the error for a selection that has n of these spaces; nil if it has any.
func empty[S interface{ ID() string }](s *Selection, t *lifetime.Tables, spaces []S, n int) error {
	var ids []string
	for _, space := range spaces {
		ids = append(ids, space.ID())
	}
	switch more := len(ids) - maxIDs; {
	case len(ids) == 0:
		return &NothingError{t.Name(), "holds no memory data: " + whyEmpty(t)}
	case n > 0:
		return nil
	case more > 0:
		ids = append(ids[:maxIDs], fmt.Sprintf("and %d more", more))
	}
	why := fmt.Sprintf("has no %s; its memory IDs: %s", s.names(), strings.Join(ids, ", "))
	if missing := loss.NoEvents(t.Losses); missing != "" && s.Module == "" {
		why += "; " + missing
	}
	return &NothingError{t.Name(), why}
}

// whyEmpty explains why a capture has no space, and what to do. Damage comes first, because it may be the cause.
func whyEmpty(t *lifetime.Tables) string {
	damage := ""
	if lost, _ := loss.Worst(t.Losses, loss.Damage); lost.Count > 0 {
		damage = lost.String() + "; "
	}
	if why := loss.NoEvents(t.Losses); why != "" {
		return damage + why
	}
	why := damage + "no history, no end state and no compiled program"
	if advice := t.Sources[0].Traits.Advice; advice != "" {
		why += "; " + advice
	}
	return why
}

// cut returns the part of a capture between From and To. The spaces of a capture have the same clock.
func (s *Selection) cut(c *lifetime.Capture) (*lifetime.Capture, error) {
	if s.From == nil && s.To == nil {
		return c, nil
	}
	begin, end, any := int64(0), int64(0), false
	for _, space := range c.Spaces {
		if space.Axis == lifetime.ProgramOrder {
			continue
		}
		if !any || space.Begin < begin {
			begin = space.Begin
		}
		end, any = max(end, space.End), true
	}
	if !any {
		return nil, &NothingError{c.Name(), "has only compiled programs, which have no time to select"}
	}
	at := func(i *Instant, unset int64) int64 {
		switch {
		case i == nil:
			return unset
		case i.Since:
			return units.AddSat(begin, i.T)
		}
		return i.T
	}
	from, to := at(s.From, begin), at(s.To, end)
	if from >= to || from >= end || to <= begin {
		return nil,
			&NothingError{c.Name(),
				"nothing was recorded in this interval; the recording is " + units.Span(end-begin, c.Spaces[0].Axis.Unit()) + " long"}
	}
	inside := only(c, func(space *lifetime.Space) bool {
		return space.Axis == lifetime.ProgramOrder || space.Begin < to && space.End > from
	})
	return Slice(inside, from, to), nil
}

func (s *Selection) filter(c *lifetime.Capture) (*lifetime.Capture, error) {
	if s.MinSize == 0 && s.Category == "" && s.Function == nil && s.Name == nil {
		return c, nil
	}
	allocated, named := Matching(&c.Tables, s.Function), s.named(&c.Tables)
	categories := map[string]bool{}
	kept, all := 0, int64(0)
	part := filter(c, func(space *lifetime.Space, i int, b *lifetime.Buffer) bool {
		category := c.Category(&space.SpaceInfo, b.Kind, b.Site, space.PurposeOf(i))
		categories[category] = true
		all++
		selected := b.Size >= s.MinSize && (s.Category == "" || category == s.Category) && allocated(b.Site) && named(space, i)
		if selected {
			kept++
		}
		return selected
	})
	if kept == 0 && all > 0 {
		delete(categories, "")
		return nil, &NothingError{c.Name(), s.noBuffers(all, slices.Sorted(maps.Keys(categories)))}
	}
	return part, nil
}

func (s *Selection) noBuffers(all int64, categories []string) string {
	var conditions []string
	if s.MinSize > 0 {
		conditions = append(conditions, "is at least "+units.Bytes(s.MinSize)+" large")
	}
	if s.Category != "" {
		conditions = append(conditions, fmt.Sprintf("has the category %q", s.Category))
	}
	if s.Function != nil {
		conditions = append(conditions, fmt.Sprintf("was allocated by %q", s.Function))
	}
	if s.Name != nil {
		conditions = append(conditions, fmt.Sprintf("has a recorded name or holder that matches %q", s.Name))
	}
	why := fmt.Sprintf("none of its %s %s", units.Plural(all, "buffer"), strings.Join(conditions, " and "))
	switch {
	case s.Category == "":
		return why
	case len(categories) == 0:
		return why + "; no category is recorded"
	}
	return why + "; its categories: " + strings.Join(categories, ", ")
}

// named returns a function that reports whether Name matches the name of a buffer or what holds it. Without Name it
// matches all.
func (s *Selection) named(t *lifetime.Tables) func(space *lifetime.Space, buffer int) bool {
	return func(space *lifetime.Space, buffer int) bool {
		if s.Name == nil {
			return true
		}
		if b := &space.Buffers[buffer]; s.Name.MatchString(t.ArgumentOf(b.Kind, b.Site)) && t.ArgumentOf(b.Kind, b.Site) != "" {
			return true
		}
		h := t.HolderOf(space, buffer)
		return h != nil && (s.Name.MatchString(h.Label()) || s.Name.MatchString(h.By()) || s.Name.MatchString(h.Whole()))
	}
}

// Matching returns a function that reports whether function matches the operation of a
// site or any function on its call stack. A nil function matches every site. Operations, frames and
// stacks are asked once each: calls inside calls would otherwise take the square of their depth.
func Matching(t *lifetime.Tables, function *regexp.Regexp) func(lifetime.SiteID) bool {
	if function == nil {
		return func(lifetime.SiteID) bool { return true }
	}
	stacks := sync.OnceValue(func() []bool { return stacksMatching(t, function) })
	known := map[lifetime.SiteID]bool{}
	return func(site lifetime.SiteID) bool {
		is, seen := known[site]
		if !seen {
			s := &t.Sites[site]
			is = s.Op != "" && function.MatchString(s.Op) || stacks()[s.Stack]
			known[site] = is
		}
		return is
	}
}

func stacksMatching(t *lifetime.Tables, function *regexp.Regexp) []bool {
	frames := make([]bool, len(t.Frames))
	for i := range t.Frames {
		frames[i] = function.MatchString(t.Frames[i].Function)
	}
	stacks := make([]bool, len(t.Stacks))
	for i := 1; i < len(stacks); i++ { // a caller comes before the stacks that it calls
		s := &t.Stacks[i]
		stacks[i] = stacks[s.Caller] || frames[s.Frame]
	}
	return stacks
}

// NameOlder says how to record who allocated what a memory ID had before the recording.
func NameOlder(t *lifetime.Tables, s *lifetime.SpaceInfo) string {
	if names := t.Sources[s.Source].Traits.Names; names != "" && !strings.HasPrefix(s.Device, "cpu") {
		return "Record with " + names + " to see what was there before the recording."
	}
	return "Start the recording before the model is loaded to see what was there before."
}

// Recorded returns the spaces that were recorded while a program ran, or all if there are none.
func Recorded(all []*lifetime.Space) []*lifetime.Space {
	recorded := slices.DeleteFunc(slices.Clone(all), func(s *lifetime.Space) bool { return s.Axis == lifetime.ProgramOrder })
	if len(recorded) == 0 {
		return all
	}
	return recorded
}

// Largest returns the space with the highest peak among those with buffers, main memory first, and the number of these
// spaces; nil if there is none.
func Largest(spaces []*lifetime.Space) (best *lifetime.Space, of int) {
	i, of := largest(spaces, func(s *lifetime.Space) (int64, bool) {
		if s.UsageOnly() || len(s.Buffers) == 0 && s.Base == 0 && len(s.Stack) == 0 {
			return 0, false
		}
		return s.Peak(lifetime.Occupied).Bytes, true
	})
	if i < 0 {
		return nil, of
	}
	return spaces[i], of
}

// largest returns the index of the space with the highest peak, main memory first, and the number of spaces with a
// peak; -1 if there is none.
func largest[S interface{ IsMain() bool }](spaces []S, peak func(S) (bytes int64, ok bool)) (best, count int) {
	best, most := -1, int64(0)
	for i, s := range spaces {
		bytes, ok := peak(s)
		if !ok {
			continue
		}
		count++
		if best < 0 || s.IsMain() && !spaces[best].IsMain() || bytes > most && s.IsMain() == spaces[best].IsMain() {
			best, most = i, bytes
		}
	}
	return best, count
}

// choice is the selection of spaces that a command shows, by index.
type choice struct {
	Spaces   []int
	Programs int // omitted spaces of compiled programs, if there are spaces of the run
	Of       int // number of candidates, if Spaces is one compiled program
}

// Choose returns the most informative spaces: those recorded while the program ran, else the compiled program with the
// highest peak of main memory. all selects every space, because the user named them.
func Choose(o *outline.Outline, all bool) (c choice) {
	for i, s := range o.Spaces {
		if s.Axis != lifetime.ProgramOrder {
			c.Spaces = append(c.Spaces, i)
		}
	}
	if len(c.Spaces) > 0 && !all {
		c.Programs = len(o.Spaces) - len(c.Spaces)
		return c
	}
	running := len(c.Spaces) > 0
	c.Spaces = nil
	for i := range o.Spaces {
		c.Spaces = append(c.Spaces, i)
	}
	if all || running {
		return c
	}
	best, of := largest(o.Spaces, func(s *outline.Space) (int64, bool) {
		return s.Peak.Bytes, !s.UsageOnly && (len(s.PeakRows) > 0 || len(s.EndRows) > 0)
	})
	if best >= 0 {
		c.Spaces, c.Of = []int{best}, of
	}
	return c
}

// Slice returns the capture as if it had been recorded from one instant to another, [from, to) on the axis of each
// space. Buffers that begin earlier become BeginUnseen, buffers that end later become EndOpen, and buffers that lie
// outside are dropped. Base and the levels in the window do not change.
//
// Spaces that do not overlap [from, to), and compiled programs, stay as they are.
// Calls and samples are cut too, operations and runs are not.
func Slice(c *lifetime.Capture, from, to int64) *lifetime.Capture {
	part := *c
	part.Spaces = nil
	for _, s := range c.Spaces {
		lo, hi := max(from, s.Begin), min(to, s.End)
		if s.Axis == lifetime.ProgramOrder || lo >= hi || lo == s.Begin && hi == s.End {
			part.Spaces = append(part.Spaces, s)
			continue
		}
		part.Spaces = append(part.Spaces, slice(s, lo, hi))
	}
	part.Calls = kept(c.Calls, func(call *lifetime.Call) bool {
		s := part.Spaces[call.Space]
		return call.End >= float64(s.Begin)/1e9 && call.Begin < float64(s.End)/1e9
	})
	part.Samples = kept(c.Samples, func(sample *lifetime.Sample) bool {
		s := part.Spaces[sample.Space]
		return s.Begin <= sample.T && sample.T < s.End
	})
	return &part
}

// kept returns a copy of the elements of all for which keep returns true. keep may change an element of the copy.
func kept[T any](all []T, keep func(*T) bool) (some []T) {
	for _, v := range all {
		if keep(&v) {
			some = append(some, v)
		}
	}
	return some
}

func slice(s *lifetime.Space, from, to int64) *lifetime.Space {
	part := with(s, func(_ int, b lifetime.Buffer) (lifetime.Buffer, bool) {
		if b.Begin >= to || b.Edge&lifetime.EndOpen == 0 && b.End <= from {
			return b, false
		}
		b.Begin, b.End, b.Edge = cutSides(b.Begin, b.End, b.Edge, from, to, s.End)
		return b, true
	})
	part.Begin, part.End = from, to
	part.Stack = nil
	part.Regions = kept(s.Regions, func(r *lifetime.Region) bool {
		keep := r.Begin < to && (r.End > from || r.Edge&lifetime.EndOpen != 0)
		r.Begin, r.End, r.Edge = cutSides(r.Begin, r.End, r.Edge, from, to, s.End)
		return keep
	})
	part.Totals = kept(s.Totals, func(t *lifetime.Total) bool { return from <= t.T && t.T < to })
	part.Marks = kept(s.Marks, func(m *lifetime.Mark) bool { return m.Begin < to && max(m.End, m.Begin+1) > from })
	for i, l := range s.Stack {
		switch {
		case i == 0 || l.At <= from: // the last one of these holds at from
			part.Stack = []lifetime.Level{{At: from, Bytes: l.Bytes}}
		case l.At < to:
			part.Stack = append(part.Stack, l)
		}
	}
	return part
}

func only(c *lifetime.Capture, selected func(*lifetime.Space) bool) *lifetime.Capture {
	part := *c
	part.Spaces = nil
	index := map[int]int{} // new index by old index
	for i, s := range c.Spaces {
		if selected(s) {
			index[i] = len(part.Spaces)
			part.Spaces = append(part.Spaces, s)
		}
	}
	renumber := func(space *int) (ok bool) {
		*space, ok = index[*space]
		return ok
	}
	part.Calls = kept(c.Calls, func(call *lifetime.Call) bool { return renumber(&call.Space) })
	part.Samples = kept(c.Samples, func(sample *lifetime.Sample) bool { return renumber(&sample.Space) })
	return &part
}

// filter returns the capture with the selected buffers. Its levels count these buffers
// only: spaces with buffers lose Base, Stack and Totals.
func filter(c *lifetime.Capture, selected func(s *lifetime.Space, i int, b *lifetime.Buffer) bool) *lifetime.Capture {
	part := *c
	part.Spaces = nil
	for _, s := range c.Spaces {
		if s.UsageOnly() {
			part.Spaces = append(part.Spaces, s)
			continue
		}
		filtered := with(s, func(i int, b lifetime.Buffer) (lifetime.Buffer, bool) { return b, selected(s, i, &b) })
		filtered.Base, filtered.Stack, filtered.Totals, filtered.Facts = 0, nil, nil, filtered.Facts&^lifetime.Totals
		part.Spaces = append(part.Spaces, filtered)
	}
	return &part
}

// with returns a copy of the space with the buffers that take returns with ok. take may
// change a buffer, but not the order of buffers.
func with(s *lifetime.Space, take func(i int, b lifetime.Buffer) (lifetime.Buffer, bool)) *lifetime.Space {
	part := *s
	part.Buffers, part.FreeSites, part.BufNotes, part.Holders, part.ValueIDs, part.FreeRequests, part.Purposes,
		part.EndOrder = nil, nil, nil, nil, nil, nil, nil, nil
	part.Allocations, part.Frees = 0, 0
	ended := []uint32{}
	for i, whole := range s.Buffers {
		b, ok := take(i, whole)
		if !ok {
			continue
		}
		if (whole.Edge|b.Edge)&(lifetime.BeginUnseen|lifetime.SiteFromFree) == 0 {
			part.Allocations++
		}
		if (whole.Edge|b.Edge)&(lifetime.EndOpen|lifetime.EndInferred) == 0 {
			part.Frees++
		}
		if b.Edge&lifetime.EndOpen == 0 {
			ended = append(ended, uint32(len(part.Buffers)))
		}
		part.Buffers = append(part.Buffers, b)
		if s.FreeSites != nil {
			site := s.FreeSites[i]
			if b.Edge&lifetime.EndOpen != 0 {
				site = 0
			}
			part.FreeSites = append(part.FreeSites, site)
		}
		if s.BufNotes != nil {
			part.BufNotes = append(part.BufNotes, s.BufNotes[i])
		}
		if s.Holders != nil {
			part.Holders = append(part.Holders, s.Holders[i])
		}
		if s.ValueIDs != nil {
			part.ValueIDs = append(part.ValueIDs, s.ValueIDs[i])
		}
		if s.FreeRequests != nil {
			t := s.FreeRequests[i]
			if t == whole.End {
				t = b.End
			}
			part.FreeRequests = append(part.FreeRequests, min(max(t, b.Begin), b.End))
		}
		if s.Purposes != nil {
			part.Purposes = append(part.Purposes, s.Purposes[i])
		}
	}
	part.SortEnds(ended)
	return &part
}

// cutSides cuts an interval to the window [from, to) of a longer window that ended at end.
func cutSides(begin, stop int64, edge lifetime.Edge, from, to, end int64) (int64, int64, lifetime.Edge) {
	if begin < from {
		begin = from
		edge |= lifetime.BeginUnseen
	}
	if edge&lifetime.EndOpen != 0 || stop > to {
		stop = to
		edge = edge&^lifetime.EndInferred | lifetime.EndOpen
		if to < end {
			edge &^= lifetime.Pending
		}
	}
	return begin, stop, edge
}
