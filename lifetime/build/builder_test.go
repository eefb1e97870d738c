package build

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"github.com/memlane/memlane/internal/chunked"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/selection"
)

// TestInterning: equal values have equal IDs, and 0 means none.
func TestInterning(t *testing.T) {
	b := New(Everything)
	b.Source(lifetime.Source{})
	f1, f2 := b.Frame(frame.Frame{Function: "f", File: "a.py", Line: 1}), b.Frame(frame.Frame{Function: "f", File: "a.py", Line: 2})
	if f1 == f2 || f1 == 0 || b.Frame(frame.Frame{Function: "f", File: "a.py", Line: 1}) != f1 {
		t.Error("frames")
	}
	frames := []lifetime.FrameID{f1, f2}
	s1 := b.Stack(frames)
	frames[0] = f2 // the Builder must not keep the caller's slice
	s2 := b.Stack(frames)
	if s1 == s2 || b.Stack([]lifetime.FrameID{f1, f2}) != s1 || b.Stack([]lifetime.FrameID{f2, f2}) != s2 || b.Stack(nil) != 0 {
		t.Error("stacks")
	}
	if b.Site(lifetime.Site{}) != 0 || b.Site(lifetime.Site{Stack: s1}) == b.Site(lifetime.Site{Stack: s1, Op: "x"}) {
		t.Error("sites")
	}
	if x := b.Note("x"); b.Note("") != 0 || x == 0 || x != b.Note("x") {
		t.Error("notes")
	}
}

// TestLineNumbers: lines and columns that no file has are not passed on. SARIF refuses negative ones, Perfetto has 32 bits.
func TestLineNumbers(t *testing.T) {
	b := New(Everything)
	b.Source(lifetime.Source{})
	for n, want := range map[int]int{-5: 0, 0: 0, 7: 7, math.MaxInt32: math.MaxInt32, math.MaxInt: math.MaxInt32} {
		if f := b.capture.Frames[b.Frame(frame.Frame{Function: "f", File: "a.py", Line: n, Column: n})]; f.Line != want || f.Column != want {
			t.Errorf("%d: line %d, column %d", n, f.Line, f.Column)
		}
	}
}

// TestManyNotes: notes are found again after their table has grown.
func TestManyNotes(t *testing.T) {
	b := New(Everything)
	for range 2 {
		for i := range 3000 {
			if id := b.Note(fmt.Sprint("note ", i)); id != lifetime.NoteID(i+1) {
				t.Fatalf("note %d has ID %d", i, id)
			}
		}
	}
}

// TestManyMarks: the copies of MarkAll are limited.
func TestManyMarks(t *testing.T) {
	b := New(Everything)
	b.MarkAll([]SpaceRef{b.Space(), b.Space(), b.Space()}, slices.Repeat([]lifetime.Mark{{End: 1}}, maxMarks/2))
	for i, want := range []int{maxMarks / 2, maxMarks / 2, 0} {
		if n := len(b.spaces[i].marks); n != want {
			t.Errorf("space %d has %d marks, want %d", i, n, want)
		}
	}
}

// TestManyStacks: stacks are found again, unchanged, after their chunks and table have
// grown. Permutations and prefixes are different stacks.
func TestManyStacks(t *testing.T) {
	b := New(Everything)
	const n = 3000
	stack := func(i int) []lifetime.FrameID {
		frames := make([]lifetime.FrameID, 1+i%17)
		for k := range frames {
			frames[k] = b.Frame(frame.Frame{Line: 1 + (i*(k+3)+k)%251, Function: fmt.Sprint(i % 13)})
		}
		return frames
	}
	ids := map[string]lifetime.StackID{}
	for i := range n {
		frames := stack(i)
		for _, f := range [][]lifetime.FrameID{frames, frames[:len(frames)/2], reversed(frames)} {
			id, key := b.Stack(f), fmt.Sprint(f)
			if old, ok := ids[key]; ok && old != id {
				t.Fatalf("stack %s has IDs %d and %d", key, old, id)
			}
			ids[key] = id
		}
	}
	long := make([]lifetime.FrameID, chunked.Len+1)
	for i := range long {
		long[i] = lifetime.FrameID(i + 1)
	}
	if id := b.Stack(long); b.Stack(long) != id || !slices.Equal(framesOf(b, id), long) {
		t.Error("a stack longer than a chunk")
	}
	for key, id := range ids {
		if got := fmt.Sprint(framesOf(b, id)); got != key {
			t.Fatalf("stack %d is %s, was %s", id, got, key)
		}
	}
}

