package finding_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
)

var update = flag.Bool("update", false, "write confidence.tsv and testdata/tried.tsv, with the captures of MEMLANE_LEAKS")

// tried is what the findings of one basis in a capture of a program that keeps something on purpose are worth.
type tried struct {
	capture, program, keeps string // the last: what it retains, and how
	steps                   int    // of the program
	finding.Basis
	findings, right int
}

const triedFile = "testdata/tried.tsv"

func (t *tried) line() string {
	return fmt.Sprintf("%s\t%s\t%s\t%d\t%s\t%s\t%d\t%d\n", t.capture, t.program, t.keeps, t.steps, t.Rule, t.Evidence, t.findings, t.right)
}

// readTried returns what was counted on all captures.
func readTried(t *testing.T) (all []tried) {
	data, err := os.ReadFile(triedFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 8 || f[0] == "capture" {
			continue
		}
		number := func(i int) int {
			n, err := strconv.Atoi(f[i])
			if err != nil {
				t.Fatal(line, err)
			}
			return n
		}
		all = append(all, tried{f[0], f[1], f[2], number(3), finding.Basis{Rule: f[4], Evidence: f[5]}, number(6), number(7)})
	}
	return all
}

// sum counts each program once for a basis, by the mean share of the findings of its captures that are right.
func sum(all []tried) map[finding.Basis]finding.Tried {
	type mean struct{ shares, captures float64 }
	programs, sums := map[finding.Basis]map[string]mean{}, map[finding.Basis]finding.Tried{}
	for i := range all {
		if y := &all[i]; y.findings > 0 {
			if programs[y.Basis] == nil {
				programs[y.Basis] = map[string]mean{}
			}
			m := programs[y.Basis][y.program]
			programs[y.Basis][y.program] = mean{m.shares + float64(y.right)/float64(y.findings), m.captures + 1}
		}
	}
	for b, of := range programs {
		n := finding.Tried{Programs: len(of)}
		for _, name := range slices.Sorted(maps.Keys(of)) {
			n.Right += of[name].shares / of[name].captures
		}
		sums[b] = n
	}
	return sums
}

// keeper is what a program wrote about itself: the addresses of what it retains for ever, and of nothing else that grows.
type keeper struct {
	Kept                []uint64
	Program, Kind, Form string
	Steps               int
}

// worth returns what the findings in a capture are worth, and the share of the bytes retained for ever that leaks name, 1 for none. A
// leak is right if at least half of its bytes are retained for ever, a cache if fewer are. A rise is right if the program retains
// more and more.
func worth(t *testing.T, file string) (of []tried, recall float64, leaks bool) {
	var k keeper
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err != nil {
		t.Fatal(file, err)
	}
	name := strings.TrimSuffix(filepath.Base(file), ".truth.json")
	c, err := judged.Open(filepath.Join(filepath.Dir(file), name+".pickle.zst"), formats.Input{})
	if err != nil {
		t.Fatal(file, err)
	}
	kept := map[uint64]bool{}
	for _, addr := range k.Kept {
		kept[addr] = true
	}
	bytes, named, n := int64(0), int64(0), 0
	for _, s := range c.Spaces {
		for i := range s.Buffers {
			if b := &s.Buffers[i]; kept[b.Addr] && b.Edge&lifetime.EndOpen != 0 {
				bytes += b.Size
				n++
			}
		}
	}
	byBasis := map[finding.Basis]*tried{}
	for _, f := range append(find(t, c.Capture, finding.Settings{}), find(t, totalsOf(t, c.Capture), finding.Settings{})...) {
		if f.Basis == (finding.Basis{}) {
			continue
		}
		retained, all := int64(0), int64(0)
		for _, i := range f.Kept {
			b := &f.Space.Buffers[i]
			all += b.Size
			if kept[b.Addr] {
				retained += b.Size
			}
		}
		right := 2*retained >= all
		switch f.Kind {
		case finding.KindLeak:
			if f.IsLeak() {
				named += retained
			}
		case finding.KindRetention:
			right = !right
		default:
			right = n > 0
		}
		if byBasis[f.Basis] == nil {
			byBasis[f.Basis] = &tried{name, k.Program, k.Kind + " " + k.Form, k.Steps, f.Basis, 0, 0}
		}
		y := byBasis[f.Basis]
		y.findings++
		if right {
			y.right++
		}
		t.Logf("%s %s, %s %s, %d steps: right %v: %s %s %.2f: %s", name, k.Program, k.Kind, k.Form, k.Steps, right, f.Rule, f.Severity,
			f.Confidence, f.Description)
	}
	for _, b := range bases() {
		if byBasis[b] != nil {
			of = append(of, *byBasis[b])
		}
	}
	if len(of) == 0 {
		none := finding.Basis{Rule: "-", Evidence: "-"}
		of = []tried{{capture: name, program: k.Program, keeps: k.Kind + " " + k.Form, steps: k.Steps, Basis: none}}
	}
	if bytes == 0 {
		return of, 1, false
	}
	return of, float64(named) / float64(bytes), true
}

