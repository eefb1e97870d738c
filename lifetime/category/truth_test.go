package category_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

const testdata = "../../testdata/meaning"

var meaning = testdata

func init() {
	flag.StringVar(&meaning, "meaning", meaning, "the folder with captures and truths that TestTruth reads")
}

// truth is what the program of a capture knew about each buffer. testdata/README.md has its origin.
type truth struct {
	Program, Stacks, Window string
	PeakEvent               int64               `json:"peak_event"`
	Rows                    []row               `json:"-"`
	Columns                 []string            `json:"columns"`
	Cells                   [][]json.RawMessage `json:"rows"`
	Modules                 map[string]string   `json:"chrome_modules"` // path -> name in the trace
}

// row is one buffer.
type row struct {
	alloc, free *int64 // number of the event; nil: before or after the recording
	addr        uint64
	size        int64

	category, phase, module string
	roles                   []string
}

// read sets the rows from cells.
func (t *truth) read() error {
	for _, cells := range t.Cells {
		var r row
		fields := map[string]any{
			"alloc": &r.alloc, "addr": &r.addr, "size": &r.size, "free": &r.free, "category": &r.category, "phase": &r.phase,
			"module": &r.module, "roles": &r.roles,
		}
		for i, name := range t.Columns {
			if field := fields[name]; field != nil {
				if err := json.Unmarshal(cells[i], field); err != nil {
					return err
				}
			}
		}
		t.Rows = append(t.Rows, r)
	}
	return nil
}

// atPeak reports whether the buffer was alive at the peak of the requested bytes.
func (r *row) atPeak(peak int64) bool {
	return (r.alloc == nil || *r.alloc <= peak) && (r.free == nil || *r.free > peak)
}

// truths are the truths that were read.
var truths = map[string]truth{}

