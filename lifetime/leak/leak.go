package leak

import (
	"cmp"
	"regexp"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// Severity of a finding.
type Severity uint8

const (
	Info Severity = iota
	Warning
	Critical
)

var severityNames = [...]string{"info", "warning", "critical"}

// String returns the name used in JSON and labels.
func (s Severity) String() string { return severityNames[s] }

// ParseSeverity is the inverse of Severity.String.
func ParseSeverity(name string) (Severity, bool) {
	i := slices.Index(severityNames[:], name)
	return Severity(max(i, 0)), i >= 0
}

// Rule is one way to look for trouble in a space.
type Rule struct {
	Name string // as in JSON and labels
	Doc  string // what it finds, in one line
	Run  func(l Look) []Finding
}

// Look is what a rule looks at: a space of a capture.
type Look struct {
	*lifetime.Capture
	Settings
	Space *lifetime.Space

	// Highest is the highest peak of the compiled programs that are looked at, in
	// the memory that Space is of.
	Highest int64

	*common
}

// Settings are what a user may change. The zero value is the usual.
type Settings struct {
	Critical int64 // a leak of as many occupied bytes is critical; 0 = 1 GiB
	Limit    int64 // bytes that the device has; 0 = as the capture tells, if it does

	// Function limits the rules to what was allocated by functions that it
	// matches and by those that they called; nil = everything.
	Function *regexp.Regexp
}

// common is what several rules need to know of a space, found out once.
type common struct {
	histories *histories
	calls     *calls
	steps     *steps
	marked    []lifetime.Mark // those that are steps
	streams   streams
	releases  []int64                  // when regions were given back to the device, sorted
	levels    []lifetime.Level         // of the space, in occupied bytes
	told      map[lifetime.SiteID]bool // sites of findings of the rules so far
	leaks     bool                     // whether one of them is a leak
	inPieces  bool                     // whether an allocation failed because free memory was in pieces
	peak      *lifetime.Level
	wanted    func(lifetime.SiteID) bool // tells the sites that Settings.Function matches
}

// Leak is the name of the rule whose findings are leaks, Grown of the one that
// finds leaks in a single buffer; the others tell where memory goes that a
// program holds for good reason, or uses badly.
const (
	Leak  = "leak"
	Grown = "growing_buffer"
)

// Rules are all rules, in the order in which they run. A rule does not speak of a
// site that one before it has spoken of, where both look at the same thing.
var Rules = []Rule{
	{"oom", "allocations that failed, and why: exhausted, fragmented, or held outside the allocator", outOfMemory},
	{Leak, "sites whose buffers keep piling up until the end of the window", growing},
	{Grown, "sites that replace their buffer by a larger one, again and again", grown},
	{"delayed_free", "buffers that are freed many at a time, long after most of them were allocated", delayed},
	{"cache", "sites that piled up buffers and then stopped: caches that are full, no leak", plateau},
	{"long_lived", "buffers that outlive the others of their site by far", longLived},
	{"imbalance", "allocations without a free that no other rule explains", imbalance},
	{"trend", "memory in use that rises, or is flat, for reasons that no site shows", trending},
	{"spike", "iterations that need much more memory than the usual one", spikes},
	{"fragmentation", "reserved memory that is free but in pieces", fragmentation},
	{"inefficient_allocation", "sites whose buffers are much larger than what was asked for", inefficient},
	{"repeated_allocation", "buffers of one size that are allocated and freed over and over", repeated},
	{"whole_program", "inputs, outputs and constants that a compiled program always holds", wholeProgram},
	{"padding", "buffers of a compiled program that are much larger than their elements", padding},
}

// Finding is one place in the program and what is wrong with it.
type Finding struct {
	Rule       string
	Severity   Severity
	Confidence float64 // 0 to 1: how far the evidence carries
	Space      *lifetime.Space
	Sites      []lifetime.SiteID // the stacks concerned; the first one names the place. None: the whole space
	Amount     lifetime.Amount   // the buffers concerned

	BytesPerStep float64 // requested bytes; 0 when it is not known what a step is
	Description  string
	Evidence     []Evidence
	Suggestions  []string

	Kept []int // the buffers of a leak, by index into Space.Buffers; nil of others
}

// Place returns the site that names the place of a finding, 0 where it is about the
// whole space.
func (f *Finding) Place() lifetime.SiteID {
	if len(f.Sites) == 0 {
		return 0
	}
	return f.Sites[0]
}

// IsLeak reports whether a finding is a leak, and not only suspected to be one.
func (f *Finding) IsLeak() bool { return (f.Rule == Leak || f.Rule == Grown) && f.Severity > Info }

// Evidence is one figure behind a finding, or a word.
type Evidence struct {
	Name  string
	Value float64
	Text  string // in place of Value where it is not ""
}

// Find runs every rule on the spaces and returns the findings as Sort orders
// them.
func Find(c *lifetime.Capture, spaces []*lifetime.Space, settings Settings) []Finding {
	highest := map[string]int64{} // by memory
	for _, s := range spaces {
		if s.Axis == lifetime.ProgramOrder {
			highest[s.Memory] = max(highest[s.Memory], s.Peak(lifetime.Occupied).Bytes)
		}
	}
	var all []Finding
	for _, s := range spaces {
		l := Look{c, settings, s, highest[s.Memory], &common{told: map[lifetime.SiteID]bool{}}}
		for _, r := range Rules {
			found := r.Run(l)
			for _, f := range found {
				f.Rule, f.Space = r.Name, s
				all = append(all, f)
			}
			l.tell(r.Name, found)
		}
	}
	Sort(all)
	return all
}

// Sort puts findings in the order of reports: most severe first, leaks before
// others, then most bytes.
func Sort(all []Finding) {
	other := func(f *Finding) int {
		if f.IsLeak() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(y.Severity, x.Severity), cmp.Compare(other(&x), other(&y)), cmp.Compare(y.Amount.Bytes, x.Amount.Bytes),
			cmp.Compare(x.Space.ID(), y.Space.ID()), slices.Compare(x.Sites, y.Sites))
	})
}

