package leak

import "github.com/memlane/memlane/lifetime"

// survivors returns the buffers of a site that began in the window and are alive
// at its end, without those that belong to the site's set-up: a size that is
// allocated once per stream, such as cuBLAS's workspace, which appears at the
// first matrix product under the stack of its result.
func (l Look) survivors(h *history) []int {
	if h.asked { // most rules do
		return h.survivors
	}
	h.asked = true
	setup := l.setup(h)
	ofSetup := 0
	for _, streams := range setup {
		ofSetup += len(streams)
	}
	// Where sizes vary from one allocation to the next, each is the only one.
	vary := 2*(len(h.buffers)-ofSetup) < len(h.buffers)
	for _, i := range h.open {
		b := &l.Space.Buffers[i]
		if b.Edge&lifetime.Pending == 0 && (vary || setup[b.Requested] == nil) {
			h.survivors = append(h.survivors, i)
		}
	}
	return h.survivors
}

// setup returns the requested sizes that a site allocated once per stream and
// never freed, each with its streams.
func (l Look) setup(h *history) map[int64]map[int64]bool {
	setup := map[int64]map[int64]bool{}
	for _, i := range h.open {
		b := &l.Space.Buffers[i]
		on, seen := setup[b.Requested]
		stream := l.streamOf(b)
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
		delete(setup, l.Space.Buffers[f.buffer].Requested)
	}
	return setup
}
