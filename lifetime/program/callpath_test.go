package program_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/program"
)

// TestDeepStacks: call sites at each depth of a stack do not take the square of its depth.
func TestDeepStacks(t *testing.T) {
	read := func(n int) (calls int) {
		tables := &lifetime.Tables{Frames: []frame.Frame{{}, {Kind: frame.User, Function: "f", File: "a.py", Line: 1}}, Stacks: []lifetime.Stack{{}}}
		for i := range n {
			tables.Stacks = append(tables.Stacks, lifetime.Stack{Frame: 1, Caller: lifetime.StackID(i)})
			tables.Sites = append(tables.Sites, lifetime.Site{Stack: lifetime.StackID(i + 1)})
		}
		for _, site := range program.CallPathsOf(tables).Sites {
			calls += len(site.Calls)
		}
		return calls
	}
	if few, many := read(2000), read(4*2000); many > 6*few {
		t.Errorf("4 times the depth: %d calls, not %d", many, few)
	}
}

// TestBlocks: an operator that each block calls twice does not make a block, nor one that makes two buffers, and the layers of an encoder and of a decoder
// both do. Frozen layers that make less are blocks, too, and a block is the whole call, not what makes most of it; but not a net that is called twice.
func TestBlocks(t *testing.T) {
	const mlp = " net/loss/layer/linear:1 net/loss/layer/relu:9 net/loss/layer/linear:2 net/loss/layer/relu:9 net/loss/layer/linear:3"
	const encoder, decoder = " net/loss/layer/sin:8 net/loss/layer/mul:6", " net/loss/decode/layer/cos:9 net/loss/decode/layer/mul:7 net/loss/decode/layer/add:5"
	const frozen, tuned = " net/layer/norm:1 net/layer/mul:2", " net/layer/norm:1 net/layer/sin:3 net/layer/cos:4 net/layer/mul:5"
	const scan = " net/layer/norm/mul:1 net/layer/mix/sin:9 net/layer/mix/mul:9"
	for _, c := range []struct{ made, want string }{
		{strings.Repeat(" net/norm/batch:1 net/norm/batch:2", 3), "[]"},
		{" net/words:1" + strings.Repeat(frozen, 2) + strings.Repeat(tuned, 3), "[[1 2] [3 4] [5 6 7 8] [9 10 11 12] [13 14 15 16]]"},
		{strings.Repeat(scan, 2), "[[0 1 2] [3 4 5]]"},
		{strings.Repeat(" loss/net/words:1"+strings.Repeat(scan, 2), 2), "[[1 2 3] [4 5 6] [8 9 10] [11 12 13]]"},
		{strings.Repeat(mlp, 3), "[[0 1 2 3 4] [5 6 7 8 9] [10 11 12 13 14]]"},
		{" net/loss/relu:9 net/loss/relu:9 net/loss/relu:9 net/loss/relu:9", "[]"},
		{strings.Repeat(encoder, 2) + strings.Repeat(decoder, 2), "[[0 1] [2 3] [4 5 6] [7 8 9]]"},
	} {
		tables := &lifetime.Tables{Frames: []frame.Frame{{}}, Stacks: []lifetime.Stack{{}}}
		var sizes []int64
		for _, of := range strings.Fields(c.made) {
			path, size, _ := strings.Cut(of, ":")
			stack := lifetime.StackID(0)
			calls := strings.Split(path, "/")
			for _, name := range calls {
				tables.Frames = append(tables.Frames, frame.Frame{Kind: frame.User, Function: name, File: "a.py", Line: 1})
				tables.Stacks = append(tables.Stacks, lifetime.Stack{Frame: lifetime.FrameID(len(tables.Frames) - 1), Caller: stack})
				stack = lifetime.StackID(len(tables.Stacks) - 1)
			}
			tables.Sites = append(tables.Sites, lifetime.Site{Stack: stack, Op: calls[len(calls)-1]})
			sizes = append(sizes, int64(size[0]-'0'))
		}
		size := func(i int) int64 { return sizes[i] }
		blocks, _ := program.CallPathsOf(tables).Blocks(len(sizes), func(i int) int32 { return int32(i) }, size, size)
		if got := fmt.Sprint(blocks); got != c.want {
			t.Errorf("%s: blocks %s, not %s", c.made, got, c.want)
		}
	}
}

