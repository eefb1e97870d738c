package preset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/memlane/memlane/lifetime"
)

// Classifications of gaps.
const (
	transientSpike    = "transient_spike"
	persistentDrift   = "persistent_drift"
	fragmentationLike = "fragmentation_like"
)

// gapInput is the input of the rules about gaps: samples with both sides of the gap and the memory of the device.
type gapInput struct {
	preset  *Preset
	t       Thresholds
	samples []*lifetime.Sample
	gaps    []float64 // bytes in use on the device that the allocator did not reserve
	largest float64   // largest absolute gap over the memory of the device
}

// newGapInput returns nil without samples.
func newGapInput(p *Preset, samples []lifetime.Sample, t Thresholds) *gapInput {
	if len(samples) == 0 {
		return nil
	}
	g := &gapInput{preset: p, t: t}
	for i := range samples {
		s := &samples[i]
		if s.DeviceTotal <= 0 || s.DeviceUsed < 0 || s.Reserved < 0 || p.regularOnly && !s.Regular {
			continue
		}
		gap := float64(s.DeviceUsed - s.Reserved)
		g.samples = append(g.samples, s)
		g.gaps = append(g.gaps, gap)
		g.largest = max(g.largest, math.Abs(gap/float64(s.DeviceTotal)))
	}
	return g
}

// relevant reports whether there are enough samples and one large gap.
func (g *gapInput) relevant() bool {
	return g != nil && len(g.gaps) >= 3 && g.largest >= g.t.GapRatioThreshold
}

// finding completes a finding; in is the sample that shows it best.
func (g *gapInput) finding(f GapFinding, in *lifetime.Sample) []GapFinding {
	f.Remediation = g.preset.gapAdvice[f.Classification]
	if g.preset.dated {
		f.Moment = &Moment{EvidenceTimestampNS: in.T}
	}
	return []GapFinding{f}
}

// transientSpikes finds gaps far above the mean.
func transientSpikes(g *gapInput) []GapFinding {
	average, spread := mean(g.gaps), deviation(g.gaps)
	if spread == 0 || math.IsNaN(spread) {
		return nil
	}
	spikes, highest := 0, 0
	for i, gap := range g.gaps {
		if (gap-average)/spread > g.t.GapSpikeZScore {
			spikes++
		}
		if gap > g.gaps[highest] {
			highest = i
		}
	}
	if spikes == 0 {
		return nil
	}
	z := (g.gaps[highest] - average) / spread
	return g.finding(GapFinding{
		Classification: transientSpike,
		Severity:       severityOf(z > 2*g.t.GapSpikeZScore),
		Confidence:     Float(round(min(1, z/(3*g.t.GapSpikeZScore)), 3)),
		Evidence: Figures{
			{"spike_count", spikes},
			{"max_gap_bytes", Float(g.gaps[highest])},
			{"max_zscore", Float(round(z, 3))},
			{"mean_gap_bytes", Float(round(average, 1))},
			{"std_gap_bytes", Float(round(spread, 1))},
		},
		Description: fmt.Sprintf("Detected %d transient spike(s) in the device-vs-allocator gap (max z-score %.1f).", spikes, z),
	}, g.samples[highest])
}

// persistentDrifts finds gaps that grow along a line.
func persistentDrifts(g *gapInput) []GapFinding {
	if len(g.gaps) < 5 {
		return nil
	}
	times := make([]float64, len(g.samples))
	for i, s := range g.samples {
		times[i] = float64(s.T) - float64(g.samples[0].T)
	}
	fit, ok := regress(times, g.gaps)
	square := fit.r * fit.r
	if !ok || !(fit.slope > 0) || square < g.t.GapDriftRSquared {
		return nil
	}
	perSecond := fit.slope * 1e9
	last := len(g.gaps) - 1
	return g.finding(GapFinding{
		Classification: persistentDrift,
		Severity:       severityOf(square > 0.85),
		Confidence:     Float(roundScaled(min(1, square), 3)),
		Evidence: Figures{
			{"slope_bytes_per_sec", Float(roundScaled(perSecond, 1))},
			{"r_squared", Float(roundScaled(square, 4))},
			{"p_value", Float(roundScaled(fit.p, 6))},
			{"gap_start_bytes", Float(g.gaps[0])},
			{"gap_end_bytes", Float(g.gaps[last])},
		},
		Description: fmt.Sprintf("Device-vs-allocator gap is drifting upward at %s/s (R²=%.2f).", formatBytes(math.Trunc(math.Abs(perSecond))), square),
	}, g.samples[last])
}

// fragmentationLikes finds a large share of fragments in the reserved memory, on average over all samples.
func fragmentationLikes(g *gapInput) []GapFinding {
	var ratios []float64
	var fragmented []*lifetime.Sample
	for _, s := range g.samples {
		if bytes, known := g.preset.sampleFragments(s); known && s.Reserved > 0 {
			ratios = append(ratios, float64(bytes)/float64(s.Reserved))
			fragmented = append(fragmented, s)
		}
	}
	if len(ratios) == 0 {
		return nil
	}
	average, highest := mean(ratios), slices.Max(ratios)
	if average < g.t.GapFragmentationRatio {
		return nil
	}
	return g.finding(GapFinding{
		Classification: fragmentationLike,
		Severity:       severityOf(average > 0.5),
		Confidence:     Float(round(min(1, average/0.6), 3)),
		Evidence: Figures{
			{"avg_fragmentation_ratio", Float(round(average, 4))},
			{"max_fragmentation_ratio", Float(round(highest, 4))},
			{"avg_gap_bytes", Float(round(mean(g.gaps), 1))},
			{"sample_count", len(ratios)},
		},
		Description: fmt.Sprintf(g.preset.gapFragmentation, fmt.Sprintf("%.0f%%", average*100)),
	}, fragmented[slices.Index(ratios, highest)])
}

// sortGaps puts critical findings first, then the most confident ones.
func sortGaps(all []GapFinding) {
	slices.SortStableFunc(all, func(x, y GapFinding) int {
		return cmp.Or(cmp.Compare(x.Severity, y.Severity), cmp.Compare(y.Confidence, x.Confidence)) // critical < warning
	})
}

// round rounds like Python: to the decimal number nearest to x.
func round(x float64, digits int) float64 {
	nearest, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', digits, 64), 64)
	if err != nil { // not finite
		return x
	}
	return nearest
}

// formatBytes formats a size like gpumemprof.utils.format_bytes: binary units with decimal names.
func formatBytes(size float64) string {
	if size == 0 {
		return "0 B"
	}
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	i := 0
	for size >= 1024 && i < len(units)-1 {
		size /= 1024
		i++
	}
	return fmt.Sprintf("%.2f %s", size, units[i])
}
