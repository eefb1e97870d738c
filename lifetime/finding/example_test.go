package finding_test

import (
	"cmp"
	"fmt"
	"log"
	"slices"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
)

// Find problems with a rule of your own, after those of memlane: call sites that hold memory from each step to the next.
func ExampleSettings() {
	held := finding.Rule{
		Name: "held_between_steps", Kind: finding.KindUsage, Doc: "call sites that hold memory from each step to the next",
		Run: func(p *finding.Pass) (all []finding.Finding) {
			steps := len(p.Steps().Begins)
			if steps == 0 {
				return nil
			}
			for site := range p.CallSites() { // without the sites of leaks
				h := p.History(site)
				least := slices.MinFunc(h.Alive, func(x, y lifetime.Amount) int { return cmp.Compare(x.Bytes, y.Bytes) })
				if least.Bytes >= 2<<20 {
					all = append(all, finding.Finding{Confidence: 1, Sites: []lifetime.SiteID{site}, Amount: least, Kept: h.Retained,
						Description: fmt.Sprintf("%s: at least %d bytes are in use at the end of each of %d steps", p.PlaceOf(site), least.Bytes, steps),
						Suggestions: []string{"Move them to the host between the steps."}})
				}
			}
			return all
		},
	}
	capture, err := formats.Open("../../testdata/torchsnap/healthy.pickle", formats.Input{})
	if err != nil {
		log.Fatal(err)
	}
	settings := finding.Settings{Rules: append(finding.Rules(), held)}
	for _, f := range judge.New(capture, settings).Findings() {
		if f.Rule == held.Name {
			fmt.Println(f.Description)
		}
	}
	// Output:
	// forward (healthy.py:13): at least 8519680 bytes are in use at the end of each of 6 steps
}
