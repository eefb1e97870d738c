package preset

import (
	"math"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// measure reads the gaps of samples.
func (l *input) measure(samples []lifetime.Sample) {
	for i := range samples {
		s := &samples[i]
		if s.DeviceTotal <= 0 || s.DeviceUsed < 0 || s.Reserved < 0 || l.preset.successor && !s.Regular {
			continue
		}
		gap := float64(s.DeviceUsed - s.Reserved)
		l.samples = append(l.samples, s)
		l.gaps = append(l.gaps, gap)
		l.largest = max(l.largest, math.Abs(gap/float64(s.DeviceTotal)))
	}
}

func (l *input) gapsMatter(n int) bool { return len(l.gaps) >= n && l.largest >= l.t[gapRatio] }

// transientSpikes finds gaps far above the mean.
func transientSpikes(l *input) {
	if !l.gapsMatter(3) {
		return
	}
	average, spread := mean(l.gaps), deviation(l.gaps)
	if spread == 0 || math.IsNaN(spread) {
		return
	}
	spikes, highest := 0, 0
	for i, gap := range l.gaps {
		if (gap-average)/spread > spikeScore {
			spikes++
		}
		if gap > l.gaps[highest] {
			highest = i
		}
	}
	if spikes == 0 {
		return
	}
	z := (l.gaps[highest] - average) / spread
	l.gap("transient_spike", z > 2*spikeScore, round(min(1, z/(3*spikeScore)), 3), Figures{
		{"spike_count", spikes}, {"max_gap_bytes", Float(l.gaps[highest])},
		{"max_zscore", Float(round(z, 3))}, {"mean_gap_bytes", Float(round(average, 1))},
		{"std_gap_bytes", Float(round(spread, 1))},
	}, l.samples[highest], spikes, z)
}

// persistentDrifts finds gaps that grow along a line.
func persistentDrifts(l *input) {
	if !l.gapsMatter(5) {
		return
	}
	times := make([]float64, len(l.samples))
	for i, s := range l.samples {
		times[i] = float64(s.T) - float64(l.samples[0].T)
	}
	fit, ok := regress(times, l.gaps)
	square := fit.r * fit.r
	if !ok || !(fit.slope > 0) || square < driftSquare {
		return
	}
	perSecond := fit.slope * 1e9
	last := len(l.gaps) - 1
	l.gap("persistent_drift", square > 0.85, roundScaled(min(1, square), 3), Figures{
		{"slope_bytes_per_sec", Float(roundScaled(perSecond, 1))}, {"r_squared", Float(roundScaled(square, 4))},
		{"p_value", Float(roundScaled(fit.p, 6))}, {"gap_start_bytes", Float(l.gaps[0])},
		{"gap_end_bytes", Float(l.gaps[last])},
	}, l.samples[last], formatBytes(math.Trunc(math.Abs(perSecond))), square)
}

// fragmentationLikes finds a large share of fragments in the reserved memory, on average over all samples.
func fragmentationLikes(l *input) {
	if !l.gapsMatter(3) {
		return
	}
	var ratios []float64
	var fragmented []*lifetime.Sample
	for _, s := range l.samples {
		fragments, known := s.Reserved-s.Allocated, s.Allocated >= 0
		if l.preset.successor {
			fragments, known = s.Inactive, s.Inactive >= 0
		}
		if known && s.Reserved > 0 {
			ratios, fragmented = append(ratios, float64(fragments)/float64(s.Reserved)), append(fragmented, s)
		}
	}
	average := mean(ratios)
	if !(average >= fragmentedGapRatio) { // NaN without any
		return
	}
	highest := slices.Max(ratios)
	l.gap("fragmentation_like", average > 0.5, round(min(1, average/0.6), 3), Figures{
		{"avg_fragmentation_ratio", Float(round(average, 4))}, {"max_fragmentation_ratio", Float(round(highest, 4))},
		{"avg_gap_bytes", Float(round(mean(l.gaps), 1))}, {"sample_count", len(ratios)},
	}, fragmented[slices.Index(ratios, highest)], average*100)
}
