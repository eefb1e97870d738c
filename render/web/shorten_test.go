package web_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/shorten"
)

// TestShorten compares the page's function with package shorten.
func TestShorten(t *testing.T) {
	source, err := os.ReadFile("page/shorten.js")
	if err != nil {
		t.Fatal(err)
	}
	p := browser.Open(t, browser.Start(t), writePage(t, open(t, "../../testdata/torchsnap/twodev.pickle")))
	type call struct {
		Names []string
		N     int
		Want  []string
	}
	var calls []call
	examples, err := os.ReadFile("../../internal/shorten/testdata/examples.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(examples, &calls); err != nil {
		t.Fatal(err)
	}
	random := rapid.Custom(func(t *rapid.T) call {
		part := rapid.StringMatching(`[a-cé_]{0,9}[0-9]?|[長😀]{1,3}`)
		name := rapid.Custom(func(t *rapid.T) string {
			path := strings.Join(rapid.SliceOfN(part, 1, 7).Draw(t, "parts"), rapid.SampledFrom([]string{"/", "::", "_"}).Draw(t, "separator"))
			ends := []string{"", " (a_file.py:12)", "Backward0 (backward) of model.py:31, inferred", " train.py:42 on cuda:0", " f32[8,16]{1,0}"}
			return rapid.SampledFrom([]string{"", "allocated before the recording, freed in "}).Draw(t, "before") + path + rapid.SampledFrom(ends).Draw(t, "end")
		})
		c := call{Names: rapid.SliceOfN(name, 1, 6).Draw(t, "names"), N: rapid.IntRange(0, 70).Draw(t, "n")}
		c.Want = shorten.Names(c.Names, c.N)
		return c
	})
	for seed := range 1000 {
		calls = append(calls, random.Example(seed))
	}
	sent, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	got := browser.Eval[[][]string](p, "(() => { %s; return %s.map((c) => shorten(c.Names, c.N)); })()", strings.ReplaceAll(string(source), "export ", ""), sent)
	for i, c := range calls {
		if !slices.Equal(got[i], c.Want) {
			t.Errorf("%q in %d\n the page %q\n Go       %q", c.Names, c.N, got[i], c.Want)
		}
	}
}
