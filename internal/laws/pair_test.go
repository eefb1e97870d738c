package laws

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
)

// lived is a buffer of the simulated program.
type lived struct {
	addr             uint64
	size, requested  int64
	begin, ask, end  int64 // ask: time of the free request, 0 = with the free; end: 0 = alive
	site             int
	recorded, freeAt bool // its allocation, its free
}

// freed returns the block of a free, which has only the requested size.
func (l *lived) freed() build.Block {
	return build.Block{Addr: l.addr, Requested: l.requested, Occupied: max(512, (l.requested+511)/512*512), Inferred: true}
}

// program draws the buffers of a program: at each address, one after the other. Events
// have different times, from 1 on.
func program(t *rapid.T) (all []lived, events int64) {
	// At each address, allocations and frees alternate.
	open := map[uint64]int{} // index into all
	events = int64(rapid.IntRange(1, 60).Draw(t, "events"))
	for now := int64(1); now <= events; now++ {
		addr := 0x10000 * rapid.Uint64Range(1, 12).Draw(t, "addr")
		i, ok := open[addr]
		switch {
		case !ok:
			open[addr] = len(all)
			requested := rapid.Int64Range(0, 0xf000).Draw(t, "requested")
			all = append(all, lived{addr: addr, requested: requested, size: requested + rapid.Int64Range(1, 512).Draw(t, "slack"), begin: now,
				site: rapid.IntRange(0, 3).Draw(t, "site"), recorded: true})
		case all[i].ask == 0 && rapid.IntRange(0, 2).Draw(t, "asks") == 0:
			all[i].ask = now
		default:
			all[i].end, all[i].freeAt = now, true
			delete(open, addr)
		}
	}
	return all, events
}

// record gives a Builder the events of a program from the given time on, and its end state.
func record(b *build.Builder, space build.SpaceRef, all []lived, from int64, do func(at int64, fact func())) {
	sites := siteList(b)
	for i := range all {
		l := &all[i]
		site := sites[l.site]
		if l.begin >= from {
			do(l.begin, func() {
				b.Alloc(space, l.begin, build.Block{Addr: l.addr, Requested: l.requested, Occupied: l.size, Site: site})
			})
		}
		if l.ask >= from && l.ask > 0 {
			do(l.ask, func() { b.FreeRequested(space, l.ask, l.freed()) })
		}
		if l.end >= from && l.end > 0 {
			do(l.end, func() { b.Free(space, l.end, l.freed()) })
		}
		if l.end == 0 {
			b.Live(space, build.Block{Addr: l.addr, Requested: l.requested, Occupied: l.size, Site: site, Pending: l.ask > 0})
		}
	}
}

func siteList(b *build.Builder) (sites []lifetime.SiteID) {
	for i := range 4 {
		sites = append(sites, b.Site(lifetime.Site{Op: fmt.Sprint(i)}))
	}
	return sites
}

// want returns the expected buffers if events are recorded from the given time on: those
// alive then or later.
func want(c *lifetime.Capture, all []lived, from, events int64) (buffers []lifetime.Buffer) {
	for _, l := range all {
		if l.end > 0 && l.end < from {
			continue
		}
		b := lifetime.Buffer{Begin: l.begin, End: l.end, Addr: l.addr, Size: l.size, Requested: l.requested, Site: lifetime.SiteID(l.site + 1)}
		if l.begin < from {
			b.Begin, b.Edge = from-1, lifetime.BeginUnseen
			if l.end > 0 { // the free has only the requested size
				b.Site, b.Edge = 0, b.Edge|lifetime.SizeInferred
				b.Size = max(512, (l.requested+511)/512*512)
			}
		}
		if l.end == 0 {
			b.End, b.Edge = events+1, b.Edge|lifetime.EndOpen
			if l.ask > 0 {
				b.Edge |= lifetime.Pending
			}
		}
		buffers = append(buffers, b)
	}
	slices.SortFunc(buffers, byBegin)
	return buffers
}

func byBegin(x, y lifetime.Buffer) int {
	return cmp.Or(cmp.Compare(x.Begin, y.Begin), cmp.Compare(x.Addr, y.Addr))
}

// TestPairing: a Builder restores all fields of the buffers from the events, with all
// events or only the last ones, and with or without InOrder.
func TestPairing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, events := program(t)
		from := rapid.Int64Range(1, events).Draw(t, "from")
		b := build.New(build.Everything)
		b.Source(lifetime.Source{})
		space := b.Space()
		b.Describe(space, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.EndState})
		var facts []moment
		record(b, space, all, from, func(at int64, fact func()) { facts = append(facts, moment{at, fact}) })
		if rapid.Bool().Draw(t, "in order") {
			b.InOrder(space)
			slices.SortFunc(facts, func(x, y moment) int { return cmp.Compare(x.at, y.at) })
		} else {
			facts = rapid.Permutation(facts).Draw(t, "order")
		}
		for _, f := range facts {
			f.fact()
		}
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		s := c.Spaces[0]
		if got, want := s.Buffers, want(c, all, from, events); !slices.Equal(got, want) {
			t.Fatalf("got\n%v\nwant\n%v", got, want)
		}
		for _, l := range c.Losses {
			if l.Reason != loss.BeforeWindow {
				t.Fatalf("nothing was lost, but %v", l)
			}
		}
	})
}

// moment is a fact with its time.
type moment struct {
	at   int64
	fact func()
}

// TestSpacesApart: spaces are independent. The model is the same whether their facts come
// space by space or mixed.
func TestSpacesApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		programs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []lived {
			all, _ := program(t)
			return all
		}), 2, 4).Draw(t, "programs")
		var mixed []int // which space goes next
		texts := [2]string{}
		for round := range texts {
			b := build.New(build.Everything)
			b.Source(lifetime.Source{})
			siteList(b)
			queues := make([][]moment, len(programs))
			for i, all := range programs {
				space := b.Space()
				b.Describe(space, lifetime.SpaceInfo{Device: fmt.Sprint("cuda:", i), Facts: lifetime.EndState})
				record(b, space, all, 0, func(at int64, fact func()) { queues[i] = append(queues[i], moment{at, fact}) })
				if round == 0 {
					for range queues[i] {
						mixed = append(mixed, i)
					}
				}
			}
			if round == 1 {
				mixed = rapid.Permutation(mixed).Draw(t, "order")
			}
			for _, i := range mixed {
				queues[i][0].fact()
				queues[i] = queues[i][1:]
			}
			c, err := b.Finish()
			if err != nil {
				t.Fatal(err)
			}
			texts[round] = nativeText(t, c)
		}
		if texts[0] != texts[1] {
			t.Fatalf("space by space\n%s\nmixed\n%s", texts[0], texts[1])
		}
	})
}
