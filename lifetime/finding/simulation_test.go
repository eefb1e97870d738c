package finding_test

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/race"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
)

// program is a simulated training program. A Builder records its allocations and frees like a snapshot.
type program struct {
	*rand.Rand
	b        *build.Builder
	s        build.SpaceRef
	t        int64
	next     uint64
	unused   map[int64][]uint64         // freed addresses by size, as a caching allocator keeps them
	frames   []lifetime.FrameID         // callers, outermost last
	sites    map[string]lifetime.SiteID // of functions without callers
	live     map[uint64]*tensor
	steps    int
	measured bool                // by a thread; see measures
	idle     func(step int) bool // reports whether a step lacks the usual traffic; nil: none does

	allocated int64 // bytes so far
}

type tensor struct {
	addr uint64
	size int64
	site lifetime.SiteID
}

func newProgram(seed uint64) *program {
	p := &program{Rand: rand.New(rand.NewPCG(seed, 1)), b: build.New(build.Everything), next: 1 << 21, unused: map[int64][]uint64{},
		live: map[uint64]*tensor{}, sites: map[string]lifetime.SiteID{}}
	p.b.Source(lifetime.Source{File: "simulated"})
	p.s = p.b.Space()
	p.steps = 25 + p.IntN(60)
	return p
}

// alloc allocates in the function name.
func (p *program) alloc(name string, size int64) *tensor {
	return p.allocAt(p.siteOf(name, p.frames), size)
}

// siteOf returns the site of a function.
func (p *program) siteOf(name string, callers []lifetime.FrameID) lifetime.SiteID {
	if site := p.sites[name]; site != 0 && callers == nil {
		return site
	}
	frames := append([]lifetime.FrameID{p.b.Frame(frame.Frame{Function: name, File: "sim.py", Line: 1})}, callers...)
	site := p.b.Site(lifetime.Site{Stack: p.b.Stack(frames)})
	if callers == nil {
		p.sites[name] = site
	}
	return site
}

func (p *program) allocAt(site lifetime.SiteID, size int64) *tensor {
	x := &tensor{size: size, site: site}
	rounded := (size + 511) / 512 * 512
	if free := p.unused[rounded]; len(free) > 0 {
		x.addr, p.unused[rounded] = free[len(free)-1], free[:len(free)-1]
	} else {
		x.addr = p.next
		p.next += uint64(rounded)
	}
	p.live[x.addr] = x
	p.allocated += size
	p.t += 1 + p.Int64N(1000)
	p.b.Alloc(p.s, p.t, build.Block{Addr: x.addr, Requested: size, Occupied: rounded, Site: x.site})
	return x
}

func (p *program) free(tensors ...*tensor) { p.freeIn("", tensors...) }

// freeIn frees in the function name, "" for an unknown one.
func (p *program) freeIn(name string, tensors ...*tensor) {
	site := lifetime.SiteID(0)
	if name != "" {
		site = p.siteOf(name, nil)
	}
	for _, x := range tensors {
		p.t += 1 + p.Int64N(1000)
		p.b.Free(p.s, p.t, build.Block{Addr: x.addr, Requested: x.size, Occupied: x.size, Site: site})
		delete(p.live, x.addr)
		rounded := (x.size + 511) / 512 * 512
		p.unused[rounded] = append(p.unused[rounded], x.addr)
	}
}

// noise is the traffic of a healthy step: a forward and a backward pass, and a batch that is loaded one step ahead.
func (p *program) noise(batch **tensor) {
	old := *batch
	*batch = p.alloc("load", 1<<20+p.Int64N(1<<18))
	var saved []*tensor
	layers := 3 + p.IntN(2)
	for i := range layers {
		scratch := p.alloc("scratch", 1<<16)
		saved = append(saved, p.alloc(fmt.Sprint("layer", i), 1<<18+int64(i)))
		p.free(scratch)
	}
	for i := len(saved) - 1; i >= 0; i-- {
		grad := p.alloc("backward", 1<<18)
		p.free(saved[i], grad)
	}
	if old != nil {
		p.free(old)
	}
}

