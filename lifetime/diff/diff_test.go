package diff_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/region"
)

func open(t testing.TB, file string) *judge.Capture {
	t.Helper()
	c, err := judged.Open(filepath.Join("../../testdata", file), formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	return judge.Of(c.Capture)
}

func compare(t testing.TB, before, after string) *diff.Result {
	t.Helper()
	return diff.Compare(judge.Of(open(t, before).Capture), judge.Of(open(t, after).Capture))
}

// words returns rows as text: status, place, changes in bytes.
func words(d *diff.Result) (all []string) {
	for i := range d.Rows {
		r := &d.Rows[i]
		all = append(all, fmt.Sprintf("%s %s %d %d", r.Status, r.Place(), r.DeltaPeak(), r.DeltaEnd()))
	}
	return all
}

// TestPair: the rows are exactly the changes of the program.
func TestPair(t *testing.T) {
	d := compare(t, "torchsnap/pair_before.pickle", "torchsnap/pair_after.pickle")
	want := []string{"shrank <listcomp> (pair.py:9) -16777216 0", "gone duplicate (pair.py:10) -12582912 -12582912", "new kv_cache (pair.py:11) 5242880 5242880"}
	if got := words(d); !slices.Equal(got, want) {
		t.Errorf("rows %q", got)
	}
	b, a := d.Pairs[0].Before, d.Pairs[0].After
	if b.PeakRequested != 71303168 || a.PeakRequested != 47185920 || b.EndRequested != 37748736 || a.EndRequested != 30408704 {
		t.Errorf("%+v %+v", b, a)
	}
	if free := region.FreeAt(b.Space, b.Space.AtEnd()); free.Total == 0 || b.Free != free || b.Window != b.Space.End-b.Space.Begin {
		t.Errorf("free %v, want %v; window %d", b.Free, free, b.Window)
	}
	if got := d.Verdict(); got != "peak 68.0 MiB -> 45.0 MiB; <listcomp> (pair.py:9) -16.0 MiB; 12.0 MiB duplicate (pair.py:10) gone; 5.00 MiB kv_cache (pair.py:11) new" {
		t.Error(got)
	}
}

// TestFixed: the second snapshot has fixed the leaks of a summed loss; in reverse order they are new.
func TestFixed(t *testing.T) {
	d := compare(t, "torchsnap/leak_loss.pickle", "torchsnap/leak_loss_fixed.pickle")
	if len(d.New) != 0 || len(d.Still) != 0 || len(d.Fixed) != 3 || !strings.Contains(d.Verdict(), "leak in step (leak_loss.py:19) fixed") {
		t.Errorf("%d new, %d still, %d fixed: %s", len(d.New), len(d.Still), len(d.Fixed), d.Verdict())
	}
	d = compare(t, "torchsnap/leak_loss_fixed.pickle", "torchsnap/leak_loss.pickle")
	if len(d.New) != 3 || d.Leaks(finding.Warning) != 3 || d.Leaks(finding.Critical) != 0 {
		t.Errorf("%d new", len(d.New))
	}
}

// TestSelf: a capture does not differ from itself, in any format.
func TestSelf(t *testing.T) {
	n := 0
	for _, pattern := range []string{"torchsnap/*.pickle", "chrome/*.json.gz", "xplane/*.pb", "gpumemprof/*.json", "labelled/*.zst"} {
		files, err := filepath.Glob(filepath.Join("../../testdata", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			c, err := judged.Open(file, formats.Input{})
			if err != nil {
				t.Fatal(err)
			}
			n++
			d := diff.Compare(c, c)
			if len(d.Rows)+len(d.New)+len(d.Fixed) > 0 || d.NoPlaces {
				t.Errorf("%s: %q, %d new, %d fixed", file, words(d), len(d.New), len(d.Fixed))
			}
			for _, p := range d.Pairs {
				if p.Before == nil || p.After == nil {
					t.Errorf("%s: %s has no partner", file, p.Name)
				}
			}
		}
	}
	t.Logf("%d captures", n)
}

// TestAcrossFormats: a snapshot and a trace of one run have the same places without lines, with the same retained bytes.
func TestAcrossFormats(t *testing.T) {
	d := compare(t, "torchsnap/cuprof_leak.pickle", "chrome/cuprof_leak.json.gz")
	if d.Lines || d.NoPlaces {
		t.Errorf("lines %v, places unknown %v", d.Lines, d.NoPlaces)
	}
	for i := range d.Rows {
		r := &d.Rows[i]
		if !r.Unseen && r.Place() != (lifetime.Place{}) && r.DeltaEnd() != 0 {
			t.Errorf("%s %s: %d at the end", r.Status, r.Place(), r.DeltaEnd())
		}
	}
	if len(d.Still) == 0 {
		t.Errorf("the leak is not found on both sides: %d new, %d fixed", len(d.New), len(d.Fixed))
	}
}

// TestNoPlaces: if one side has only totals, only levels are compared.
func TestNoPlaces(t *testing.T) {
	d := compare(t, "torchsnap/healthy.pickle", "gpumemprof/inefficient.json")
	if !d.NoPlaces || len(d.Rows) != 0 || d.Pairs[0].After == nil {
		t.Errorf("%v, %d rows", d.NoPlaces, len(d.Rows))
	}
}

// line is a call site of a simulated capture with its bytes.
type line struct {
	function, file string
	line           int
	bytes          int64
}

func captureOf(t testing.TB, lines []line) *judge.Capture {
	t.Helper()
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "f", Format: "torch-snapshot"})
	s := b.Space()
	for i, l := range lines {
		site := b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{b.Frame(frame.Frame{Function: l.function, File: l.file, Line: l.line})})})
		b.Alloc(s, int64(i), build.Block{Addr: uint64(i+1) << 32, Requested: l.bytes, Occupied: l.bytes, Site: site})
	}
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return judge.Of(c)
}

