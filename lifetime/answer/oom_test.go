package answer_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/judge"
)

const mib = 1 << 20

// program records a program over PyTorch's allocator, in which each request of more than 1 MiB gets a segment.
type program struct {
	b    *build.Builder
	s    build.SpaceRef
	t    int64
	next uint64
}

func newProgram() *program {
	p := &program{b: build.New(build.Everything), next: 1 << 40}
	p.b.Source(lifetime.Source{File: "x.pickle", Format: "torch-snapshot"})
	p.s = p.b.Space()
	p.b.Describe(p.s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock})
	return p
}

func (p *program) now() int64 {
	p.t += 1000
	return p.t
}

func (p *program) site(function string) lifetime.SiteID {
	frame := p.b.Frame(frame.Frame{Function: function, File: "train.py", Line: 7, Kind: frame.User})
	return p.b.Site(lifetime.Site{Stack: p.b.Call(frame, 0)})
}

// alloc allocates a buffer in a segment of its own.
func (p *program) alloc(function string, size int64) build.Block {
	block := build.Block{Addr: p.next, Requested: size, Occupied: size, Site: p.site(function)}
	p.b.Reserve(p.s, p.now(), lifetime.Region{Addr: p.next, Size: size, Kind: "large", Site: block.Site})
	p.b.Alloc(p.s, p.now(), block)
	p.next += uint64(size)
	return block
}

func (p *program) free(block build.Block) {
	p.b.Free(p.s, p.now(), build.Block{Addr: block.Addr, Requested: block.Requested, Occupied: block.Occupied})
}

func (p *program) release(block build.Block) {
	p.b.Release(p.s, p.now(), lifetime.Region{Addr: block.Addr, Size: block.Occupied, Kind: "large"})
}

func (p *program) fail(function string, requested, free int64) {
	t := p.now()
	p.b.Mark(p.s, lifetime.Mark{Begin: t, End: t, Kind: lifetime.OOM, Site: p.site(function), Requested: requested, Free: failure.BytesOf(free)})
}

func (p *program) failures(t *testing.T) []answer.Failure {
	t.Helper()
	c, err := p.b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	return oomsOf(c, 0)
}

// oomsOf returns the failures of a capture whose device has a capacity; 0 = as recorded.
func oomsOf(c *lifetime.Capture, capacity int64) []answer.Failure {
	j := judge.Of(c)
	j.Settings.Limit = capacity
	all, _ := answer.OOMsOf(j, c.Spaces)
	return all
}

// TestReasons: the reason of a recorded failure follows from the state at the failed request, whatever is freed later.
func TestReasons(t *testing.T) {
	for reason, run := range map[string]func(p *program){
		"exhausted": func(p *program) {
			model := p.alloc("model", 900*mib)
			p.fail("forward", 200*mib, 100*mib)
			p.free(model) // while the exception unwinds
			p.release(model)
		},
		"larger_than_device": func(p *program) {
			p.alloc("model", 100*mib)
			p.fail("attention", 4096*mib, 900*mib)
		},
		"limit": func(p *program) {
			p.alloc("model", 500*mib)
			p.fail("forward", 200*mib, 500*mib)
		},
		"fragmented": func(p *program) { // although the program also has a limit
			for range 20 {
				p.alloc("keep", 20*mib)
				p.free(p.alloc("drop", 20*mib))
				p.alloc("keep", 2*mib)
			}
			p.fail("forward", 60*mib, 500*mib)
		},
		"survived": func(p *program) {
			p.alloc("model", 900*mib)
			p.fail("forward", 200*mib, 100*mib)
			for range 4 {
				p.free(p.alloc("smaller", 50*mib))
			}
		},
		"leak": func(p *program) {
			p.alloc("model", 100*mib)
			for range 60 {
				act := p.alloc("forward", 20*mib)
				grad := p.alloc("backward", 20*mib)
				p.alloc("log", 12*mib)
				p.free(act)
				p.release(act)
				p.free(grad)
				p.release(grad)
			}
			p.fail("forward", 30*mib, 10*mib)
		},
	} {
		p := newProgram()
		run(p)
		all := p.failures(t)
		if len(all) != 1 || all[0].Reason != reason {
			t.Errorf("want %s, have %+v", reason, all)
		}
		if reason == "leak" && (all[0].Leak == nil || all[0].Leak.Name != "log (train.py:7)") {
			t.Errorf("the leak is %+v", all[0].Leak)
		}
	}
}

