package program_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
)

// counted are programs by how their steps are inferred: true if the number was right in all of their captures.
type counted map[program.Source]map[string]bool

// add compares the recorded steps of a capture with those that are inferred without the record.
func (n counted) add(t *testing.T, file, of string) {
	c, err := judged.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Spaces {
		recorded := program.Of(c.Capture).Steps(s)
		if len(recorded.Begins) == 0 || recorded.Inferred() {
			continue
		}
		marks := map[*lifetime.Space][]lifetime.Mark{}
		for _, other := range c.Spaces {
			marks[other], other.Marks = other.Marks, nil
		}
		inferred := program.Of(c.Capture).Steps(s)
		for other := range marks {
			other.Marks = marks[other]
		}
		if len(inferred.Begins) == 0 {
			continue
		}
		if n[inferred.Source] == nil {
			n[inferred.Source] = map[string]bool{}
		}
		right := len(inferred.Begins) == len(recorded.Begins)
		if before, ok := n[inferred.Source][of]; ok {
			right = right && before
		}
		n[inferred.Source][of] = right
		if !right {
			t.Logf("%s (%s): %d steps were recorded, %d inferred", file, of, len(recorded.Begins), len(inferred.Begins))
		}
	}
}

// share returns how many programs are right, and of how many.
func (n counted) share(source program.Source) (right, all int) {
	for _, ok := range n[source] {
		if all++; ok {
			right++
		}
	}
	return right, all
}

// programs returns the program of each capture of a folder, by the tables runs.tsv and INDEX.tsv in it.
func programs(folder string) map[string]string {
	of := map[string]string{}
	for _, table := range []string{"runs.tsv", "INDEX.tsv"} {
		data, _ := os.ReadFile(filepath.Join(folder, table))
		column := -1
		for line := range strings.Lines(string(data)) {
			f := strings.Split(strings.TrimSpace(line), "\t")
			if column < 0 {
				column = slices.Index(f, "program")
			}
			if column >= 0 && column < len(f) {
				of[f[0]] = f[column]
			}
		}
	}
	return of
}

// TestMeasured hides the recorded steps of captures and infers them: what is said of inferred steps must be right so often, within two
// standard deviations. MEMLANE_STEPS names folders of further captures, NAME.pickle.zst, whose programs a table in the folder names.
func TestMeasured(t *testing.T) {
	counts := [2]counted{{}, {}}
	for _, pattern := range []string{"labelled/*.pickle.zst", "torchsnap/leak*.pickle", "torchsnap/healthy.pickle", "leaks/*.pickle.zst", "meaning/*.pickle.zst"} {
		files, _ := filepath.Glob("../../testdata/" + pattern)
		for _, file := range files {
			counts[0].add(t, file, strings.SplitN(filepath.Base(file), ".", 2)[0])
		}
	}
	folders := strings.Fields(os.Getenv("MEMLANE_STEPS"))
	for _, folder := range folders {
		of := programs(folder)
		err := filepath.WalkDir(folder, func(file string, _ os.DirEntry, err error) error {
			if name, ok := strings.CutSuffix(filepath.Base(file), ".pickle.zst"); ok && of[name] != "" {
				counts[1].add(t, file, of[name])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, source := range []program.Source{program.Phases, program.Recurrence} {
		for i := range counts {
			if i == 1 && len(folders) == 0 {
				continue
			}
			right, all := counts[i].share(source)
			if want := program.Measured[source][i]; want != [2]int{right, all} {
				t.Errorf("measured: source %d, of %s: {%d, %d}, not %v", source, []string{"testdata", "others"}[i], right, all, want)
			}
			said := program.ConfidenceOf(source)
			if off := said*float64(all) - float64(right); math.Abs(off) > 1+2*math.Sqrt(float64(all)*said*(1-said)) {
				t.Errorf("source %d: %.2f is said, %d of %d are right", source, said, right, all)
			}
		}
	}
}