// framesOf returns the frames of a stack, innermost first.
func framesOf(b *Builder, id lifetime.StackID) []lifetime.FrameID {
	frames := []lifetime.FrameID{}
	for ; id != 0; id = b.capture.Stacks[id].Caller {
		frames = append(frames, b.capture.Stacks[id].Frame)
	}
	return frames
}

// TestCalls: a stack built call by call equals the stack built at once. Each call is one
// entry at any depth.
func TestCalls(t *testing.T) {
	b := New(Everything)
	const deep = 5000
	var frames []lifetime.FrameID // innermost first
	id := lifetime.StackID(0)
	for i := range deep {
		f := b.Frame(frame.Frame{Function: "f", Line: i + 1})
		frames = append([]lifetime.FrameID{f}, frames...)
		if id = b.Call(f, id); b.Stack(frames) != id {
			t.Fatalf("%d deep: stack %d, by its calls %d", i, b.Stack(frames), id)
		}
	}
	if n := len(b.capture.Stacks); n != deep+1 {
		t.Errorf("%d entries for %d calls", n, deep)
	}
	if b.Call(0, id) != id || b.Stack([]lifetime.FrameID{0, 0}) != 0 || b.Stack(append([]lifetime.FrameID{0}, frames...)) != id {
		t.Error("no frame is a call")
	}
}

func reversed(f []lifetime.FrameID) []lifetime.FrameID {
	r := slices.Clone(f)
	slices.Reverse(r)
	return r
}

// TestModelFreesBuilder: the model refers to nothing of the Builder, whose tables may be as large.
func TestModelFreesBuilder(t *testing.T) {
	b := New(PeakAndEnd)
	space := b.Space()
	b.Describe(space, lifetime.SpaceInfo{Source: b.Source(lifetime.Source{}), Device: "d"})
	b.Alloc(space, 1, Block{Addr: 1, Requested: 1, Occupied: 1, Site: b.Site(lifetime.Site{Op: "op"})})
	o, err := b.FinishOutline()
	if err != nil {
		t.Fatal(err)
	}
	builder := weak.Make(b)
	b = nil
	runtime.GC()
	if builder.Value() != nil {
		t.Error("the model keeps the Builder alive")
	}
	runtime.KeepAlive(o)
}

func TestFinishNeedsASource(t *testing.T) {
	if _, err := New(Everything).Finish(); err == nil {
		t.Error("no error without a source")
	}
	b := New(Everything)
	b.Source(lifetime.Source{})
	c, err := b.Finish()
	if err != nil || c.Check() != nil || len(c.Spaces) != 0 {
		t.Errorf("a capture without spaces is legal: %v", err)
	}
}