// run returns the capture and its leaks: weights, then steps of the pattern and of noise.
func (p *program) run(t testing.TB, pattern func(step int)) (*lifetime.Capture, []finding.Finding) {
	for range 8 {
		p.alloc("build", 4<<20)
	}
	var batch *tensor
	for step := range p.steps {
		pattern(step)
		if p.idle == nil || !p.idle(step) {
			p.noise(&batch)
		}
	}
	for _, x := range p.live {
		p.b.Live(p.s, build.Block{Addr: x.addr, Requested: x.size, Occupied: (x.size + 511) / 512 * 512, Site: x.site})
	}
	p.b.Describe(p.s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.EndState | lifetime.Clock})
	c, err := p.b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	var leaks []finding.Finding
	for _, f := range find(t, c, finding.Settings{}) {
		if f.IsLeak() {
			leaks = append(leaks, f)
		}
	}
	return c, leaks
}

// healthy are patterns with bounded memory: growth ends or becomes periodic within the window.
var healthy = map[string]func(p *program) func(step int){
	"nothing": func(*program) func(int) { return func(int) {} },
	"warm-up: a cache fills during the first part": func(p *program) func(int) {
		until := 2 + p.IntN(p.steps*2/5)
		return func(step int) {
			if step < until {
				p.alloc("cache", 1<<20)
			}
		}
	},
	"plateau: a pool that fills slower and slower": func(p *program) func(int) {
		size, most := 0, 4+p.IntN(p.steps/5)
		return func(int) {
			if p.IntN(most) >= size+most/3 {
				p.alloc("pool", 1<<20)
				size++
			}
		}
	},
	"bounded LRU": func(p *program) func(int) {
		most := 2 + p.IntN(p.steps/2)
		var cache []*tensor
		return func(int) {
			if len(cache) > 0 && p.IntN(3) == 0 { // a hit
				i := p.IntN(len(cache))
				cache = append(append(cache[:i:i], cache[i+1:]...), cache[i])
				return
			}
			cache = append(cache, p.alloc("lru", 1<<20))
			if len(cache) > most {
				p.free(cache[0])
				cache = cache[1:]
			}
		}
	},
	"FIFO": func(p *program) func(int) {
		most := 2 + p.IntN(p.steps/2)
		var queue []*tensor
		return func(int) {
			queue = append(queue, p.alloc("fifo", 1<<20))
			if len(queue) > most {
				p.free(queue[0])
				queue = queue[1:]
			}
		}
	},
	"replay buffer: fills, then replaces at random": func(p *program) func(int) {
		most := 4 + p.IntN(p.steps*2/5)
		var buffer []*tensor
		return func(int) {
			x := p.alloc("replay", 1<<20)
			if len(buffer) < most {
				buffer = append(buffer, x)
				return
			}
			i := p.IntN(len(buffer))
			p.free(buffer[i])
			buffer[i] = x
		}
	},
	"sawtooth that ends between flushes": func(p *program) func(int) {
		every := 3 + p.IntN(p.steps/4)
		var records []*tensor
		return func(step int) {
			if step%every == every-1 {
				p.free(records...)
				records = nil
			}
			records = append(records, p.alloc("record", 1<<18))
		}
	},
	"reference cycles freed in bursts": func(p *program) func(int) {
		left := 0
		var garbage []*tensor
		return func(int) {
			for range 1 + p.IntN(3) {
				garbage = append(garbage, p.alloc("cycle", 1<<16))
			}
			if left--; left < 0 {
				p.free(garbage...)
				garbage, left = nil, 4+p.IntN(p.steps/6)
			}
		}
	},
	"gradient accumulation that ends mid-window": func(p *program) func(int) {
		every := 2 + p.IntN(p.steps/5)
		var saved []*tensor
		return func(step int) {
			if step%every == 0 {
				p.free(saved...)
				saved = nil
			}
			for i := range 3 {
				saved = append(saved, p.alloc(fmt.Sprint("saved", i), 1<<18))
			}
		}
	},
	"one workspace per stream, one after the other": func(p *program) func(int) {
		streams := int64(2 + p.IntN(6))
		used := int64(0)
		return func(step int) {
			// The first matrix product of a stream allocates the workspace, with the stack of its result.
			if used < streams && step >= int(used)*p.steps/int(streams) {
				x := p.alloc("matmul", 8519680)
				p.b.LiveRegion(p.s, lifetime.Region{Addr: x.addr, Size: 8519680, Stream: used})
				used++
			}
			p.free(p.alloc("matmul", 1<<18))
		}
	},
	"a key-value cache that grows and is dropped": func(p *program) func(int) {
		length, layers := 3+p.IntN(p.steps/3), 1+p.IntN(3)
		past := make([]*tensor, layers)
		return func(step int) {
			for layer := range past {
				size := int64(step%length+1) << 16
				next := p.alloc("attend", size)
				if past[layer] != nil {
					p.free(past[layer])
				}
				past[layer] = next
			}
		}
	},
	"a history that is cut to its last entries": func(p *program) func(int) {
		most := 2 + p.IntN(p.steps/3)
		var history *tensor
		return func(step int) {
			next := p.alloc("remember", int64(min(step+1, most))<<16)
			if history != nil {
				p.free(history)
			}
			history = next
		}
	},
	"sequences that get longer, nothing kept": func(p *program) func(int) {
		return func(step int) { p.free(p.alloc("longer", int64(step+1)<<16)) }
	},
	"longer and longer sequences, the batch kept until the next": func(p *program) func(int) {
		var batch *tensor
		return func(step int) {
			size := int64(step+4) << 14
			next := p.alloc("batch", size)
			if batch != nil {
				p.free(batch)
			}
			batch = next
			for layer := range 6 {
				p.free(p.alloc(fmt.Sprint("activation", layer), 2*size))
			}
		}
	},
	"sessions that end at random": func(p *program) func(int) {
		mean := 3 + p.IntN(p.steps/4)
		var open []*tensor
		return func(int) {
			open = append(open, p.alloc("session", 1<<16))
			open = slices.DeleteFunc(open, func(x *tensor) bool {
				if p.IntN(mean) > 0 {
					return false
				}
				p.free(x)
				return true
			})
		}
	},
	"prefetching that gets deeper at the end": func(p *program) func(int) {
		depth := 2
		var queue []*tensor
		return func(step int) {
			if step == p.steps*3/4 {
				depth = 7
			}
			for len(queue) < depth {
				queue = append(queue, p.alloc("prefetch", 1<<18))
			}
			p.free(queue[0])
			queue = queue[1:]
		}
	},
	"bounded LRU of many sizes": func(p *program) func(int) {
		most := 2 + p.IntN(p.steps/3)
		var cache []*tensor
		return func(int) {
			cache = append(cache, p.alloc("shapes", 1<<12*(1+p.Int64N(300))))
			if len(cache) > most {
				p.free(cache[0])
				cache = cache[1:]
			}
		}
	},
	"one buffer of changing size": func(p *program) func(int) {
		var last *tensor
		return func(int) {
			next := p.alloc("result", 1<<12*(1+p.Int64N(300)))
			if last != nil {
				p.free(last)
			}
			last = next
		}
	},
	"best results so far, replaced by better ones": func(p *program) func(int) {
		var best *tensor
		return func(step int) {
			if next := p.alloc("best", 1<<18); best == nil || p.IntN(step+1) == 0 {
				if best != nil {
					p.free(best)
				}
				best = next
			} else {
				p.free(next)
			}
		}
	},
	"weights loaded in a burst at the end": func(p *program) func(int) {
		return func(step int) {
			if step == p.steps-1-p.IntN(2) {
				for range 40 {
					p.alloc("load_weights", 1<<20)
				}
			}
		}
	},
	"weights loaded at the end, through staging buffers": func(p *program) func(int) {
		return func(step int) {
			if step == p.steps-1 {
				for range 10 + p.IntN(10) {
					staging := p.alloc("staging", 1<<20)
					p.alloc("load_weights", 1<<20)
					p.free(staging)
				}
			}
		}
	},
	"EMA copy, once": func(p *program) func(int) {
		at := p.IntN(p.steps)
		return func(step int) {
			if step == at {
				for range 20 {
					p.alloc("ema", 1<<20)
				}
			}
		}
	},
	"pipeline in flight": func(p *program) func(int) {
		depth := 2 + p.IntN(8)
		var flight []*tensor
		return func(int) {
			flight = append(flight, p.alloc("send", 1<<20))
			for len(flight) > depth-p.IntN(2) {
				p.free(flight[0])
				flight = flight[1:]
			}
		}
	},
	"variable sizes": func(p *program) func(int) {
		var last []*tensor
		return func(int) {
			p.free(last...)
			last = nil
			for i := range 4 {
				last = append(last, p.alloc(fmt.Sprint("tokens", i), 1<<12*(1+p.Int64N(300))))
			}
		}
	},
	"a few things kept now and then": func(p *program) func(int) {
		return func(step int) {
			if step == p.steps/5 || step == p.steps/2 || step == p.steps*4/5 {
				p.alloc("checkpoint", 1<<20)
			}
		}
	},
	"optimizer state, made in the first step": func(p *program) func(int) {
		return func(step int) {
			if step == 1 {
				for range 16 {
					p.free(p.alloc("adam_temporary", 1<<18))
					p.alloc("adam", 4<<20)
				}
			}
		}
	},
	"results of an evaluation, dropped at the next": func(p *program) func(int) {
		every := 3 + p.IntN(p.steps/4)
		var results []*tensor
		return func(step int) {
			if step%every != 0 {
				return
			}
			p.free(results...)
			results = nil
			for range 5 + p.IntN(5) {
				results = append(results, p.alloc("validate", 1<<20))
			}
		}
	},
}

