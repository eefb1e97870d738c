package blocks

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
)

// program builds captures of made-up programs. Its allocator returns the lowest free
// addresses.
type program struct {
	*build.Builder
	space  build.SpaceRef
	now    int64
	live   map[uint64]int64 // requested size by address
	starts []uint64         // sorted
	leaks  []lifetime.SiteID
}

func newProgram(file string, desc lifetime.SpaceInfo) *program {
	p := &program{Builder: build.New(build.Everything), live: map[uint64]int64{}}
	p.Source(lifetime.Source{File: file, Format: "made-up"})
	p.space = p.Space()
	p.Describe(p.space, desc)
	return p
}

func (p *program) at(function, file string, line int) lifetime.SiteID {
	f := p.Frame(frame.Frame{Function: function, File: file, Line: line})
	return p.Site(lifetime.Site{Stack: p.Stack([]lifetime.FrameID{f})})
}

const firstAddress = 0x7f00_0000_0000

// alloc uses the lowest gap that is large enough.
func (p *program) alloc(dt, size int64, site lifetime.SiteID) uint64 {
	p.now += dt
	addr, i := uint64(firstAddress), 0
	room := uint64(max(size+511, 512)) / 512 * 512
	for ; i < len(p.starts); i++ {
		if p.starts[i]-addr >= room {
			break
		}
		addr = p.starts[i] + uint64(max(p.live[p.starts[i]]+511, 512))/512*512
	}
	p.starts = append(p.starts, 0)
	copy(p.starts[i+1:], p.starts[i:])
	p.starts[i] = addr
	p.live[addr] = size
	p.Alloc(p.space, p.now, build.Block{Addr: addr, Requested: size, Occupied: size, Site: site})
	return addr
}

func (p *program) free(dt int64, addr uint64) {
	p.now += dt
	p.Free(p.space, p.now, build.Block{Addr: addr, Requested: p.live[addr], Occupied: p.live[addr]})
	delete(p.live, addr)
	for i, a := range p.starts {
		if a == addr {
			p.starts = append(p.starts[:i], p.starts[i+1:]...)
			break
		}
	}
}

func (p *program) finish(t testing.TB) (*lifetime.Capture, *lifetime.Space) {
	c, err := p.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return c, c.Spaces[0]
}

// marks marks the sites that leak.
func (p *program) marks(s *lifetime.Space) *finding.Marks {
	var found []finding.Finding
	for _, site := range p.leaks {
		f := finding.Finding{Rule: "leak", Kind: finding.KindLeak, Severity: finding.Warning, Space: s, Sites: []lifetime.SiteID{site}}
		for i := range s.Buffers {
			if b := &s.Buffers[i]; b.Site == site {
				f.Amount.Add(lifetime.Amount{Count: 1, Bytes: b.Size, Requested: b.Requested})
			}
		}
		found = append(found, f)
	}
	return finding.MarksOf(found)
}

const kib, mib = int64(1) << 10, int64(1) << 20

var cuda = lifetime.SpaceInfo{Device: "cuda:0", Axis: lifetime.Time, Facts: lifetime.Clock}

// training is a loop of steps over layers; with a leak, every step keeps a
// loss and every third a mask.
func training(steps, layers int, leak bool) *program {
	p := newProgram("runs/train.pickle", cuda)
	const us = 1000
	weights := p.at("build_model", "/home/me/project/model.py", 12)
	state := p.at("adam_step", "/home/me/project/optim.py", 61)
	forward := p.at("forward", "/home/me/project/model.py", 44)
	attention := p.at("attention", "/home/me/project/layers/attention.py", 103)
	grads := p.at("backward", "/home/me/project/train.py", 77)
	batch := p.at("next_batch", "/home/me/project/data.py", 30)
	kept := p.at("log_loss", "/home/me/project/train.py", 81)
	mask := p.at("causal_mask", "/home/me/project/layers/attention.py", 58)
	for range layers {
		p.alloc(90*us, 3*mib, weights)
		p.alloc(10*us, 12*kib, weights)
	}
	for step := range steps {
		p.Mark(p.space, lifetime.Mark{Begin: p.now, End: p.now, Kind: lifetime.Step, Text: fmt.Sprint(step)})
		in := p.alloc(200*us, 4*mib, batch)
		var held []uint64
		for l := range layers {
			held = append(held, p.alloc(150*us, 5*mib/2, forward))
			scratch := p.alloc(60*us, 6*mib, attention)
			held = append(held, p.alloc(40*us, mib+int64(l)*256*kib, attention))
			p.free(90*us, scratch)
		}
		if leak {
			p.alloc(5*us, 3*mib/2, kept)
			if step%3 == 0 {
				p.alloc(5*us, 9*mib/4, mask)
			}
		}
		var gs []uint64
		for i := len(held) - 1; i >= 0; i-- {
			if i%2 == 0 {
				gs = append(gs, p.alloc(120*us, 3*mib, grads))
			}
			p.free(70*us, held[i])
		}
		if step == 0 {
			for range layers {
				p.alloc(30*us, 6*mib, state)
			}
		}
		for _, g := range gs {
			p.free(25*us, g)
		}
		p.free(50*us, in)
	}
	if leak {
		p.leaks = append(p.leaks, kept, mask)
	}
	return p
}

// random is a space of n random events with buffers of mixed sizes.
func random(seed uint64, n int, desc lifetime.SpaceInfo) *program {
	r := rand.New(rand.NewPCG(seed, 1))
	p := newProgram("random.bin", desc)
	var sites []lifetime.SiteID
	for i := range 3 + r.IntN(20) {
		sites = append(sites, p.at(fmt.Sprintf("f%d", i), "random.py", i+1))
	}
	var open []uint64
	for range n {
		dt := int64(1 + r.IntN(1+r.IntN(1000)))
		if len(open) > 0 && r.IntN(100) < 48 {
			i := r.IntN(len(open))
			p.free(dt, open[i])
			open[i] = open[len(open)-1]
			open = open[:len(open)-1]
			continue
		}
		open = append(open, p.alloc(dt, int64(1)<<r.IntN(22)+int64(r.IntN(5000)), sites[r.IntN(len(sites))]))
	}
	return p
}
