package category_test

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/selection"
)

// TestInterrupted: a recording that ends in the middle of a step, because memory ran out, tells what was alive nearly as well
// as the whole one: what is said is right. Much is from before the recording, and unknown.
func TestInterrupted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(meaning, "*.pickle.zst"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	var all, answered score
	steps, confusion := map[float32]*score{}, map[string]int64{}
	rules := map[string]*score{}
	for n, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".pickle.zst")
		c, err := shared(file)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(uint64(n), 2))
		var one score
		for range 8 {
			found := cut(t, c, readTruth(t, name), r)
			for i := range found {
				j := &found[i]
				one.add(j.right(), j.size)
				all.add(j.right(), j.size)
				if j.Rule != "" {
					answered.add(j.right(), j.size)
					get(steps, float32(int(j.Confidence*20))/20).add(j.right(), j.size)
					get(rules, j.Rule).add(j.right(), j.size)
				}
				if !j.right() {
					confusion[j.category+" -> "+j.Category.String()+" ("+j.Rule+")"] += j.size
				}
			}
		}
		t.Logf("%s %v", name, &one)
	}
	t.Logf("all %v; of the answers %v", &all, &answered)
	for _, k := range slices.Sorted(maps.Keys(steps)) {
		t.Logf("confidence %.2f: %v", k, steps[k])
	}
	for _, k := range slices.Sorted(maps.Keys(rules)) {
		t.Logf("rule %-22s %v", k, rules[k])
	}
	for _, k := range slices.SortedFunc(maps.Keys(confusion), func(x, y string) int { return cmp.Compare(confusion[y], confusion[x]) }) {
		t.Logf("wrong: %8.2f MiB %s", float64(confusion[k])/(1<<20), k)
	}
	if all.percent() < 63 || answered.percent() < 98 {
		t.Errorf("%v are right, %v of the answers", &all, &answered)
	}
	for confidence, got := range steps {
		if confidence >= 0.8 && got.percent() < 100*float64(confidence)-5 {
			t.Errorf("confidence %.2f: %v", confidence, got)
		}
	}
}

// cut returns the answers about what is alive when memory runs out at a random allocation in the middle of a recording.
func cut(t *testing.T, c *lifetime.Capture, all truth, r *rand.Rand) (found []judged) {
	t.Helper()
	s := c.Spaces[slices.IndexFunc(c.Spaces, func(s *lifetime.Space) bool { return s.Device == "cuda:0" })]
	var truths []row // of the buffers of s that were allocated in it
	for _, row := range all.Rows {
		if row.alloc != nil {
			truths = append(truths, row)
		}
	}
	slices.SortFunc(truths, func(x, y row) int { return cmp.Compare(*x.alloc, *y.alloc) })
	unseen := map[uint64]row{}
	for _, row := range all.Rows {
		if row.alloc == nil {
			unseen[row.addr] = row
		}
	}
	at := s.Buffers[len(s.Buffers)/5+r.IntN(len(s.Buffers)*4/5)].Begin + 1
	part := selection.Slice(c, s.Begin, at).Spaces[slices.Index(c.Spaces, s)]
	judge := func() lifetime.Tables {
		part.Purposes = nil
		tables := c.Tables
		tables.Purposes = make([]purpose.Purpose, 1)
		category.NewJudge(&tables).Add(part)
		return tables
	}
	part.Marks = slices.DeleteFunc(part.Marks, func(m lifetime.Mark) bool { return m.Kind == lifetime.OOM })
	without, ended := judge(), part.Purposes
	part.Marks = append(part.Marks, lifetime.Mark{Kind: lifetime.OOM, Begin: at - 1, End: at - 1, Requested: 1})
	tables := judge()
	if !slices.Equal(tables.Purposes, without.Purposes) || !slices.Equal(part.Purposes, ended) {
		t.Errorf("+%d ns: the failure at the end changes what buffers are for", at-s.Begin)
	}
	next := 0
	for i, b := range part.Buffers {
		var of row
		if b.Edge&lifetime.BeginUnseen != 0 {
			of = unseen[b.Addr]
		} else {
			of, next = truths[next], next+1
		}
		if b.Edge&lifetime.EndOpen != 0 && of.category != "" {
			found = append(found, judged{of, tables.Purpose(part.PurposeOf(i))})
		}
	}
	return found
}

// TestEndsInStep: a recording ends within a step of the optimizer, of which PyTorch recorded the end after the last event: what the step
// keeps is its state, as in the whole recording.
func TestEndsInStep(t *testing.T) {
	for _, name := range []string{"a06", "a07", "a12"} {
		c, err := shared(filepath.Join(meaning, name+".pickle.zst"))
		if err != nil {
			t.Fatal(err)
		}
		s, last, states := c.Spaces[0], int64(0), 0
		step := slices.IndexFunc(s.Marks, func(m lifetime.Mark) bool { return strings.HasPrefix(m.Text, program.OptimizerStep) })
		for change := range s.Changes() {
			if change.T < s.Marks[step].End {
				last = change.T
			}
		}
		part := selection.Slice(c, s.Begin, last+1)
		cut := categoriesOf(part, part.Spaces[0])
		for i, want := range categoriesOf(c, s) {
			if b := &s.Buffers[i]; want == purpose.OptimizerState && b.Edge&lifetime.BeginUnseen == 0 && b.Begin <= last {
				if states++; cut[i] != want {
					t.Errorf("%s: a state of %d bytes is %s", name, b.Requested, cut[i])
				}
			}
		}
		if states < 12 {
			t.Errorf("%s: %d states", name, states)
		}
	}
}