// TestSpacesSorted: spaces without Describe are left out. The others are sorted by source,
// then by ID.
func TestSpacesSorted(t *testing.T) {
	b := New(Everything)
	for range 2 {
		b.Source(lifetime.Source{})
	}
	for _, s := range []lifetime.SpaceInfo{{Source: 1, Device: "cpu"}, {Device: "cuda:1"}, {Device: "cuda:0", Memory: "pinned"}, {Device: "cuda:0", Limit: 1}, {Device: "cuda:0", Limit: 2}} {
		b.Describe(b.Space(), s)
	}
	lost := b.Space()
	b.Alloc(lost, 1, Block{Addr: 1, Requested: 1, Occupied: 1})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range c.Spaces {
		got = append(got, s.ID())
	}
	if want := "cuda:0 cuda:0 cuda:0/pinned cuda:1 cpu"; strings.Join(got, " ") != want || c.Spaces[0].Limit != 1 {
		t.Errorf("spaces %q, want %s", got, want)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

func TestID(t *testing.T) {
	s := lifetime.SpaceInfo{Host: "h", Process: "rank 1", Module: "jit_f", Allocator: "bfc", Device: "tpu:0", Memory: "hbm"}
	if got, want := s.ID(), "h/rank 1/jit_f/bfc/tpu:0/hbm"; got != want {
		t.Errorf("ID %q, want %q", got, want)
	}
}

// TestLossesSorted: losses of one reason are added up with their first place. The worst
// comes first.
func TestLossesSorted(t *testing.T) {
	b := New(Everything)
	b.Source(lifetime.Source{})
	b.Lose(loss.UnknownKey, 1, 0, "first")
	b.Lose(loss.Truncated, 1, 5, "byte 7")
	b.Lose(loss.LostFree, 1, math.MaxInt64, "")
	b.Lose(loss.UnknownKey, 2, 3, "second")
	b.Lose(loss.LostFree, 1, 10, "")
	c, _ := b.Finish()
	want := fmt.Sprintf("truncated 1 5\nlost-free 2 %d\nunknown-key 3 3\n", int64(math.MaxInt64))
	if got := lossText(c); got != want {
		t.Errorf("losses\n%swant\n%s", got, want)
	}
	if got, want := c.Losses[2].String(), "unknown-key: unknown fields were skipped (3 cases, 3 B, first at first)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := (loss.Loss{Reason: loss.Truncated, Count: 1}).String(), "truncated: the file ends early; everything before that point was used"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestEventAxis: without a clock, the time of an event is its number. Notes, totals and
// marks do not shift later events.
func TestEventAxis(t *testing.T) {
	const A, B = 0x1000, 0x2000
	c, s := made(t,
		alloc(0, A, 1, "a"), note(0, A, "n"),
		reserve(1, 0x100000, 4096),
		total(2, 512, lifetime.Occupied), mark(2, 2, "snapshot"),
		alloc(3, B, 1, "b"),
		mark(4, 4, "oom"),
		freeRequested(5, A, 1, ""), free(6, A, 1, ""),
		release(7, 0x100000, 4096))
	if got, want := text(c, s), lines(`
		0-6 0x1000 512/1 size-inferred site=a note="n"
		3-8 0x2000 512/1 end-open+size-inferred site=b`); got != want {
		t.Errorf("buffers\n%swant\n%s", got, want)
	}
	if got, want := regionText(s), "1-7 0x100000+4096 -\n"; got != want {
		t.Errorf("regions %s want %s", got, want)
	}
	if s.Totals[0].T != 2 || s.Marks[0].Begin != 2 || s.Marks[1].Begin != 4 || s.Begin != -1 || s.End != 8 {
		t.Errorf("totals %v, marks %v, window [%d, %d)", s.Totals, s.Marks, s.Begin, s.End)
	}
}

// TestMarksKeepTheirPlace: point marks and totals keep their position among events of the
// same time, which the Builder moves.
func TestMarksKeepTheirPlace(t *testing.T) {
	_, s := made(t,
		alloc(10, 1, 100, ""), alloc(10, 2, 100, ""), alloc(10, 3, 100, ""), // at 10, 11, 12
		mark(10, 10, "three"), total(10, 300, lifetime.Requested),
		alloc(10, 4, 100, ""), // 13
		mark(11, 11, "four"), total(11, 400, lifetime.Requested),
		mark(5, 8, "range")) // ranges stay where they are
	for _, m := range s.Marks {
		if want := map[string]int{"three": 3, "four": 4, "range": 0}[m.Text]; len(s.LiveAt(m.Begin)) != want {
			t.Errorf("%d buffers alive at mark %q at %d, want %d", len(s.LiveAt(m.Begin)), m.Text, m.Begin, want)
		}
	}
	if got := []string{s.Marks[0].Text, s.Marks[1].Text, s.Marks[2].Text}; !slices.Equal(got, []string{"range", "three", "four"}) {
		t.Errorf("marks in order %q", got)
	}
	for _, total := range s.Totals {
		if n := int64(len(s.LiveAt(total.T))); 100*n != total.Bytes {
			t.Errorf("total %d at %d, where %d buffers are alive", total.Bytes, total.T, n)
		}
	}
}

// TestInOrder: the model is the same with and without InOrder.
func TestInOrder(t *testing.T) {
	inOrder := func(b *Builder, s SpaceRef) { b.InOrder(s) }
	facts := []fact{endState, free(1, 7, 5, "x"), alloc(1, 1, 100, "a"), note(1, 1, "n"), reserve(2, 0, 4096), alloc(2, 2, 10, ""), mark(2, 2, "m"),
		total(3, 612, lifetime.Occupied), freeRequested(3, 1, 100, "f"), free(3, 1, 100, "f"), release(4, 0, 4096), live(2, 10, 512, "b")}
	c1, s1 := made(t, facts...)
	c2, s2 := made(t, append([]fact{inOrder}, facts...)...)
	if a, b := text(c1, s1)+regionText(s1)+lossText(c1), text(c2, s2)+regionText(s2)+lossText(c2); a != b {
		t.Errorf("kept\n%sin order\n%s", a, b)
	}
	if fmt.Sprint(s1.Marks, s1.Totals) != fmt.Sprint(s2.Marks, s2.Totals) {
		t.Error("marks or totals differ")
	}
}

// TestBase: without a complete end state, Base comes from the first total. Later totals
// that differ are a loss.
func TestBase(t *testing.T) {
	for _, c := range []struct {
		name   string
		facts  []fact
		base   int64
		losses string
	}{
		{"no totals", []fact{alloc(10, 1, 100, "")}, 0, ""},
		{"first total minus the buffers seen", []fact{alloc(10, 1, 100, ""), total(10, 1100, lifetime.Requested), free(20, 1, 100, ""), total(20, 1000, lifetime.Requested)}, 1000, ""},
		{"total before any event", []fact{total(5, 1000, lifetime.Requested), alloc(10, 1, 100, ""), total(10, 1100, lifetime.Requested)}, 1000, ""},
		{"unseen buffers are not in Base", []fact{total(5, 1000, lifetime.Requested), free(10, 1, 400, ""), total(10, 600, lifetime.Requested)}, 600, "before-window 1 512"},
		{"totals in any order", []fact{total(20, 1100, lifetime.Requested), alloc(20, 2, 50, ""), total(21, 1200, lifetime.Requested), alloc(10, 1, 100, ""), total(10, 1100, lifetime.Requested)}, 1000, "total-mismatch 1 50"},
		{"a later total does not fit", []fact{alloc(10, 1, 100, ""), total(10, 100, lifetime.Requested), alloc(20, 2, 50, ""), total(20, 170, lifetime.Requested)}, 0, "total-mismatch 1 20"},
		{"a total below the buffers seen", []fact{alloc(10, 1, 100, ""), total(10, 40, lifetime.Requested)}, 0, ""},
		{"a complete end state leaves no Base", []fact{endState, alloc(10, 1, 100, ""), total(10, 1100, lifetime.Requested), live(1, 100, 512, "")}, 0, "total-mismatch 1 1000"},
		{"occupied totals prove nothing of inferred sizes", []fact{endState, alloc(10, 1, 100, ""), total(10, 700, lifetime.Occupied), free(20, 1, 100, ""), total(20, 0, lifetime.Occupied)}, 0, ""},
		{"occupied totals and recorded sizes", []fact{allocOccupied(10, 1, 100, 700), total(10, 1700, lifetime.Occupied), allocOccupied(20, 2, 1, 300), total(20, 2000, lifetime.Occupied)}, 1000, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			capture, s := made(t, c.facts...)
			if s.Base != c.base {
				t.Errorf("base %d, want %d", s.Base, c.base)
			}
			if got, want := lossText(capture), lines(c.losses); got != want {
				t.Errorf("losses\n%swant\n%s", got, want)
			}
			if p := s.Peak(lifetime.Requested); p.Bytes < s.Base {
				t.Errorf("peak %d below the base %d", p.Bytes, s.Base)
			}
		})
	}
}

// TestDescribedFinished: a space with a window and intervals stays as it is. The Builder
// derives nothing and counts no losses again.
func TestDescribedFinished(t *testing.T) {
	b := New(Everything)
	b.Source(lifetime.Source{})
	s := b.Space()
	want := lifetime.SpaceInfo{Device: "cuda:0", Begin: 100, End: 200, Facts: lifetime.History | lifetime.Totals, Base: 0, Allocations: 5, Frees: 7}
	b.Describe(s, want)
	b.Interval(s, Interval{Buffer: lifetime.Buffer{Begin: 150, End: 160, Addr: 2, Size: 10, Requested: 10}, FreeSite: b.Site(lifetime.Site{Op: "f"})})
	b.Interval(s, Interval{Buffer: lifetime.Buffer{Begin: 110, End: 200, Addr: 1, Size: 10, Requested: 10, Edge: lifetime.EndOpen}, Note: b.Note("n")})
	b.Region(s, lifetime.Region{Begin: 100, End: 200, Addr: 0, Size: 4096, Edge: lifetime.EndOpen})
	for _, total := range []lifetime.Total{{T: 120, Bytes: 10, Measure: lifetime.Occupied}, {T: 155, Bytes: 90, Measure: lifetime.Occupied}} {
		b.Total(s, total)
	}
	b.Mark(s, lifetime.Mark{Begin: 100, End: 100, Text: "m"})
	b.Lose(loss.TotalMismatch, 1, 70, "")
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	got := c.Spaces[0]
	if text, want := text(c, got), "110-200 0x1 10/10 end-open note=\"n\"\n150-160 0x2 10/10 - free=f\n"; text != want {
		t.Errorf("buffers\n%swant\n%s", text, want)
	}
	if got.Begin != want.Begin || got.End != want.End || got.Facts != want.Facts || got.Allocations != 5 || got.Frees != 7 || got.Base != 0 {
		t.Errorf("space %+v", got)
	}
	if got, want := lossText(c), "total-mismatch 1 70\n"; got != want {
		t.Errorf("losses %swant %s", got, want)
	}
}

// TestDescribedTimesStay: times beyond maxTime stay when a model is read again.
func TestDescribedTimesStay(t *testing.T) {
	b := New(Everything)
	b.Source(lifetime.Source{})
	s := b.Space()
	b.Total(s, lifetime.Total{T: maxTime + 4})
	b.Mark(s, lifetime.Mark{Begin: maxTime + 4, End: maxTime + 4})
	b.Describe(s, lifetime.SpaceInfo{Begin: maxTime, End: maxTime + 5})
	c, _ := b.Finish()
	if got := c.Spaces[0]; got.Totals[0].T != maxTime+4 || got.Marks[0].Begin != maxTime+4 {
		t.Errorf("totals %v, marks %v", got.Totals, got.Marks)
	}
}

func TestFacts(t *testing.T) {
	b := New(Everything)
	b.Source(lifetime.Source{})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Facts: lifetime.Clock | lifetime.EndState})
	b.Alloc(s, 1, Block{Addr: 0x100, Requested: 1, Occupied: 1, Site: b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{b.Frame(frame.Frame{Function: "f"})})})})
	b.Live(s, Block{Addr: 0x100, Requested: 1, Occupied: 512})
	b.Reserve(s, 2, lifetime.Region{Addr: 0, Size: 4096})
	b.LiveRegion(s, lifetime.Region{Addr: 0, Size: 4096})
	b.Total(s, lifetime.Total{T: 2, Bytes: 512, Measure: lifetime.Occupied})
	c, _ := b.Finish()
	if got, want := strings.Join(c.Spaces[0].Facts.Names(), ","), "history,end state,addresses,totals,regions,stacks,clock"; got != want {
		t.Errorf("facts %s, want %s", got, want)
	}
	_, empty := made(t)
	if empty.Facts != 0 || empty.Begin >= empty.End {
		t.Errorf("an empty space has facts %v and the window [%d, %d)", empty.Facts.Names(), empty.Begin, empty.End)
	}
	// Only the free has an address, and only its buffer has a stack.
	_, state := made(t, noHistory, endState, live(0x100, 1, 512, ""))
	if state.Facts != lifetime.EndState|lifetime.Addresses {
		t.Errorf("an end state has facts %v", state.Facts.Names())
	}
	_, apart := made(t, func(b *Builder, s SpaceRef) {
		b.Alloc(s, 1, Block{Addr: 0, Requested: 1, Occupied: 1, Site: b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{b.Frame(frame.Frame{Function: "f"})})})})
	}, alloc(2, 0x100, 1, ""))
	if apart.Facts&(lifetime.Addresses|lifetime.Stacks) != lifetime.Addresses|lifetime.Stacks {
		t.Errorf("a stack here and an address there are the facts %v", apart.Facts.Names())
	}
}

