package finding

import (
	"fmt"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// The thresholds of spike.
const (
	minSteps = 12   // steps that show the usual peak
	outlier  = 1.5  // distance above the upper quartile in interquartile ranges, Tukey's rule
	muchMore = 1.25 // times the median peak: if all steps are equal, one byte more is an outlier too
)

// spike finds steps whose peak is far above the median step: an evaluation, a long sequence. They set the peak of the job.
func spike(p *Pass) []Finding {
	if p.leaks || p.growsLate || len(p.steps.Begins) < minSteps { // a leak makes the last steps the highest
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

func (p *Pass) stepPeaks() []lifetime.Level {
	begins := p.steps.Begins
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

func (p *Pass) spikes(peaks []lifetime.Level, n, worst int, usual lifetime.Level) Finding {
	highest := peaks[worst]
	f := Finding{Amount: lifetime.Amount{Bytes: highest.Bytes - usual.Bytes},
		Evidence: []Evidence{figure(FigStepsAbove, n), figure(FigSteps, len(peaks)), figure(FigPeak, highest.Bytes),
			figure(FigUsualPeak, usual.Bytes),
			figure(FigStep, worst)},
		Suggestions: p.advice("Split these steps: smaller evaluation batches, shorter sequences, no_grad.",
			"Split these steps: smaller evaluation batches, shorter sequences.")}
	if p.steps.Inferred() {
		f.Confidence = p.steps.Confidence()
	}
	most := ""
	if site, bytes, ok := p.difference(usual.At, highest.At); ok {
		f.Sites = []lifetime.SiteID{site}
		most = fmt.Sprintf("%s holds %s more", p.PlaceOf(site), units.Bytes(bytes))
	}
	f.describe("", fmt.Sprintf("step %s peaks at %s, the median step at %s; outliers: %s of %s steps", units.Count(int64(worst)),
		units.Bytes(highest.Bytes), units.Bytes(usual.Bytes), units.Count(int64(n)), units.Count(int64(len(peaks)))), most)
	return f
}

// difference returns the site whose bytes grew most between two instants; ok is false if none grew.
func (p *Pass) difference(before, after int64) (site lifetime.SiteID, bytes int64, ok bool) {
	was := p.bytesBySite(before)
	for at, is := range p.bytesBySite(after) {
		if more := is - was[at]; more > bytes || more == bytes && ok && at < site {
			site, bytes, ok = at, more, true
		}
	}
	return site, bytes, ok
}