// TestMovedCode: places match after an edit that shifts lines and in another checkout; folders distinguish files of one name.
func TestMovedCode(t *testing.T) {
	before := []line{
		{"forward", "/home/a/proj/model.py", 10, 100}, {"forward", "/home/a/proj/model.py", 12, 200}, {"forward", "/home/a/proj/lib/model.py", 10, 400},
		{"load", "/home/a/proj/data.py", 5, 800}, {"main", "/home/a/proj/main.py", 5, 900}, {"tool", "tool.py", 5, 900},
	}
	after := []line{
		{"forward", "/ci/build/proj/lib/model.py", 13, 400}, {"forward", "/ci/build/proj/model.py", 13, 100}, {"forward", "/ci/build/proj/model.py", 15, 200},
		{"load", "/ci/build/proj/data.py", 5, 801}, {"main", "main.py", 5, 900}, {"tool", "/ci/build/tool.py", 5, 900},
	}
	d := diff.Compare(judge.Of(captureOf(t, before).Capture), judge.Of(captureOf(t, after).Capture))
	if got := words(d); !slices.Equal(got, []string{"grew load (data.py:5) 1 1"}) {
		t.Errorf("%q", got)
	}
}

// TestOtherDevices: cuda:0 and hip:0 are compared, also if one side has other devices.
func TestOtherDevices(t *testing.T) {
	of := func(devices ...string) *lifetime.Capture {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: "f"})
		for i, device := range devices {
			s := b.Space()
			b.Alloc(s, 1, build.Block{Addr: 1 << 20, Requested: int64(i + 1), Occupied: int64(i + 1), Site: b.Site(lifetime.Site{Op: "op"})})
			b.Describe(s, lifetime.SpaceInfo{Device: device, Facts: lifetime.Clock})
		}
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, c := range []struct{ before, after, want string }{
		{"cpu cuda:0 cuda:1", "hip:0 hip:1", "cpu, cuda:0 hip:0, cuda:1 hip:1"},
		{"cuda:0", "hip:3", "cuda:0 hip:3"}, // the only one on each side
		{"cuda:0 cuda:1", "hip:3", "cuda:0, cuda:1,  hip:3"},
		{"cuda:0", "hip:3 hip:4", "cuda:0,  hip:3,  hip:4"},
	} {
		d := diff.Compare(judge.Of(of(strings.Fields(c.before)...)), judge.Of(of(strings.Fields(c.after)...)))
		var pairs []string
		for _, p := range d.Pairs {
			pair := ""
			if p.Before != nil {
				pair = p.Before.Space.Device
			}
			if p.After != nil {
				pair += " " + p.After.Space.Device
			}
			pairs = append(pairs, pair)
		}
		if have := strings.Join(pairs, ", "); have != c.want {
			t.Errorf("%q, want %q", have, c.want)
		}
	}
}

// history is a program in which f has some bytes at the peak and at the end, and passes allocate and free 7 bytes each.
type history struct{ peak, end, passes, steps int64 }

