package laws

import (
	"math"
	"os"
	"runtime/debug"
	"testing"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/loss"
)

func TestMain(m *testing.M) {
	deep.FixDraws(deep.Or(100, 400))
	debug.SetGCPercent(400) // laws make little but garbage
	os.Exit(m.Run())
}

// numbers is the range of the numbers of a capture.
type numbers bool

const (
	usual   numbers = false // sums do not overflow
	extreme numbers = true  // any int64
)

// extremes are numbers near the limits of arithmetic.
var extremes = []int64{math.MinInt64, math.MinInt64 + 1, -1 << 62, -1<<62 - 1, -1, 0, 1, 1 << 53, 1 << 62, 1<<62 + 1, math.MaxInt64 - 511, math.MaxInt64 - 1, math.MaxInt64}

func (n numbers) draw(t *rapid.T, label string, lo, hi int64) int64 {
	near := rapid.Int64Range(lo, hi)
	if n == usual {
		return near.Draw(t, label)
	}
	return rapid.OneOf(near, near, near, rapid.SampledFrom(extremes)).Draw(t, label)
}

func (n numbers) time(t *rapid.T) int64 { return n.draw(t, "t", -20, 60) }
func (n numbers) size(t *rapid.T) int64 { return n.draw(t, "size", 0, 3000) }

// addr returns one of few addresses, so that buffers overlap and reach the end of the
// address space.
func (n numbers) addr(t *rapid.T) uint64 {
	few := rapid.Map(rapid.Uint64Range(0, 12), func(i uint64) uint64 { return 0x1000 + i*0x100 })
	if n == usual {
		return few.Draw(t, "addr")
	}
	return rapid.OneOf(few, few, few, rapid.SampledFrom([]uint64{0, 1, 1 << 63, 1<<63 - 1, math.MaxUint64 - 1, math.MaxUint64})).Draw(t, "addr")
}

// texts are hard for formats and terminals.
var texts = rapid.SampledFrom([]string{"", "a", "b", "c d", "q\"uo=te", "\x00\xff", "線\n", "-", "0"})

// how is the way a reader records a space: one for each space.
type how int

const (
	byEvents  how = iota // allocations and frees
	byReports            // only Report
	byDeltas             // only Delta
	byBuffers            // Interval, with a window in Describe
	hows
)

// feeder gives random facts to a Builder.
type feeder struct {
	numbers
	b      *build.Builder
	spaces []fed
	sites  []lifetime.SiteID
	stacks []lifetime.StackID
	frames []lifetime.FrameID
}

type fed struct {
	ref build.SpaceRef
	how how
	end int64 // byBuffers: of the window, which begins at 0
}

// space returns a space that is recorded in one of the ways.
func (f *feeder) space(t *rapid.T, ways ...how) fed {
	var of []fed
	for _, s := range f.spaces {
		for _, w := range ways {
			if s.how == w {
				of = append(of, s)
			}
		}
	}
	if len(of) == 0 {
		t.Skip("no such space")
	}
	return rapid.SampledFrom(of).Draw(t, "space")
}

// region draws memory that an allocator reserved.
func (f *feeder) region(t *rapid.T) lifetime.Region {
	return lifetime.Region{
		Addr: f.addr(t), Size: f.size(t), Site: f.site(t), Kind: rapid.SampledFrom([]string{"", "small", lifetime.Expandable}).Draw(t, "kind"),
		Small: rapid.Bool().Draw(t, "small"), Stream: f.size(t), Pool: texts.Draw(t, "pool"),
		Edge: rapid.SampledFrom([]lifetime.Edge{0, lifetime.PoolUnknown}).Draw(t, "pool unknown"),
	}
}

func (f *feeder) site(t *rapid.T) lifetime.SiteID { return rapid.SampledFrom(f.sites).Draw(t, "site") }