// TestUserFrame: the innermost user frame, else that of a library, else any.
func TestUserFrame(t *testing.T) {
	b := New(Everything)
	b.Source(lifetime.Source{})
	frameOf := func(f string, k frame.Kind) lifetime.FrameID {
		return b.Frame(frame.Frame{Function: f, Kind: k})
	}
	native, lib, inner, outer := frameOf("native", frame.Native), frameOf("lib", frame.Framework), frameOf("inner", frame.User), frameOf("outer", frame.User)
	site := func(f ...lifetime.FrameID) lifetime.SiteID { return b.Site(lifetime.Site{Stack: b.Stack(f)}) }
	sites := map[lifetime.SiteID]string{
		site(native, lib, inner, outer): "inner",
		site(native, lib):               "lib",
		site(native):                    "native",
		site(outer, lib):                "outer",
	}
	op := b.Site(lifetime.Site{Op: "op"})
	c, _ := b.Finish()
	for s, want := range sites {
		if f, ok := c.FrameOf(s); !ok || f.Function != want {
			t.Errorf("user frame %q, want %q", f.Function, want)
		}
	}
	for _, s := range []lifetime.SiteID{0, op} {
		if _, ok := c.FrameOf(s); ok {
			t.Errorf("site %d has no stack", s)
		}
	}
}

