package build

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
)

// fact is one call of a Builder. Tests write histories as lists of facts.
type fact func(b *Builder, s SpaceRef)

// by interns a site by its op; "" is none.
func by(b *Builder, op string) lifetime.SiteID { return b.Site(lifetime.Site{Op: op}) }

func alloc(t int64, addr uint64, size int64, site string) fact {
	return func(b *Builder, s SpaceRef) {
		b.Alloc(s, t, sized(addr, size, by(b, site)))
	}
}

// sized returns a block with only a requested size. Its occupied size is rounded up to
// 512 bytes, as the reader of PyTorch's snapshots does.
func sized(addr uint64, size int64, site lifetime.SiteID) Block {
	occupied := size
	if size <= math.MaxInt64-512 {
		occupied = max(512, (size+511)/512*512)
	}
	return Block{Addr: addr, Requested: size, Occupied: occupied, Inferred: true, Site: site}
}

func allocOccupied(t int64, addr uint64, size, occupied int64) fact {
	return func(b *Builder, s SpaceRef) {
		b.Alloc(s, t, Block{Addr: addr, Requested: size, Occupied: occupied})
	}
}

func freeRequested(t int64, addr uint64, size int64, site string) fact {
	return func(b *Builder, s SpaceRef) {
		b.FreeRequested(s, t, sized(addr, size, by(b, site)))
	}
}

func free(t int64, addr uint64, size int64, site string) fact {
	return func(b *Builder, s SpaceRef) { b.Free(s, t, sized(addr, size, by(b, site))) }
}

func note(t int64, addr uint64, text string) fact {
	return func(b *Builder, s SpaceRef) { b.Annotate(s, t, addr, b.Note(text)) }
}

func live(addr uint64, requested, occupied int64, site string) fact {
	return func(b *Builder, s SpaceRef) {
		l := sized(addr, requested, by(b, site))
		if occupied != 0 {
			l.Occupied, l.Inferred = occupied, false
		}
		b.Live(s, l)
	}
}

func livePending(addr uint64, requested, occupied int64) fact {
	return func(b *Builder, s SpaceRef) {
		b.Live(s, Block{Addr: addr, Requested: requested, Occupied: occupied, Pending: true})
	}
}

func reserve(t int64, addr uint64, size int64) fact {
	return func(b *Builder, s SpaceRef) { b.Reserve(s, t, lifetime.Region{Addr: addr, Size: size}) }
}

func release(t int64, addr uint64, size int64) fact {
	return func(b *Builder, s SpaceRef) { b.Release(s, t, lifetime.Region{Addr: addr, Size: size}) }
}

func liveRegion(addr uint64, size int64, kind string) fact {
	return func(b *Builder, s SpaceRef) { b.LiveRegion(s, lifetime.Region{Addr: addr, Size: size, Kind: kind}) }
}

func total(t, bytes int64, m lifetime.Measure) fact {
	return func(b *Builder, s SpaceRef) { b.Total(s, lifetime.Total{T: t, Bytes: bytes, Measure: m}) }
}

func mark(begin, end int64, text string) fact {
	return func(b *Builder, s SpaceRef) {
		b.Mark(s, lifetime.Mark{Begin: begin, End: end, Kind: lifetime.Annotation, Text: text})
	}
}

// endState declares that the end state is complete.
func endState(b *Builder, s SpaceRef) {
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.EndState})
}

func cut(b *Builder, s SpaceRef)       { b.HistoryTruncated(s) }
func ringFull(b *Builder, s SpaceRef)  { b.RingFull(s) }
func noHistory(b *Builder, s SpaceRef) { b.NoHistory(s) }

// made builds a capture with one space from the facts and checks it.
func made(t testing.TB, facts ...fact) (*lifetime.Capture, *lifetime.Space) {
	t.Helper()
	b := New(Everything)
	b.Source(lifetime.Source{File: "test"})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0"})
	for _, f := range facts {
		f(b, s)
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return c, c.Spaces[0]
}

// text writes the buffers of s, one a line, without empty fields:
//
//	10-20 0x100 512/100 size-inferred site=a free=b note="x"
func text(c *lifetime.Capture, s *lifetime.Space) string {
	var out strings.Builder
	for i, b := range s.Buffers {
		fmt.Fprintf(&out, "%d-%d %#x %d/%d %s", b.Begin, b.End, b.Addr, b.Size, b.Requested, b.Edge)
		if b.Site != 0 {
			fmt.Fprintf(&out, " site=%s", c.Sites[b.Site].Op)
		}
		if s.FreeSites != nil && s.FreeSites[i] != 0 {
			fmt.Fprintf(&out, " free=%s", c.Sites[s.FreeSites[i]].Op)
		}
		if s.BufNotes != nil && s.BufNotes[i] != 0 {
			fmt.Fprintf(&out, " note=%q", c.Notes[s.BufNotes[i]])
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// regionText writes the regions of s like text.
func regionText(s *lifetime.Space) string {
	var out strings.Builder
	for _, r := range s.Regions {
		fmt.Fprintf(&out, "%d-%d %#x+%d %s", r.Begin, r.End, r.Addr, r.Size, r.Edge)
		if r.Kind != "" {
			fmt.Fprintf(&out, " %s", r.Kind)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// lossText writes the losses of c as "reason count bytes", one a line.
func lossText(c *lifetime.Capture) string {
	var out strings.Builder
	for _, l := range c.Losses {
		fmt.Fprintf(&out, "%s %d %d\n", l.Reason, l.Count, l.Bytes)
	}
	return out.String()
}

// lines removes the indentation of expected text.
func lines(s string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}