func (h history) capture(t testing.TB) *judge.Capture {
	t.Helper()
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "f", Format: "torch-snapshot"})
	s := b.Space()
	now := int64(0)
	site := func(function string) lifetime.SiteID {
		return b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{b.Frame(frame.Frame{Function: function})})})
	}
	alloc := func(function string, addr uint64, bytes int64) {
		now++
		b.Alloc(s, now, build.Block{Addr: addr, Requested: bytes, Occupied: bytes, Site: site(function)})
	}
	free := func(addr uint64) {
		now++
		b.Free(s, now, build.Block{Addr: addr, Requested: 0, Occupied: 0})
	}
	for i := range h.steps {
		b.Mark(s, lifetime.Mark{Begin: i, End: i + 1, Kind: lifetime.Step})
	}
	for range h.passes {
		alloc("f", 1<<32, 7)
		free(1 << 32)
	}
	alloc("f", 1<<33, h.peak)
	alloc("all", 1<<34, 1<<20)
	free(1 << 34)
	free(1 << 33)
	alloc("f", 1<<35, h.end)
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return judge.Of(c)
}

// TestStatus: the larger change, at the peak or at the end, decides whether a place grew or shrank. Allocated bytes count only
// with equally many steps.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		before, after history
		want          string
	}{
		{history{5, 5, 0, 0}, history{5, 5, 0, 0}, ""},
		{history{5, 1, 0, 0}, history{9, 1, 0, 0}, "grew f 4 0"},
		{history{1, 5, 0, 0}, history{1, 9, 0, 0}, "grew f 0 4"},
		{history{1, 20, 0, 0}, history{6, 10, 0, 0}, "shrank f 5 -10"},
		{history{20, 1, 0, 0}, history{10, 6, 0, 0}, "shrank f -10 5"},
		{history{1, 20, 0, 0}, history{11, 10, 0, 0}, "grew f 10 -10"},
		{history{5, 5, 2, 1}, history{5, 5, 3, 1}, "grew f 0 0"},
		{history{5, 5, 3, 1}, history{5, 5, 2, 1}, "shrank f 0 0"},
		{history{5, 5, 2, 1}, history{5, 5, 4, 2}, ""},
		{history{5, 5, 2, 0}, history{5, 5, 4, 0}, ""},
	} {
		d := diff.Compare(judge.Of(c.before.capture(t).Capture), judge.Of(c.after.capture(t).Capture))
		if have := strings.Join(words(d), ", "); have != c.want {
			t.Errorf("%v, then %v: %q, want %q", c.before, c.after, have, c.want)
		}
	}
}

// TestVerdictOfPeak: the verdict has changes at the peak, largest first, then those at the end only. None is 0, and those of another memory ID name it.
func TestVerdictOfPeak(t *testing.T) {
	row := func(pair int, status diff.Status, function string, peak, end, allocated int64) diff.Row {
		place := lifetime.Place{Frame: frame.Frame{Function: function}}
		r := diff.Row{Pair: pair, Status: status, PlaceBefore: place, PlaceAfter: place}
		r.After.Peak.Bytes, r.After.End.Bytes, r.After.Allocated.Bytes = max(peak, 0), max(end, 0), allocated
		r.Before.Peak.Bytes, r.Before.End.Bytes = max(-peak, 0), max(-end, 0)
		return r
	}
	side := func(peak int64) *diff.Side { return &diff.Side{Space: &lifetime.Space{}, Peak: peak} }
	pairs := []diff.Pair{{Name: "cuda:0", Before: side(700), After: side(980)}, {Name: "cuda:1", Before: side(5), After: side(5)}}
	for _, c := range []struct {
		rows []diff.Row
		want string
	}{
		{[]diff.Row{row(0, diff.Grew, "keep", 290, 900, 0), row(0, diff.Shrank, "noise", -10, 0, -9), row(0, diff.Shrank, "constant", 0, 0, -7)}, "keep +290 B; noise -10 B"},
		{[]diff.Row{row(0, diff.Grew, "late", 1, 900, 0), row(0, diff.New, "early", 279, 0, 0)}, "279 B early new; late +1 B"},
		{[]diff.Row{row(0, diff.Shrank, "swap", 5, -900, 0), row(1, diff.Grew, "other", 600, 0, 0), row(0, diff.Gone, "old", 0, -3, 0)},
			"other +600 B on cuda:1; swap +5 B; 3 B old gone at the end"},
		{[]diff.Row{row(0, diff.Grew, "a", 4, 0, 0), row(0, diff.Grew, "b", 3, 0, 0), row(0, diff.Grew, "c", 2, 0, 0), row(0, diff.Grew, "d", 1, 0, 0), row(0, diff.Grew, "e", 0, 0, 1)},
			"a +4 B; b +3 B; c +2 B; 1 more"},
	} {
		r := diff.Result{Pairs: pairs, Rows: c.rows}
		if have, want := r.Verdict(), "peak 700 B -> 980 B; "+c.want; have != want {
			t.Errorf("%q, want %q", have, want)
		}
	}
}