func stack(t, bytes int64) fact {
	return func(b *Builder, s SpaceRef) { b.StackReserved(s, t, bytes) }
}

// TestUnusualFacts has cases that once failed in internal/laws.
func TestUnusualFacts(t *testing.T) {
	t.Run("more is released than half of all addresses", func(t *testing.T) {
		_, s := made(t, release(10, 0x1000, 1<<62+1))
		if len(s.Regions) != 1 || s.Regions[0].Size != 1<<62+1 {
			t.Errorf("%+v", s.Regions)
		}
	})
	t.Run("the stack grows while two buffers end", func(t *testing.T) {
		_, s := made(t, endState, alloc(0, 0x1000, 1, ""), stack(0, 10), free(1, 0x8000, 1, ""), stack(1, 1000))
		if got := s.Peak(lifetime.Occupied); got != (lifetime.Level{At: 0, Bytes: 512 + 512 + 10}) {
			t.Errorf("peak %+v: neither buffer is alive when both end", got)
		}
	})
	t.Run("the stack shrinks while a buffer begins", func(t *testing.T) {
		_, s := made(t, stack(0, 100), alloc(1, 0x1000, 1, ""), stack(5, 10), alloc(5, 0x2000, 1, ""), alloc(6, 0x3000, 1, ""))
		if got := s.Peak(lifetime.Occupied); got != (lifetime.Level{At: 7, Bytes: 3*512 + 10}) {
			t.Errorf("peak %+v", got)
		}
	})
	t.Run("totals alone, and a stack", func(t *testing.T) {
		_, s := made(t, total(5, 70, lifetime.Occupied), stack(6, 100))
		if rows := s.Breakdown(6); len(rows) != 1 || rows[0].Kind != lifetime.FromUsage || rows[0].Bytes != 70 || s.Peak(lifetime.Occupied).Bytes != 70 {
			t.Errorf("%+v", rows)
		}
	})
	t.Run("a note without text", func(t *testing.T) {
		if _, s := made(t, alloc(1, 0x1000, 1, ""), note(2, 0x1000, "")); s.BufNotes != nil {
			t.Error("a column of nothing")
		}
	})
	t.Run("a part before the first level of the stack", func(t *testing.T) {
		c, _ := made(t, alloc(1, 0x1000, 1, ""), stack(9, 100), alloc(10, 0x2000, 1, ""))
		part := selection.Slice(c, 1, 5).Spaces[0]
		if got := part.LevelAt(3, lifetime.Occupied); got != 612 {
			t.Errorf("level %d: the first level holds from the beginning", got)
		}
	})
}