// TestFirstFatal: of several failures the first that the program did not survive is the answer; retries are counted.
func TestFirstFatal(t *testing.T) {
	p := newProgram()
	p.alloc("model", 700*mib)
	p.fail("batch64", 400*mib, 300*mib)
	cache := p.alloc("batch32", 250*mib)
	p.free(cache)
	more := p.alloc("batch32", 40*mib)
	p.release(cache) // to make room for the next
	p.alloc("batch32", 220*mib)
	p.free(more)
	p.release(more) // to make room, in vain
	p.fail("fatal", 100*mib, 80*mib)
	p.fail("cleanup", 2*mib, 1*mib)
	var got []string
	for _, f := range p.failures(t) {
		got = append(got, fmt.Sprintf("%s %s %d %d", f.Requester.Name, f.Reason, f.ReleasedBytes/mib, f.Retries))
	}
	want := "fatal (train.py:7) exhausted 40 1, cleanup (train.py:7) exhausted 0 1, batch64 (train.py:7) survived 0 0"
	if strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", strings.Join(got, ", "), want)
	}
}

// TestManyFailures: the costs of many failures do not grow with their square, and those that were survived do not hide the one that
// ended the program.
func TestManyFailures(t *testing.T) {
	p := newProgram()
	p.alloc("model", 900*mib)
	for range 20_000 {
		p.fail("retry", 200*mib, 100*mib)
		small := p.alloc("retry", 50*mib)
		p.free(small)
		p.release(small)
	}
	p.fail("fatal", 300*mib, 100*mib)
	all := p.failures(t)
	if len(all) != 20_001 || all[0].Requester.Name != "fatal (train.py:7)" || all[0].Reason != "exhausted" || all[0].Proof == nil || all[20_000].Reason != "survived" {
		t.Errorf("%d failures, the first is %+v", len(all), all[0])
	}
}

// TestFailuresOfManyLines: each failure needs as much memory for its answer however many stacks the capture has.
func TestFailuresOfManyLines(t *testing.T) {
	each := func(lines int) uint64 {
		p := newProgram()
		for i := range lines {
			p.fail(fmt.Sprint("line", i), 200*mib, 100*mib)
		}
		c, err := p.b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		all := oomsOf(c, 0)
		runtime.ReadMemStats(&after)
		if len(all) != lines {
			t.Fatalf("%d failures of %d", len(all), lines)
		}
		return (after.TotalAlloc - before.TotalAlloc) / uint64(lines)
	}
	if few, many := each(250), each(2000); many > 2*few {
		t.Errorf("bytes for a failure: %d with 250 lines, %d with 2,000", few, many)
	}
}