// tell notes the sites of the findings of a rule that explains why their buffers
// are alive.
func (l Look) tell(rule string, found []Finding) {
	l.leaks = l.leaks || (rule == Leak || rule == Grown) && len(found) > 0
	switch rule {
	case Leak, Grown, "cache", "delayed_free", "long_lived":
		for _, f := range found {
			for _, site := range f.Sites {
				l.told[site] = true
			}
		}
	}
}

// dynamic reports whether the space has a history of allocations and frees.
func (l Look) dynamic() bool {
	return l.Space.Facts&lifetime.History != 0 && l.Space.Axis != lifetime.ProgramOrder
}

// wants reports whether Settings.Function asks for a site: its function is on
// the stack, or is the operation.
func (l Look) wants(site lifetime.SiteID) bool {
	if l.Function == nil {
		return true
	}
	if l.wanted == nil {
		l.wanted = Matcher(l.Capture, l.Function)
	}
	return l.wanted(site)
}

// Matcher returns a function that reports whether a site was allocated by a
// function that re matches, or by what it called. It looks at each site once.
func Matcher(c *lifetime.Capture, re *regexp.Regexp) func(lifetime.SiteID) bool {
	wanted := map[lifetime.SiteID]bool{}
	return func(site lifetime.SiteID) bool {
		is, known := wanted[site]
		if !known {
			is = matches(c, site, re)
			wanted[site] = is
		}
		return is
	}
}

func matches(c *lifetime.Capture, site lifetime.SiteID, re *regexp.Regexp) bool {
	for f := range c.FramesOf(c.Sites[site].Stack) {
		if re.MatchString(f.Function) {
			return true
		}
	}
	return c.Sites[site].Op != "" && re.MatchString(c.Sites[site].Op)
}

// limit returns how many bytes the device has, 0 when nobody says so.
func (l Look) limit() int64 { return cmp.Or(l.Limit, l.Space.Limit) }

// history returns what each site did.
func (l Look) history() *histories {
	if l.histories == nil {
		l.histories = newHistories(l.Space)
		l.histories.settle(l.Space, l.inSteps())
	}
	return l.histories
}

// inOneCall reports whether everything that a site allocated lies inside one call
// of a module.
func (l Look) inOneCall(site lifetime.SiteID) bool {
	if l.calls == nil { // most captures have nothing that keeps rising
		l.calls = newCalls(l.Capture, l.history())
	}
	return l.calls.one(site)
}

// usage returns the levels of the space in occupied bytes. Several rules look at
// them, and a walk through all changes takes longer than what they do with it.
func (l Look) usage() []lifetime.Level {
	if l.levels == nil {
		l.levels = make([]lifetime.Level, 0, 1+2*len(l.Space.Buffers)+len(l.Space.Stack))
		for level := range l.Space.Levels(lifetime.Occupied) {
			l.levels = append(l.levels, level)
		}
	}
	return l.levels
}

// highest returns the peak of the space in occupied bytes, as Space.Peak does.
func (l Look) highest() lifetime.Level {
	if l.peak == nil {
		peak := lifetime.Level{At: l.Space.Begin}
		for i, level := range l.usage() {
			if level.Bytes > peak.Bytes || i == 0 && !l.Space.UsageOnly() {
				peak = level
			}
		}
		l.peak = &peak
	}
	return *l.peak
}

// atEnd returns the level at the end of the window in occupied bytes.
func (l Look) atEnd() int64 {
	levels := l.usage()
	n := sort.Search(len(levels), func(i int) bool { return levels[i].At > l.Space.End })
	if n == 0 {
		return 0
	}
	return levels[n-1].Bytes
}

// since returns an instant for people, counted from the beginning of the window.
func (l Look) since(t int64) string {
	return "+" + units.Span(t-l.Space.Begin, l.Space.Axis.Unit())
}

func (f *Finding) evidence(name string) float64 {
	for _, e := range f.Evidence {
		if e.Name == name {
			return e.Value
		}
	}
	return 0
}

func (f *Finding) addEvidence(name string, v float64) {
	for i := range f.Evidence {
		if f.Evidence[i].Name == name {
			f.Evidence[i].Value += v
			return
		}
	}
	f.Evidence = append(f.Evidence, Evidence{Name: name, Value: v})
}

func (f *Finding) say(name, text string) {
	f.Evidence = append(f.Evidence, Evidence{Name: name, Text: text})
}
