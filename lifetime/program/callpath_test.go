package program_test

import (
	"fmt"
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
	n := int32(len(tables.Sites))
	site("net:1", "mul:1")
	site("net:2", "forward:5", "lib:7")
	site("net:2", "libs:5", "lib:7")
	site("net:3", "layer:10")
	paths = program.CallPathsOf(tables)
	for next, want := range map[int32]int{1: 2, 2: 0, 3: 2} {
		if got := paths.Deeper(n, n+next); got != want {
			t.Errorf("site %d: depth %d, not %d", next, got, want)
		}
	}
}
