package finding_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/loss"
)

// TestSeries: growth by call site over captures that hold only what is alive.
func TestSeries(t *testing.T) {
	for name, c := range map[string]struct {
		bytes [][]int64 // by capture, of the sites a, b and so on
		want  string
	}{
		"one grows":             {[][]int64{{100, 25}, {100, 49}, {100, 98}}, "b [25 49 98]"},
		"two captures":          {[][]int64{{100, 25}, {100, 49}}, ""},
		"it falls back":         {[][]int64{{10}, {30}, {20}, {40}}, ""},
		"it stops":              {[][]int64{{10}, {20}, {20}}, ""},
		"from nothing":          {[][]int64{{10, 0}, {10, 5}, {10, 9}}, "b [0 5 9]"},
		"most growth first":     {[][]int64{{10, 10}, {11, 20}, {12, 30}}, "b [10 20 30], a [10 11 12]"},
		"less than a hundredth": {[][]int64{{1000, 1}, {1000, 2}, {1000, 3}}, ""},
		"gone at the end":       {[][]int64{{10, 1}, {10, 2}, {10, 0}}, ""},
	} {
		var series finding.Series
		for _, bytes := range c.bytes {
			b := build.New(build.Everything)
			b.Source(lifetime.Source{File: "f", Format: "jaxprof"})
			s := b.Space()
			b.Describe(s, lifetime.SpaceInfo{Device: "gpu:0", Axis: lifetime.Event, Facts: lifetime.EndState})
			for i, n := range bytes {
				if n > 0 {
					site := b.Site(lifetime.Site{Op: string(rune('a' + i))})
					b.Live(s, build.Block{Addr: uint64(i+1) << 30, Requested: n << 20, Occupied: n << 20, Site: site})
				}
			}
			capture, err := b.Finish()
			if err != nil {
				t.Fatal(err)
			}
			series.Add(capture)
		}
		got := ""
		for i, g := range series.Growing() {
			if i > 0 {
				got += ", "
			}
			mib := slices.Clone(g.Bytes)
			for k := range mib {
				mib[k] >>= 20
			}
			got += fmt.Sprintf("%s %v", g.Place, mib)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestSeriesFindings: captures without a history are one judgement, by the bytes of call sites and by the number of compiled programs. Others are
// judged alone.
func TestSeriesFindings(t *testing.T) {
	for name, c := range map[string]struct {
		bytes, programs []int64
		facts           lifetime.Facts
		size            int64 // of each buffer; 0 = one has all bytes
		want            string
	}{
		"a leak":         {[]int64{10, 20, 30}, []int64{3, 3, 3}, lifetime.EndState, 10, "[a: grows from 10 B to 30 B over 3 captures, more in each: Do not keep] of 3"},
		"a larger batch": {[]int64{10, 20, 30}, []int64{3, 3, 3}, lifetime.EndState, 0, "[a: grows from 10 B to 30 B over 3 captures, more in each: Pad to a] of 3"},
		"larger later":   {[]int64{0, 20, 30, 40}, []int64{3, 3, 3, 3}, lifetime.EndState, 0, "[a: grows from 0 B to 40 B over 4 captures, more in each: Pad to a] of 4"},
		"healthy":        {[]int64{10, 30, 30, 30}, []int64{3, 4, 4, 4}, lifetime.EndState, 0, "[] of 4"},
		"compiled again": {[]int64{10, 10, 10}, []int64{9, 17, 25}, lifetime.EndState, 0, "[compiled programs (executables) grow from 9 to 25 over 3 captures, more in each: Pad inputs to] of 3"},
		"too few":        {[]int64{10, 20}, []int64{1, 2}, lifetime.EndState, 0, "[] of 0"},
		"with histories": {[]int64{10, 20, 30}, []int64{1, 2, 3}, lifetime.EndState | lifetime.History, 0, "[] of 0"},
	} {
		var series finding.Series
		for i, n := range c.bytes {
			b := build.New(build.Everything)
			b.Source(lifetime.Source{File: "f", Format: "jaxprof"})
			s := b.Space()
			b.Describe(s, lifetime.SpaceInfo{Device: "gpu:0", Axis: lifetime.Event, Facts: c.facts})
			each := cmp.Or(c.size, n)
			for at := int64(0); at < n; at += each {
				b.Live(s, build.Block{Addr: uint64(1<<30 + at), Requested: each, Occupied: each, Site: b.Site(lifetime.Site{Op: "a"})})
			}
			b.Lose(loss.UnknownSize, c.programs[i], 0, "")
			capture, err := b.Finish()
			if err != nil {
				t.Fatal(err)
			}
			series.Add(capture)
		}
		var got []string
		for _, f := range series.Findings() {
			words := strings.SplitN(f.Suggestions[0], " ", 4)
			got = append(got, f.Description+": "+strings.Join(words[:min(3, len(words)-1)], " "))
			if f.Rule != "series" || f.Severity != finding.Warning || len(f.Suggestions) != 1 {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if text := fmt.Sprintf("%s of %d", got, series.Captures()); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

// TestSeriesStack: of one line that several callers reach, the finding has the stack with most memory, not the last.
func TestSeriesStack(t *testing.T) {
	var series finding.Series
	for n := range int64(3) {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: "f", Format: "jaxprof"})
		s := b.Space()
		b.Describe(s, lifetime.SpaceInfo{Device: "gpu:0", Axis: lifetime.Event, Facts: lifetime.EndState | lifetime.Stacks})
		for i, caller := range []string{"step", "warm"} {
			outer := b.Call(b.Frame(frame.Frame{Function: caller, File: "/w/train.py", Line: 9 + i, Kind: frame.User}), 0)
			site := b.Site(lifetime.Site{Stack: b.Call(b.Frame(frame.Frame{Function: "keep", File: "/w/train.py", Line: 3, Kind: frame.User}), outer)})
			b.Live(s, build.Block{Addr: uint64(i+1) << 30, Requested: 1, Occupied: 100*(n+1)*int64(1-i) + 7, Site: site})
		}
		capture, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		series.Add(capture)
	}
	all := series.Findings()
	if len(all) != 1 {
		t.Fatal(all)
	}
	text := ""
	for f := range all[0].Of.FramesOf(all[0].Of.Sites[all[0].Sites[0]].Stack) {
		text += f.Function + " "
	}
	if text != "keep step " {
		t.Error(text)
	}
}
