package finding_test

import (
	"fmt"
	"log"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
)

// Find problems with a rule of your own, after those of memlane: call sites that hold much at the end.
func ExampleSettings() {
	held := finding.Rule{
		Name: "held_at_end", Kind: finding.KindUsage, Doc: "call sites that hold much at the end",
		Run: func(p *finding.Pass) (all []finding.Finding) {
			for _, row := range p.Space.Breakdown(p.Space.AtEnd()) {
				if row.Bytes >= 2<<20 {
					all = append(all, finding.Finding{Confidence: 1, Sites: []lifetime.SiteID{row.Site}, Amount: row.Amount,
						Description: fmt.Sprintf("%s: %d bytes are in use at the end", p.PlaceOf(row.Site), row.Bytes),
						Suggestions: []string{"Move them to the host."}})
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
	// forward (healthy.py:13): 8519680 bytes are in use at the end
}
