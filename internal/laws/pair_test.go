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

// lived is a buffer of a program as it was, before anybody recorded it.
type lived struct {
	addr             uint64
	size, requested  int64
	begin, ask, end  int64 // ask: when its free was asked for, 0 = at once; end: 0 = alive
	site             int
	recorded, freeAt bool // its allocation, its free
}

// freed is the block of an event that has only the requested size.
func (l *lived) freed() build.Block {
	return build.Block{Addr: l.addr, Requested: l.requested, Occupied: max(512, (l.requested+511)/512*512), Inferred: true}
}

// program draws buffers that an allocator could have had: of one address they
// follow each other. Every event has an instant of its own, from 1 on.
func program(t *rapid.T) (all []lived, events int64) {
	// An order of events is drawn: at each address, alloc and free take turns.
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

// record gives a Builder what an allocator that keeps the events from one on
// would record of a program, and the state at the end.
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

// want is the program as the model should have it when the events from one on
// were recorded: the buffers that were alive then or later.
func want(c *lifetime.Capture, all []lived, from, events int64) (buffers []lifetime.Buffer) {
	for _, l := range all {
		if l.end > 0 && l.end < from {
			continue
		}
		b := lifetime.Buffer{Begin: l.begin, End: l.end, Addr: l.addr, Size: l.size, Requested: l.requested, Site: lifetime.SiteID(l.site + 1)}
		if l.begin < from {
			b.Begin, b.Edge = from-1, lifetime.BeginUnseen
			if l.end > 0 { // the free tells its size alone
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

// TestPairing: what is made of the events of a program are its buffers, to the
// last field, whether the recorder has kept all events or only the last ones, and
// whether the reader promises order or not.
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

// moment is a fact and when it happened.
type moment struct {
	at   int64
	fact func()
}

// TestSpacesApart: the facts of one space say nothing of another. Whether they
// come space by space or mixed, each in its own order, the model is the same.
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
