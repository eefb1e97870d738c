package laws

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/nativetest"
)

// broken is a number of captures that break a law, and how many of them by more than 1 % of the bytes or in a verdict.
type broken struct{ all, badly int }

func (b broken) String() string { return fmt.Sprintf("%d captures (%d badly)", b.all, b.badly) }

// badly is the weight of a breach from which people notice it.
const badly = .01

// tally counts the captures that break each law.
type tally struct {
	cases  map[string]int
	broken map[string]broken
}

// unchanged is a snapshot with what memlane says of it, also without the table of the recorder. Each is asked for once.
type unchanged struct {
	*snapshot
	file        string
	whole, bare func() (*verdict, error)
}

func unchangedOf(file string, s *snapshot) *unchanged {
	judge := func(s *snapshot) func() (*verdict, error) {
		return sync.OnceValues(func() (*verdict, error) { return s.judge(writing{}) })
	}
	return &unchanged{s, file, judge(s), judge(s.unnamed())}
}

// try tries laws on a snapshot. Breaches go to report.
func (y *tally) try(t *testing.T, s *unchanged, laws []*evidenceLaw, report func(law *evidenceLaw, text string)) {
	t.Helper()
	for _, law := range laws {
		ask, worst, found := s.whole, 0., false
		if law.bare && s.names != "" {
			ask = s.bare
		}
		for c := range law.cases(s.snapshot) {
			y.cases[law.name]++
			before, err := ask()
			after := before
			if err == nil && c.changed != nil {
				after, err = c.changed.judge(c.how)
			}
			if err != nil {
				t.Errorf("%s: %s, %s: %v", s.file, law.name, c.name, err)
				continue
			}
			breaches := c.holds(before, after)
			for _, b := range breaches {
				worst, found = max(worst, b.weight), true
				report(law, fmt.Sprintf("%s: %s, %s: %s (%.4f)", s.file, law.name, c.name, b, b.weight))
			}
			if len(breaches) > 0 {
				keep(t, filepath.Base(s.file)+"_"+law.name+"_"+c.name, s.snapshot, c)
			}
		}
		n := y.broken[law.name]
		if found {
			n.all++
		}
		if worst > badly {
			n.badly++
		}
		y.broken[law.name] = n
	}
}

// keep writes a snapshot and the changed one into the folder MEMLANE_KEEP.
func keep(t *testing.T, name string, s *snapshot, c evidenceCase) {
	folder := os.Getenv("MEMLANE_KEEP")
	if folder == "" {
		return
	}
	pair := map[string][]byte{"before": s.pickle(writing{})}
	if c.changed != nil {
		pair["after"] = c.changed.pickle(c.how)
	}
	for which, data := range pair {
		if err := os.WriteFile(filepath.Join(folder, strings.NewReplacer(" ", "-", ",", "", "/", "_").Replace(name)+"."+which+".pickle"), data, 0o666); err != nil {
			t.Error(err)
		}
	}
}

// largest is the size of a shipped pickle that is tried: two that are larger would take a tenth of the time.
const largest = 3_000_000

