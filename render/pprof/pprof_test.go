package pprof

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
)

// finish returns the capture and checks it.
func finish(t testing.TB, b *build.Builder) *lifetime.Capture {
	t.Helper()
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return c
}

// random returns a capture of several spaces with every kind of edge: frees without allocation, an end state,
// pending frees, bytes from before the window, sites with and without stacks.
func random(t testing.TB, seed uint64, spaces, events int) *lifetime.Capture {
	r := rand.New(rand.NewPCG(seed, 1))
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "random.pickle", Format: "torchsnap", Producer: "PyTorch 2.8"})
	sites := randomSites(b, r, 20)
	for n := range spaces {
		s := b.Space()
		axis := lifetime.Time
		if n%3 == 2 {
			axis = lifetime.Event
		}
		desc := lifetime.SpaceInfo{Device: fmt.Sprintf("cuda:%d", n), Axis: axis}
		if n%4 == 3 {
			desc.Facts = lifetime.EndState
		}
		b.Describe(s, desc)
		live := map[uint64]int64{}
		total := int64(r.IntN(3)) << 30
		b.Total(s, lifetime.Total{T: 0, Bytes: total, Measure: lifetime.Requested})
		for i := range events {
			at := int64(i+1) * r.Int64N(1000)
			addr := uint64(1+r.IntN(50)) << 24
			site := sites[r.IntN(len(sites))]
			size, open := live[addr]
			switch {
			case open && r.IntN(3) > 0:
				b.Free(s, at, build.Block{Addr: addr, Requested: size, Occupied: size, Site: site})
				delete(live, addr)
			case open:
				b.FreeRequested(s, at, build.Block{Addr: addr, Requested: size, Occupied: size, Site: site})
			case i < 20:
				b.Free(s, at, build.Block{Addr: addr, Requested: 512 << r.IntN(12), Occupied: 512 << r.IntN(12), Site: site})
			default:
				size = 512 * (1 + r.Int64N(1<<r.IntN(13)))
				b.Alloc(s, at, build.Block{Addr: addr, Requested: size, Occupied: size, Site: site})
				live[addr] = size
			}
		}
		// The end state lacks some blocks: their free was lost.
		for _, addr := range slices.Sorted(maps.Keys(live)) {
			if r.IntN(2) == 0 && desc.Facts != 0 {
				b.Live(s, build.Block{Addr: addr, Requested: live[addr], Occupied: live[addr]})
			}
		}
	}
	return finish(t, b)
}

func randomSites(b *build.Builder, r *rand.Rand, n int) []lifetime.SiteID {
	sites := []lifetime.SiteID{0, b.Site(lifetime.Site{Op: "fusion.1"})}
	for i := range n {
		var frames []lifetime.FrameID
		for range 1 + r.IntN(6) {
			f := r.IntN(30)
			frames = append(frames, b.Frame(frame.Frame{Function: fmt.Sprintf("f%d", f), File: fmt.Sprintf("/a/%d.py", f%7), Line: f}))
		}
		sites = append(sites, b.Site(lifetime.Site{Stack: b.Stack(frames), Op: fmt.Sprint("op", i%3)}))
	}
	return sites
}

// sums sums the samples of one memory ID.
func sums(p *profile.Profile, id string) (v values) {
	for _, s := range p.Sample {
		if s.Label["memory_id"][0] != id {
			continue
		}
		for i, n := range s.Value {
			v[i] += n
		}
	}
	return v
}

