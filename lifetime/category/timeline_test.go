package category_test

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/native"
	"github.com/memlane/memlane/lifetime/purpose"
)

// names of the categories of PyTorch's memory timeline, by number (torch/profiler/_memory_profiler.py, _CATEGORY_TO_INDEX), as memlane
// names them.
var names = []string{"parameter", "optimizer_state", "input", "temporary", "activation", "gradient", "autograd detail", "unknown"}

const newVersion = 3 // action of the two rows of a tensor that is written

// versions is a raw timeline in which a tensor becomes an activation, and one a gradient, when they are written.
const versions = `[[-1, 1, 100, 0], [5000, 2, 64, 3], [6000, 2, 32, 7], [7000, 3, -64, 3], [7000, 3, 64, 4],
[7500, 3, -32, 7], [7500, 3, 32, 5],
[8000, 4, -64, 4], [9000, 4, -32, 5], [9500, 2, 8, 1]]`

// change is a row: bytes that a category gains or loses.
type change struct {
	at    int64
	bytes int64
	name  string
}

// TestTimelines: the sums of the categories change as in the file's rows, in their order and at their instants. The model separates
// rows of one instant by a nanosecond.
func TestTimelines(t *testing.T) {
	files, err := filepath.Glob("../../testdata/chrome/*.timeline.raw.json.gz")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	file := filepath.Join(t.TempDir(), "versions.json")
	if err := os.WriteFile(file, []byte(versions), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, file) {
		want := rawChanges(t, file)
		c, err := open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		s := c.Spaces[0]
		var got []change
		for i := range s.Buffers {
			p := c.Purpose(s.PurposeOf(i))
			b := &s.Buffers[i]
			got = append(got, change{b.Begin, b.Requested, p.Name()})
			if b.Edge&lifetime.EndOpen == 0 {
				got = append(got, change{b.End, -b.Requested, p.Name()})
			}
		}
		slices.SortFunc(got, func(x, y change) int { return cmp.Compare(x.at, y.at) })
		if len(got) != len(want) {
			t.Fatalf("%s: %d changes, want %d", filepath.Base(file), len(got), len(want))
		}
		for i, w := range want {
			g := got[i]
			if g.bytes != w.bytes || g.name != w.name || w.at >= 0 && (g.at < w.at || g.at > w.at+10) {
				t.Fatalf("%s, change %d: %v, want %v", filepath.Base(file), i, g, w)
			}
		}
	}
}

// rawChanges returns the rows of a raw timeline, without new versions of the same category.
func rawChanges(t *testing.T, file string) (all []change) {
	rows := rawRows(t, file)
	for i, row := range rows {
		pair := i
		if row[2] >= 0 {
			pair = i - 1
		}
		if row[1] == newVersion && rows[pair][3] == rows[pair+1][3] {
			continue
		}
		all = append(all, change{row[0], row[2], names[row[3]]})
	}
	return all
}