// snapshots yields the snapshots with a history below some files or folders, and why others were left out.
func snapshots(t *testing.T, paths []string, yield func(s *unchanged), leftOut func(file string, err error)) {
	for _, path := range paths {
		err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(strings.TrimSuffix(file, ".zst"), ".pickle") {
				return err
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if s, err := readSnapshot(data); err != nil {
				leftOut(file, err)
			} else {
				yield(unchangedOf(file, s))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestEvidence tries the laws of evidence. Without MEMLANE_DEEP=1 it tries each on one shipped capture that breaks it easily and all on a few
// random programs, else all on all. The captures that break each law today are counted in testdata/broken.tsv: no change may add one, and one
// that mends some lowers the numbers with -update. MEMLANE_CAPTURES="PATH..." tries all laws on captures of yours instead: each law of each
// is a subtest, which fails if the law is broken.
func TestEvidence(t *testing.T) {
	y := &tally{cases: map[string]int{}, broken: map[string]broken{}}
	defer y.log(t)
	var all []*evidenceLaw
	for i := range evidence {
		all = append(all, &evidence[i])
	}
	if own := strings.Fields(os.Getenv("MEMLANE_CAPTURES")); len(own) > 0 {
		snapshots(t, own, func(s *unchanged) {
			t.Run(filepath.Base(s.file), func(t *testing.T) {
				for _, law := range all {
					t.Run(law.name, func(t *testing.T) {
						y.try(t, s, []*evidenceLaw{law}, func(_ *evidenceLaw, text string) { t.Error(text) })
					})
				}
			})
		}, func(file string, err error) { t.Logf("%s: left out: %v", file, err) })
		return
	}
	said := map[string][]string{}
	note := func(law *evidenceLaw, text string) { said[law.name] = append(said[law.name], text) }
	ignore := func(string, error) {}
	if deep.Is() {
		snapshots(t, []string{"../../testdata"}, func(s *unchanged) {
			if s.bytes <= largest {
				y.try(t, s, all, note)
			}
		}, ignore)
	} else {
		for _, law := range all {
			snapshots(t, []string{"../../testdata/" + law.on}, func(s *unchanged) { y.try(t, s, []*evidenceLaw{law}, note) }, ignore)
		}
	}
	programs := rapid.Custom(drawnProgram)
	for seed := range deep.Or(6, 60) {
		y.try(t, unchangedOf(fmt.Sprint("random program ", seed), programs.Example(seed)), all, note)
	}
	ceilings := readCeilings(t)
	for _, law := range all {
		c := ceilings[law.name]
		most, got := &c.few, y.broken[law.name]
		if deep.Is() {
			most = &c.all
		}
		more := got.all > most.all || got.badly > most.badly
		switch {
		case y.cases[law.name] == 0:
			t.Errorf("%s was tried on no capture", law.name)
		case more:
			t.Errorf("%s: %s: %v break it, not %v as before", law.name, law.reason, got, *most)
		case got != *most && *nativetest.Update:
			*most = got
		case got != *most:
			t.Errorf("%s: only %v break it, not %v: lower testdata/broken.tsv with -update, also with MEMLANE_DEEP=1", law.name, got, *most)
		}
		if more || testing.Verbose() {
			for _, text := range said[law.name] {
				t.Log(text)
			}
		}
	}
	if *nativetest.Update {
		writeCeilings(t, ceilings)
	}
}

func (y *tally) log(t *testing.T) {
	for _, law := range evidence {
		t.Logf("%-12s %5d cases, %v break it", law.name, y.cases[law.name], y.broken[law.name])
	}
}

// ceiling is how many captures break a law, of the few that are tried without MEMLANE_DEEP=1, and of all.
type ceiling struct{ few, all broken }

const ceilingFile, ceilingRow = "testdata/broken.tsv", "%s\t%d\t%d\t%d\t%d\n"

func readCeilings(t *testing.T) map[string]*ceiling {
	t.Helper()
	data, err := os.ReadFile(ceilingFile)
	if err != nil {
		t.Fatal(err)
	}
	ceilings := map[string]*ceiling{}
	for _, law := range evidence {
		ceilings[law.name] = &ceiling{}
	}
	_, rows, _ := strings.Cut(string(data), "\n")
	for row := range strings.Lines(rows) {
		name, c := "", ceiling{}
		if _, err := fmt.Sscanf(row, ceilingRow, &name, &c.few.all, &c.few.badly, &c.all.all, &c.all.badly); err != nil || ceilings[name] == nil {
			t.Fatalf("%s: %q: %v", ceilingFile, row, err)
		}
		*ceilings[name] = c
	}
	return ceilings
}

func writeCeilings(t *testing.T, ceilings map[string]*ceiling) {
	t.Helper()
	text := "law\tfew\tfew badly\tall\tall badly\n"
	for _, law := range evidence {
		c := ceilings[law.name]
		text += fmt.Sprintf(ceilingRow, law.name, c.few.all, c.few.badly, c.all.all, c.all.badly)
	}
	if err := os.WriteFile(ceilingFile, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