func readTruth(t *testing.T, name string) truth {
	t.Helper()
	if all, ok := truths[name]; ok {
		return all
	}
	f, err := os.Open(filepath.Join(meaning, name+".truth.json.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	var all truth
	if err := json.NewDecoder(plain).Decode(&all); err != nil {
		t.Fatal(err)
	}
	if err := all.read(); err != nil {
		t.Fatal(err)
	}
	truths[name] = all
	return all
}

// judged is a buffer and its answer.
type judged struct {
	row
	purpose.Purpose
}

func (j *judged) right() bool { return j.category == j.Category.String() }

// answers returns the answers of a capture. A trace has no buffers from before the recording.
func answers(t *testing.T, file string, all truth) (found []judged) {
	t.Helper()
	c, err := shared(filepath.Join(meaning, file))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(c.Spaces, func(s *lifetime.Space) bool { return s.Device == "cuda:0" })
	s := c.Spaces[i]
	var seen []purpose.Purpose
	unseen := map[uint64]purpose.Purpose{}
	for k, b := range s.Buffers {
		if b.Edge&lifetime.BeginUnseen != 0 {
			unseen[b.Addr] = c.Purpose(s.PurposeOf(k))
		} else {
			seen = append(seen, c.Purpose(s.PurposeOf(k)))
		}
	}
	rows := slices.DeleteFunc(slices.Clone(all.Rows), func(r row) bool { return r.alloc == nil })
	slices.SortFunc(rows, func(x, y row) int { return cmp.Compare(*x.alloc, *y.alloc) })
	if len(rows) != len(seen) {
		t.Fatalf("%s: %d buffers, want %d", file, len(seen), len(rows))
	}
	for k, r := range rows {
		found = append(found, judged{r, seen[k]})
	}
	for _, r := range all.Rows {
		if p, ok := unseen[r.addr]; r.alloc == nil && ok {
			found = append(found, judged{r, p})
		}
	}
	return found
}

// score counts right answers.
type score struct{ right, all, rightBytes, bytes int64 }

func (s *score) add(right bool, size int64) {
	s.all++
	s.bytes += size
	if right {
		s.right++
		s.rightBytes += size
	}
}

func (s *score) percent() float64 { return 100 * float64(s.rightBytes) / float64(max(s.bytes, 1)) }

func (s *score) String() string {
	return fmt.Sprintf("%6.2f %% of %7.1f MiB, %6.2f %% of %6d", s.percent(), float64(s.bytes)/(1<<20),
		100*float64(s.right)/float64(max(s.all, 1)), s.all)
}

// table is the accuracy over captures.
type table struct {
	peak, end, whole, unknown score // categories; unknown: share without an answer at the peak
	phases, modules           score
	rules                     map[string]*score
	steps                     map[float32]*score // by confidence
	confusion                 map[string]int64   // bytes at the peak: truth -> answer
}

func newTable() *table {
	return &table{rules: map[string]*score{}, steps: map[float32]*score{}, confusion: map[string]int64{}}
}

func (t *table) add(all truth, found []judged) {
	for i := range found {
		j := &found[i]
		t.whole.add(j.right(), j.size)
		if j.atPeak(all.PeakEvent) {
			t.peak.add(j.right(), j.size)
			t.unknown.add(j.Category == purpose.UnknownCategory, j.size)
			if !j.right() {
				t.confusion[j.category+" -> "+j.Category.String()+" ("+j.Rule+")"] += j.size
			}
		}
		if j.free == nil {
			t.end.add(j.right(), j.size)
		}
		if j.alloc != nil {
			t.phases.add(j.phase == j.Phase.String(), j.size)
		}
		if j.Rule != "" {
			get(t.rules, j.Rule).add(j.right(), j.size)
			get(t.steps, j.Confidence).add(j.right(), j.size)
		}
	}
}

func get[K comparable](m map[K]*score, k K) *score {
	if m[k] == nil {
		m[k] = &score{}
	}
	return m[k]
}

func (t *table) log(tb testing.TB) {
	tb.Logf("categories at the peak  %v", &t.peak)
	tb.Logf("categories at the end   %v", &t.end)
	tb.Logf("categories, all buffers %v", &t.whole)
	tb.Logf("unknown at the peak     %v", &t.unknown)
	tb.Logf("phases, all buffers     %v", &t.phases)
	for _, k := range slices.Sorted(maps.Keys(t.steps)) {
		tb.Logf("confidence %.2f: %v", k, t.steps[k])
	}
	for _, k := range slices.Sorted(maps.Keys(t.rules)) {
		tb.Logf("rule %-22s %v", k, t.rules[k])
	}
	for _, k := range slices.Sorted(maps.Keys(t.confusion)) {
		tb.Logf("wrong at the peak: %8.2f MiB %s", float64(t.confusion[k])/(1<<20), k)
	}
}

// goals are percentages of bytes, over all captures: these programs do what others do not, and many begin before the recording, so
// much is unknown.
const (
	peakGoal  = 80.0
	endGoal   = 67.0 // mostly from before the recording
	wholeGoal = 90.0
	phaseGoal = 97.5 // k05 has an optimizer that is none of PyTorch's
	mostWrong = 3.0  // at the peak of a capture

	moduleGoal = 98.0
	certain    = 0.95 // no answer with more confidence may be wrong at the peak
)

// tooLittle are captures that do not tell enough: k30 has no stacks.
var tooLittle = []string{"k30"}

// TestUnknown: what a capture does not tell is unknown.
func TestUnknown(t *testing.T) {
	for _, name := range tooLittle {
		all := readTruth(t, name)
		one := newTable()
		found := answers(t, name+".pickle.zst", all)
		one.add(all, found)
		t.Logf("%s: peak %v, unknown %v", name, &one.peak, &one.unknown)
		if wrong := 100 - one.peak.percent() - one.unknown.percent(); wrong > 2 || one.unknown.percent() > 80 {
			t.Errorf("%s: wrong for %.2f %% of the bytes at the peak, unknown for %.2f", name, wrong, one.unknown.percent())
		}
		wrongButCertain(t, name, all, found)
	}
}

// TestTruth compares the answers about snapshots with what their programs knew.
func TestTruth(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(meaning, "*.pickle.zst"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d captures: %v", len(files), err)
	}
	total := newTable()
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".pickle.zst")
		if slices.Contains(tooLittle, name) {
			continue
		}
		all := readTruth(t, name)
		found := answers(t, name+".pickle.zst", all)
		total.add(all, found)
		one := newTable()
		one.add(all, found)
		t.Logf("%s %-16s stacks %-6s %-14s peak %v phases %.2f %%", name, all.Program, all.Stacks, all.Window, &one.peak, one.phases.percent())
		if wrong := 100 - one.peak.percent() - one.unknown.percent(); wrong > mostWrong {
			t.Errorf("%s: %.2f %% of the bytes at the peak have a wrong category", name, wrong)
		}
		wrongButCertain(t, name, all, found)
	}
	total.log(t)
	total.check(t)
}

func (t *table) check(tb testing.TB) {
	tb.Helper()
	for _, g := range []struct {
		what string
		got  *score
		want float64
	}{
		{"category at the peak", &t.peak, peakGoal}, {"category at the end", &t.end, endGoal}, {"category", &t.whole, wholeGoal}, {"phase",
			&t.phases, phaseGoal},
	} {
		if g.got.percent() < g.want {
			tb.Errorf("%.2f %% of the bytes have the right %s, want %.2f", g.got.percent(), g.what, g.want)
		}
	}
}