// TestSiteOfRow: a row has the stack with most bytes of its place, the first on a tie.
func TestSiteOfRow(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "f"})
	s := b.Space()
	for i, bytes := range []int64{10, 30, 30, 20} {
		stack := []lifetime.FrameID{b.Frame(frame.Frame{Function: "f"}), b.Frame(frame.Frame{Function: fmt.Sprint("caller ", i)})}
		b.Alloc(s, int64(i), build.Block{Addr: uint64(i+1) << 32, Requested: bytes, Occupied: bytes, Site: b.Site(lifetime.Site{Stack: b.Stack(stack)})})
	}
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock})
	after, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	d := diff.Compare(captureOf(t, []line{{"g", "g.py", 1, 5}}), judge.Of(after))
	i := slices.IndexFunc(d.Rows, func(r diff.Row) bool { return r.Status == diff.New })
	if i < 0 || after.Frames[after.Stacks[after.Stacks[after.Sites[d.Rows[i].SiteAfter].Stack].Caller].Frame].Function != "caller 1" {
		t.Errorf("%+v", d.Rows)
	}
}

// TestUnknownPlaces: memory from before the window is a separate row. If one side has no call sites, there are no rows.
func TestUnknownPlaces(t *testing.T) {
	of := func(base int64, functions ...string) *lifetime.Capture {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: "f"})
		s := b.Space()
		for i, function := range functions {
			site := lifetime.SiteID(0)
			if function != "" {
				site = b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{b.Frame(frame.Frame{Function: function})})})
			}
			b.Alloc(s, int64(i), build.Block{Addr: uint64(i+1) << 20, Requested: 5, Occupied: 5, Site: site})
		}
		b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock, Base: base})
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	d := diff.Compare(judge.Of(of(100, "f")), judge.Of(of(300, "f")))
	if len(d.Rows) != 1 || !d.Rows[0].Unseen || d.Rows[0].DeltaEnd() != 200 || d.NoPlaces {
		t.Errorf("%+v, places unknown %t", d.Rows, d.NoPlaces)
	}
	for _, c := range []struct {
		after   *lifetime.Capture
		rows    int
		unknown bool
	}{{of(0, ""), 0, true}, {of(0, "f", ""), 1, false}, {of(0), 1, false}} {
		if d := diff.Compare(judge.Of(of(0, "f")), judge.Of(c.after)); len(d.Rows) != c.rows || d.NoPlaces != c.unknown {
			t.Errorf("%+v, places unknown %t", d.Rows, d.NoPlaces)
		}
	}
}

// TestSameLines: with different formats, lines count if a function of the program has two lines on both sides.
func TestSameLines(t *testing.T) {
	of := func(format string, frames ...frame.Frame) *lifetime.Capture {
		return &lifetime.Capture{Tables: lifetime.Tables{Sources: []lifetime.Source{{Format: format}}, Frames: append([]frame.Frame{{}}, frames...)}}
	}
	f := func(line int) frame.Frame { return frame.Frame{Function: "f", File: "f.py", Line: line} }
	g := func(line int) frame.Frame {
		return frame.Frame{Function: "g", File: "g.py", Line: line, Kind: frame.Framework}
	}
	for _, c := range []struct {
		name          string
		before, after *lifetime.Capture
		want          bool
	}{
		{"one format", of("a", f(1)), of("a", f(1)), true},
		{"lines of calls", of("a", f(1), f(2)), of("b", f(1), f(3)), true},
		{"lines of defs", of("a", f(1), f(2)), of("b", f(1)), false},
		{"before as well", of("a", f(1)), of("b", f(1), f(2)), false},
		{"several lines of the framework", of("a", f(1), f(2)), of("b", f(1), g(1), g(2)), false},
		{"a line that is not known", of("a", f(1), f(2)), of("b", f(1), f(0)), false},
	} {
		if have := diff.Compare(judge.Of(c.before), judge.Of(c.after)).Lines; have != c.want {
			t.Errorf("%s: %t", c.name, have)
		}
	}
}

