package finding_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/judge"
)

// TestReferenceCycle: what waits for the garbage collector is told, by the classes of the cycle, also without a leak and without a history.
func TestReferenceCycle(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "x"})
	s := b.Space()
	at := func(line int) lifetime.SiteID {
		f := b.Frame(frame.Frame{Function: "make", File: "a.py", Line: line, Kind: frame.User})
		return b.Site(lifetime.Site{Stack: b.Call(f, 0)})
	}
	for i, path := range []string{"A -> B -> A", "A -> B -> A", "Loop -> Loop", "", "Tiny -> Tiny"} {
		size := int64(1 << 20)
		if path == "Tiny -> Tiny" {
			size = 512
		}
		addr := uint64(i+1) << 24
		b.Live(s, build.Block{Addr: addr, Requested: size, Occupied: size, Site: at(i)})
		if path != "" {
			b.Hold(s, addr, b.Holder(holder.Holder{Kind: holder.ByCycle, Path: path}))
		}
	}
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.EndState})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range judge.Of(c).Findings() {
		got = append(got, fmt.Sprint(f.Rule, " ", f.Description, " ", f.Confidence, " ", f.Suggestions))
	}
	const advice = " 1 [Break the cycle with del or weakref, or call gc.collect().]"
	want := []string{"reference_cycle make (a.py): the reference cycle A -> B -> A holds 2 buffers (2.00 MiB) until the garbage collector runs" + advice,
		"reference_cycle make (a.py:2): the reference cycle Loop -> Loop holds 1 buffer (1.00 MiB) until the garbage collector runs" + advice}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestHeld: what holds most of the survivors of a leak is its cause, and comes first.
func TestHeld(t *testing.T) {
	variable := func(path, container string) func(int) holder.Holder {
		return func(i int) holder.Holder {
			return holder.Holder{Kind: holder.ByVariable, Path: strings.ReplaceAll(path, "#", string(rune('0'+i%10))), Where: "__main__", Container: container}
		}
	}
	for name, test := range map[string]struct {
		holder       func(i int) holder.Holder
		text, advice string
		cause        finding.Cause
	}{
		"list":  {variable("log.items[#]", "list"), "held by log.items[*] (40 of 40), a list that grows by 1 each step; ", "Clear or bound log.items.", finding.Collection},
		"keys":  {variable("log['step #']", "dict"), "held by log['step *'] (40 of 40), a dict that grows by 1 each step; ", "Clear or bound log.", finding.Collection},
		"cache": {variable("f.<lru_cache>[#]", "dict"), "held by f.<lru_cache>[*] (40 of 40), a dict", "Limit f with maxsize.", finding.UnboundedCache},
		"error": {variable("errors[#].__traceback__.f().x", "list"), "held by errors[*].__traceback__.f().x (40 of 40), ", "Delete the exception: ", finding.FailedAllocations},
		"hook":  {variable("m.#._forward_hooks[0].<closure>.a[#]", "list"), "held by m.*._forward_hooks[*].<closure>.a[*] (40 of 40), ", "Store .detach().cpu()", finding.Hook},
		"graph": {func(int) holder.Holder {
			return holder.Holder{Kind: holder.ByGraph, Path: "losses[3]", Where: "train (a.py:3)", Node: "MulBackward0 (self)"}
		}, "held by the graph of losses[*] of train (a.py:3) (40 of 40); ", "Store .item() or .detach() of losses[*]: ", finding.LossGraph},
		"cycle": {func(int) holder.Holder {
			return holder.Holder{Kind: holder.ByCycle, Path: "A -> B -> A"}
		}, "waits for the garbage collector in a reference cycle: A -> B -> A (40 of 40); ", "Break the reference cycle", finding.ReferenceCycle},
		"some": {func(i int) holder.Holder {
			if i < 15 {
				return variable("other", "")(i)
			}
			return variable("kept[#]", "list")(i)
		}, "held by kept[*] (25 of 40), held by other (15 of 40); ", "Clear or bound kept.", finding.Collection},
		"many": {func(i int) holder.Holder { return variable("x"+strings.Repeat("y", i/10), "")(i) },
			"held by x (10 of 40), held by xy (10 of 40), held by xyy (10 of 40); ", "Delete x when", finding.Collection},
		"unreached": {func(int) holder.Holder { return holder.Holder{Kind: holder.Unreached} }, "40 buffers ", "Find with gc.get_referrers", finding.Collection},
	} {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: "x"})
		s := b.Space()
		site := func(name string) lifetime.SiteID {
			f := b.Frame(frame.Frame{Function: name, File: "a.py", Line: 1, Kind: frame.User})
			return b.Site(lifetime.Site{Stack: b.Call(f, 0)})
		}
		keep, temporary := site("keep"), site("temporary")
		for i := range 40 {
			at, addr := int64(i*10), uint64(i+2)<<12
			b.Mark(s, lifetime.Mark{Begin: at, End: at + 10, Kind: lifetime.Step})
			b.Alloc(s, at+1, build.Block{Addr: addr, Requested: 4096, Occupied: 4096, Site: keep})
			b.Alloc(s, at+2, build.Block{Addr: 1 << 30, Requested: 512, Occupied: 512, Site: temporary})
			b.Free(s, at+3, build.Block{Addr: 1 << 30})
			b.Hold(s, addr, b.Holder(test.holder(i)))
		}
		b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0"})
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		all := judge.Of(c).Findings()
		if len(all) != 1 || all[0].Rule != "leak" {
			t.Errorf("%s: %v", name, all)
			continue
		}
		f := &all[0]
		if text := strings.TrimPrefix(f.Description, "keep (a.py:1): "); !strings.HasPrefix(text, test.text) || !strings.HasPrefix(f.Suggestions[0], test.advice) || f.Cause != test.cause {
			t.Errorf("%s: %q, %q, %v; want %q, %q, %v", name, text, f.Suggestions[0], f.Cause, test.text, test.advice, test.cause)
		}
	}
}