// totalsOf returns what a recording of totals alone has of a capture.
func totalsOf(t *testing.T, c *lifetime.Capture) *lifetime.Capture {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "totals"})
	for _, s := range c.Spaces {
		to := b.Space()
		for level := range s.Levels(lifetime.Occupied) {
			b.Total(to, lifetime.Total{T: level.At, Bytes: level.Bytes, Measure: lifetime.Occupied})
		}
		b.Describe(to, lifetime.SpaceInfo{Device: s.Device})
	}
	totals, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return totals
}

// bases returns all bases in the order of the table.
func bases() (all []finding.Basis) {
	for _, e := range append(finding.Evidences, "suspected") {
		all = append(all, finding.Basis{Rule: "leak", Evidence: e})
	}
	for _, rule := range []string{"growing_buffer", "cache", "long_lived", "trend"} {
		all = append(all, finding.Basis{Rule: rule, Evidence: "any"})
	}
	return all
}

// TestMeasured: the confidence of a finding is how often such findings were right in captures of programs of libraries, which the rules
// were not made from. The table is the sum of what was counted, and the captures in testdata/leaks count as they did. MEMLANE_LEAKS
// names a folder with all captures; with -update, they are counted again.
func TestMeasured(t *testing.T) {
	folder := os.Getenv("MEMLANE_LEAKS")
	if folder == "" {
		folder = "../../testdata/leaks"
	}
	files := glob(t, filepath.Join(folder, "*.truth.json"))
	type share struct{ found, all int }
	recall := map[int]share{}
	var counted []tried
	for _, file := range files {
		of, covered, leaks := worth(t, file)
		counted = append(counted, of...)
		if r := recall[of[0].steps]; leaks {
			r.all++
			if covered >= 0.5 {
				r.found++
			} else {
				t.Logf("%s %s, %s, %d steps: missed, %.2f named", of[0].capture, of[0].program, of[0].keeps, of[0].steps, covered)
			}
			recall[of[0].steps] = r
		}
	}
	for _, steps := range slices.Sorted(maps.Keys(recall)) {
		t.Logf("%d steps: %d of %d programs that leak are found", steps, recall[steps].found, recall[steps].all)
	}
	if *update {
		writeTried(t, counted)
		return
	}
	stored := readTried(t)
	for _, y := range counted {
		if !slices.Contains(stored, y) {
			t.Errorf("%s has no line %q; run this with -update and all captures if that is better", triedFile, y.line())
		}
	}
	sums := sum(stored)
	for _, b := range bases() {
		got, ok := finding.Measured[b]
		if !ok || got.Programs != sums[b].Programs || math.Abs(got.Right-sums[b].Right) > 0.0005 {
			t.Errorf("confidence.tsv says %v of %v, counted were %v", got, b, sums[b])
		}
		t.Logf("%-15s %-17s right for %6.2f of %3d programs: %.2f", b.Rule, b.Evidence, got.Right, got.Programs, got.Confidence())
	}
	if len(finding.Measured) != len(bases()) {
		t.Errorf("confidence.tsv has %d lines, want %d", len(finding.Measured), len(bases()))
	}
}

