package leak

import (
	"cmp"
	"iter"
	"regexp"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// Settings are what a user may change. The zero value is the default.
type Settings struct {
	Critical int64 // a leak of as many occupied bytes is critical; 0 = 1 GiB
	Limit    int64 // bytes that the device has; 0 = as the capture says, if it does

	// Function limits the rules to the allocations of functions that it matches and
	// of those that they called; nil = everything.
	Function *regexp.Regexp
}

// Pass is one run of the rules over a space of a capture. It holds what several
// rules need, computed once.
type Pass struct {
	*lifetime.Capture
	Settings
	Space *lifetime.Space

	// Highest is the highest peak of the compiled programs that Find looks at, in
	// the memory that Space belongs to.
	Highest int64

	histories *histories // of a dynamic space
	steps     steps      // of a dynamic space

	// What the rules so far have found.
	explained  map[lifetime.SiteID]bool // sites of findings of rules that explain
	leaks      bool                     // a leak, or the suspicion of one
	fragmented bool                     // an allocation failed because free memory was in pieces

	// Computed when first needed.
	calls    *calls
	marked   []lifetime.Mark // those that are steps
	streams  streams
	releases []int64          // when regions were given back to the device, sorted
	levels   []lifetime.Level // of the space, in occupied bytes
	peak     *lifetime.Level
	matches  func(lifetime.SiteID) bool // whether Settings.Function matches a site
}

func newPass(c *lifetime.Capture, s *lifetime.Space, settings Settings) *Pass {
	p := &Pass{Capture: c, Settings: settings, Space: s, explained: map[lifetime.SiteID]bool{}}
	if p.dynamic() {
		p.histories = newHistories(s)
		p.steps = p.findSteps()
		p.histories.useSteps(s, &p.steps)
	}
	return p
}

// dynamic reports whether the space has a history of allocations and frees.
func (p *Pass) dynamic() bool { return p.Space.Facts&lifetime.History != 0 && !p.compiled() }

// compiled reports whether the space belongs to a compiled program.
func (p *Pass) compiled() bool { return p.Space.Axis == lifetime.ProgramOrder }

// unexplained yields the sites that Settings.Function selects and no rule so far has
// explained, with their histories.
func (p *Pass) unexplained() iter.Seq2[lifetime.SiteID, *history] {
	return func(yield func(lifetime.SiteID, *history) bool) {
		for _, site := range p.histories.order {
			if !p.explained[site] && p.selected(site) && !yield(site, p.histories.sites[site]) {
				return
			}
		}
	}
}

// selected reports whether Settings.Function selects a site: it matches a function on
// the stack, or the operation.
func (p *Pass) selected(site lifetime.SiteID) bool {
	if p.matches == nil {
		p.matches = p.Matching(p.Function)
	}
	return p.matches(site)
}

// anyFrame reports whether a frame on the stack of a site is as asked.
func anyFrame(c *lifetime.Capture, site lifetime.SiteID, is func(*lifetime.Frame) bool) bool {
	for f := range c.FramesOf(c.Sites[site].Stack) {
		if is(f) {
			return true
		}
	}
	return false
}

// limit returns how many bytes the device has, 0 when neither the user nor the capture
// says so.
func (p *Pass) limit() int64 { return cmp.Or(p.Limit, p.Space.Limit) }

// usage returns the levels of the space in occupied bytes. Several rules look at
// them, and a walk through all changes takes longer than their own work.
func (p *Pass) usage() []lifetime.Level {
	if p.levels == nil {
		p.levels = make([]lifetime.Level, 0, 1+2*len(p.Space.Buffers)+len(p.Space.Stack))
		for level := range p.Space.Levels(lifetime.Occupied) {
			p.levels = append(p.levels, level)
		}
	}
	return p.levels
}

// highest returns the peak of the space in occupied bytes, as Space.Peak does.
func (p *Pass) highest() lifetime.Level {
	if p.peak == nil {
		peak := lifetime.Level{At: p.Space.Begin}
		for i, level := range p.usage() {
			if level.Bytes > peak.Bytes || i == 0 && !p.Space.UsageOnly() {
				peak = level
			}
		}
		p.peak = &peak
	}
	return *p.peak
}

// notable is the share of the peak below which the rules that find no fault are silent
// about a site.
const notable = 0.01

// isNotable reports whether bytes are a notable share of the peak.
func (p *Pass) isNotable(bytes int64) bool { return shareOf(bytes, p.highest().Bytes) >= notable }

// atEnd returns the level at the end of the window in occupied bytes.
func (p *Pass) atEnd() int64 {
	levels := p.usage()
	n := sort.Search(len(levels), func(i int) bool { return levels[i].At > p.Space.End })
	if n == 0 {
		return 0
	}
	return levels[n-1].Bytes
}

// since returns an instant for people, counted from the beginning of the window.
func (p *Pass) since(t int64) string {
	return "+" + units.Span(t-p.Space.Begin, p.Space.Axis.Unit())
}

// shareOf returns part of whole, 0 to 1; 0 where whole is nothing.
func shareOf(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// distinct returns the sites in order of their first appearance.
func distinct(sites []lifetime.SiteID) (all []lifetime.SiteID) {
	seen := map[lifetime.SiteID]bool{}
	for _, site := range sites {
		if !seen[site] {
			seen[site] = true
			all = append(all, site)
		}
	}
	return all
}
