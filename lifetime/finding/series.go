package finding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/loss"
)

// leastSeries is the minimum number of captures of a series.
const leastSeries = 3

// series compares captures of one run. A Series runs it on all captures together.
var series = Rule{Name: "series", Kind: KindRetention,
	Doc: "call sites and compiled programs that grow from each capture of a run to the next; needs three captures without a history"}

// Growth is a call site whose live memory rises from each capture of a run to the next.
type Growth struct {
	Space *lifetime.Space // in the last capture
	Site  lifetime.SiteID
	Place lifetime.Place
	Bytes []int64 // occupied at the end of each capture, in the order of the captures

	buffers []int64 // at the end of each capture
}

func (g *Growth) grown() int64 { return g.Bytes[len(g.Bytes)-1] - g.Bytes[0] }

// Series compares several captures of one run by what is alive at their ends. This needs no history.
type Series struct {
	last     *lifetime.Capture
	at       map[siteOfSeries]*Growth
	programs []int64 // executables in each capture
	history  bool    // a capture has a history, so it is judged alone
}

type siteOfSeries struct {
	space string
	place lifetime.Place
}

// Add adds the next capture.
func (s *Series) Add(c *lifetime.Capture) {
	if s.at == nil {
		s.at = map[siteOfSeries]*Growth{}
	}
	programs := int64(0)
	for i := range c.Losses {
		if c.Losses[i].Reason == loss.UnknownSize { // of executables
			programs += c.Losses[i].Count
		}
	}
	n := len(s.programs)
	for _, space := range c.Spaces {
		if space.Axis == lifetime.ProgramOrder {
			continue
		}
		s.history = s.history || space.Facts&lifetime.History != 0
		for _, row := range space.Breakdown(space.AtEnd()) {
			if c.Sites[row.Site].Region == "executable" {
				programs += row.Count
			}
			if !row.Kind.OfBuffers() || row.Site == 0 {
				continue
			}
			key := siteOfSeries{space.ID(), c.PlaceOf(row.Site)}
			if s.at[key] == nil {
				s.at[key] = &Growth{Place: key.place}
			}
			g := s.at[key]
			for len(g.Bytes) <= n {
				g.Bytes, g.buffers = append(g.Bytes, 0), append(g.buffers, 0)
			}
			g.Bytes[n], g.buffers[n] = g.Bytes[n]+row.Bytes, g.buffers[n]+row.Count
			if g.Space != space { // the stack with most
				g.Space, g.Site = space, row.Site
			}
		}
	}
	s.last, s.programs = c, append(s.programs, programs)
}

// Captures returns the number of captures that only the series can judge; 0 if they are too few, have histories, or nothing in common.
func (s *Series) Captures() int {
	n := len(s.programs)
	if n < leastSeries || s.history {
		return 0
	}
	common := slices.Min(s.programs) > 0
	for _, g := range s.at {
		common = common || len(g.Bytes) == n && slices.Min(g.Bytes) > 0
	}
	if !common {
		return 0
	}
	return n
}

// Growing returns the call sites with more live memory in each capture than in the one before, most growth first; none
// if there are fewer than three captures. A growth below a hundredth of the memory at the end is omitted.
func (s *Series) Growing() (all []Growth) {
	const notable = 100
	n := len(s.programs)
	if n < leastSeries {
		return nil
	}
	total := map[string]int64{} // at the end of the last capture, by space
	for key, g := range s.at {
		if len(g.Bytes) == n {
			total[key.space] += g.Bytes[n-1]
		}
	}
	for key, g := range s.at {
		if len(g.Bytes) == n && failure.Rises(g.Bytes) && g.grown()*notable >= total[key.space] {
			all = append(all, *g)
		}
	}
	slices.SortFunc(all, func(x, y Growth) int {
		return cmp.Or(cmp.Compare(y.grown(), x.grown()), cmp.Compare(x.Space.ID(), y.Space.ID()), cmp.Compare(x.Place.String(), y.Place.String()))
	})
	return all
}

// Findings returns what grows, as findings about the last capture. They state what was recorded.
func (s *Series) Findings() (all []Finding) {
	n := s.Captures()
	if n == 0 {
		return nil
	}
	add := func(f Finding, place, text, advice string) {
		f.Rule, f.Kind, f.Severity, f.Confidence, f.Of, f.Suggestions = series.Name, series.Kind, Warning, recorded, &s.last.Tables, []string{advice}
		f.describe(place, fmt.Sprintf("%s over %d captures, more in each", text, n))
		all = append(all, f)
	}
	for _, g := range s.Growing() {
		f := Finding{Space: g.Space, Sites: []lifetime.SiteID{g.Site}, Amount: lifetime.Amount{Bytes: g.Bytes[n-1]}}
		advice := "Do not keep what each step makes: look for lists, caches and old states."
		if strings.HasPrefix(s.last.Sources[g.Space.Source].Producer, "JAX") {
			advice = "Clear lists that keep results of steps; donate old states (donate_argnums)."
		}
		if g.buffers[n-1] <= g.buffers[1] { // the first capture may be from before it
			advice = "Pad to a fixed shape, or bound what is appended: the arrays get larger, not more."
		}
		add(f, g.Place.String(), fmt.Sprintf("grows from %s to %s", units.Bytes(g.Bytes[0]), units.Bytes(g.Bytes[n-1])), advice)
	}
	if len(s.last.Spaces) > 0 && failure.Rises(s.programs) {
		add(Finding{Space: s.last.Spaces[0]}, "", fmt.Sprintf("compiled programs (executables) grow from %s to %s", units.Count(s.programs[0]), units.Count(s.programs[n-1])),
			"Pad inputs to few shapes and jit outside of loops: a new shape compiles again.")
	}
	return all
}
