package torchsnap_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// TestNames: every allocation of names.py has the name that follows from the program, with C++ stacks and with Python
// stacks. The numbers of allocations are for two steps.
func TestNames(t *testing.T) {
	both := map[string]int{
		"524288 __init__ (names.py:20)": 1, "262144 __init__ (names.py:21)": 1, "32768 __init__ (names.py:22)": 1,
		"307200 <module> (names.py:35)": 2, "614400 forward (names.py:24)": 2, "614400 forward (names.py:25)": 2,
		"153600 forward (names.py:26)": 2, "153600 forward (names.py:27)": 2, "153600 forward (names.py:11)": 2,
		"76800 forward (names.py:29)": 2, "4 <module> (names.py:37)": 2, "4 <module> (names.py:38)": 2,
		"153600 backward (names.py:15)": 4,
	}
	engine := map[string]int{
		// The first operand of the first product needs no gradient, so it is not known which node has which of these.
		"153600 MmBackward0 (backward)": 2, "614400 MmBackward0 (backward)": 2,
		"76800 MmBackward0 (backward)":                           4, // copies of the gradient of the sum, which has no memory of its own
		"524288 MmBackward0 (backward) of names.py:24, inferred": 2, "262144 MmBackward0 (backward) of names.py:26, inferred": 2,
		"32768 MmBackward0 (backward) of names.py:29, inferred":    2,
		"614400 ReluBackward0 (backward) of names.py:25, inferred": 2, "153600 ReluBackward0 (backward) of names.py:27, inferred": 2,
	}
	inThread := map[string]int{
		"153600 thread without Python (backward)": 4, "614400 thread without Python (backward)": 4, "524288 thread without Python (backward)": 2,
		"76800 thread without Python (backward)": 4, "262144 thread without Python (backward)": 2, "32768 thread without Python (backward)": 2,
	}
	for file, backward := range map[string]map[string]int{"names_all": engine, "t215_names": engine, "names_python": inThread} {
		want := maps.Clone(both)
		maps.Copy(want, backward)
		c := open(t, captures+"/"+file+".pickle")
		for i := range c.Spaces[0].Buffers {
			b := &c.Spaces[0].Buffers[i]
			name := fmt.Sprintf("%d %s", b.Requested, c.PlaceOf(b.Site))
			switch {
			case want[name] > 0:
				want[name]--
			case strings.HasSuffix(name, "<module> (names.py:39)"): // the optimizer's states and results
			case b.Requested == 8519680: // a workspace of cuBLAS for each thread, at its first product
			default:
				t.Errorf("%s: an allocation of %s", file, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if want[name] > 0 {
				t.Errorf("%s: %d allocations of %s are missing", file, want[name], name)
			}
		}
	}
}

// TestNoPlumbing: no site is named by the unwinder, the dispatcher, the allocator or the interpreter.
func TestNoPlumbing(t *testing.T) {
	for _, file := range []string{"names_all", "t215_names", "mode_cpp"} {
		c := open(t, captures+"/"+file+".pickle")
		for i := range c.Sites {
			switch p := c.PlaceOf(lifetime.SiteID(i)); p.Frame.Kind {
			case frame.Plumbing, frame.Unwinder, frame.Interpreter, frame.Native:
				t.Errorf("%s: a site is named %s", file, p)
			}
		}
	}
}
