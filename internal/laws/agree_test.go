package laws

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/figure"
)

// agree asks all commands about one capture. Those that agreement, stepsLaw and checkReasons compare are left out here.
func agree(*snapshot) cases {
	return func(yield func(evidenceCase) bool) {
		yield(evidenceCase{name: "commands", holds: func(v, _ *verdict) []breach {
			return slices.Concat(v.predicted(), v.tuned(), v.drawn())
		}})
	}
}

// predicted compares what-if with the recording.
func (v *verdict) predicted() (all []breach) {
	spaces, err := answer.WhatIfOf(v.Capture, answer.WhatIfAsked{})
	if err != nil { // nothing to predict
		return nil
	}
	for _, w := range spaces {
		i := slices.Index(v.spaces, w.ID)
		peak := v.Spaces[i].Peak(lifetime.Occupied).Bytes
		if len(w.Scenarios) == 0 || peak == 0 {
			continue
		}
		highest := max(peak, *w.Scenarios[0].ReplayedBytes)
		if w.OneStep { // changes are of the next step
			highest = *w.Scenarios[1].PeakBytes
		}
		for _, s := range w.Scenarios {
			what, recorded := strings.Join(s.Edits, ","), len(s.Edits) == 0
			if recorded && *s.PeakBytes != peak {
				all = append(all, breach{"peak: info, whatif (recorded)", fmt.Sprintf("%s: %d, %d B", w.ID, peak, *s.PeakBytes), 1})
			}
			if recorded && w.Failed && s.Fits != nil && *s.Fits && s.Exact {
				all = append(all, breach{"oom: whatif says that the recorded one fits", w.ID, 1})
			}
			if !recorded && what != "next-step" && s.Refused == "" && *s.HighBytes > highest {
				all = append(all, breach{"a change that may raise the peak is offered", fmt.Sprintf("%s: %s: %d to %d at a peak of %d B", w.ID, what, *s.LowBytes, *s.HighBytes, highest), 1})
			}
		}
	}
	return all
}

// lasting are the reasons that say that no settings of the allocator help.
var lasting = []oom.Reason{oom.Exhausted, oom.Leak, oom.Larger}

// tuned compares why a request failed with what other settings of the allocator do.
func (v *verdict) tuned() (all []breach) {
	failures, _ := answer.OOMsOf(v.Capture, v.Spaces)
	if len(failures) == 0 || len(v.Spaces) != 1 || failures[0].Reason == string(oom.Survived) {
		return nil
	}
	var t answer.Tuning
	if err := t.Add(v.Capture); err != nil { // nothing to replay
		return nil
	}
	tune, err := t.Tune(nil, func() error { return nil })
	if err != nil || len(tune.Settings) == 0 {
		return nil
	}
	var good []string
	for _, s := range tune.Settings {
		if s.Outcome == "ok" && s.Exact {
			good = append(good, s.Conf)
		}
	}
	f := failures[0]
	if slices.Contains(good, tune.Settings[0].Conf) {
		all = append(all, breach{"oom: tune says that the recorded settings do not fail", f.Reason, 1})
	}
	delays := f.Proof != nil && slices.ContainsFunc(good, func(conf string) bool { // what does not fail, but fails soon: oom says so
		return strings.Contains(*f.Proof, conf+" only delays it")
	})
	if len(good) > 0 && slices.Contains(lasting, oom.Reason(f.Reason)) && !delays {
		all = append(all, breach{"oom: " + f.Reason + ", tune: other settings do not fail", good[0] + "; do: " + f.Advice, 1})
	}
	if len(good) == 0 && f.Reason == string(oom.Fragmented) && f.Proof != nil && strings.Contains(*f.Proof, "would have fit") {
		all = append(all, breach{"oom: it would have fit, tune: no settings do", *f.Proof, 1})
	}
	return all
}

var peakText = regexp.MustCompile(`[Pp]eak (?:is|of) ([\d.,]+) (B|KiB|MiB|GiB)`)

// drawn compares the peak that a picture names with those of the recording. It is rounded: to .6 %.
func (v *verdict) drawn() []breach {
	s, _ := selection.Largest(v.Spaces)
	var picture bytes.Buffer
	if s == nil || figure.Write(&picture, v.Capture, s, v.Spaces, figure.Options{}) != nil {
		return nil
	}
	said := peakText.FindStringSubmatch(picture.String())
	if said == nil {
		return nil
	}
	n, _ := strconv.ParseFloat(strings.ReplaceAll(said[1], ",", ""), 64)
	n *= map[string]float64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[said[2]]
	for _, s := range v.Spaces {
		if math.Abs(n-float64(s.Peak(lifetime.Occupied).Bytes)) <= .006*n+1 {
			return nil
		}
	}
	return []breach{{"peak: info, svg", said[0], 1}}
}