// writeTried writes what was counted and its sum.
func writeTried(t *testing.T, counted []tried) {
	lines, table := "capture\tprogram\tretains\tsteps\trule\tevidence\tfindings\tright\n", "rule\tevidence\tprograms\tright\n"
	for i := range counted {
		lines += counted[i].line()
	}
	sums := sum(counted)
	for _, b := range bases() {
		table += fmt.Sprintf("%s\t%s\t%d\t%.3f\n", b.Rule, b.Evidence, sums[b].Programs, sums[b].Right)
	}
	for file, text := range map[string]string{triedFile: lines, "confidence.tsv": table} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestInterval: on captures and simulated programs that the rules were made from, the number of programs with right findings lies
// in the middle 95 % of what the counts of the table let expect (a beta-binomial distribution).
func TestInterval(t *testing.T) {
	var all []tried
	count := func(program string, found []finding.Finding, right func(f *finding.Finding) bool) {
		for i := range found {
			f := &found[i]
			if f.Basis == (finding.Basis{}) {
				continue
			}
			at := slices.IndexFunc(all, func(y tried) bool { return y.Basis == f.Basis && y.program == program })
			if at < 0 {
				at, all = len(all), append(all, tried{program: program, Basis: f.Basis})
			}
			all[at].findings++
			if right(f) {
				all[at].right++
			}
		}
	}
	for _, l := range labelledCaptures(t) {
		c, err := judged.Open(l.file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		count(l.name, find(t, c.Capture, finding.Settings{}), func(f *finding.Finding) bool {
			at := placeOf(c.Capture, f)
			is := slices.ContainsFunc(l.want, func(want leakAt) bool { return at.same(want, l.file) })
			return is == (f.Kind == finding.KindLeak)
		})
	}
	for _, patterns := range []map[string]func(*program) func(int){healthy, leaking} {
		for _, name := range slices.Sorted(maps.Keys(patterns)) {
			for seed := range uint64(4) {
				p := newProgram(seed)
				c, _ := p.run(t, patterns[name](p))
				count(name, find(t, c, finding.Settings{}), func(f *finding.Finding) bool {
					frame, _ := c.FrameOf(f.Place())
					return (frame.Function == "leak") == (f.Kind == finding.KindLeak)
				})
			}
		}
	}
	counts := sum(all)
	for _, b := range bases() {
		n, table := counts[b], finding.Measured[b]
		if n.Programs == 0 {
			continue
		}
		below, atMost := tails(n, table)
		t.Logf("%-15s %-17s %.2f is said, %.2f of %d are right", b.Rule, b.Evidence, table.Confidence(), n.Right, n.Programs)
		if atMost < 0.025 || below > 0.975 {
			t.Errorf("%s, %s: %.2f is said, %.2f of %d programs are right", b.Rule, b.Evidence, table.Confidence(), n.Right, n.Programs)
		}
	}
}

// tails returns the probabilities of fewer right programs than counted, and of at most as many, given those of the table.
func tails(n, table finding.Tried) (below, atMost float64) {
	beta := func(a, b float64) float64 {
		x, _ := math.Lgamma(a)
		y, _ := math.Lgamma(b)
		z, _ := math.Lgamma(a + b)
		return x + y - z
	}
	all, right, wrong := float64(n.Programs), table.Right+1, float64(table.Programs)-table.Right+1
	for k := 0.0; k <= math.Ceil(n.Right); k++ {
		p := math.Exp(beta(k+right, all-k+wrong) - beta(right, wrong) - math.Log(all+1) - beta(k+1, all-k+1))
		if atMost += p; k < math.Floor(n.Right) {
			below += p
		}
	}
	return below, atMost
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal("no captures: ", pattern, err)
	}
	return files
}
