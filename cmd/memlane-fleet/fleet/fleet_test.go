package fleet_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/judge"
)

// randomRecords makes records of n captures. Equal seeds give equal records.
func randomRecords(seed uint64, n int) (all []*fleet.Record) {
	rng := rand.New(rand.NewPCG(seed, 1))
	text := func() string { return fmt.Sprintf("t%d", rng.IntN(30)) }
	number := func() int64 { return []int64{0, 1, -1, rng.Int64(), -rng.Int64(), rng.Int64N(1 << 30)}[rng.IntN(6)] }
	amount := func() lifetime.Amount { return lifetime.Amount{Count: number(), Bytes: number(), Requested: number()} }
	for i := range n {
		r := &fleet.Record{Name: fmt.Sprintf("rank%d", i), Content: text(), State: fleet.State(rng.IntN(3)), Format: text()}
		if r.State != fleet.Read {
			r.Reason = text()
			all = append(all, r)
			continue
		}
		for range rng.IntN(3) {
			r.Losses = append(r.Losses, fleet.Loss{Reason: text(), Count: number(), Bytes: number()})
		}
		for range 1 + rng.IntN(3) {
			m := fleet.Memory{Rank: text(), Device: text(), Begin: number(), End: number(), Peak: number(), Leaked: number(), Growth: number(), LargestFree: number(),
				Change: fleet.Change{Edits: text(), Advice: text(), Peak: number(), Low: number(), High: number(), Saved: number()}}
			for range rng.IntN(3) {
				m.Roles = append(m.Roles, fleet.Role{Axis: text(), Number: number()})
			}
			for range rng.IntN(5) {
				m.Usage = append(m.Usage, number())
			}
			for range rng.IntN(10) {
				s := fleet.Site{Op: text(), Shape: text(), Region: text()}
				for range rng.IntN(4) {
					s.Frames = append(s.Frames, frame.Frame{Function: text(), File: text(), Line: rng.IntN(5), Kind: frame.Kind(rng.IntN(4))})
				}
				m.Sites = append(m.Sites, fleet.SiteTotals{Site: s, Allocated: amount(), AtPeak: amount(), Leaked: amount()})
			}
			r.Memories = append(r.Memories, m)
		}
		for range rng.IntN(3) {
			r.Findings = append(r.Findings, fleet.Finding{Rule: text(), Severity: "warning", Place: text(), Memory: rng.IntN(len(r.Memories)), Amount: amount(), BytesPerStep: rng.Float64(), HeldBy: text()})
		}
		all = append(all, r)
	}
	return all
}

func of(records ...*fleet.Record) *fleet.Fleet {
	f := &fleet.Fleet{}
	for _, r := range records {
		f.Add(r)
	}
	return f
}

// merge adds the records of another set.
func merge(f, other *fleet.Fleet) {
	if err := f.ReadBinary(other.AppendBinary(nil)); err != nil {
		panic(err) // of its own output
	}
}

// TestLaws: merging gives the same bytes in any order, grouping and repetition.
func TestLaws(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for seed := range uint64(200) {
		records := randomRecords(seed, 1+rng.IntN(12))
		want := of(records...).AppendBinary(nil)

		shuffled := slices.Clone(records)
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if got := of(shuffled...).AppendBinary(nil); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the order matters", seed)
		}
		again := of(append(shuffled, records...)...)
		merge(again, again)
		if got := again.AppendBinary(nil); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: adding twice matters", seed)
		}
		a, b := rng.IntN(len(records)+1), rng.IntN(len(records)+1)
		a, b = min(a, b), max(a, b)
		left, middle, right := of(records[:a]...), of(records[a:b]...), of(records[b:]...)
		first := &fleet.Fleet{}
		merge(first, left)
		merge(first, middle)
		merge(first, right)
		second := &fleet.Fleet{}
		merge(second, right)
		merge(second, middle)
		last := of(records[:a]...)
		merge(last, second)
		for _, f := range []*fleet.Fleet{first, last} {
			if got := f.AppendBinary(nil); !bytes.Equal(got, want) {
				t.Fatalf("seed %d: how they are grouped matters", seed)
			}
		}
		read := &fleet.Fleet{}
		if err := read.ReadBinary(want); err != nil {
			t.Fatal(err)
		}
		if got := read.AppendBinary(nil); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: changes when it is read and written again", seed)
		}
		var each []*fleet.Record
		for r := range read.Records() {
			each = append(each, read.Record(r.Name))
		}
		if got := of(each...).AppendBinary(nil); !bytes.Equal(got, want) || read.Record("nobody") != nil {
			t.Fatalf("seed %d: changes when each record is taken out", seed)
		}
		if !reflect.DeepEqual(read.Sites(), of(shuffled...).Sites()) || !reflect.DeepEqual(read.Findings(), of(shuffled...).Findings()) ||
			!reflect.DeepEqual(read.Kinds(), of(shuffled...).Kinds()) {
			t.Fatalf("seed %d: results differ", seed)
		}
	}
}