// actions are the calls of a Builder.
func (f *feeder) actions() map[string]func(t *rapid.T) {
	b := f.b
	all := []how{byEvents, byReports, byDeltas, byBuffers}
	return map[string]func(t *rapid.T){
		"Space": func(t *rapid.T) { f.addSpace(t) },
		"Alloc": func(t *rapid.T) {
			b.Alloc(f.space(t, byEvents).ref, f.time(t), build.Block{Addr: f.addr(t), Requested: f.size(t), Occupied: rapid.SampledFrom([]int64{0, 0, 512, -1}).Draw(t, "occupied"), Site: f.site(t)})
		},
		"Alloc of known size": func(t *rapid.T) {
			b.Alloc(f.space(t, byEvents).ref, f.time(t), build.Block{Addr: f.addr(t), Requested: f.size(t), Occupied: f.size(t), Site: f.site(t)})
		},
		"FreeRequested": func(t *rapid.T) {
			b.FreeRequested(f.space(t, byEvents).ref, f.time(t), build.Block{Addr: f.addr(t), Requested: f.size(t), Site: f.site(t)})
		},
		"Free": func(t *rapid.T) {
			b.Free(f.space(t, byEvents).ref, f.time(t), build.Block{Addr: f.addr(t), Requested: f.size(t), Site: f.site(t)})
		},
		"Annotate": func(t *rapid.T) {
			b.Annotate(f.space(t, byEvents).ref, f.time(t), f.addr(t), b.Note(texts.Draw(t, "note")))
		},
		"Hold": func(t *rapid.T) {
			h := holder.Holder{Kind: holder.ByVariable, Name: texts.Draw(t, "name"), Path: texts.Draw(t, "path"), Others: f.draw(t, "others", 0, 3)}
			b.Hold(f.space(t, byEvents).ref, f.addr(t), b.Holder(h))
		},
		"Live": func(t *rapid.T) {
			b.Live(f.space(t, byEvents).ref, build.Block{Addr: f.addr(t), Requested: f.size(t), Occupied: f.size(t), Site: f.site(t),
				Pending: rapid.Bool().Draw(t, "pending")})
		},
		"Reserve":       func(t *rapid.T) { b.Reserve(f.space(t, byEvents).ref, f.time(t), f.region(t)) },
		"Release":       func(t *rapid.T) { b.Release(f.space(t, byEvents).ref, f.time(t), f.region(t)) },
		"LiveRegion":    func(t *rapid.T) { b.LiveRegion(f.space(t, byEvents).ref, f.region(t)) },
		"StackReserved": func(t *rapid.T) { b.StackReserved(f.space(t, byEvents).ref, f.time(t), f.size(t)) },
		"Total": func(t *rapid.T) {
			b.Total(f.space(t, byEvents, byDeltas).ref, lifetime.Total{T: f.time(t), Bytes: f.size(t), Measure: rapid.SampledFrom(
				[]lifetime.Measure{lifetime.Requested, lifetime.Occupied, lifetime.OccupiedLessPending, lifetime.Reserved}).Draw(t, "measure"),
				Fragmentation: rapid.Float32().Draw(t, "fragmentation"), HasFragmentation: true})
		},
		"Delta":  func(t *rapid.T) { b.Delta(f.space(t, byDeltas).ref, f.time(t), f.draw(t, "bytes", -3000, 3000)) },
		"Report": func(t *rapid.T) { f.report(t) },
		"Interval": func(t *rapid.T) {
			s := f.space(t, byBuffers)
			begin := rapid.Int64Range(0, s.end-1).Draw(t, "begin")
			buf := lifetime.Buffer{Begin: begin, End: rapid.Int64Range(begin+1, s.end).Draw(t, "end"), Addr: 512 * uint64(rapid.IntRange(0, 7).Draw(t, "addr")), Size: max(f.size(t), 0),
				Requested: max(f.size(t), 0), Site: f.site(t), Kind: rapid.SampledFrom([]lifetime.Kind{lifetime.Plain, lifetime.Parameter, lifetime.ThreadLocal}).Draw(t, "kind")}
			if buf.End == s.end {
				buf.Edge |= lifetime.EndOpen
			}
			v := build.Interval{Buffer: buf, FreeSite: f.site(t), Note: b.Note(texts.Draw(t, "note"))}
			if id := f.size(t); rapid.Bool().Draw(t, "value") {
				v.ValueID = &id
			}
			b.Interval(s.ref, v)
		},
		"Value": func(t *rapid.T) {
			b.Value(f.space(t, byBuffers).ref, lifetime.Value{ID: f.size(t), Root: f.size(t), Begin: f.time(t), End: f.time(t), Size: max(f.size(t), 0),
				Requested: max(f.size(t), 0), Allocation: f.size(t), Offset: f.size(t), Site: f.site(t)})
		},
		"Mark": func(t *rapid.T) { b.Mark(f.space(t, all...).ref, f.mark(t)) },
		"MarkAll": func(t *rapid.T) {
			s := f.space(t, byEvents, byDeltas)
			b.MarkAll([]build.SpaceRef{s.ref, s.ref}, []lifetime.Mark{f.mark(t), f.mark(t)})
		},
		"FunctionCall": func(t *rapid.T) {
			b.FunctionCall(f.space(t, all...).ref, lifetime.Call{Site: f.site(t), Begin: rapid.Float64Range(-1, 1e9).Draw(t, "begin"), End: rapid.Float64Range(-1, 1e9).Draw(t, "end"),
				Before: f.size(t), After: f.size(t), Peak: f.size(t), Reserved: f.size(t), Inactive: f.size(t), Allocated: f.size(t), Freed: f.size(t)})
		},
		"Sample": func(t *rapid.T) {
			b.Sample(f.space(t, all...).ref, lifetime.Sample{T: f.time(t), Allocated: f.size(t), Reserved: f.size(t), DeviceUsed: f.size(t), Regular: rapid.Bool().Draw(t, "regular")})
		},
		"Operations": func(t *rapid.T) {
			b.Operations(lifetime.Operation{Name: texts.Draw(t, "name"), Kind: rapid.SampledFrom([]string{"operator", "range", "function"}).Draw(t, "kind"),
				Calls: f.size(t), Time: f.size(t), Host: lifetime.OperationBytes{Allocated: f.size(t), Freed: f.size(t)}})
		},
		"HistoryTruncated": func(t *rapid.T) { b.HistoryTruncated(f.space(t, byEvents).ref) },
		"RingFull":         func(t *rapid.T) { b.RingFull(f.space(t, byEvents).ref) },
		"Numbered":         func(t *rapid.T) { b.Numbered(f.space(t, byEvents).ref) },
		"NoHistory":        func(t *rapid.T) { b.NoHistory(f.space(t, byEvents, byDeltas).ref) },
		"InOrder":          func(t *rapid.T) { b.InOrder(f.space(t, byEvents, byDeltas).ref) },
		"Lose": func(t *rapid.T) {
			b.Lose(rapid.SampledFrom([]loss.Reason{loss.Truncated, loss.LostFree, loss.UnknownKey}).Draw(t, "reason"), f.size(t), f.size(t), texts.Draw(t, "where"))
		},
		"Frame": func(t *rapid.T) {
			f.frames = append(f.frames, b.Frame(frame.Frame{Function: texts.Draw(t, "function"), File: texts.Draw(t, "file"), Line: int(int32(f.size(t))),
				Kind: rapid.SampledFrom([]frame.Kind{frame.User, frame.Framework, frame.Native, frame.Scope}).Draw(t, "kind")}))
		},
		"Stack": func(t *rapid.T) {
			f.stacks = append(f.stacks, b.Stack(rapid.SliceOfN(rapid.SampledFrom(f.frames), 0, 3).Draw(t, "frames")))
		},
		"Call": func(t *rapid.T) {
			f.stacks = append(f.stacks, b.Call(rapid.SampledFrom(f.frames).Draw(t, "frame"), rapid.SampledFrom(f.stacks).Draw(t, "caller")))
		},
		"Site": func(t *rapid.T) {
			f.sites = append(f.sites, b.Site(lifetime.Site{Stack: rapid.SampledFrom(f.stacks).Draw(t, "stack"), Op: texts.Draw(t, "op"), Module: texts.Draw(t, "module"),
				Region: texts.Draw(t, "region"), Shape: texts.Draw(t, "shape"), DType: texts.Draw(t, "dtype")}))
		},
	}
}

