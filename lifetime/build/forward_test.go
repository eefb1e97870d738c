package build

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// TestForwardOfNodes: which line of the forward pass a node is named by. Histories are lists of allocations: "mm 3" is an
// operator called in line 3, "Mm" a node of it. Nodes without a line are not named.
func TestForwardOfNodes(t *testing.T) {
	for _, c := range []struct{ what, history, want string }{
		{"nodes run in reverse", "mm 1,mm 2,mm 3,Mm,Mm,Mm", "3 2 1"},
		{"two buffers for each node", "mm 1,mm 2,Mm,Mm,Mm,Mm", "2 2 1 1"},
		{"two buffers for each call", "mm 1,mm 1,mm 2,mm 2,Mm,Mm", "2 1"},
		{"two calls in other lines are not one", "mm 1,mm 2,mm 1,mm 2,Mm,Mm", "- -"},
		{"a node is missing: which one is not known", "mm 1,mm 2,mm 3,Mm,Mm", "- -"},
		{"a node is missing, but there is one line", "mm 7,mm 7,mm 7,Mm,Mm", "7 7"},
		{"more nodes than calls: some were in place", "mm 7,mm 7,Mm,Mm,Mm", "- - -"},
		{"the next pass counts from its own calls", "mm 1,mm 2,Mm,Mm,mm 3,mm 4,Mm,Mm", "2 1 4 3"},
		{"operators do not mix", "mm 1,add_Tensor 2,mm 3,Add,Mm,Mm", "2 3 1"},
		{"two words", "native_layer_norm 4,_softmax 5,Softmax,NativeLayerNorm", "5 4"},
		{"no call", "Mm", "-"},
	} {
		b := New(0)
		b.Source(lifetime.Source{})
		s := b.Space()
		b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0"})
		nodes := 0
		for i, text := range strings.Split(c.history, ",") {
			op, line, forward := strings.Cut(text, " ")
			if !forward {
				nodes++
			}
			b.Alloc(s, int64(10*(i+1)), sized(uint64(i+1)<<20, 512, stackOf(b, op, line)))
		}
		made, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		buffers := made.Spaces[0].Buffers
		for i := range buffers {
			p := made.PlaceOf(buffers[i].Site)
			switch {
			case p.Node == "":
			case p.Frame == frame.Frame{}:
				lines = append(lines, "-")
			default:
				if !p.Inferred {
					t.Errorf("%s: %s is not marked", c.what, p)
				}
				lines = append(lines, fmt.Sprint(p.Frame.Line))
			}
		}
		if got := strings.Join(lines, " "); got != c.want || len(lines) != nodes {
			t.Errorf("%s: %s: lines %s, want %s", c.what, c.history, got, c.want)
		}
	}
}

// TestForwardInOrder: the sites of nodes have the same numbers each time.
func TestForwardInOrder(t *testing.T) {
	var first []lifetime.Site
	for range 10 {
		b := New(0)
		b.Source(lifetime.Source{})
		s := b.Space()
		b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0"})
		for i, op := range []string{"mm 1", "add 2", "mul 3", "div 4", "Mm", "Add", "Mul", "Div"} {
			op, line, _ := strings.Cut(op, " ")
			b.Alloc(s, int64(10*(i+1)), sized(uint64(i+1)<<20, 512, stackOf(b, op, line)))
		}
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = c.Sites
		}
		if !slices.Equal(c.Sites, first) {
			t.Fatalf("sites\n%v\nand\n%v", c.Sites, first)
		}
	}
}

// stackOf returns the site of an operator called in a line, or of a node of the backward pass if line is "".
func stackOf(b *Builder, op, line string) lifetime.SiteID {
	functions := []string{"torch::unwind::unwind()", "at::_ops::" + op + "::call(at::Tensor const&)",
		"torch::autograd::generated::" + op + "Backward0::apply(std::vector<at::Tensor>&&)", "torch::autograd::Engine::thread_main()"}
	if line != "" {
		functions = []string{"torch::unwind::unwind()", "at::_ops::" + op + "::redispatch(c10::DispatchKeySet)",
			"at::_ops::" + op + "::call(at::Tensor const&)"}
	}
	var frames []lifetime.FrameID
	for _, f := range functions {
		frames = append(frames, b.Frame(frame.Frame{Function: f, File: "??", Kind: frame.KindOf(f, "??")}))
	}
	if line != "" {
		n := slices.Index(strings.Split("0123456789", ""), line)
		frames = append(frames, b.Frame(frame.Frame{Function: "forward", File: "/x/model.py", Line: n}))
	}
	return b.Site(lifetime.Site{Stack: b.Stack(frames)})
}
