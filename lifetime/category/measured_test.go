package category_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/purpose"
)

// least is the share of the bytes at the peak from which a rule counts as tried on a program.
const least = 0.001

// triedOn counts how often rules are right, by program: a program of several captures counts once.
func triedOn(all []*known) map[string]category.Tried {
	type sum struct{ right, bytes float64 }
	programs := map[string]map[string]*sum{} // by rule and program; shares of the bytes at the peak
	for _, k := range all {
		answers, whole := k.judge(), 0.0
		for _, r := range k.truth {
			whole += float64(r.size)
		}
		for n, p := range answers {
			if p.Rule == "" {
				continue
			}
			if programs[p.Rule] == nil {
				programs[p.Rule] = map[string]*sum{}
			}
			of := programs[p.Rule][k.program]
			if of == nil {
				of = &sum{}
				programs[p.Rule][k.program] = of
			}
			share := float64(k.truth[n].size) / whole
			of.bytes += share
			if p.Category.String() == k.truth[n].category {
				of.right += share
			}
		}
	}
	tried := map[string]category.Tried{}
	for rule, of := range programs {
		t := tried[rule]
		for _, name := range slices.Sorted(maps.Keys(of)) {
			if s := of[name]; s.bytes >= least {
				t.Programs++
				t.Right += s.right / s.bytes
			}
		}
		tried[rule] = t
	}
	return tried
}

// TestMeasured: the confidence of a rule is how often it was right on programs of libraries, which it was not made from
// (testdata/README.md). The test fails if the share leaves the interval of two standard deviations; with -update it writes the
// table.
func TestMeasured(t *testing.T) {
	libraries := triedOn(readKnown(t, filepath.Join(testdata, "libraries")))
	if *update {
		var b strings.Builder
		b.WriteString("rule\tprograms\tright\n")
		for _, name := range rules() {
			fmt.Fprintf(&b, "%s\t%d\t%.3f\n", name, libraries[name].Programs, libraries[name].Right)
		}
		if err := os.WriteFile("confidence.tsv", []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, name := range rules() {
		stored, ok := category.Measured[name]
		if !ok {
			t.Errorf("rule %s has no line in confidence.tsv", name)
		}
		got := libraries[name]
		said := float64(stored.Confidence())
		deviation := math.Sqrt(said * (1 - said) / (float64(stored.Programs) + 3))
		share := float64(got.Confidence())
		t.Logf("%-22s right for %.2f of %d programs, said %.3f", name, got.Right, got.Programs, said)
		if math.Abs(share-said) > 2*deviation || got.Programs == 0 && stored.Programs > 0 {
			t.Errorf("rule %s is right for %.2f of %d programs: %.3f, said %.3f; run this with -update, if that is better",
				name, got.Right, got.Programs, share, said)
		}
	}
	if len(category.Measured) != len(rules()) {
		t.Errorf("confidence.tsv has %d rules, want %d", len(category.Measured), len(rules()))
	}
}

// rules returns the names of all rules.
func rules() (names []string) {
	for _, r := range category.Rules {
		names = append(names, r.Name)
	}
	return append(names, category.Repeats)
}

// TestLibraries: programs of libraries, each of which counts once, by the bytes at the peak: what is said is right, and enough is
// said. And what is said with confidence is right.
func TestLibraries(t *testing.T) {
	s := set{name: "libraries", all: readKnown(t, filepath.Join(testdata, "libraries"))}
	s.base = s.judge("")
	m := s.mean(s.base)
	t.Logf("right %.2f %%, wrong %.2f %%, unknown %.2f %%; said with 0.9 or more %.2f %%, of these wrong %.3f %%",
		m.right, m.wrong, m.unknown, m.sure, m.sureWrong)
	if m.right < 96 || m.wrong > 0.3 || m.sureWrong > 0.2 || m.sure < 80 {
		t.Error("categories of programs of libraries are worse")
	}
	for _, k := range s.all {
		if o := s.base[k]; o.wrong > 5 {
			t.Errorf("%s (%s): %.2f %% wrong: %s", k.name, k.program, o.wrong, k.mistakes())
		}
	}
}

// TestCorresponding: buffers that one line allocates and one frees, of one size and in one phase, have one category in all steps,
// where it is known. c47 has second derivatives: backward passes go through others.
func TestCorresponding(t *testing.T) {
	for _, k := range readKnown(t, filepath.Join(testdata, "libraries")) {
		k.judge()
		type key struct {
			site, free lifetime.SiteID
			size       int64
			phase      purpose.Phase
		}
		seen := map[key]map[purpose.Category]int64{}
		tables := k.c.Tables
		tables.Purposes = make([]purpose.Purpose, 1)
		s := *k.space
		s.Purposes = nil
		category.NewJudge(&tables).Add(&s)
		all, odd, most := int64(0), int64(0), 1.0
		if k.name == "c47" {
			most = 10
		}
		for i := range s.Buffers {
			b, p := &s.Buffers[i], tables.Purpose(s.PurposeOf(i))
			if b.Edge&(lifetime.BeginUnseen|lifetime.EndOpen) != 0 || s.FreeSites == nil || p.Category == purpose.UnknownCategory {
				continue
			}
			of := key{b.Site, s.FreeSites[i], b.Requested, p.Phase}
			if seen[of] == nil {
				seen[of] = map[purpose.Category]int64{}
			}
			seen[of][p.Category] += b.Requested
		}
		for _, of := range seen {
			sum, largest := int64(0), int64(0)
			for _, bytes := range of {
				sum, largest = sum+bytes, max(largest, bytes)
			}
			all, odd = all+sum, odd+sum-largest
		}
		if share := 100 * float64(odd) / float64(max(all, 1)); share > most {
			t.Errorf("%s (%s): %.2f %% of the bytes have another category than most of their line, size and free", k.name, k.program, share)
		}
	}
}