// gradientsOfInputs are the sizes of .grad of tensors that are no parameters: the truth knows those of parameters only.
var gradientsOfInputs = map[string]int64{"k27": 32000}

// wrongButCertain reports wrong answers at the peak with a high confidence, if they are more than a thousandth of it: a buffer of
// a module may have the size of a parameter, and a small one often does.
func wrongButCertain(t *testing.T, name string, all truth, found []judged) {
	t.Helper()
	peak, wrong := int64(0), map[string]int64{}
	for i := range found {
		j := &found[i]
		if !j.atPeak(all.PeakEvent) {
			continue
		}
		peak += j.size
		if !j.right() && j.Confidence >= certain && !slices.Contains(j.roles, j.Category.String()) && j.size != gradientsOfInputs[name] {
			wrong[fmt.Sprintf("%s is said to be %s with confidence %.2f (%s)", j.category, j.Category, j.Confidence, j.Rule)] += j.size
		}
	}
	for what, bytes := range wrong {
		if share := 100 * float64(bytes) / float64(peak); share > 0.1 {
			t.Errorf("%s: %.2f %% of the peak: %s", name, share, what)
		}
	}
}

// TestPlainTrace: a trace without stacks, of which the optimizer allocates in its first step only. All steps have the same phases.
func TestPlainTrace(t *testing.T) {
	all := readTruth(t, "principles/w08")
	total := newTable()
	total.add(all, answers(t, "principles/w08.trace.json.zst", all))
	if total.peak.percent() < 94 || total.phases.percent() < 99 { // workspaces of cuBLASLt are taken for temporaries
		total.log(t)
		t.Error("categories of a trace without stacks are worse")
	}
}

// TestTraceTruth compares the answers about a trace with what its program knew, names of modules included.
func TestTraceTruth(t *testing.T) {
	all := readTruth(t, "a11")
	found := answers(t, "a11.trace.json.zst", all)
	total := newTable()
	total.add(all, found)
	for i := range found {
		if j := &found[i]; asksModule(j) {
			total.modules.add(all.module(j.Module) == j.module, j.size)
		}
	}
	total.log(t)
	t.Logf("modules %v", &total.modules)
	total.check(t)
	if got := total.modules.percent(); got < moduleGoal {
		t.Errorf("%.2f %% of the bytes have the right module, want %.2f", got, moduleGoal)
	}
	wrongButCertain(t, "a11.trace", all, found)
}

// asksModule reports whether the module that allocated a buffer is asked: not for those that have an owner.
func asksModule(j *judged) bool {
	return j.alloc != nil && j.module != "" && !slices.Contains([]string{"parameter", "buffer", "gradient", "optimizer_state"}, j.category)
}

// module returns the path of a module by the name that a trace gives it.
func (t *truth) module(name string) string {
	for path, in := range t.Modules {
		if in == name {
			return path
		}
	}
	return name
}

// TestAnnotatedModules compares the modules of a snapshot whose program annotates the calls of its modules.
func TestAnnotatedModules(t *testing.T) {
	all := readTruth(t, "a17")
	var got score
	found := answers(t, "a17.pickle.zst", all)
	for i := range found {
		if j := &found[i]; asksModule(j) && j.phase == "forward" {
			got.add(j.Module == j.module, j.size)
		}
	}
	t.Log(&got)
	if got.percent() < moduleGoal || got.all < 100 {
		t.Errorf("modules: %v", &got)
	}
}

// TestBackwardModules: in a snapshot that names the modules of the forward pass, the order of allocations and frees tells those of the
// backward pass, of gradients, parameters and states.
func TestBackwardModules(t *testing.T) {
	all := readTruth(t, "a17")
	var modules, layers, owners score
	found := answers(t, "a17.pickle.zst", all)
	layer := regexp.MustCompile(`^.*?\d+`)
	for i := range found {
		j := &found[i]
		switch {
		case asksModule(j) && j.phase == "backward":
			modules.add(j.Module == j.module, j.size)
			layers.add(layer.FindString(j.Module) == layer.FindString(j.module), j.size)
		case j.category == "parameter", j.category == "optimizer_state", j.category == "gradient" && j.alloc != nil:
			owners.add(j.Module == j.module, j.size)
		default:
			continue
		}
		if j.Module != "" && !j.ModuleInferred {
			t.Fatalf("the module of %d bytes of %s is not inferred", j.size, j.category)
		}
	}
	t.Logf("modules %v, layers %v, owners %v", &modules, &layers, &owners)
	if modules.percent() < 80 || layers.percent() < 99 || owners.percent() < 97 {
		t.Error("modules of the backward pass are worse")
	}
}