// maxFalseAlarms is the maximum share of healthy spaces with a leak.
const maxFalseAlarms = 0.001

// TestHealthyPrograms counts the healthy programs with a leak.
func TestHealthyPrograms(t *testing.T) {
	if race.Enabled {
		t.Skip("takes minutes, in one goroutine")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // programs are garbage as soon as they are judged
	seeds := deep.Or(100, 390)
	spaces, alarms := 0, 0
	for name, pattern := range healthy {
		wrong := 0
		for seed := range uint64(seeds) {
			p := newProgram(seed)
			c, findings := p.run(t, pattern(p))
			for _, f := range findings {
				frame, _ := c.FrameOf(f.Sites[0])
				t.Logf("%s, seed %d, %d steps: %s: %d buffers", name, seed, p.steps, frame.Function, f.Amount.Count)
			}
			if spaces++; len(findings) > 0 {
				wrong++
			}
		}
		if wrong > 0 {
			t.Logf("%s: %d of %d", name, wrong, seeds)
		}
		alarms += wrong
	}
	t.Logf("%d false alarms in %d healthy spaces", alarms, spaces)
	if spaces < deep.Or(2500, 10_000) || float64(alarms) > maxFalseAlarms*float64(spaces) {
		t.Errorf("%d false alarms in %d healthy spaces", alarms, spaces)
	}
}

// leaking are patterns that grow without end at the site "leak", with other activity.
var leaking = map[string]func(p *program) func(step int){
	"one a step": func(p *program) func(int) {
		return func(int) { p.alloc("leak", 1<<20) }
	},
	"one every k steps": func(p *program) func(int) {
		every := 2 + p.IntN(p.steps/8)
		return func(step int) {
			if step%every == 0 {
				p.alloc("leak", 2048)
			}
		}
	},
	"one now and then": func(p *program) func(int) {
		return func(int) {
			if p.IntN(2) == 0 {
				p.alloc("leak", 1<<20)
			}
		}
	},
	"after a cache has filled at the same site": func(p *program) func(int) {
		return func(step int) {
			if step == 0 {
				for range p.steps / 4 {
					p.free(p.alloc("scratch", 1<<16))
					p.alloc("leak", 1<<20)
				}
			}
			p.alloc("leak", 1<<20)
		}
	},
	"concatenated to a history": func(p *program) func(int) {
		layers := 1 + p.IntN(3)
		history := make([]*tensor, layers)
		return func(step int) {
			for layer := range history {
				next := p.alloc("leak", int64(step+1)<<14)
				if history[layer] != nil {
					p.free(history[layer])
				}
				history[layer] = next
			}
		}
	},
	"concatenated, and looked at by some operations": func(p *program) func(int) {
		var history *tensor
		return func(step int) {
			next := p.alloc("leak", int64(step+1)<<14)
			if history != nil {
				p.free(history)
			}
			history = next
			p.free(p.alloc("attend", int64(step+1)<<14))
		}
	},
	"the graph of all steps, which each backward pass walks through": func(p *program) func(int) {
		return func(step int) {
			p.alloc("leak", 1<<16)
			for range step {
				p.free(p.alloc("unroll", 1<<12))
			}
		}
	},
	"a queue whose consumer is too slow": func(p *program) func(int) {
		p.steps = max(p.steps, 50)
		var queue []*tensor
		return func(step int) {
			for range 3 {
				queue = append(queue, p.alloc("leak", 1<<16))
			}
			p.free(queue[0], queue[1])
			queue = queue[2:]
		}
	},
	"every step at first, then every third": func(p *program) func(int) {
		p.steps = max(p.steps, 60) // in fewer steps it may be a cache
		return func(step int) {
			if step < p.steps/3 || step%3 == 0 {
				p.alloc("leak", 1<<16)
			}
		}
	},
	"late": func(p *program) func(int) {
		from := p.steps * (10 + p.IntN(50)) / 100
		return func(step int) {
			if step >= from {
				p.alloc("leak", 1<<20)
			}
		}
	},
	"four per step": func(p *program) func(int) {
		return func(int) {
			for range 4 {
				p.alloc("leak", 1<<20)
			}
		}
	},
	"changing sizes": func(p *program) func(int) {
		return func(int) { p.alloc("leak", 1<<12*(1+p.Int64N(300))) }
	},
	"some of many at one site": func(p *program) func(int) {
		return func(step int) {
			for i := range 5 {
				if x := p.alloc("leak", 1<<18); i > 0 || step%3 > 0 {
					p.free(x)
				}
			}
		}
	},
	"small, with a sawtooth": func(p *program) func(int) {
		saw := healthy["sawtooth that ends between flushes"](p)
		return func(step int) {
			saw(step)
			p.alloc("leak", 512)
		}
	},
	"with a cache that fills and a pipeline": func(p *program) func(int) {
		cache, pipe := healthy["warm-up: a cache fills during the first part"](p), healthy["pipeline in flight"](p)
		return func(step int) {
			cache(step)
			pipe(step)
			p.alloc("leak", 1<<16)
		}
	},
	"kept at the end of every evaluation": func(p *program) func(int) {
		every := 2 + p.IntN(p.steps/10)
		return func(step int) {
			if step%every == every-1 {
				for range 3 {
					p.free(p.alloc("evaluate", 1<<20))
					p.alloc("leak", 1<<20)
				}
			}
		}
	},
}

// TestLeakingPrograms: the rules find each leak in every run, with its exact count and without false alarms.
func TestLeakingPrograms(t *testing.T) {
	seeds := deep.Or(10, 40)
	for name, pattern := range leaking {
		missed, wrong := 0, 0
		for seed := range uint64(seeds) {
			p := newProgram(seed)
			body := pattern(p)
			c, findings := p.run(t, body)
			hit := false
			want := int64(0)
			for _, x := range p.live {
				if f, _ := c.FrameOf(x.site); f.Function == "leak" {
					want++
				}
			}
			for _, f := range findings {
				frame, _ := c.FrameOf(f.Sites[0])
				if frame.Function != "leak" {
					t.Logf("%s, seed %d: %s is not a leak", name, seed, frame.Function)
					wrong++
					continue
				}
				hit = true
				if f.Amount.Count != want {
					t.Errorf("%s, seed %d: %d survivors, want %d", name, seed, f.Amount.Count, want)
				}
			}
			if !hit {
				t.Logf("%s, seed %d, %d steps: missed %d survivors", name, seed, p.steps, want)
				missed++
			}
		}
		if missed+wrong > 0 {
			t.Errorf("%s: missed %d of %d, %d wrong", name, missed, seeds, wrong)
		}
	}
}

// TestSlowLeaks: the rules find a leak of a thousandth of the traffic within 50 steps, with any other activity.
func TestSlowLeaks(t *testing.T) {
	missed, n := 0, 0
	for name, pattern := range healthy {
		for seed := range uint64(deep.Or(5, 20)) {
			p := newProgram(seed)
			p.steps = 50
			other := pattern(p)
			_, findings := p.run(t, func(step int) {
				other(step)
				p.alloc("leak", p.allocated/int64(step+1)/1000)
			})
			n++
			if len(findings) != 1 {
				t.Logf("%s, seed %d: %d leaks", name, seed, len(findings))
				missed++
			}
		}
	}
	t.Logf("found %d of %d", n-missed, n)
	if missed > 0 {
		t.Errorf("%d of %d slow leaks missed, or others seen", missed, n)
	}
}

// TestWindowOpensOnFullPool: new buffers with a site replace buffers that are older than the window and have none. This is
// a leak only if the old buffers stay.
func TestWindowOpensOnFullPool(t *testing.T) {
	for _, replaces := range []bool{true, false} {
		p := newProgram(7)
		var old []*tensor
		for i := range 100 { // allocated before the recording
			old = append(old, &tensor{addr: 1<<40 + uint64(i)<<20, size: 5 << 18})
		}
		_, findings := p.run(t, func(step int) {
			p.alloc("store", 5<<18)
			if replaces && step > 0 {
				p.free(old[step])
			}
		})
		if grows := len(findings) > 0; grows == replaces {
			t.Errorf("replaces %v: findings %v", replaces, findings)
		}
	}
}