// TestFreeRequests: the column has the end of a buffer, but the request if events came
// between the request and the free.
func TestFreeRequests(t *testing.T) {
	b := New(Everything)
	b.Source(lifetime.Source{})
	s := b.Space()
	b.InOrder(s)
	b.Describe(s, lifetime.SpaceInfo{})
	for _, f := range []fact{
		alloc(1, 0x1000, 100, ""), alloc(2, 0x2000, 100, ""), alloc(3, 0x3000, 100, ""),
		freeRequested(4, 0x1000, 100, ""), free(5, 0x1000, 100, ""),
		freeRequested(6, 0x2000, 100, ""), freeRequested(7, 0x3000, 100, ""), free(8, 0x2000, 100, ""),
	} {
		f(b, s)
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Spaces[0].FreeRequests, []int64{5, 6, 7}; !slices.Equal(got, want) {
		t.Errorf("requests at %v, want %v", got, want)
	}
}

// TestManyBuffers: an outline that leaves out what buffers are for says so.
func TestManyBuffers(t *testing.T) {
	for _, n := range []int{2_000_000, 2_000_001} {
		b := New(PeakAndEnd)
		space := b.Space()
		b.InOrder(space)
		b.Describe(space, lifetime.SpaceInfo{Source: b.Source(lifetime.Source{}), Device: "cuda:0"})
		for i := range n {
			block := Block{Addr: 1, Requested: 1, Occupied: 1}
			b.Alloc(space, int64(2*i), block)
			b.Free(space, int64(2*i+1), block)
		}
		o, err := b.FinishOutline()
		if err != nil {
			t.Fatal(err)
		}
		said := slices.ContainsFunc(o.Losses, func(l loss.Loss) bool { return l.Reason == loss.ManyBuffers && l.First == o.Spaces[0].ID() })
		if kept := o.Spaces[0].Whole() != nil; kept == said || said != (n > 2_000_000) {
			t.Errorf("%d buffers: kept whole: %t, losses %v", n, kept, o.Losses)
		}
	}
}