// TestOwners: gradients of a trace have the modules that own their parameters.
func TestOwners(t *testing.T) {
	all := readTruth(t, "a11")
	var owners score
	found := answers(t, "a11.trace.json.zst", all)
	for i := range found {
		if j := &found[i]; j.category == "gradient" {
			owners.add(all.module(j.Module) == j.module, j.size)
		}
	}
	t.Log(&owners)
	if owners.percent() < moduleGoal {
		t.Errorf("owners of gradients: %v", &owners)
	}
}

// TestLayers: the modules that stacks of snapshots tell are lines and numbers. The same module has the same name, and the same
// name means the same module.
func TestLayers(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(meaning, "*.pickle.zst"))
	if err != nil {
		t.Fatal(err)
	}
	var named, oneModule, oneName score
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".pickle.zst")
		switch name {
		case "a17", "k30": // it has annotations, or no stacks
			continue
		case "q05", "q09", "q10", "v15", "v27": // two lines of the program call the same modules, or one line calls two models: lines cannot tell
			continue
		}
		var all int64
		byName, byModule := map[string]map[string]int64{}, map[string]map[string]int64{}
		found := answers(t, name+".pickle.zst", readTruth(t, name))
		for i := range found {
			j := &found[i]
			if !asksModule(j) || j.phase != "forward" {
				continue
			}
			named.add(j.Module != "", j.size)
			if j.Module == "" {
				continue
			}
			if !j.ModuleInferred {
				t.Fatalf("%s: module %s is not inferred", name, j.Module)
			}
			addTo(byName, j.Module, j.module, j.size)
			addTo(byModule, j.module, j.Module, j.size)
			all += j.size
		}
		t.Logf("%s: a name is one module for %.1f %%, a module has one name for %.1f %%", name, largest(byName, all, &oneModule),
			largest(byModule, all, &oneName))
	}
	t.Logf("named %v; a name is one module %.1f %%, a module has one name %.1f %%", &named, oneModule.percent(), oneName.percent())
	if named.percent() < 99 || oneModule.percent() < 95 || oneName.percent() < 95 {
		t.Error("modules by stacks are worse")
	}
}

func addTo(m map[string]map[string]int64, key, other string, size int64) {
	if m[key] == nil {
		m[key] = map[string]int64{}
	}
	m[key][other] += size
}

// largest adds up the largest share of each key, and returns its percentage.
func largest(m map[string]map[string]int64, all int64, to *score) float64 {
	var one int64
	for _, of := range m {
		one += slices.Max(slices.Collect(maps.Values(of)))
	}
	to.rightBytes += one
	to.bytes += all
	return 100 * float64(one) / float64(max(all, 1))
}

// TestParts: parts of phases are found where programs have them, and only in their phase.
func TestParts(t *testing.T) {
	phases := map[purpose.Part]purpose.Phase{
		purpose.Setup: purpose.OtherPhase, purpose.DataLoading: purpose.OtherPhase, purpose.Evaluation: purpose.Forward,
		purpose.Recomputation: purpose.Backward, purpose.AutocastCopy: purpose.Forward,
		purpose.Clipping: purpose.OptimizerPhase, purpose.ZeroGrad: purpose.OptimizerPhase, purpose.Checkpoint: purpose.OtherPhase,
	}
	for name, want := range map[string][]purpose.Part{
		"a11": {purpose.DataLoading, purpose.Evaluation}, "a06": {purpose.Setup, purpose.Clipping},
		"n12": {purpose.DataLoading, purpose.Recomputation}, "n10": {purpose.Clipping, purpose.Checkpoint, purpose.DataLoading},
		"n02": {purpose.Evaluation},
	} {
		var parts, right score
		seen := map[purpose.Part]bool{}
		found := answers(t, name+".pickle.zst", readTruth(t, name))
		for i := range found {
			j := &found[i]
			if j.Part != purpose.UnknownPart && j.Phase != phases[j.Part] {
				t.Errorf("%s: %v in the phase %v", name, j.Part, j.Phase)
			}
			if j.Part != purpose.UnknownPart {
				seen[j.Part] = true
				right.add(j.phase == phases[j.Part].String(), j.size)
			}
			parts.add(j.Part != purpose.UnknownPart, j.size)
		}
		t.Logf("%s: parts %v, right %v", name, &parts, &right)
		if right.percent() < 97 {
			t.Errorf("%s: %v", name, &right)
		}
		for _, p := range want {
			if !seen[p] {
				t.Errorf("%s: no %v", name, p)
			}
		}
	}
}
