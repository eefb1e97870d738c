package lifetime

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestInterning: equal things get equal IDs, and 0 is none.
func TestInterning(t *testing.T) {
	b := NewBuilder()
	b.Source(Source{})
	f1, f2 := b.Frame(Frame{Function: "f", File: "a.py", Line: 1}), b.Frame(Frame{Function: "f", File: "a.py", Line: 2})
	if f1 == f2 || f1 == 0 || b.Frame(Frame{Function: "f", File: "a.py", Line: 1}) != f1 {
		t.Error("frames")
	}
	frames := []FrameID{f1, f2}
	s1 := b.Stack(frames)
	frames[0] = f2 // the Builder must not keep what it was given
	s2 := b.Stack(frames)
	if s1 == s2 || b.Stack([]FrameID{f1, f2}) != s1 || b.Stack([]FrameID{f2, f2}) != s2 || b.Stack(nil) != 0 {
		t.Error("stacks")
	}
	if b.Site(Site{}) != 0 || b.Site(Site{Stack: s1}) == b.Site(Site{Stack: s1, Op: "x"}) {
		t.Error("sites")
	}
	if x := b.Note("x"); b.Note("") != 0 || x == 0 || x != b.Note("x") {
		t.Error("notes")
	}
}

// TestManyNotes: texts outgrow their table; each is found again.
func TestManyNotes(t *testing.T) {
	b := NewBuilder()
	for range 2 {
		for i := range 3000 {
			if id := b.Note(fmt.Sprint("note ", i)); id != NoteID(i+1) {
				t.Fatalf("note %d has ID %d", i, id)
			}
		}
	}
}

// TestManyMarks: what is marked in all spaces does not multiply without end.
func TestManyMarks(t *testing.T) {
	b := NewBuilder()
	b.MarkAll([]SpaceRef{b.Space(), b.Space(), b.Space()}, slices.Repeat([]Mark{{End: 1}}, maxMarks/2))
	for i, want := range []int{maxMarks / 2, maxMarks / 2, 0} {
		if n := len(b.spaces[i].marks); n != want {
			t.Errorf("space %d has %d marks, want %d", i, n, want)
		}
	}
}

// TestManyStacks: stacks outgrow their chunks and the table; each is found
// again, and none has changed. Permutations and prefixes are other stacks.
func TestManyStacks(t *testing.T) {
	b := NewBuilder()
	const n = 3000
	stack := func(i int) []FrameID {
		frames := make([]FrameID, 1+i%17)
		for k := range frames {
			frames[k] = b.Frame(Frame{Line: 1 + (i*(k+3)+k)%251, Function: fmt.Sprint(i % 13)})
		}
		return frames
	}
	ids := map[string]StackID{}
	for i := range n {
		frames := stack(i)
		for _, f := range [][]FrameID{frames, frames[:len(frames)/2], reversed(frames)} {
			id, key := b.Stack(f), fmt.Sprint(f)
			if old, ok := ids[key]; ok && old != id {
				t.Fatalf("stack %s has IDs %d and %d", key, old, id)
			}
			ids[key] = id
		}
	}
	long := make([]FrameID, chunkLen+1)
	for i := range long {
		long[i] = FrameID(i)
	}
	if id := b.Stack(long); b.Stack(long) != id || len(b.capture.Stacks[id]) != len(long) {
		t.Error("a stack longer than a chunk")
	}
	if len(ids) != len(b.capture.Stacks)-1 { // entry 0 is the empty stack, which is among ids
		t.Errorf("%d different stacks, %d kept", len(ids), len(b.capture.Stacks))
	}
	for key, id := range ids {
		if got := fmt.Sprint(b.capture.Stacks[id]); got != key {
			t.Fatalf("stack %d is %s, was %s", id, got, key)
		}
	}
}

func reversed(f []FrameID) []FrameID {
	r := slices.Clone(f)
	slices.Reverse(r)
	return r
}

func TestFinishNeedsASource(t *testing.T) {
	if _, err := NewBuilder().Finish(); err == nil {
		t.Error("no error without a source")
	}
	b := NewBuilder()
	b.Source(Source{})
	c, err := b.Finish()
	if err != nil || c.Check() != nil || len(c.Spaces) != 0 {
		t.Errorf("a capture without spaces is legal: %v", err)
	}
}