// TestCapacity: with the capacity of the device, what others hold is known.
func TestCapacity(t *testing.T) {
	p := newProgram()
	p.alloc("model", 500*mib)
	p.fail("forward", 200*mib, 100*mib)
	c, err := p.b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	for capacity, want := range map[int64]string{0: "exhausted 600", 600 * mib: "exhausted 600", 1024 * mib: "outside 1024"} {
		f := oomsOf(c, capacity)[0]
		if got := fmt.Sprintf("%s %d", f.Reason, *f.CapacityBytes/mib); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestFirstRank: of the recordings of several ranks, the first failure by their clocks is the answer.
func TestFirstRank(t *testing.T) {
	var all []answer.Failure
	for rank, late := range []int64{9000, 3000, 5000} {
		p := newProgram()
		p.t = late
		p.alloc("model", 900*mib)
		p.fail("forward", 200*mib, 100*mib)
		f := p.failures(t)[0]
		f.File = fmt.Sprint("rank", rank)
		all = append(all, f)
	}
	out := answer.NewOOMs(all, nil)
	if out.OOMs[0].File != "rank1" || !out.OOMs[0].First || out.OOMs[1].First || out.OOMs[1].File != "rank2" {
		t.Errorf("%+v", out.OOMs)
	}
}

// TestDrop: the proof of the advice is the peak without the buffers of the largest holder.
func TestDrop(t *testing.T) {
	p := newProgram()
	early := p.alloc("warm_up", 800*mib)
	p.free(early)
	p.release(early)
	p.alloc("model", 300*mib)
	p.alloc("activations", 600*mib)
	p.fail("forward", 200*mib, 100*mib)
	f := p.failures(t)[0]
	want := "without the buffers of activations (train.py:7) the peak until then is 800 MiB instead of 900 MiB"
	if f.Proof == nil || *f.Proof != want {
		t.Errorf("%v, want %s", f.Proof, want)
	}
}

// TestRemedies: each remedy of a program that is too large comes with its peak, computed on the timeline.
func TestRemedies(t *testing.T) {
	type buffer struct {
		begin, end, size, unpadded int64
		kind                       lifetime.Kind
		shape                      string
	}
	const gib = 1 << 30
	copies := map[string]int64{"shard": 8}
	for _, c := range []struct {
		name, advice, proof string
		buffers             []buffer
	}{
		{"donate", "Donate 1 input", "with donated inputs at best 10.0 GiB instead of 20.0 GiB", []buffer{
			{-1, 9, 10 * gib, 10 * gib, lifetime.Parameter, "bf16[5]"}, {-1, 9, 10 * gib, 10 * gib, lifetime.Output, "bf16[5]"}}},
		{"donate, which loses nothing", "Donate 1 input", "with donated inputs at best 10.0 GiB instead of 19.0 GiB (confidence 50 %), with half as wide floats 9.50 GiB", []buffer{
			{-1, 9, 9 * gib, 9 * gib, lifetime.Parameter, "f32[5]"}, {-1, 9, 9 * gib, 9 * gib, lifetime.Output, "f32[5]"}, {0, 4, gib, gib, lifetime.Temporary, "f32[7]{0:T(512)}"}}},
		{"padding", "Make dimension 1 (3) of f32[65536,3] a multiple of 128, or put a longer one last: it has 17.0 GiB of padding.", "peak without padding 1.00 GiB instead of 18.0 GiB",
			[]buffer{{-1, 9, 18 * gib, 1 * gib, lifetime.Temporary, "f32[65536,3]{1,0:T(8,128)}"}}},
		{"narrower", "Use bfloat16", "peak with half as wide floats 10.0 GiB instead of 18.0 GiB", []buffer{
			{-1, 9, 2 * gib, 2 * gib, lifetime.Parameter, "s32[9]"}, {0, 4, 16 * gib, 16 * gib, lifetime.Temporary, "f32[7]{0:T(512)}"}, {5, 9, 8 * gib, 8 * gib, lifetime.Temporary, "s32[3]"}}},
		{"a CPU computes in float32", "Compute dot f32[7] in blocks", "", []buffer{{0, 4, 17 * gib, 17 * gib, lifetime.Temporary, "f32[7]"}}},
		{"what to recompute is not known without data flow", "Shard it over at least 2 times as many devices.", "", []buffer{
			{0, 6, 6 * gib, 6 * gib, lifetime.Temporary, "bf16[3]"}, {1, 5, 6 * gib, 6 * gib, lifetime.Temporary, "bf16[3]"}, {2, 4, 6 * gib, 6 * gib, lifetime.Temporary, "bf16[3]"},
			{7, 9, 9 * gib, 9 * gib, lifetime.Temporary, "bf16[4]"}}},
		{"recomputed already", "Checkpoint smaller parts: 12.0 GiB that jax.checkpoint recomputes, such as dot bf16[3], is alive at once. Or shard it over at least 2 times as many devices.", "", []buffer{
			{0, 6, 6 * gib, 6 * gib, lifetime.Temporary, "bf16[3]{0:T(256)}"}, {1, 5, 6 * gib, 6 * gib, lifetime.Temporary, "bf16[3]{0:T(256)}"}, {2, 4, 6 * gib, 6 * gib, lifetime.Temporary, "bf16[7]{0:T(256)}"}}},
		{"recomputed already, for CPU", "Put the parts into one lax.scan with jax.checkpoint around its body, which XLA for CPU undoes outside of loops: 12.0 GiB that jax.checkpoint recomputes", "", []buffer{
			{0, 6, 6 * gib, 6 * gib, lifetime.Temporary, "bf16[3]"}, {1, 5, 6 * gib, 6 * gib, lifetime.Temporary, "bf16[3]"}, {2, 4, 6 * gib, 6 * gib, lifetime.Temporary, "bf16[7]"}}},
		{"two that fit alone", "Shard it over at least 2 times as many devices.", "", []buffer{
			{0, 6, 9 * gib, 9 * gib, lifetime.Temporary, "bf16[3]"}, {1, 5, 9 * gib, 9 * gib, lifetime.Temporary, "bf16[3]"}}},
		{"shard", "Shard dot bf16[9,16] by axis 1 over the 8 devices that have copies, and 1 more likewise: 18.0 GiB become 2.25 GiB at best.",
			"peak with copies sharded at best 5.25 GiB instead of 21.0 GiB", []buffer{
				{-1, 9, 12 * gib, 12 * gib, lifetime.Parameter, "bf16[9,16]"}, {-1, 9, 6 * gib, 6 * gib, lifetime.Output, "bf16[8]"},
				{-1, 9, 3 * gib, 3 * gib, lifetime.Parameter, "bf16[9,9]"}}},
		{"blocks", "Compute dot bf16[9] in blocks and keep only a reduction: it alone is 40.0 GiB. Or shard it over at least 3 times as many devices.", "",
			[]buffer{{-1, 9, 40 * gib, 40 * gib, lifetime.Output, "bf16[9]"}}},
	} {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: "x.hlo.pb", Format: "hlo"})
		s := b.Space()
		b.Describe(s, lifetime.SpaceInfo{Module: "jit_f", Memory: "space0", Axis: lifetime.ProgramOrder, Begin: -1, End: 9, Facts: lifetime.Addresses})
		for i, x := range c.buffers {
			op := "dot"
			if strings.HasPrefix(c.name, "what to recompute") {
				op = []string{"jvp(f)/dot", "jvp(f)/dot", "jvp(f)/dot", "transpose(jvp(f))/dot"}[i]
			}
			if strings.HasPrefix(c.name, "recomputed already") && strings.HasPrefix(x.shape, "bf16[3]") {
				op = "transpose(jvp(f))/rematted_computation/dot"
			}
			site := b.Site(lifetime.Site{Instr: "dot", Op: op, Shape: x.shape, Sharding: compiled.Sharding{Copies: copies[c.name]}})
			b.Interval(s, build.Interval{Buffer: lifetime.Buffer{Begin: x.begin, End: x.end, Addr: uint64(i) << 40, Size: x.size, Requested: x.unpadded, Site: site, Kind: x.kind}})
		}
		capture, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		all := oomsOf(capture, 16*gib)
		if len(all) != 1 || !strings.HasPrefix(all[0].Advice, c.advice) {
			t.Errorf("%s: %+v", c.name, all)
			continue
		}
		if all[0].Reason == "larger_than_device" && all[0].Confidence < .9 {
			t.Errorf("%s: the reason has the confidence of the advice: %v", c.name, all[0].Confidence)
		}
		proof := ""
		if all[0].Proof != nil {
			proof = *all[0].Proof
		}
		if !strings.Contains(proof, c.proof) {
			t.Errorf("%s: %q, want %q", c.name, proof, c.proof)
		}
		if len(oomsOf(capture, 64*gib)) != 0 {
			t.Errorf("%s fits 64 GiB", c.name)
		}
	}
}

// TestBeside: a failure tells what the other devices of its program had in use at that time, and no other memory.
func TestBeside(t *testing.T) {
	p := newProgram()
	first := p.s
	p.s = p.b.Space()
	p.b.Describe(p.s, lifetime.SpaceInfo{Device: "cuda:1", Facts: lifetime.Clock})
	early := p.alloc("early", 300*mib)
	p.s = first
	p.alloc("full", 40*mib)
	p.fail("last", 20*mib, mib)
	p.s++
	p.free(early)
	all := p.failures(t)
	if len(all) != 1 {
		t.Fatalf("%d failures", len(all))
	}
	if got, want := fmt.Sprint(all[0].Beside), fmt.Sprintf("[{cuda:1 %d}]", 300*mib); got != want {
		t.Errorf("%s beside it, want %s", got, want)
	}
}