// rawRows returns the rows of a raw timeline: instant, action, bytes that are added, and category.
func rawRows(t *testing.T, file string) (rows [][4]int64) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.NewDecoder(in).Decode(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestTimelineSums: in the form with sums, each category is a space of its own, and its usage is the column of the file, whose times are
// microseconds.
func TestTimelineSums(t *testing.T) {
	const file = "../../testdata/chrome/cpu_leak.timeline.json.gz"
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var columns []json.RawMessage
	var times []int64
	var sums [][]int64
	if err := json.NewDecoder(in).Decode(&columns); err != nil || len(columns) != 2 {
		t.Fatal(err)
	}
	if json.Unmarshal(columns[0], &times) != nil || json.Unmarshal(columns[1], &sums) != nil {
		t.Fatal("not a timeline")
	}
	c, err := open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for k, name := range names {
		name = strings.Replace(name, "_", " ", 1)
		for _, s := range c.Spaces {
			if s.Memory != "timeline/"+name {
				continue
			}
			at := map[int64]int64{}
			for _, total := range s.Totals {
				at[total.T] = total.Bytes
			}
			for i := range times {
				if want := sums[i][k+1]; at[1000*times[i]] != want && (i+1 == len(times) || times[i+1] != times[i]) {
					t.Errorf("%s at %d: %d bytes, want %d", name, times[i], at[1000*times[i]], want)
				}
				compared++
			}
		}
	}
	if compared == 0 {
		t.Error("no spaces for categories")
	}
}

// TestScopes: names of operations of JAX and TensorFlow tell modules and phases.
func TestScopes(t *testing.T) {
	for _, file := range []string{"jax_train.jit_train_step.hlo.pb", "tf_graph.xplane.pb"} {
		c, err := open("../../testdata/xplane/"+file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, s := range c.Spaces {
			for i := range s.Buffers {
				p := c.Purpose(s.PurposeOf(i))
				op := c.Sites[s.Buffers[i].Site].Op
				found[p.Name()+" "+p.Phase.String()+" "+p.Module] = true
				if backward := strings.Contains(op, "transpose(") || strings.HasPrefix(op,
					"gradient_tape/"); backward != (p.Phase == purpose.Backward) {
					t.Errorf("%s: phase %v", op, p.Phase)
				}
			}
		}
		for _, want := range map[string][]string{
			"jax_train.jit_train_step.hlo.pb": {"parameter unknown ", "input unknown ", "activation forward layer0", "temporary backward layer1",
				"output backward layer2"},
			"tf_graph.xplane.pb": {"unknown backward head/matmul_1", "unknown forward encoder", "temporary backward head/add_1"},
		}[file] {
			if !found[want] {
				t.Errorf("%s: no %q in %v", file, want, found)
			}
		}
	}
}

// TestProgramCategories: arguments and results of compiled programs are categories of their own if no name tells more. What a scanned
// forward pass stacks for the backward pass is an activation, although the compiler allocates it without a scope.
func TestProgramCategories(t *testing.T) {
	for file, want := range map[string][]string{
		"jax_donate.jit_donated.hlo.pb":   {"argument", "temporary"},
		"scan_layers.hlo.pb.zst":          {"activation", "argument", "constant", "input", "output", "temporary"},
		"jax_train.jit_train_step.hlo.pb": {"activation", "constant", "input", "output", "parameter", "temporary"},
	} {
		c, err := open("../../testdata/xplane/"+file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, s := range c.Spaces {
			for i, b := range s.Buffers {
				found[c.Category(&s.SpaceInfo, b.Kind, b.Site, s.PurposeOf(i))] = true
			}
		}
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
			t.Errorf("%s: categories %q, want %q", file, got, want)
		}
	}
}

// TestMoments: m and v are the moments of the argument that has their tree and shapes, if there is one such argument alone.
func TestMoments(t *testing.T) {
	for _, k := range []struct{ names, want string }{
		{"w m v x", "parameter optimizer_state optimizer_state input"},
		{"w m v ema", "argument argument argument argument"},
		{"carry[0] carry[1] carry[2]", "argument argument argument"},
	} {
		text := "memlane native 2\nsource format=\"hlo\" producer=\"a test\"\n" +
			"space source=0 module=\"m\" memory=\"space0\" axis=\"program order\" begin=-1 end=+1 facts=\"\"\n"
		for i, name := range strings.Fields(k.names) {
			shape := "f32[8,8]{1,0}"
			if name == "x" {
				shape = "f32[2,8]{1,0}"
			}
			text += fmt.Sprintf("site %d stack=0 op=%q module=\"\" shape=%q dtype=\"f32\" instr=\"p%d\" opcode=\"parameter\"\n", i+1, name, shape, i)
			text += fmt.Sprintf("buffer +0 +1 0x%d000 256 256 site=%d edge=end-open kind=parameter\n", i, i+1)
		}
		b := build.New(build.Everything)
		if err := native.Read("", strings.NewReader(text), b); err != nil {
			t.Fatal(err)
		}
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		category.Of(c, nil)
		s := c.Spaces[0]
		var got []string
		for i, b := range s.Buffers {
			got = append(got, c.Category(&s.SpaceInfo, b.Kind, b.Site, s.PurposeOf(i)))
		}
		if strings.Join(got, " ") != k.want {
			t.Errorf("%s: %q, want %s", k.names, got, k.want)
		}
	}
}