func (f *feeder) mark(t *rapid.T) lifetime.Mark {
	return lifetime.Mark{Begin: f.time(t), End: f.time(t), Site: f.site(t), Text: texts.Draw(t, "text"), Requested: f.size(t), Free: failure.BytesOf(f.size(t)), Kind: rapid.SampledFrom(
		[]lifetime.MarkKind{lifetime.Step, lifetime.Annotation, lifetime.OOM, lifetime.Snapshot, lifetime.Instruction}).Draw(t, "kind")}
}

func (f *feeder) report(t *rapid.T) {
	f.b.Report(f.space(t, byReports).ref, f.time(t), &lifetime.AllocatorEvent{Free: rapid.Bool().Draw(t, "free"), Addr: f.addr(t), Requested: f.size(t), Occupied: f.size(t),
		Site: f.site(t), Allocated: f.size(t), Stack: rapid.SampledFrom([]int64{-1, 0, 100}).Draw(t, "stack"), Available: f.size(t), Peak: f.size(t), Reserved: f.size(t)})
}

// addSpace adds a space. It describes most of them.
func (f *feeder) addSpace(t *rapid.T) {
	s := fed{f.b.Space(), how(rapid.IntRange(0, int(hows)-1).Draw(t, "how")), 0}
	desc := lifetime.SpaceInfo{Device: rapid.SampledFrom([]string{"cuda:0", "cuda:1", "cpu", ""}).Draw(t, "device"), Process: texts.Draw(t, "process")}
	for _, fact := range []lifetime.Facts{lifetime.Clock, lifetime.EndState, lifetime.Stacks} {
		if rapid.Bool().Draw(t, "fact") {
			desc.Facts |= fact
		}
	}
	switch s.how {
	case byReports:
		f.b.ReportsInOrder(s.ref)
	case byEvents:
		desc.Axis = rapid.SampledFrom([]lifetime.Axis{lifetime.Time, lifetime.Event}).Draw(t, "axis")
	case byBuffers:
		s.end = 1 + f.draw(t, "end", 1, 50)&math.MaxInt32
		desc.Axis, desc.End, desc.Base = lifetime.ProgramOrder, s.end, max(f.size(t), 0)
		if rapid.Bool().Draw(t, "addresses") {
			desc.Facts |= lifetime.Addresses
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "described") > 0 {
		f.b.Describe(s.ref, desc)
	}
	f.spaces = append(f.spaces, s)
}

// anyCapture returns a capture of random facts.
func anyCapture(t *rapid.T, n numbers) *lifetime.Capture {
	c, err := fedBuilder(t, n, build.Everything).Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fedBuilder returns a Builder with random facts.
func fedBuilder(t *rapid.T, n numbers, keep build.Keep) *build.Builder {
	f := &feeder{numbers: n, b: build.New(keep), sites: []lifetime.SiteID{0}, stacks: []lifetime.StackID{0}}
	source := f.b.Source(lifetime.Source{File: "any", Format: texts.Draw(t, "format"), Producer: texts.Draw(t, "producer")})
	for _, key := range rapid.SliceOfN(texts, 0, 2).Draw(t, "settings") {
		f.b.Setting(source, lifetime.Setting{Key: key, Value: texts.Draw(t, "setting")})
	}
	f.frames = []lifetime.FrameID{f.b.Frame(frame.Frame{Function: "main", File: "main.py", Line: 1})}
	f.addSpace(t)
	t.Repeat(f.actions())
	return f.b
}

// TestAnyFacts: a Builder makes a valid model from any facts.
func TestAnyFacts(t *testing.T) {
	for name, n := range map[string]numbers{"usual": usual, "extreme": extreme} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			if err := anyCapture(t, n).Check(); err != nil {
				t.Fatal(err)
			}
		}))
	}
	t.Run("peak and end", rapid.MakeCheck(func(t *rapid.T) {
		if _, err := fedBuilder(t, extreme, build.PeakAndEnd).FinishOutline(); err != nil {
			t.Fatal(err)
		}
	}))
	t.Run("reports", rapid.MakeCheck(func(t *rapid.T) {
		c, err := fedBuilder(t, extreme, build.Reports).Finish()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
	}))
}
