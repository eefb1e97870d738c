package category_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/selection"
)

// TestOlder: what buffers from before the recording are. A program stopped recording and began again, so that the allocator still knows
// their stacks, also without any history; those of the engine's threads have no stack. And weights that are as large as a workspace, and
// what functions of libraries make that say so by their name.
func TestOlder(t *testing.T) {
	for _, name := range []string{"python", "all", "state_python", "state_all", "hopper", "state_serve", "state_megatron"} {
		checkAddresses(t, "older/"+name, lifetime.BeginUnseen)
	}
}

// TestCopied: a module that copies the model before the recording, such as an EMA, has parameters. A list of weights looks alike but for the
// buffers of modules, and stays unknown.
func TestCopied(t *testing.T) {
	checkAddresses(t, "older/copied", lifetime.BeginUnseen)
	checkAddresses(t, "older/listed", lifetime.BeginUnseen)
}

// TestMoved: a model is moved to the device with its gradients and buffers, with a history and without.
func TestMoved(t *testing.T) {
	checkAddresses(t, "older/moved", lifetime.EndOpen)
	checkAddresses(t, "older/state_moved", lifetime.BeginUnseen)
}

// TestReplaced: an own optimizer puts new parameters, in two lines, and new states in the place of old ones.
func TestReplaced(t *testing.T) { checkAddresses(t, "older/replaced", lifetime.EndOpen) }

// TestReturned: a function returns the result of a pass, and its caller drops that when it has the next one. Between passes only zero_grad is
// recorded, which ends a call.
func TestReturned(t *testing.T) { checkAddresses(t, "older/returned", lifetime.EndOpen) }

// TestCompiled: what a compiled model keeps for a backward pass that is not recorded, though nearly all that it allocated was for the
// compiler, which frees it. The functions of torch.compile that run it are no modules.
func TestCompiled(t *testing.T) {
	c := checkAddresses(t, "compiled/compiled", lifetime.EndOpen)
	s := c.Spaces[0]
	for i := range s.Buffers {
		p := c.Purpose(s.PurposeOf(i))
		if p.Category == purpose.Activation && !strings.HasPrefix(p.Module, "compiled.py:") {
			t.Errorf("an activation of module %q", p.Module)
		}
		if s.Buffers[i].Requested == 1024 && s.Buffers[i].Edge&lifetime.BeginUnseen == 0 && (p.Category != purpose.TemporaryData ||
			p.Phase != purpose.OtherPhase) {
			t.Errorf("%d bytes of the compiler are %s of %s", s.Buffers[i].Requested, p.Category, p.Phase)
		}
	}
}

// untold are captures that do not tell parameters from before the recording: they have no gradients.
var untold = map[string]bool{"older/hopper": true, "compiled/compiled": true}

// checkAddresses compares the categories of buffers with an edge to what the program knew of their addresses.
func checkAddresses(t *testing.T, name string, edge lifetime.Edge) *lifetime.Capture {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../testdata/meaning", name+".categories.json"))
	if err != nil {
		t.Fatal(err)
	}
	truth := map[string]string{}
	if err := json.Unmarshal(data, &truth); err != nil {
		t.Fatal(err)
	}
	c, err := open(filepath.Join("../../testdata/meaning", name+".pickle.zst"), formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	s := c.Spaces[0]
	for i := range s.Buffers {
		b := &s.Buffers[i]
		want := truth["0x"+strconv.FormatUint(b.Addr, 16)]
		if b.Edge&edge == 0 || want == "" {
			continue
		}
		found++
		p := c.Purpose(s.PurposeOf(i))
		if last := i >= len(s.Buffers)-4; last && name == "compiled/compiled" && p.Category == purpose.UnknownCategory {
			continue // the recording ends in the pass, which may still use it
		}
		if untold[name] && want == "parameter" && b.Edge&lifetime.BeginUnseen != 0 && p.Category == purpose.UnknownCategory {
			continue
		}
		if p.Category.String() != want {
			t.Errorf("%s: %d bytes of site %d are %s with %v, want %s", name, b.Requested, b.Site, p.Category, p.Confidence, want)
		}
	}
	if found != len(truth) {
		t.Errorf("%s: %d buffers, want %d", name, found, len(truth))
	}
	return c
}

// TestOneInstant: what is alive when a snapshot without history is taken may be anything, though a backward pass has run.
func TestOneInstant(t *testing.T) {
	b := build.New(build.Everything)
	space := b.Space()
	b.NoHistory(space)
	b.Describe(space, lifetime.SpaceInfo{Source: b.Source(lifetime.Source{Format: "torch-snapshot"}), Device: "cuda:0",
		Facts: lifetime.EndState})
	var frames []lifetime.FrameID
	for _, function := range []string{"at::cuda::getNewWorkspace()",
		"at::_ops::mm::redispatch(c10::DispatchKeySet, at::Tensor const&, at::Tensor const&)",
		"torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor>&&)"} {
		frames = append(frames, b.Frame(frame.Frame{Function: function, Kind: frame.KindOf(function, "")}))
	}
	site := b.Site(lifetime.Site{Stack: b.Stack(frames)})
	b.Live(space, build.Block{Addr: 1 << 40, Requested: 8519680, Occupied: 8519680, Site: site})
	for i := range 40 {
		size := int64(1+i%4) << 20
		b.Live(space, build.Block{Addr: 1<<41 + uint64(i)<<23, Requested: size, Occupied: size})
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	category.NewJudge(&c.Tables).Add(c.Spaces[0])
	workspaces := 0
	for i := range c.Spaces[0].Buffers {
		switch p := c.Purpose(c.Spaces[0].PurposeOf(i)); p.Category {
		case purpose.Workspace:
			workspaces++
		case purpose.UnknownCategory:
		default:
			t.Fatalf("a buffer is %s by %s", p.Category, p.Rule)
		}
	}
	if workspaces != 1 {
		t.Errorf("%d workspaces", workspaces)
	}
}

// TestOlderThanKnown: where parameters have a stack, all others of their sizes from before the recording are states, and no parameters
// for having the lowest addresses.
func TestOlderThanKnown(t *testing.T) {
	c, err := shared("../../testdata/meaning/principles/w02.pickle.zst")
	if err != nil {
		t.Fatal(err)
	}
	s := c.Spaces[0]
	at := s.Buffers[len(s.Buffers)/2].Begin + 1
	part := selection.Slice(c, at, s.End)
	cut := part.Spaces[0]
	var known []purpose.Category
	for i, was := range categoriesOf(c, s) {
		if b := &s.Buffers[i]; b.Edge&lifetime.EndOpen != 0 || b.End > at {
			known = append(known, was)
		}
	}
	states := 0
	for i := range cut.Buffers {
		if b := &cut.Buffers[i]; b.Edge&lifetime.BeginUnseen != 0 && known[i] != purpose.ModelParameter {
			b.Site, b.Edge = 0, b.Edge|lifetime.SiteFromFree
		}
	}
	for i, now := range categoriesOf(part, cut) {
		if b := &cut.Buffers[i]; b.Edge&lifetime.BeginUnseen != 0 && known[i] == purpose.OptimizerState {
			if states++; now != known[i] && now != purpose.UnknownCategory {
				t.Errorf("a state of %d bytes is %v", b.Requested, now)
			}
		}
	}
	if states == 0 {
		t.Error("no states")
	}
}