// TestOneName: a record that was read replaces one that was refused or missing, in any order.
func TestOneName(t *testing.T) {
	read := &fleet.Record{Name: "a", Content: "1", State: fleet.Read}
	newer := &fleet.Record{Name: "a", Content: "2", State: fleet.Read}
	refused := &fleet.Record{Name: "a", Content: "3", State: fleet.Refused, Reason: "cut"}
	missing := &fleet.Record{Name: "a", State: fleet.Missing, Reason: "no such file"}
	for _, c := range []struct {
		records []*fleet.Record
		want    *fleet.Record
	}{
		{[]*fleet.Record{missing, refused}, refused},
		{[]*fleet.Record{read, refused, missing}, read},
		{[]*fleet.Record{read, newer, missing}, newer},
	} {
		for range 2 {
			for r := range of(c.records...).Records() {
				if r.State != c.want.State || r.Content != c.want.Content {
					t.Errorf("%v %s stays, want %v %s", r.State, r.Content, c.want.State, c.want.Content)
				}
			}
			slices.Reverse(c.records)
		}
	}
}

// TestOneContent: of two records of one name and content, the same one stays in any order.
func TestOneContent(t *testing.T) {
	for seed := range uint64(50) {
		var same []*fleet.Record
		for _, r := range randomRecords(seed, 6) {
			r.Name, r.Content = "a", "1"
			same = append(same, r)
		}
		want := of(same...).AppendBinary(nil)
		slices.Reverse(same)
		if got := of(same...).AppendBinary(nil); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the order matters", seed)
		}
		merged := of(same[:3]...)
		merge(merged, of(same[3:]...))
		if got := merged.AppendBinary(nil); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: how they are grouped matters", seed)
		}
	}
}

