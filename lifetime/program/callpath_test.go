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
		blocks := program.CallPathsOf(tables).Blocks(len(sizes), func(i int) int32 { return int32(i) }, size, size)
		if got := fmt.Sprint(blocks); got != c.want {
			t.Errorf("%s: blocks %s, not %s", c.made, got, c.want)
		}
	}
}