// TestHeldApart: leaks of every step have one cause if one variable holds them, itself or in its graph, and each its own if several do, or
// if nothing is known.
func TestHeldApart(t *testing.T) {
	graph := holder.Holder{Kind: holder.ByGraph, Path: "curve[3]", Where: "__main__", Node: "MeanBackward0 (self)"}
	variable := func(path string) holder.Holder {
		return holder.Holder{Kind: holder.ByVariable, Path: path, Where: "__main__", Container: "list"}
	}
	for name, test := range map[string]struct {
		held   [3]holder.Holder // of the buffers of three lines
		causes [3]string
		last   finding.Cause // of the third line
	}{
		"none":    {[3]holder.Holder{}, [3]string{"a", "b", "c"}, finding.Collection},
		"one":     {[3]holder.Holder{graph, variable("curve[1]"), {}}, [3]string{"c", "c", "c"}, finding.LossGraph},
		"several": {[3]holder.Holder{variable("masks['a']"), variable("log.seen[1]"), graph}, [3]string{"a", "b", "c"}, finding.LossGraph},
		"members": {[3]holder.Holder{variable("log.kept[1].x"), variable("log.seen[1]"), variable("log.kept[2].y")}, [3]string{"c", "b", "c"}, finding.Collection},
	} {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: "x"})
		s := b.Space()
		site := func(name string) lifetime.SiteID {
			f := b.Frame(frame.Frame{Function: name, File: "a.py", Line: 1, Kind: frame.User})
			return b.Site(lifetime.Site{Stack: b.Call(f, 0)})
		}
		sites, temporary := [3]lifetime.SiteID{site("a"), site("b"), site("c")}, site("temporary")
		for i := range int64(40) {
			b.Mark(s, lifetime.Mark{Begin: i * 10, End: i*10 + 10, Kind: lifetime.Step})
			for k, of := range sites {
				addr, size := uint64(3*i+int64(k)+2)<<20, int64(k+1)<<16
				b.Alloc(s, i*10+1+int64(k), build.Block{Addr: addr, Requested: size, Occupied: size, Site: of})
				if h := test.held[k]; h.Kind != holder.None {
					b.Hold(s, addr, b.Holder(h))
				}
			}
			b.Alloc(s, i*10+5, build.Block{Addr: 1 << 30, Requested: 512, Occupied: 512, Site: temporary})
			b.Free(s, i*10+6, build.Block{Addr: 1 << 30})
		}
		b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0"})
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		got, last := map[string]string{}, finding.NoCause
		for _, f := range judge.Of(c).Findings() {
			if c.PlaceOf(f.Place()).Frame.Function == "c" {
				last = f.Cause
			}
			got[c.PlaceOf(f.Place()).Frame.Function] = strings.TrimSuffix(f.Text(finding.FigCausePlace), " (a.py:1)")
		}
		if last != test.last {
			t.Errorf("%s: the cause of c is %s, want %s", name, last, test.last)
		}
		for k, of := range []string{"a", "b", "c"} {
			if got[of] != test.causes[k] {
				t.Errorf("%s: the cause of %s is that of %q, want %q", name, of, got[of], test.causes[k])
			}
		}
	}
}
