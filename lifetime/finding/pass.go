package finding

import (
	"cmp"
	"iter"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/selection"
)

// Settings are the options of the rules. The zero value has the defaults.
type Settings struct {
	Critical int64          // occupied bytes from which a leak is critical; 0 = 1 GiB
	Limit    int64          // bytes of the device; 0 = the limit in the capture, if any
	Least    int64          // occupied bytes below which a leak is only Info; 0 = 32 KiB
	Sure     float64        // confidence below which a leak is only Info
	Function *regexp.Regexp // considers only functions that match, and the functions that they call; nil = all
	Rules    []Rule         // in the order in which they run; nil = those of the function Rules
}

// Pass is one run of the rules over a space of a capture. It caches what several rules need. A rule from outside this package reads the space and the
// settings; it changes none of them. Nothing tells when the program read or wrote a buffer: captures have allocations and frees.
type Pass struct {
	*lifetime.Capture
	Settings
	Space *lifetime.Space

	program *program.Program
	facts   Facts // nil for the leaks until a failure
	largest int64 // highest peak of all compiled programs of this run, in the memory of Space

	histories *histories     // of a dynamic space
	steps     *program.Steps // of a dynamic space

	// State from the rules that already ran.
	explained  map[lifetime.SiteID]bool // sites with a finding of a rule that explains
	leaks      bool                     // there is a leak or a suspected one
	growsLate  bool                     // the buffers of a site began to grow in number too late to judge
	fragmented bool                     // other words say why memory is free but missing: a failed allocation, or idle memory of private pools

	// Computed when first needed.
	traced    callPaths        // with one name for all traces of a tf.function
	python    callPaths        // without native frames
	streams   func(int) int64  // see streamOf
	releases  []int64          // when regions were given back to the device, sorted
	levels    []lifetime.Level // of the space, in occupied bytes
	peak      *lifetime.Level
	survived  func(*lifetime.Mark) bool  // see oom.Survivors
	results   map[int]int                // by step; see ofGraph
	over      []bool                     // by buffer; see saved
	computing []bool                     // by site: its function calls modules; see saved
	storing   []bool                     // by site: its function only copies or makes tensors; see savesFor
	older     map[lifetime.SiteID]bool   // by site: see freesOlder
	before    map[lifetime.Place][]int   // live buffers that are older than the window, by place
	matches   func(lifetime.SiteID) bool // reports whether Settings.Function matches a site
}

func newPass(c *program.Program, s *lifetime.Space, settings Settings) *Pass {
	p := &Pass{Capture: c.Capture, program: c, Settings: settings, Space: s, explained: map[lifetime.SiteID]bool{}}
	if p.dynamic() {
		p.newTimeline()
	}
	return p
}

func (p *Pass) dynamic() bool { return p.Space.Facts&lifetime.History != 0 && !p.compiled() }

func (p *Pass) compiled() bool { return p.Space.Axis == lifetime.ProgramOrder }

// unexplained yields the selected sites that no earlier rule has explained, with their histories.
func (p *Pass) unexplained() iter.Seq2[lifetime.SiteID, *history] {
	return func(yield func(lifetime.SiteID, *history) bool) {
		for _, site := range p.histories.order {
			if !p.explained[site] && p.selected(site) && !yield(site, p.histories.sites[site]) {
				return
			}
		}
	}
}

// selected reports whether Settings.Function matches a function on the stack of a site, or its operation.
func (p *Pass) selected(site lifetime.SiteID) bool {
	if p.matches == nil {
		p.matches = selection.Matching(&p.Capture.Tables, p.Function)
	}
	return p.matches(site)
}

func (p *Pass) anyFrame(site lifetime.SiteID, is func(*frame.Frame) bool) bool {
	for f := range p.FramesOf(p.Sites[site].Stack) {
		if is(f) {
			return true
		}
	}
	return false
}

// inOneCall reports whether all allocations of a site are in one module call or one backward pass.
func (p *Pass) inOneCall(site lifetime.SiteID) bool { return p.program.InOneCall(p.Space, site) }

// ofPyTorch reports whether PyTorch allocated the buffers: other advice is for other frameworks.
func (p *Pass) ofPyTorch() bool {
	producer := p.Sources[p.Space.Source].Producer
	return slices.ContainsFunc([]string{"PyTorch", "gpumemprof", "stormlog"},
		func(name string) bool { return strings.HasPrefix(producer, name) })
}

func (p *Pass) advice(torch, others string) []string {
	if p.ofPyTorch() {
		return []string{torch}
	}
	return []string{others}
}

// limit returns the bytes of the device, 0 if neither the settings nor the capture have a limit.
func (p *Pass) limit() int64 { return cmp.Or(p.Limit, p.Space.Limit) }

// usage returns the levels of the space in occupied bytes. They are cached: computing them takes longer than the rules.
func (p *Pass) usage() []lifetime.Level {
	if p.levels == nil {
		p.levels = make([]lifetime.Level, 0, 1+2*len(p.Space.Buffers)+len(p.Space.Stack))
		for level := range p.Space.Levels(lifetime.Occupied) {
			p.levels = append(p.levels, level)
		}
	}
	return p.levels
}

// highest returns the peak of the space in occupied bytes, the same as Space.Peak.
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

// notable is the share of the peak below which rules of severity Info are silent about a site.
const notable = 0.01

func (p *Pass) isNotable(bytes int64) bool { return shareOf(bytes, p.highest().Bytes) >= notable }

// atEnd returns the level at the end of the window, in occupied bytes.
func (p *Pass) atEnd() int64 {
	levels := p.usage()
	n := sort.Search(len(levels), func(i int) bool { return levels[i].At > p.Space.End })
	if n == 0 {
		return 0
	}
	return levels[n-1].Bytes
}

// since formats an instant as the time since the window began: "+14.8 ms".
func (p *Pass) since(t int64) string {
	if t < p.Space.Begin { // marks may be older than the window
		return "the start of the recording"
	}
	return "+" + units.Span(t-p.Space.Begin, p.Space.Axis.Unit())
}

// shareOf returns part / whole; 0 if whole is not positive.
func shareOf(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// distinct removes duplicate sites and keeps their order.
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

// Change sums up what functions allocated and freed in one step of the program.
type Change struct {
	Begin            int64 // of the step
	Allocated, Freed lifetime.Amount
}

// Bytes returns the change of the live occupied bytes in the step.
func (c *Change) Bytes() int64 { return units.AddSat(c.Allocated.Bytes, -c.Freed.Bytes) }

// Changes returns, for each step, what the functions selected by settings.Function allocated and freed. Events before
// the first step count towards it; without steps the whole window is one step. inferred is true for unmarked steps.
func Changes(of *program.Program, s *lifetime.Space, settings Settings) (all []Change, inferred bool) {
	p := newPass(of, s, settings)
	if !p.dynamic() {
		return nil, false
	}
	for _, begin := range p.steps.Begins {
		all = append(all, Change{Begin: begin})
	}
	if len(all) == 0 {
		all = []Change{{Begin: s.Begin}}
	}
	for change := range s.Changes() {
		b := &s.Buffers[change.Buffer]
		if !p.selected(b.Site) || change.Begin && b.Edge&lifetime.BeginUnseen != 0 {
			continue
		}
		step := &all[max(p.steps.At(change.T), 0)]
		if change.Begin {
			step.Allocated.Add(amountOf(b))
		} else {
			step.Freed.Add(amountOf(b))
		}
	}
	return all, p.steps.Inferred() && len(p.steps.Begins) > 0
}
