package program

import (
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/region"
)

// Program is what the program of a capture did. Its parts are computed on first use, so one goroutine uses it at a time.
type Program struct {
	*lifetime.Capture
	stacks    *Stacks
	steps     map[*lifetime.Space]*Steps
	histories map[*lifetime.Space]*history
	processes map[process][]*lifetime.Space // spaces with a clock
}

// Of returns the program of a capture. It begins with the stacks that an earlier reader of the capture has read, if that one is done.
func Of(c *lifetime.Capture) *Program { return of(c, StacksOf(&c.Tables)) }

// Part returns what the program did in a part of its capture, or on another axis. It reads the stacks with p.
func (p *Program) Part(spaces ...*lifetime.Space) *Program {
	return of(&lifetime.Capture{Tables: p.Tables, Spaces: spaces}, p.stacks)
}

func of(c *lifetime.Capture, stacks *Stacks) *Program {
	p := &Program{c, stacks, map[*lifetime.Space]*Steps{}, map[*lifetime.Space]*history{}, map[process][]*lifetime.Space{}}
	for _, s := range c.Spaces {
		if of := (process{s.Source, s.Host, s.Process}); s.Axis == lifetime.Time {
			p.processes[of] = append(p.processes[of], s)
		}
	}
	return p
}

// PhaseOf returns the phase that the stack of a site tells.
func (p *Program) PhaseOf(site lifetime.SiteID) purpose.Phase { return p.stacks.PhaseOf(p.At(site)) }

// At returns what the stack of a site says.
func (p *Program) At(site lifetime.SiteID) *Facts { return p.stacks.Of(p.Sites[site].Stack) }

// LineOf returns the innermost line of Python on the stack of a site, in a library or not; 0 if there is none.
func (p *Program) LineOf(site lifetime.SiteID) lifetime.FrameID {
	if path := p.At(site).Path; path != 0 {
		return p.stacks.lines[path]
	}
	return 0
}

// ThreadID is what a thread of Python runs: its outermost function, but for those that start a thread. 0 = not known, as of the autograd engine.
type ThreadID uint32

// IsOther reports whether two threads are known and differ.
func (t ThreadID) IsOther(u ThreadID) bool { return t != u && t != 0 && u != 0 }

// function names a function, whichever line of it a frame is at.
type function struct{ name, file string }

// threadOf returns the thread whose outermost function is in a frame; 0 for a function that starts a thread.
func (r *Stacks) threadOf(name, file string) ThreadID {
	if strings.HasSuffix(file, "/threading.py") || strings.HasSuffix(file, "concurrent/futures/thread.py") {
		return 0
	}
	return intern(r.threads, function{name, file}) + 1
}

// Evidence is the buffers of a space that tell something about others: all but bystanders'.
type Evidence struct{ before []int32 } // how many of the first so many buffers; nil = all

// Has reports whether a buffer is evidence.
func (e Evidence) Has(i int) bool { return e.before == nil || e.before[i] < e.before[i+1] }

// Between returns how many of the buffers from one to before another are evidence.
func (e Evidence) Between(from, to int) int {
	if e.before == nil {
		return to - from
	}
	return int(e.before[to] - e.before[from])
}

// Evidence returns the buffers of a space that tell something about others.
func (p *Program) Evidence(s *lifetime.Space) Evidence { return p.historyOf(s).Evidence }

// evidenceOf returns the buffers of a space without those of bystanders: chains that never hold two buffers at
// once, and none at an end of the recording. A chain is what one thread allocates on one stream. A thread that measures
// is a bystander, and what uses a stream of its own for a moment. The largest chain is that of the program.
func (p *Program) evidenceOf(s *lifetime.Space) Evidence {
	if s.Axis == lifetime.ProgramOrder {
		return Evidence{}
	}
	type chain struct {
		thread ThreadID
		stream int64
	}
	type use struct {
		chain
		until, bytes int64 // end of the last buffer; of all
		holds        bool
	}
	stream, index, of := region.StreamsOfBuffers(s), map[chain]int32{}, make([]int32, len(s.Buffers))
	var chains []use
	streams := map[int64]bool{} // whether one of their chains holds
	for i := range s.Buffers {
		b := &s.Buffers[i]
		c := chain{p.At(b.Site).Thread, stream(i)}
		at, known := index[c]
		if !known {
			at = int32(len(chains))
			index[c], chains = at, append(chains, use{chain: c, until: b.Begin})
		}
		u := &chains[at]
		u.holds = u.holds || b.Begin < u.until || b.Edge&(lifetime.BeginUnseen|lifetime.EndOpen) != 0
		u.until, u.bytes, of[i] = max(u.until, b.End), units.AddSat(u.bytes, b.Size), at
	}
	largest := 0
	for k := range chains {
		if chains[k].bytes > chains[largest].bytes {
			largest = k
		}
		streams[chains[k].stream] = streams[chains[k].stream] || chains[k].holds
	}
	counts := func(i int) bool {
		u := &chains[of[i]]
		return u.holds || of[i] == int32(largest) || u.thread == 0 && streams[u.stream]
	}
	before := make([]int32, len(s.Buffers)+1)
	for i := range s.Buffers {
		if before[i+1] = before[i]; counts(i) {
			before[i+1]++
		}
	}
	if int(before[len(s.Buffers)]) == len(s.Buffers) {
		return Evidence{}
	}
	return Evidence{before}
}