// TestCalls: calls of the function that blocks run, each by itself: pairs that differ, and one that nothing repeats. A function that is called where a result is
// known, of the program or a module, holds it.
func TestCalls(t *testing.T) {
	tables := &lifetime.Tables{Frames: []frame.Frame{{}}, Stacks: []lifetime.Stack{{}}}
	site := func(calls ...string) { // name:line
		stack := lifetime.StackID(0)
		for _, call := range calls {
			name, line, _ := strings.Cut(call, ":")
			f := frame.Frame{Kind: frame.User, Function: name, File: "a.py"}
			fmt.Sscan(line, &f.Line)
			if strings.HasPrefix(name, "lib") || name == "forward" {
				f.Kind, f.File = frame.Framework, "b.py"
			}
			tables.Frames = append(tables.Frames, f)
			tables.Stacks = append(tables.Stacks, lifetime.Stack{Frame: lifetime.FrameID(len(tables.Frames) - 1), Caller: stack})
			stack = lifetime.StackID(len(tables.Stacks) - 1)
		}
		tables.Sites = append(tables.Sites, lifetime.Site{Stack: stack, Op: calls[len(calls)-1]})
	}
	var sizes []int64
	layer := func(caller, size int, shifts bool) {
		at := fmt.Sprint("net:", caller)
		site(at, "layer:10", "norm:1")
		if shifts {
			site(at, "layer:11", "roll:2")
			sizes = append(sizes, int64(size))
		}
		site(at, "layer:12", "mul:3")
		sizes = append(sizes, int64(size), int64(size))
	}
	layer(1, 5, false)
	layer(1, 5, true)
	for range 2 {
		layer(2, 9, false)
		layer(2, 9, true)
	}
	paths := program.CallPathsOf(tables)
	size := func(i int) int64 { return sizes[i] }
	blocks, calls := paths.Blocks(len(sizes), func(i int) int32 { return int32(i) }, size, size)
	if got, want := fmt.Sprint(blocks, calls), "[[5 6 7 8 9] [10 11 12 13 14]] [[0 1] [2 3 4] [5 6] [7 8 9] [10 11] [12 13 14]]"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

// TestSpans: a call ends where its caller goes on, where its line goes back to what it made first, and, of one line, where it calls that again and what follows it. What a library
// calls in a loop, such as a Sequential, are not as many calls of it.
func TestSpans(t *testing.T) {
	for made, want := range map[string]string{
		"net:1/f:10/mul net:2/f:10/mul net:2/sin":                               "net 0-3, f 0-1, mul 0-1, f 1-2, mul 1-2, sin 2-3",
		"net:1/f:10/mul net:1/f:11/sin net:1/f:10/mul net:1/f:11/sin":           "net 0-4, f 0-2, mul 0-1, sin 1-2, f 2-4, mul 2-3, sin 3-4",
		"net:1/f:10/mul net:1/f:10/sin net:1/f:10/mul net:1/f:10/sin":           "net 0-4, f 0-2, mul 0-1, sin 1-2, f 2-4, mul 2-3, sin 3-4",
		"net:1/f:10/mul net:1/f:10/sin net:1/f:10/mul net:1/f:10/cos":           "net 0-4, f 0-4, mul 0-1, sin 1-2, mul 2-3, cos 3-4",
		"net:1/lib.f:10/mul net:1/lib.f:10/sin net:1/lib.f:10/mul":              "net 0-3, lib.f 0-3, mul 0-1, sin 1-2, mul 2-3",
		"net:1/f:9/cos net:1/f:10/mul net:1/f:11/sin net:1/f:10/mul net:2/f:11": "net 0-5, f 0-4, cos 0-1, mul 1-2, sin 2-3, mul 3-4, f 4-5",
	} {
		tables := &lifetime.Tables{Frames: []frame.Frame{{}}, Stacks: []lifetime.Stack{{}}, Sites: []lifetime.Site{{}}}
		numbers := map[string]int32{}
		var sites []int32
		for path := range strings.FieldsSeq(made) {
			if numbers[path] == 0 {
				caller := lifetime.StackID(0)
				for call := range strings.SplitSeq(path, "/") {
					function, line, _ := strings.Cut(call, ":")
					f := frame.Frame{Kind: frame.User, Function: function, File: "net.py"}
					if fmt.Sscan(line, &f.Line); strings.HasPrefix(function, "lib.") {
						f.Kind = frame.Framework
					}
					tables.Frames = append(tables.Frames, f)
					tables.Stacks = append(tables.Stacks, lifetime.Stack{Frame: lifetime.FrameID(len(tables.Frames) - 1), Caller: caller})
					caller = lifetime.StackID(len(tables.Stacks) - 1)
				}
				numbers[path] = int32(len(tables.Sites))
				tables.Sites = append(tables.Sites, lifetime.Site{Stack: caller})
			}
			sites = append(sites, numbers[path])
		}
		paths := program.CallPathsOf(tables)
		spans, within := paths.Spans(len(sites), func(i int) int32 { return sites[i] })
		begins, names := make([]int, len(spans)), make([]string, len(spans))
		for i, s := range slices.Backward(within) {
			for ; s >= 0; s = spans[s].Caller {
				begins[s], names[s] = i, paths.Calls[paths.Sites[sites[i]].Calls[spans[s].Depth]].Function
			}
		}
		var got []string
		for s, span := range spans {
			got = append(got, fmt.Sprintf("%s %d-%d", names[s], begins[s], span.End))
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("%s: %s, not %s", made, got, want)
		}
	}
}