func mustProfile(t testing.TB, c *lifetime.Capture, o Options) *profile.Profile {
	t.Helper()
	p, err := Profile([]*lifetime.Capture{c}, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestLaws compares every space of a profile with the summary of the model.
func TestLaws(t *testing.T) {
	withBase := 0
	for seed := range uint64(30) {
		c := random(t, seed, 4, 600)
		peak, end := mustProfile(t, c, Options{}), mustProfile(t, c, Options{At: End})
		for _, s := range slices.Concat(peak.Sample, end.Sample) {
			if !slices.ContainsFunc(s.Value, func(v int64) bool { return v != 0 }) {
				t.Errorf("seed %d: a sample of nothing: %v", seed, s.Label)
			}
		}
		for _, s := range c.Spaces {
			if s.Base > 0 {
				withBase++
			}
			sum := s.Summary()
			var allocated, atPeak lifetime.Amount
			for _, row := range sum.Sites {
				allocated.Count += row.Allocated.Count
				allocated.Bytes += row.Allocated.Bytes
				atPeak.Count += row.AtPeak.Count
			}
			want := values{allocated.Count, allocated.Bytes, atPeak.Count, sum.Peak.Bytes}
			if got := sums(peak, s.ID()); got != want {
				t.Errorf("seed %d, %s at its peak: %v, want %v", seed, s.ID(), got, want)
			}
			want = values{allocated.Count, allocated.Bytes, sum.Live.Count, s.Base + sum.Live.Bytes}
			if got := sums(end, s.ID()); got != want {
				t.Errorf("seed %d, %s at the end: %v, want %v", seed, s.ID(), got, want)
			}
		}
	}
	if withBase == 0 {
		t.Error("no space had bytes from before the recording")
	}
}

func TestFixedTime(t *testing.T) {
	c := random(t, 7, 1, 400)
	s := c.Spaces[0]
	for _, at := range []int64{s.Begin, s.Begin + 1, (s.Begin + s.End) / 2, s.AtEnd()} {
		want := int64(0)
		for _, row := range s.Breakdown(at) {
			want += row.Bytes
		}
		if got := sums(mustProfile(t, c, Options{At: Fixed, Time: at}), s.ID())[inuseSpace]; got != want {
			t.Errorf("at %d: %d bytes in use, want %d", at, got, want)
		}
	}
	for _, at := range []int64{s.Begin - 1, s.End} {
		_, err := Profile([]*lifetime.Capture{c}, Options{At: Fixed, Time: at})
		if err == nil || !strings.Contains(err.Error(), "recording") {
			t.Errorf("at %d: error %v, want one about the recording", at, err)
		}
	}
}

// TestFixedTimeOfOne: a space whose window does not contain the instant still reports its allocations.
func TestFixedTimeOfOne(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "f", Format: "torchsnap"})
	for i, at := range []int64{100, 5000} {
		s := b.Space()
		b.Describe(s, lifetime.SpaceInfo{Device: fmt.Sprintf("cuda:%d", i)})
		b.Alloc(s, at, build.Block{Addr: 1 << 20, Requested: 512, Occupied: 512})
		b.Alloc(s, at+100, build.Block{Addr: 2 << 20, Requested: 1024, Occupied: 1024})
	}
	c := finish(t, b)
	c.Spaces[1].Base = 4096
	p := mustProfile(t, c, Options{At: Fixed, Time: 150})
	if got, want := sums(p, "cuda:0"), (values{2, 1536, 1, 512}); got != want {
		t.Errorf("cuda:0: %v, want %v", got, want)
	}
	if got, want := sums(p, "cuda:1"), (values{2, 1536, 0, 0}); got != want {
		t.Errorf("cuda:1: %v, want %v", got, want)
	}
}

// leaking marks sites of a space.
func leaking(s *lifetime.Space, sites ...lifetime.SiteID) *finding.Marks {
	return finding.MarksOf([]finding.Finding{{Rule: "leak", Kind: finding.KindLeak, Severity: finding.Warning, Space: s, Sites: sites, Description: "it keeps 2 MiB of every step"}})
}

