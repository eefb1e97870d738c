package leak

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// survivors returns the buffers of a site that began in the window and are alive
// at its end, without those that belong to the site's set-up: a size that is
// allocated once per stream, such as cuBLAS's workspace, which appears at the
// first matrix product under the stack of its result.
func (p *Pass) survivors(h *history) []int {
	if h.counted { // several rules ask
		return h.survivors
	}
	h.counted = true
	setup := p.setup(h)
	ofSetup := 0
	for _, streams := range setup {
		ofSetup += len(streams)
	}
	// Where sizes vary from one allocation to the next, each is the only one.
	vary := 2*(len(h.buffers)-ofSetup) < len(h.buffers)
	for _, i := range h.open {
		b := &p.Space.Buffers[i]
		if b.Edge&lifetime.Pending == 0 && (vary || setup[b.Requested] == nil) {
			h.survivors = append(h.survivors, i)
		}
	}
	return h.survivors
}

// setup returns the requested sizes that a site allocated once per stream and
// never freed, each with its streams.
func (p *Pass) setup(h *history) map[int64]map[int64]bool {
	setup := map[int64]map[int64]bool{}
	for _, i := range h.open {
		b := &p.Space.Buffers[i]
		on, seen := setup[b.Requested]
		stream := p.streamOf(b)
		switch {
		case !seen:
			setup[b.Requested] = map[int64]bool{stream: true}
		case on[stream]:
			setup[b.Requested] = nil
		case on != nil:
			on[stream] = true
		}
	}
	for _, f := range h.freed {
		if len(setup) == 0 {
			break
		}
		delete(setup, p.Space.Buffers[f.buffer].Requested)
	}
	return setup
}

// streamOf returns the stream of a live buffer: that of the region that holds it.
func (p *Pass) streamOf(b *lifetime.Buffer) int64 {
	if p.streams == nil {
		p.streams = newStreams(p.Space)
	}
	return p.streams.of(b)
}

// streams are the regions that are reserved at the end of the window, by address.
type streams []lifetime.Region

func newStreams(s *lifetime.Space) streams {
	live := streams{}
	for _, r := range s.Regions {
		if r.Edge&lifetime.EndOpen != 0 {
			live = append(live, r)
		}
	}
	slices.SortFunc(live, func(a, b lifetime.Region) int { return cmp.Compare(a.Addr, b.Addr) })
	return live
}

func (st streams) of(b *lifetime.Buffer) int64 {
	i, found := slices.BinarySearchFunc(st, b.Addr, func(r lifetime.Region, addr uint64) int { return cmp.Compare(r.Addr, addr) })
	if !found {
		i--
	}
	if i < 0 {
		return 0
	}
	return st[i].Stream
}
