package leak

import (
	"fmt"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// The thresholds of spike.
const (
	minSteps = 12   // that show what a usual one needs
	outlier  = 1.5  // in quartile ranges, Tukey's rule
	muchMore = 1.25 // times the usual peak: where all steps are alike, one byte is an outlier too
)

// spike finds steps whose peak is far above the usual: an evaluation, a long
// sequence. The peak of the job is theirs.
func spike(p *Pass) []Finding {
	if p.leaks || len(p.steps.begins) < minSteps { // with a leak the last steps are the highest
		return nil
	}
	peaks := p.stepPeaks()
	sorted := make([]int64, len(peaks))
	for i, level := range peaks {
		sorted[i] = level.Bytes
	}
	slices.Sort(sorted)
	quartile := func(q int) float64 { return float64(sorted[q*(len(sorted)-1)/4]) }
	bound := max(quartile(3)+outlier*(quartile(3)-quartile(1)), muchMore*quartile(2))
	n := len(sorted) - sort.Search(len(sorted), func(i int) bool { return float64(sorted[i]) > bound })
	if n == 0 {
		return nil
	}
	worst, usual := 0, peaks[0]
	for i, level := range peaks {
		if level.Bytes > peaks[worst].Bytes {
			worst = i
		}
		if level.Bytes == sorted[len(sorted)/2] {
			usual = level
		}
	}
	return []Finding{p.spikes(peaks, n, worst, usual)}
}

// stepPeaks returns the highest level of each step.
func (p *Pass) stepPeaks() []lifetime.Level {
	begins := p.steps.begins
	peaks := make([]lifetime.Level, len(begins))
	step := 0
	for _, level := range p.usage() {
		for step+1 < len(begins) && level.At >= begins[step+1] {
			step++
		}
		if level.At >= begins[0] && level.Bytes > peaks[step].Bytes {
			peaks[step] = level
		}
	}
	return peaks
}

// spikes returns the finding of n steps whose peaks are far above the usual.
func (p *Pass) spikes(peaks []lifetime.Level, n, worst int, usual lifetime.Level) Finding {
	highest := peaks[worst]
	f := Finding{Confidence: 0.9, Amount: lifetime.Amount{Bytes: highest.Bytes - usual.Bytes},
		Evidence: []Evidence{figure(FigStepsAbove, n), figure(FigSteps, len(peaks)), figure(FigPeak, highest.Bytes), figure(FigUsualPeak, usual.Bytes),
			figure(FigStep, worst)},
		Suggestions: []string{"Split these steps: smaller evaluation batches, shorter sequences, no_grad."}}
	most := ""
	if site, bytes, ok := p.difference(usual.At, highest.At); ok {
		f.Sites = []lifetime.SiteID{site}
		most = fmt.Sprintf("%s holds %s more", p.PlaceOf(site), units.Bytes(bytes))
	}
	f.describe("", fmt.Sprintf("%s of %s steps need much more memory than the usual step: step %s needs %s, the usual step %s", units.Count(int64(n)),
		units.Count(int64(len(peaks))), units.Count(int64(worst)), units.Bytes(highest.Bytes), units.Bytes(usual.Bytes)), most)
	return f
}

// difference returns the site with most bytes more at one instant than at another.
func (p *Pass) difference(before, after int64) (site lifetime.SiteID, bytes int64, ok bool) {
	was := map[lifetime.SiteID]int64{}
	for _, row := range p.Space.Breakdown(before) {
		was[row.Site] += row.Bytes
	}
	for _, row := range p.Space.Breakdown(after) {
		if more := row.Bytes - was[row.Site]; row.Kind.OfBuffers() && more > bytes {
			site, bytes, ok = row.Site, more, true
		}
	}
	return site, bytes, ok
}
