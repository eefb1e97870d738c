// Package trainingtest generates large captures for tests.
package trainingtest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
)

// Capture returns the capture of a training loop with n buffers: weights, buffers that each
// step allocates and frees, and a leak of 1 MiB per step. Equal n give equal captures.
func Capture(t *testing.T, n int) *lifetime.Capture {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "large", Format: "native"})
	sites := manySites(b, rng)
	s := b.Space()
	b.InOrder(s)
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock})
	const perStep = 500
	type block struct {
		addr uint64
		size int64
	}
	free := map[int64][]block{} // by size
	var open []block
	now, top, segment := int64(1_752_000_000_000_000_000), uint64(0x7f0000000000), uint64(0x7f0000000000)
	alloc := func(site lifetime.SiteID, size int64) block {
		now += 1000 * (1 + rng.Int64N(40))
		a := block{top, size}
		if k := len(free[size]); k > 0 {
			a, free[size] = free[size][k-1], free[size][:k-1]
		} else {
			top += uint64(size)
		}
		if top > segment {
			b.Reserve(s, now, lifetime.Region{Addr: segment, Size: 64 << 20})
			segment += 64 << 20
		}
		b.Alloc(s, now, build.Block{Addr: a.addr, Requested: size - rng.Int64N(512), Occupied: size, Site: site})
		return a
	}
	release := func(a block) {
		now += 1000 * (1 + rng.Int64N(40))
		b.Free(s, now, build.Block{Addr: a.addr, Requested: a.size, Occupied: a.size})
		free[a.size] = append(free[a.size], a)
	}
	for i := range n {
		size := int64(512) << rng.IntN(14)
		switch {
		case i < 200: // weights
			alloc(sites[i%len(sites)], 4<<20)
		case i%perStep == 0: // the leak
			alloc(sites[0], 1<<20)
		default:
			open = append(open, alloc(sites[rng.IntN(len(sites))], size))
		}
		for len(open) > 0 && (len(open) > 2000 || rng.IntN(2) == 0) {
			k := rng.IntN(len(open))
			release(open[k])
			open[k] = open[len(open)-1]
			open = open[:len(open)-1]
		}
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// manySites makes 3,000 stacks of 20 calls.
func manySites(b *build.Builder, rng *rand.Rand) (sites []lifetime.SiteID) {
	for i := range 3000 {
		var frames []lifetime.FrameID
		for depth := range 20 {
			k := rng.IntN(1 + 30*(20-depth))
			frames = append(frames, b.Frame(frame.Frame{Function: fmt.Sprintf("forward_%d", k), File: fmt.Sprintf("/home/user/model/layer_%d.py", k%120), Line: 1 + k}))
		}
		frames[0] = b.Frame(frame.Frame{Function: fmt.Sprintf("attention_%d", i%700), File: "/home/user/model/attention.py", Line: i})
		sites = append(sites, b.Site(lifetime.Site{Stack: b.Stack(frames)}))
	}
	return sites
}