func TestRoundTripAndSameBytes(t *testing.T) {
	c := random(t, 3, 3, 500)
	write := func() []byte {
		var buf bytes.Buffer
		o := Options{Marks: leaking(c.Spaces[0], 2, 3), Comments: []string{"score 80"}}
		if err := Write(&buf, []*lifetime.Capture{c}, o); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	first := write()
	for range 5 {
		if !bytes.Equal(first, write()) {
			t.Fatal("two runs wrote different bytes")
		}
	}
	again := random(t, 3, 3, 500)
	again.Read = c.Read
	if !reflect.DeepEqual(c, again) {
		t.Fatal("the capture itself is not the same")
	}
	p, err := profile.ParseData(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	if p.DefaultSampleType != "inuse_space" || len(p.SampleType) != 5 {
		t.Errorf("sample types %v, default %q", p.SampleType, p.DefaultSampleType)
	}
	for _, s := range c.Spaces {
		if got, want := sums(p, s.ID())[inuseSpace], s.Summary().Peak.Bytes; got != want {
			t.Errorf("%s: %d bytes in use, want the peak %d", s.ID(), got, want)
		}
	}
}

// TestSpaces: static spaces are included only if chosen or alone, and spaces can be chosen individually.
func TestSpaces(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "f", Format: "xplane"})
	for _, desc := range []lifetime.SpaceInfo{{Device: "tpu:0"}, {Device: "tpu:1"}, {Module: "jit_step", Axis: lifetime.ProgramOrder}, {Device: "empty"}} {
		s := b.Space()
		b.Describe(s, desc)
		if desc.Device != "empty" {
			b.Alloc(s, 1, build.Block{Addr: 1 << 20, Requested: 512, Occupied: 512})
		}
	}
	c := finish(t, b)
	byID := map[string]*lifetime.Space{}
	for _, s := range c.Spaces {
		byID[s.ID()] = s
	}
	for _, test := range []struct {
		chosen []string
		want   string
	}{
		{nil, "tpu:0 tpu:1"},
		{[]string{"jit_step"}, "jit_step"},
		{[]string{"jit_step", "tpu:1", "empty"}, "jit_step tpu:1"},
	} {
		var o Options
		for _, id := range test.chosen {
			o.Spaces = append(o.Spaces, byID[id])
		}
		var got []string
		for _, s := range mustProfile(t, c, o).Sample {
			got = append(got, s.Label["memory_id"][0])
			if _, timed := s.NumLabel["lifetime"]; timed != (got[len(got)-1] != "jit_step") {
				t.Errorf("%s: lifetime label present: %v", got[len(got)-1], timed)
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("chosen %v: profile of %q, want %q", test.chosen, got, test.want)
		}
	}
	alone := *c
	alone.Spaces = []*lifetime.Space{byID["empty"], byID["jit_step"]}
	if p := mustProfile(t, &alone, Options{}); len(p.Sample) != 1 || p.Sample[0].Label["memory_id"][0] != "jit_step" {
		t.Errorf("a static space alone: %v", p.Sample)
	}
	byID["empty"].Base = 1 << 20
	if p := mustProfile(t, c, Options{}); sums(p, "empty") != (values{inuseSpace: 1 << 20}) {
		t.Errorf("a space of bytes from before the recording beside others: %v", sums(p, "empty"))
	}
	_, err := Profile([]*lifetime.Capture{c}, Options{Spaces: []*lifetime.Space{}})
	if !errors.Is(err, ErrNoBuffers) {
		t.Errorf("no space chosen: %v, want ErrNoBuffers", err)
	}
}

func TestNoBuffers(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "f", Format: "chrometrace"})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0"})
	b.Total(s, lifetime.Total{T: 5, Bytes: 1 << 20, Measure: lifetime.Occupied})
	err := Write(&bytes.Buffer{}, []*lifetime.Capture{finish(t, b)}, Options{})
	if !errors.Is(err, ErrNoBuffers) || !strings.Contains(err.Error(), "only totals") || !strings.Contains(err.Error(), "history") {
		t.Errorf("error %v, want ErrNoBuffers that names the totals and the missing history", err)
	}
}

func TestWriteError(t *testing.T) {
	err := Write(failing{}, []*lifetime.Capture{random(t, 1, 1, 100)}, Options{})
	if !errors.Is(err, errFull) {
		t.Errorf("error %v, want the writer's", err)
	}
}

var errFull = errors.New("disk full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }
