package laws

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/google/pprof/profile"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/render/pprof"
)

// TestInstants: info, peak, outlines and profiles give one figure for the peak, the end and the reserved memory of a space.
func TestInstants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkInstants(t, subjectOf("", judge.Of(anyCapture(t, usual)))) })
}

type fataler interface {
	Fatalf(format string, values ...any)
}

func checkInstants(t fataler, of *subject) {
	c, file, info := of.Capture, of.file, of.info()
	for i, s := range c.Spaces {
		got := info.Spaces[i]
		peak, end := answer.PeakOf(&c.Tables, s, s.Peak(lifetime.Occupied).At), answer.PeakOf(&c.Tables, s, s.AtEnd())
		if got.Peak.Bytes != peak.Bytes || got.Peak.At != peak.At || got.EndBytes != end.Bytes {
			t.Fatalf("%s %s: info has peak %d at %d and end %d, peak has %d at %d and %d", file, s.ID(), got.Peak.Bytes, got.Peak.At, got.EndBytes, peak.Bytes, peak.At, end.Bytes)
		}
		if levels := region.Levels(s); got.ReservedBytes != nil && len(levels) > 0 && *got.ReservedBytes != levels[len(levels)-1].Bytes {
			t.Fatalf("%s %s: info has %d reserved, the curve %d", file, s.ID(), *got.ReservedBytes, levels[len(levels)-1].Bytes)
		}
		if s.UsageOnly() {
			continue
		}
		for at, want := range map[int64]int64{peak.At: peak.Bytes, s.AtEnd(): end.Bytes} {
			p, err := pprof.Profile([]*lifetime.Capture{c.Capture}, pprof.Options{Spaces: []*lifetime.Space{s}, At: pprof.Fixed, Time: at})
			if err != nil {
				continue // it has no profile
			}
			if sum := inUse(p); sum != want {
				t.Fatalf("%s %s: at %d peak has %d, the profile %d", file, s.ID(), at, want, sum)
			}
		}
	}
}

// TestHolders: what leaks says of a failed allocation agrees with peak at that instant: places are grouped in one way.
func TestHolders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkHolders(t, subjectOf("", judge.Of(anyCapture(t, usual)))) })
}

func checkHolders(t fataler, of *subject) (n int) {
	for _, f := range of.Findings() {
		_, largest, found := strings.Cut(f.Description, "largest: ")
		if f.Rule != "oom" || !found || strings.HasPrefix(largest, "code without a recorded stack") {
			continue // peak lists these by type and shape
		}
		if slices.ContainsFunc(f.Sites, func(site lifetime.SiteID) bool {
			inner, ok := of.FrameOf(site)
			return ok && inner.Kind == frame.Scope
		}) {
			continue // peak says what is around an operator or region
		}
		n++
		at := f.Space.Peak(lifetime.Occupied).At
		if len(f.Failures) > 0 {
			at = f.Failures[0].Mark.Begin
		}
		held, most := map[string]int64{}, int64(0) // peak parts a place by category, and an operation without a stack by type and shape
		for _, r := range answer.PeakOf(&of.Tables, f.Space, at).Rows {
			name := r.Site.Name
			if len(r.Site.Stack) == 0 && r.Op != "" {
				name = r.Op
			}
			if r.Count > 0 {
				held[name] += r.Bytes
				most = max(most, held[name])
			}
		}
		if !strings.Contains(largest, " "+units.Bytes(most)) {
			t.Fatalf("%s %s: leaks has %q, the largest place of peak has %s", of.file, f.Space.ID(), largest, units.Bytes(most))
		}
	}
	return n
}

// inUse returns the sum of inuse_space.
func inUse(p *profile.Profile) (bytes int64) {
	for i, kind := range p.SampleType {
		if kind.Type == "inuse_space" {
			for _, s := range p.Sample {
				bytes += s.Value[i]
			}
		}
	}
	return bytes
}