// TestSums: the changes of all rows sum up to the total change, for random edits of random programs.
func TestSums(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var before, after []line
		for range 1 + rng.IntN(20) {
			l := line{fmt.Sprint("f", rng.IntN(4)), fmt.Sprintf("/x/%d/m%d.py", rng.IntN(2), rng.IntN(2)), 1 + rng.IntN(5), 1 + rng.Int64N(1000)}
			if rng.IntN(4) > 0 {
				before = append(before, l)
			}
			if rng.IntN(4) > 0 {
				l.line += rng.IntN(2)
				l.bytes += rng.Int64N(3) * 10
				after = append(after, l)
			}
		}
		d := diff.Compare(captureOf(t, append(before, line{"x", "/x/x.py", 1, 1})), captureOf(t, append(after, line{"x", "/x/x.py", 1, 1})))
		var sum int64
		for i := range d.Rows {
			sum += d.Rows[i].DeltaEnd()
		}
		if want := d.Pairs[0].After.End - d.Pairs[0].Before.End; sum != want {
			t.Fatalf("seed %d: rows come to %d, the whole to %d: %q", seed, sum, want, words(d))
		}
	}
}

// TestMovedLines: lines of a function that an edit above moved are the same places, also where a moved line now has the number
// of another one.
func TestMovedLines(t *testing.T) {
	of := func(lines ...numbered) *lifetime.Capture { return numberedLines(t, lines).Capture }
	for _, c := range []struct {
		what          string
		before, after []numbered
		want          []string
	}{
		{"all move by two", []numbered{{37, 100}, {38, 200}, {39, 300}}, []numbered{{39, 100}, {40, 200}, {41, 300}}, nil},
		{"below an edit", []numbered{{10, 100}, {20, 200}, {21, 300}}, []numbered{{10, 100}, {21, 200}, {22, 300}}, nil},
		{"a new line between", []numbered{{10, 100}, {11, 200}}, []numbered{{10, 100}, {11, 700}, {12, 200}}, []string{"new f (a.py:11)"}},
		{"a line is gone", []numbered{{10, 100}, {11, 700}, {12, 200}}, []numbered{{10, 100}, {11, 200}}, []string{"gone f (a.py:11)"}},
	} {
		var got []string
		d := diff.Compare(judge.Of(of(c.before...)), judge.Of(of(c.after...)))
		for i := range d.Rows {
			got = append(got, d.Rows[i].Status.String()+" "+d.Rows[i].Place().String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// numbered is a line of function f in a.py, and the bytes of the buffer that it keeps.
type numbered struct {
	number int
	bytes  int64
}

// numberedLines returns a capture in which each line allocates one buffer.
func numberedLines(t *testing.T, lines []numbered) *judge.Capture {
	b := build.New(0)
	b.Source(lifetime.Source{Format: "simulated"})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0"})
	for i, l := range lines {
		frame := b.Frame(frame.Frame{Function: "f", File: "/x/a.py", Line: l.number})
		b.Alloc(s, int64(i+1), build.Block{Addr: uint64(i+1) << 20, Requested: l.bytes, Occupied: l.bytes, Site: b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{frame})})})
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return judge.Of(c)
}

// TestPrograms: instructions of compiled programs are compared by their names, with another number if the compiler numbers them anew. Buffers
// without an operation are compared by their names, not as one group. A plan has neither free memory nor events.
func TestPrograms(t *testing.T) {
	program := func(sites ...string) *judge.Capture {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{Format: "hlo"})
		s := b.Space()
		b.Describe(s, lifetime.SpaceInfo{Module: "jit_f", Memory: "space0", Axis: lifetime.ProgramOrder, Begin: -1, End: 9, Facts: lifetime.Addresses | lifetime.Regions})
		b.Region(s, lifetime.Region{Begin: -1, End: 9, Size: 1 << 20, Edge: lifetime.EndOpen})
		for i, instr := range sites {
			site := b.Site(lifetime.Site{Instr: instr, Shape: "f32[64]"})
			b.Interval(s, build.Interval{Buffer: lifetime.Buffer{Begin: 1, End: 9, Addr: uint64(i) << 12, Size: 256, Requested: 256, Site: site, Kind: lifetime.Temporary}})
		}
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return judge.Of(c)
	}
	r := diff.Compare(program("copy.17", "copy.18", "custom-call.8", "custom-call.9", "fusion.3"), program("copy.17", "copy.18", "fusion.4"))
	var got []string
	for i := range r.Rows {
		got = append(got, fmt.Sprintf("%s %s %d", r.Rows[i].Status, r.Rows[i].Place().Op, r.Rows[i].DeltaPeak()))
	}
	if want := []string{"gone custom-call.8 -256", "gone custom-call.9 -256"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, l := range diff.Figured(&r.Pairs[0]) {
		if l.Name == "reserved but free" || l.Name == "frees" {
			t.Errorf("%+v", l)
		}
	}
}