// TestOfCaptures: the figures in records of real captures are those of the model, and sums over
// records add up.
func TestOfCaptures(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/torchsnap/*.pickle")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	files = append(files, "../../../testdata/whatif/lightning.pickle.zst") // another peak if it is replayed
	all := &fleet.Fleet{}
	atPeak, leaked := int64(0), int64(0)
	for i, file := range files {
		c, err := judged.Open(file, formats.Input{})
		if err != nil {
			if strings.Contains(err.Error(), "no memory data") {
				continue
			}
			t.Fatal(err)
		}
		found := c.Findings()
		r := fleet.Of(c).Named(fmt.Sprintf("rank%d.pickle", i), finding.RankNames{})
		for j := range found {
			if h := found[j].Held; len(h) > 0 && r.Findings[j].HeldBy != h[0].By || len(h) == 0 && r.Findings[j].HeldBy != "" {
				t.Errorf("%s: finding %d is held by %q, want %v", file, j, r.Findings[j].HeldBy, h)
			}
			if found[j].IsLeak() {
				leaked += found[j].Amount.Bytes
			}
		}
		for j, s := range c.Spaces {
			m := r.Memories[j]
			peak := s.Peak(lifetime.Occupied)
			if m.Peak != peak.Bytes || m.AtEnd != s.LevelAt(s.AtEnd(), lifetime.Occupied) {
				t.Errorf("%s %s: peak %d, at the end %d; want %v", file, s.ID(), m.Peak, m.AtEnd, peak)
			}
			if m.Change.Saved > 0 && m.Failed == "" && m.Change.Peak != m.Peak {
				t.Errorf("%s %s: a change lowers a peak of %d, recorded was %d", file, s.ID(), m.Change.Peak, m.Peak)
			}
			if len(m.Usage) > 0 && slices.Max(m.Usage) != m.Peak {
				t.Errorf("%s %s: the usage reaches %d, the peak is %d", file, s.ID(), slices.Max(m.Usage), m.Peak)
			}
			atPeak += peak.Bytes - m.Base - m.Stack
		}
		all.Add(r)
	}
	sum, sumLeaked := int64(0), int64(0)
	for _, s := range all.Sites() {
		sum += s.AtPeak.Bytes
		sumLeaked += s.Leaked.Bytes
	}
	ofPlaces := int64(0)
	for _, k := range all.Kinds() {
		for _, p := range k.Places {
			ofPlaces += p.Bytes
		}
	}
	if ofPlaces != atPeak {
		t.Errorf("places sum to %d at the peaks, want %d", ofPlaces, atPeak)
	}
	if sum != atPeak || sumLeaked != leaked || leaked == 0 {
		t.Errorf("sites sum to %d at the peaks and %d leaked, want %d and %d", sum, sumLeaked, atPeak, leaked)
	}
}

func FuzzReadBinary(f *testing.F) {
	for seed := range uint64(5) {
		f.Add(of(randomRecords(seed, 3)...).AppendBinary(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		read := &fleet.Fleet{}
		if err := read.ReadBinary(data); err != nil {
			if read.Len() > 0 {
				t.Error("records of damaged input were kept")
			}
			return
		}
		once := read.AppendBinary(nil)
		again := &fleet.Fleet{}
		if err := again.ReadBinary(once); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.AppendBinary(nil), once) {
			t.Error("changes when it is read and written again")
		}
		read.Sites()
		read.Findings()
	})
}

// TestRanksThatAreAbsent: Gaps finds missing numbers. Captures that were not read are not gaps,
// and numbers that do not count ranks have no gaps.
func TestRanksThatAreAbsent(t *testing.T) {
	named := func(states map[int]fleet.State) *fleet.Fleet {
		f := &fleet.Fleet{}
		for n, state := range states {
			r := &fleet.Record{State: state}
			if state == fleet.Read {
				r.Memories = make([]fleet.Memory, 2)
			}
			f.Add(r.Named(fmt.Sprintf("job/rank%d.pickle", n), finding.RankNames{}))
		}
		return f
	}
	for _, c := range []struct {
		states map[int]fleet.State
		ranks  int
		want   []string
	}{
		{map[int]fleet.State{0: fleet.Read, 1: fleet.Read, 3: fleet.Read, 4: fleet.Read, 7: fleet.Read}, 5, []string{"rank 2", "rank 5", "rank 6"}},
		{map[int]fleet.State{0: fleet.Read, 1: fleet.Refused, 2: fleet.Missing, 3: fleet.Read}, 2, nil},
		{map[int]fleet.State{1: fleet.Read, 1 << 40: fleet.Read}, 2, nil},
		{nil, 0, nil},
	} {
		f := named(c.states)
		if got := f.Gaps(finding.RankNames{}); len(f.Ranks()) != c.ranks || !slices.Equal(got, c.want) {
			t.Errorf("%v: %d ranks, absent %q; want %d and %q", c.states, len(f.Ranks()), got, c.ranks, c.want)
		}
	}
}

// TestSiteRows: the rows of all memories sum to those of all sites.
func TestSiteRows(t *testing.T) {
	f := of(randomRecords(3, 20)...)
	rows, count := map[string]int{}, 0
	for row := range f.SiteRows() {
		rows[fmt.Sprint(row.Site)]++
		count++
	}
	if sites := f.Sites(); len(sites) != len(rows) || count == 0 {
		t.Errorf("%d sites in %d rows, want %d", len(rows), count, len(sites))
	}
	for _, s := range f.Sites() {
		if rows[fmt.Sprint(s.Site)] != s.Memories {
			t.Errorf("%v: %d rows, want %d", s.Site, rows[fmt.Sprint(s.Site)], s.Memories)
		}
	}
}

// TestKinds: memory of one kind is compared across captures and devices. A place counts once
// in each memory, for any number of sites.
func TestKinds(t *testing.T) {
	site := func(outer string) fleet.Site {
		return fleet.Site{Frames: []frame.Frame{{Function: "malloc", File: "a.cpp", Kind: frame.Native}, {Function: "step", File: "/x/train.py", Line: 3, Kind: frame.User},
			{Function: outer, File: "/x/train.py", Line: 9, Kind: frame.User}}}
	}
	held := func(n int64) lifetime.Amount { return lifetime.Amount{Count: 1, Bytes: n} }
	var all []*fleet.Record
	for rank := range int64(5) {
		all = append(all, &fleet.Record{Name: fmt.Sprintf("c%d", rank), Memories: []fleet.Memory{
			{Device: fmt.Sprintf("cuda:%d", rank), Peak: 100 + 1000*(rank/4), Base: 1, Sites: []fleet.SiteTotals{{Site: site("a"), AtPeak: held(10 * rank)}, {Site: site("b"), AtPeak: held(5)}}},
			{Device: "cpu", Peak: 7},
		}})
	}
	f := of(all...)
	want := []fleet.Kind{
		{Name: "cuda", Memories: 5, Peaks: fleet.Spread{Least: 100, Median: 100, Ninetieth: 1100, Most: 1100}, Total: 1500, Base: 5, Places: []fleet.PlaceSum{
			{Place: "step (train.py:3)", Bytes: 125, Memories: 5, AtPeaks: fleet.Spread{Least: 5, Median: 25, Ninetieth: 45, Most: 45}},
		}},
		{Name: "cpu", Memories: 5, Peaks: fleet.Spread{Least: 7, Median: 7, Ninetieth: 7, Most: 7}, Total: 35, Places: []fleet.PlaceSum{}},
	}
	if got := f.Kinds(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if outliers := f.Outliers(nil); len(outliers) != 1 || !strings.Contains(outliers[0].Outliers[0].Description, "c4 differs from the other 4 ranks") {
		t.Errorf("outliers %+v: a capture without a rank must have its name", outliers)
	}
}

// TestManySites: if a memory has too many sites, a record keeps the largest, and the sums are
// complete.
func TestManySites(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "x"})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0"})
	const n = 3000
	for i := range int64(n) {
		b.Alloc(s, i, build.Block{Addr: uint64(i+1) << 30, Requested: 512 * (1 + i), Occupied: 512 * (1 + i), Site: b.Site(lifetime.Site{Op: fmt.Sprint("op ", i)})})
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	r := fleet.Of(judge.Of(c))
	sites := r.Memories[0].Sites
	sum, least := int64(0), int64(512*n)
	for _, site := range sites {
		sum += site.AtPeak.Bytes
		least = min(least, site.AtPeak.Bytes)
	}
	if last := sites[len(sites)-1]; len(sites) != 1001 || sum != 512*n*(n+1)/2 || least != 512*(n-999) || last.Site.Op != "[other sites]" || last.AtPeak.Count != n-1000 {
		t.Errorf("%d sites, %d bytes, at least %d; the last is %+v", len(sites), sum, least, last)
	}
}

// TestJudgedOnce checks that a record makes each part of the judgement of a memory ID at most once. Leaks are
// taken from the findings, so they are not a part of their own.
func TestJudgedOnce(t *testing.T) {
	type part struct {
		name string
		of   *lifetime.Space
	}
	made := judge.Made
	defer func() { judge.Made = made }()
	for _, file := range []string{"torchsnap/frag_oom.pickle", "whatif/leak.pickle.zst", "torchsnap/twodev.pickle", "chrome/cuprof_leak.json.gz"} {
		c, err := formats.Open("../../../testdata/"+file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		all := map[part]int{}
		judge.Made = func(_ *judge.Capture, name string, of *lifetime.Space) { all[part{name, of}]++ }
		fleet.Of(judge.New(c, finding.Settings{}))
		for p, n := range all {
			if n > 1 || p.name == "leaks" {
				t.Errorf("%s: %s is made %d times", file, p.name, n)
			}
		}
		if all[part{"findings", nil}] != 1 || all[part{"program", nil}] != 1 {
			t.Errorf("%s: %v", file, all)
		}
	}
}