// TestSpacesSorted: spaces that are never described are left out, the others
// stand by source, then by name.
func TestSpacesSorted(t *testing.T) {
	b := NewBuilder()
	for range 2 {
		b.Source(Source{})
	}
	for _, s := range []Space{{Source: 1, Device: "cpu"}, {Device: "cuda:1"}, {Device: "cuda:0", Memory: "pinned"}, {Device: "cuda:0", Limit: 1}, {Device: "cuda:0", Limit: 2}} {
		b.Describe(b.Space(), s)
	}
	lost := b.Space()
	b.Alloc(lost, 1, 1, 1, 0, 0)
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
	s := Space{Host: "h", Process: "rank 1", Module: "jit_f", Allocator: "bfc", Device: "tpu:0", Memory: "hbm"}
	if got, want := s.ID(), "h/rank 1/jit_f/bfc/tpu:0/hbm"; got != want {
		t.Errorf("ID %q, want %q", got, want)
	}
}

// TestLossesSorted: losses of one reason are summed, the first place is kept,
// the worst stands first.
func TestLossesSorted(t *testing.T) {
	b := NewBuilder()
	b.Source(Source{})
	b.Lose(UnknownKey, 1, 0, "first")
	b.Lose(Truncated, 1, 5, "byte 7")
	b.Lose(LostFree, 1, math.MaxInt64, "")
	b.Lose(UnknownKey, 2, 3, "second")
	b.Lose(LostFree, 1, 10, "")
	c, _ := b.Finish()
	want := fmt.Sprintf("truncated 1 5\nlost-free 2 %d\nunknown-key 3 3\n", int64(math.MaxInt64))
	if got := lossText(c); got != want {
		t.Errorf("losses\n%swant\n%s", got, want)
	}
	if got, want := c.Losses[2].String(), "unknown-key: fields that are not known were skipped (3, 3 bytes, first at first)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := (Loss{Reason: Truncated, Count: 1}).String(), "truncated: the file ends early; it was used as far as it goes (1)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestEventAxis: without a clock the time is the number of the record, and it
// stays that: what takes no time of its own does not shift what follows.
func TestEventAxis(t *testing.T) {
	const A, B = 0x1000, 0x2000
	c, s := build(t,
		alloc(0, A, 1, "a"), note(0, A, "n"),
		reserve(1, 0x100000, 4096),
		total(2, 512, Occupied), mark(2, 2, "snapshot"),
		alloc(3, B, 1, "b"),
		mark(4, 4, "oom"),
		ask(5, A, 1, ""), free(6, A, 1, ""),
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

// TestMarksKeepTheirPlace: a point mark or a total stands between the events
// that came before and after it, even when those share its time and are pushed.
func TestMarksKeepTheirPlace(t *testing.T) {
	_, s := build(t,
		alloc(10, 1, 100, ""), alloc(10, 2, 100, ""), alloc(10, 3, 100, ""), // at 10, 11, 12
		mark(10, 10, "three"), total(10, 300, Requested),
		alloc(10, 4, 100, ""), // 13
		mark(11, 11, "four"), total(11, 400, Requested),
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

// TestInOrder: events that are promised in order of time give what kept events
// give.
func TestInOrder(t *testing.T) {
	inOrder := func(b *Builder, s SpaceRef) { b.InOrder(s) }
	facts := []fact{endState, free(1, 7, 5, "x"), alloc(1, 1, 100, "a"), note(1, 1, "n"), reserve(2, 0, 4096), alloc(2, 2, 10, ""), mark(2, 2, "m"),
		total(3, 612, Occupied), ask(3, 1, 100, "f"), free(3, 1, 100, "f"), release(4, 0, 4096), live(2, 10, 512, "b")}
	c1, s1 := build(t, facts...)
	c2, s2 := build(t, append([]fact{inOrder}, facts...)...)
	if a, b := text(c1, s1)+regionText(s1)+lossText(c1), text(c2, s2)+regionText(s2)+lossText(c2); a != b {
		t.Errorf("kept\n%sin order\n%s", a, b)
	}
	if fmt.Sprint(s1.Marks, s1.Totals) != fmt.Sprint(s2.Marks, s2.Totals) {
		t.Error("marks or totals differ")
	}
}

// TestBase: without a complete end state the first total tells what was alive
// and never seen; what else does not fit is a loss.
func TestBase(t *testing.T) {
	for _, c := range []struct {
		name   string
		facts  []fact
		base   int64
		losses string
	}{
		{"no totals", []fact{alloc(10, 1, 100, "")}, 0, ""},
		{"first total less what is seen", []fact{alloc(10, 1, 100, ""), total(10, 1100, Requested), free(20, 1, 100, ""), total(20, 1000, Requested)}, 1000, ""},
		{"total before any event", []fact{total(5, 1000, Requested), alloc(10, 1, 100, ""), total(10, 1100, Requested)}, 1000, ""},
		{"unseen buffers are not in Base", []fact{total(5, 1000, Requested), free(10, 1, 400, ""), total(10, 600, Requested)}, 600, "before-window 1 512"},
		{"totals in any order", []fact{total(20, 1100, Requested), alloc(20, 2, 50, ""), total(21, 1200, Requested), alloc(10, 1, 100, ""), total(10, 1100, Requested)}, 1000, "total-mismatch 1 50"},
		{"a later total does not fit", []fact{alloc(10, 1, 100, ""), total(10, 100, Requested), alloc(20, 2, 50, ""), total(20, 170, Requested)}, 0, "total-mismatch 1 20"},
		{"a total below what is seen", []fact{alloc(10, 1, 100, ""), total(10, 40, Requested)}, 0, ""},
		{"a complete end state leaves no Base", []fact{endState, alloc(10, 1, 100, ""), total(10, 1100, Requested), live(1, 100, 512, "")}, 0, "total-mismatch 1 1000"},
		{"occupied totals prove nothing of inferred sizes", []fact{endState, alloc(10, 1, 100, ""), total(10, 700, Occupied), free(20, 1, 100, ""), total(20, 0, Occupied)}, 0, ""},
		{"occupied totals and recorded sizes", []fact{allocOccupied(10, 1, 100, 700), total(10, 1700, Occupied), allocOccupied(20, 2, 1, 300), total(20, 2000, Occupied)}, 1000, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			capture, s := build(t, c.facts...)
			if s.Base != c.base {
				t.Errorf("base %d, want %d", s.Base, c.base)
			}
			if got, want := lossText(capture), lines(c.losses); got != want {
				t.Errorf("losses\n%swant\n%s", got, want)
			}
			if p := s.Peak(Requested); p.Bytes < s.Base {
				t.Errorf("peak %d below the base %d", p.Bytes, s.Base)
			}
		})
	}
}

// TestDescribedFinished: a space with a window and intervals is taken as it
// is: nothing is derived, solved or lost a second time.
func TestDescribedFinished(t *testing.T) {
	b := NewBuilder()
	b.Source(Source{})
	s := b.Space()
	want := Space{Device: "cuda:0", Begin: 100, End: 200, Facts: History | Totals, Base: 0, Allocations: 5, Frees: 7}
	b.Describe(s, want)
	b.Interval(s, Buffer{Begin: 150, End: 160, Addr: 2, Size: 10, Requested: 10}, Beside{FreeSite: b.Site(Site{Op: "f"})})
	b.Interval(s, Buffer{Begin: 110, End: 200, Addr: 1, Size: 10, Requested: 10, Edge: EndOpen}, Beside{Note: b.Note("n")})
	b.Region(s, Region{Begin: 100, End: 200, Addr: 0, Size: 4096, Edge: EndOpen})
	for _, total := range []Total{{T: 120, Bytes: 10, Measure: Occupied}, {T: 155, Bytes: 90, Measure: Occupied}} {
		b.Total(s, total)
	}
	b.Mark(s, Mark{Begin: 100, End: 100, Text: "m"})
	b.Lose(TotalMismatch, 1, 70, "")
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

// TestDescribedTimesStay: times that were pushed beyond the limit of what is
// read stay where they are when the model is read again.
func TestDescribedTimesStay(t *testing.T) {
	b := NewBuilder()
	b.Source(Source{})
	s := b.Space()
	b.Total(s, Total{T: maxTime + 4})
	b.Mark(s, Mark{Begin: maxTime + 4, End: maxTime + 4})
	b.Describe(s, Space{Begin: maxTime, End: maxTime + 5})
	c, _ := b.Finish()
	if got := c.Spaces[0]; got.Totals[0].T != maxTime+4 || got.Marks[0].Begin != maxTime+4 {
		t.Errorf("totals %v, marks %v", got.Totals, got.Marks)
	}
}

func TestFacts(t *testing.T) {
	b := NewBuilder()
	b.Source(Source{})
	s := b.Space()
	b.Describe(s, Space{Facts: Clock | EndState})
	b.Alloc(s, 1, 0x100, 1, 0, b.Site(Site{Stack: b.Stack([]FrameID{b.Frame(Frame{Function: "f"})})}))
	b.Live(s, LiveBlock{Addr: 0x100, Requested: 1, Occupied: 512})
	b.Reserve(s, 2, 0, 4096, 0)
	b.LiveRegion(s, Region{Addr: 0, Size: 4096})
	b.Total(s, Total{T: 2, Bytes: 512, Measure: Occupied})
	c, _ := b.Finish()
	if got, want := strings.Join(c.Spaces[0].Facts.Names(), ","), "history,end state,addresses,totals,regions,stacks,clock"; got != want {
		t.Errorf("facts %s, want %s", got, want)
	}
	_, empty := build(t)
	if empty.Facts != 0 || empty.Begin >= empty.End {
		t.Errorf("an empty space has facts %v and the window [%d, %d)", empty.Facts.Names(), empty.Begin, empty.End)
	}
	// The free names an address; that buffer's stack may be the only one.
	_, state := build(t, noHistory, endState, live(0x100, 1, 512, ""))
	if state.Facts != EndState|Addresses {
		t.Errorf("an end state has facts %v", state.Facts.Names())
	}
	_, apart := build(t, func(b *Builder, s SpaceRef) {
		b.Alloc(s, 1, 0, 1, 0, b.Site(Site{Stack: b.Stack([]FrameID{b.Frame(Frame{Function: "f"})})}))
	}, alloc(2, 0x100, 1, ""))
	if apart.Facts&(Addresses|Stacks) != Addresses|Stacks {
		t.Errorf("a stack here and an address there are the facts %v", apart.Facts.Names())
	}
}

// TestNames: each name is read back as what it stands for, and no other is.
func TestNames(t *testing.T) {
	for e := range 1 << len(edgeNames) {
		if got, ok := ParseEdge(Edge(e).String()); !ok || got != Edge(e) {
			t.Errorf("edge %d is written %q and read as %d", e, Edge(e), got)
		}
	}
	for f := range 1 << len(factNames) {
		if got, ok := ParseFacts(strings.Join(Facts(f).Names(), ",")); !ok || got != Facts(f) {
			t.Errorf("facts %d are written %q and read as %d", f, Facts(f).Names(), got)
		}
	}
	for i := range axisNames {
		if got, ok := ParseAxis(Axis(i).String()); !ok || got != Axis(i) || Axis(i).Unit() == "" {
			t.Errorf("axis %d", i)
		}
	}
	for i := range measureNames {
		if got, ok := ParseMeasure(Measure(i).String()); !ok || got != Measure(i) {
			t.Errorf("measure %d", i)
		}
	}
	for i := range markNames {
		if got, ok := ParseMarkKind(MarkKind(i).String()); !ok || got != MarkKind(i) {
			t.Errorf("mark kind %d", i)
		}
	}
	for i := range frameKindNames {
		if got, ok := ParseFrameKind(FrameKind(i).String()); !ok || got != FrameKind(i) {
			t.Errorf("frame kind %d", i)
		}
	}
	for i := range reasons {
		r := Reason(i)
		if got, ok := ParseReason(r.String()); !ok || got != r || r.Doc() == "" || r.Severity().String() == "" {
			t.Errorf("reason %d", i)
		}
	}
	for _, bad := range []string{"", "x", "end-open+", "end-open+x", "END-OPEN"} {
		if _, ok := ParseEdge(bad); ok {
			t.Errorf("%q is an edge", bad)
		}
	}
	if _, ok := ParseFacts("history,x"); ok {
		t.Error("unknown fact")
	}
	if _, ok := ParseReason("x"); ok {
		t.Error("unknown reason")
	}
}

func TestKindOfFrame(t *testing.T) {
	for _, c := range []struct {
		function, file string
		want           FrameKind
	}{
		{"train", "/home/me/train.py", User},
		{"train", "train.py", User},
		{"<module>", "<stdin>", User},
		{"<module>", "/tmp/ipykernel_7/123.py", User},
		{"f", `C:\work\train.py`, User},
		{"f", "/home/me/torchvision_fork/models.py", User},
		{"forward", "/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py", Framework},
		{"forward", `C:\Python312\Lib\Site-Packages\torch\nn\modules\linear.py`, Framework},
		{"run", "/usr/lib/python3.12/threading.py", Framework},
		{"x", "/usr/lib/python3/dist-packages/numpy/core.py", Framework},
		{"step", "/src/pytorch/torch/optim/adam.py", Framework},
		{"call", "/tmp/torchinductor_me/ab/cab.py", Framework},
		{"<built-in method empty>", "", Framework},
		{"nn.Module: Linear_0", "", Framework},
		{"_call", "<frozen importlib._bootstrap>", Framework},
		{"forward", "<eval_with_key>.12", Framework},
		{"at::empty", "??", Native},
		{"at::empty", "", Native},
		{"malloc", "/src/c10/cuda/CUDACachingAllocator.cpp", Native},
		{"f", "/usr/lib/libtorch.so", Native},
		{"f", "/usr/lib/libc.so.6", Native},
	} {
		if got := KindOfFrame(c.function, c.file); got != c.want {
			t.Errorf("KindOfFrame(%q, %q) = %v, want %v", c.function, c.file, got, c.want)
		}
	}
}

// TestUserFrame: the innermost frame of the program counts, then of a library,
// then any.
func TestUserFrame(t *testing.T) {
	b := NewBuilder()
	b.Source(Source{})
	frame := func(f string, k FrameKind) FrameID { return b.Frame(Frame{Function: f, Kind: k}) }
	native, lib, inner, outer := frame("native", Native), frame("lib", Framework), frame("inner", User), frame("outer", User)
	site := func(f ...FrameID) SiteID { return b.Site(Site{Stack: b.Stack(f)}) }
	sites := map[SiteID]string{
		site(native, lib, inner, outer): "inner",
		site(native, lib):               "lib",
		site(native):                    "native",
		site(outer, lib):                "outer",
	}
	op := b.Site(Site{Op: "op"})
	c, _ := b.Finish()
	for s, want := range sites {
		if f, ok := c.UserFrame(s); !ok || f.Function != want {
			t.Errorf("user frame %q, want %q", f.Function, want)
		}
	}
	for _, s := range []SiteID{0, op} {
		if _, ok := c.UserFrame(s); ok {
			t.Errorf("site %d has no stack", s)
		}
	}
}

func stack(t, bytes int64) fact {
	return func(b *Builder, s SpaceRef) { b.StackReserved(s, t, bytes) }
}

// TestOddFacts: what random facts once broke (internal/laws). build checks.
func TestOddFacts(t *testing.T) {
	t.Run("more is released than half of all addresses", func(t *testing.T) {
		_, s := build(t, release(10, 0x1000, 1<<62+1))
		if len(s.Regions) != 1 || s.Regions[0].Size != 1<<62+1 {
			t.Errorf("%+v", s.Regions)
		}
	})
	t.Run("the stack grows while two buffers end", func(t *testing.T) {
		_, s := build(t, endState, alloc(0, 0x1000, 1, ""), stack(0, 10), free(1, 0x8000, 1, ""), stack(1, 1000))
		if got := s.Peak(Occupied); got != (Level{0, 512 + 512 + 10}) {
			t.Errorf("peak %+v: at the instant of the ends neither buffer is alive any more", got)
		}
	})
	t.Run("the stack shrinks while a buffer begins", func(t *testing.T) {
		_, s := build(t, stack(0, 100), alloc(1, 0x1000, 1, ""), stack(5, 10), alloc(5, 0x2000, 1, ""), alloc(6, 0x3000, 1, ""))
		if got := s.Peak(Occupied); got != (Level{7, 3*512 + 10}) {
			t.Errorf("peak %+v", got)
		}
	})
	t.Run("totals alone, and a stack", func(t *testing.T) {
		_, s := build(t, total(5, 70, Occupied), stack(6, 100))
		if rows := s.Breakdown(6); len(rows) != 1 || !rows[0].Usage || rows[0].Bytes != 70 || s.Peak(Occupied).Bytes != 70 {
			t.Errorf("%+v", rows)
		}
	})
	t.Run("a note without text", func(t *testing.T) {
		if _, s := build(t, alloc(1, 0x1000, 1, ""), note(2, 0x1000, "")); s.BufNotes != nil {
			t.Error("a column of nothing")
		}
	})
	t.Run("a part before the first level of the stack", func(t *testing.T) {
		c, _ := build(t, alloc(1, 0x1000, 1, ""), stack(9, 100), alloc(10, 0x2000, 1, ""))
		part := c.Slice(func(*Space) int64 { return 1 }, func(*Space) int64 { return 5 }).Spaces[0]
		if got := part.LevelAt(3, Occupied); got != 612 {
			t.Errorf("level %d: the first level holds from the beginning", got)
		}
	})
}
