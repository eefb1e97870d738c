package finding

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Severity is the urgency of a finding.
type Severity uint8

const (
	Info     Severity = iota // not a fault, or too little evidence for a warning
	Warning                  // a confirmed leak, or much waste
	Critical                 // a failed allocation, or a leak that is large or reaches the limit soon
)

var severityNames = [...]string{"info", "warning", "critical"}

// String returns the name used in JSON and labels.
func (s Severity) String() string { return severityNames[s] }

// ParseSeverity is the inverse of Severity.String. It returns false for unknown names.
func ParseSeverity(name string) (Severity, bool) {
	i := slices.Index(severityNames[:], name)
	return Severity(max(i, 0)), i >= 0
}

// Finding is one problem, at one place of the program or in a whole space.
type Finding struct {
	Rule       string // name of the rule
	Kind       Kind
	Severity   Severity
	Confidence float64 // 0 to 1: as measured (see Measured); 1 for a finding that states only what was recorded
	Basis      Basis   // of the confidence; the zero value if nothing is inferred
	Space      *lifetime.Space
	Sites      []lifetime.SiteID // call sites; the first names the place; none for a finding about the whole space
	Amount     lifetime.Amount   // affected buffers

	BytesPerStep float64 // occupied bytes; 0 if steps are unknown
	Cause        Cause   // of a leak
	Held         []Held  // what holds the buffers of a leak, most first; nil = not recorded
	Description  string  // begins with the place and ": ", as Tables.PlaceOf; texts that show the place leave it out
	Evidence     []Evidence
	Suggestions  []string // advice, each at most 76 columns unless it names a place or settings

	Failures []oom.Diagnosis // of a finding of the rule oom: those of the space; the first is what it is about

	Of *lifetime.Tables // of a finding about several captures: those of the last; else nil

	Kept []int // affected buffers, indices into Space.Buffers; nil for rules that do not look at single buffers

	first   lifetime.Buffer // of a buffer that grew: the oldest
	loads   bool            // it may be data that is loaded
	basedOn string          // evidence of the basis, if it infers and is no leak
	minor   bool            // a confirmed leak that is Info because of Settings.Least or Settings.Sure
}

// Place returns the site that names the place of a finding, 0 for a finding about the whole space.
func (f *Finding) Place() lifetime.SiteID {
	if len(f.Sites) == 0 {
		return 0
	}
	return f.Sites[0]
}

// Advice returns the first advice, which says whose buffers it means: without the finding nothing else does. "" if there is none. t has its site.
func (f *Finding) Advice(t *lifetime.Tables) string {
	if len(f.Suggestions) == 0 {
		return ""
	}
	return strings.Replace(f.Suggestions[0], "the buffers", "the buffers of "+t.PlaceOf(f.Place()).String(), 1)
}

// How returns how a finding is known. About a leak whose holder was recorded, all but its name is recorded or counted.
func (f *Finding) How() purpose.How {
	if f.Confidence == recorded || f.IsLeak() && f.Held != nil {
		return purpose.Derived
	}
	return purpose.Inferred
}

// IsLeak reports whether a finding is a confirmed leak.
func (f *Finding) IsLeak() bool { return f.Kind == KindLeak && (f.Severity > Info || f.minor) }

// Probable reports whether a leak was found in so few steps that it may be a cache that is still filling, and nobody saw what holds it.
func (f *Finding) Probable() bool {
	return f.Held == nil && (f.Basis.Evidence == bands[1].name || f.Basis.Evidence == bands[2].name)
}

// Sort puts findings in the order of reports: most severe first, leaks before others, then most bytes.
func Sort(all []Finding) {
	other := func(f *Finding) int {
		if f.IsLeak() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(y.Severity, x.Severity), cmp.Compare(other(&x), other(&y)),
			cmp.Compare(y.Amount.Bytes, x.Amount.Bytes),
			cmp.Compare(x.Space.ID(), y.Space.ID()), slices.Compare(x.Sites, y.Sites))
	})
}

// The text of a finding fits maxLines lines when the terminal wraps it: without the place, which is in the heading, and with the confidence behind it.
const (
	maxLines   = 3
	lineWidth  = 76
	confidence = "; confidence 99 %"
)

// describe sets the description: the place unless it is "", the text, and further parts up to the first that does not
// fit. It skips empty parts. Parts that do not fit are still in the evidence.
func (f *Finding) describe(place, text string, parts ...string) {
	for _, part := range parts {
		if part == "" {
			continue
		}
		if !fits(text + "; " + part + confidence) {
			break
		}
		text += "; " + part
	}
	if place != "" {
		text = place + ": " + text
	}
	f.Description = text
}

func fits(text string) bool {
	lines, width := 1, -1
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		if width+1+n > lineWidth {
			lines, width = lines+1, -1
		}
		width += 1 + n
	}
	return lines <= maxLines
}

func (f *Finding) merge(s *lifetime.Space, site lifetime.SiteID, buffers []int, h *history) {
	f.Sites = append(f.Sites, site)
	f.Kept = append(f.Kept, buffers...)
	for _, i := range buffers {
		f.Amount.Add(amountOf(&s.Buffers[i]))
	}
	f.add(figure(FigAllocated, h.allocated), figure(FigFreed, len(h.lifetimes)), figure(FigOlder, h.older))
}

func amountOf(b *lifetime.Buffer) lifetime.Amount {
	return lifetime.Amount{Count: 1, Bytes: b.Size, Requested: b.Requested}
}

// places are the findings of a rule by place, in order of appearance.
type places struct {
	found map[lifetime.Place]*Finding
	order []lifetime.Place
}

func newPlaces() *places { return &places{found: map[lifetime.Place]*Finding{}} }

// at returns the finding of a place and creates it the first time.
func (p *places) at(where lifetime.Place) *Finding {
	f := p.found[where]
	if f == nil {
		f = &Finding{}
		p.found[where] = f
		p.order = append(p.order, where)
	}
	return f
}

// conclude calls complete on every finding and returns those for which it returns true.
func (p *places) conclude(complete func(place lifetime.Place, f *Finding) bool) (all []Finding) {
	for _, place := range p.order {
		if f := p.found[place]; complete(place, f) {
			all = append(all, *f)
		}
	}
	return all
}
