package text

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/lifetime/outline"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/selection"
)

// Headline answers what a reader of a capture asks first, a line for each answer: what to do, why the program died or what is wrong, and what
// filled the memory; where nothing is wrong, that, or what to record to know it. found are its findings, and those of a series of
// captures; l is its answer of answer.LeaksOf. Without a memory ID it says what the capture is.
func Headline(c *judge.Capture, l *answer.CaptureLeaks, found []finding.Finding) string {
	if len(l.OOMs) > 0 && l.OOMs[0].Reason != string(oom.Survived) {
		return failureHeadline(&l.OOMs[0])
	}
	o := c.Outline()
	info := answer.InfoOf(o)
	var highest *outline.Space
	for _, i := range selection.Choose(o.Outline, false).Spaces {
		if s := o.Spaces[i]; highest == nil || s.Peak.Bytes > highest.Peak.Bytes {
			highest = s
		}
	}
	if highest == nil {
		return contents(&info) + "."
	}
	at := selection.AtPeak
	if highest.Facts&(lifetime.History|lifetime.EndState) == lifetime.EndState && highest.Allocations+highest.Frees == 0 && highest.Axis == lifetime.Time {
		at = selection.AtEnd // what was in use before is not recorded
	}
	p := answer.OutlinePeakOf(&o.Tables, highest, at)
	filled := peakSentence(&p)
	if info.Damaged { // more may have been in use later
		filled = "At least, as the file is damaged: " + filled
	}
	f := worst(found)
	if f == nil {
		return strings.Join(append([]string{filled}, judged(c, l)...), "\n")
	}
	what := strings.ReplaceAll(f.Rule, "_", " ")
	wrong := fmt.Sprintf("%s%s in %s: %s.", strings.ToUpper(what[:1]), what[1:], f.Space.ID(), f.Description)
	return strings.TrimSpace(f.Advice(cmp.Or(f.Of, &c.Tables)) + "\n" + wrong + "\n" + filled)
}

// judged says that nothing is wrong, what to record to know that, or of compiled programs whether they fit and what to change first.
func judged(c *judge.Capture, l *answer.CaptureLeaks) []string {
	verdict := strings.ToUpper(l.Verdict[:1]) + l.Verdict[1:]
	switch programs := !slices.ContainsFunc(c.Spaces, func(s *lifetime.Space) bool { return s.Axis != lifetime.ProgramOrder }); {
	case !programs && len(l.Notes) > 0:
		_, why, _ := strings.Cut(l.Notes[0], ": ") // after the memory IDs
		return []string{verdict + ": " + why + "."}
	case !programs:
		return []string{verdict + "."}
	}
	lines := []string{"It is not recorded how much memory the device has: memlane oom --capacity SIZE tells whether the program fits."}
	if fits := answer.FitsOf(c); len(fits) > 0 {
		lines[0] = "It fits: " + OfCapacity(fits[0].NeededBytes, fits[0].CapacityBytes) + "."
	}
	for _, f := range l.Findings[:min(len(l.Findings), 1)] {
		lines = append(lines, strings.Join(append([]string{"Largest: " + f.Description + "."}, f.Suggestions...), " "))
	}
	return lines
}

// Title says in a few words, the most important first, what a picture of a memory ID shows: which request failed, else
// what leaks, else what fills the peak, by category or by line as its colours do. "" if nothing of it is known, and for a compiled program.
func Title(c *judge.Capture, s *lifetime.Space, byCategory bool) string {
	if s.Axis == lifetime.ProgramOrder {
		return ""
	}
	if failures, _ := answer.OOMsOf(c, []*lifetime.Space{s}); len(failures) > 0 && failures[0].Reason != string(oom.Survived) {
		who, _, _ := strings.Cut(asked(&failures[0]), ", called by ")
		return "Out of memory on " + s.ID() + ": " + who
	}
	if f := worst(c.Leaks(s)); f != nil {
		what, _, _ := strings.Cut(f.Description, "; ")
		return "Leak in " + s.ID() + ": " + what
	}
	peak := answer.PeakSumsOf(&c.Tables, s)
	filled := largestPlaces(&peak)
	if byCategory {
		filled = categoriesText(peak.Categories[:min(len(peak.Categories), 3)])
	}
	if filled == "" {
		return ""
	}
	return "Peak of " + units.Bytes(peak.Bytes) + " on " + s.ID() + ": " + filled
}

// worst returns the most severe finding that is more than a note, a leak before others; nil if there is none.
func worst(found []finding.Finding) (worst *finding.Finding) {
	for i := range found {
		f := &found[i]
		if f.Severity > finding.Info && (worst == nil || f.IsLeak() && !worst.IsLeak() || f.IsLeak() == worst.IsLeak() && f.Severity > worst.Severity) {
			worst = f
		}
	}
	return worst
}

// failureHeadline says what to do, who asked and why that failed, and who held the memory.
func failureHeadline(f *answer.Failure) string {
	lines := []string{"Out of memory: " + asked(f) + "; " + f.Words + "."}
	if do := doing(f); do != "" {
		lines = slices.Insert(lines, 0, do)
	}
	if len(f.Holders) > 0 {
		lines = append(lines, "Held: "+holding(f)+".")
	}
	return strings.Join(lines, "\n")
}

// doing says what to do about a failure: first the change with which the request fits, which is about this program.
func doing(f *answer.Failure) string {
	switch {
	case f.Past == nil:
		return f.Advice
	case pastFirst(f):
		return past(f) + " " + f.Advice
	}
	return f.Advice + " " + past(f)
}

// pastFirst reports whether the change with which a request fits comes before the advice: unless only the advice is proved.
func pastFirst(f *answer.Failure) bool {
	return f.Past != nil && (!f.Tuned || f.Past.Fits != nil && *f.Past.Fits)
}

// past says which change gets past a failed request.
func past(f *answer.Failure) string {
	would := "may have"
	if f.Past.Fits != nil && *f.Past.Fits {
		would = "would have"
	}
	return strings.TrimSpace(f.Past.Advice + " " + strings.Join(f.Past.Edits, ",") + " " + would + " got past this request.")
}

// peakSentence tells what the memory is for, by category or, if none is known but of what leaks, by place.
func peakSentence(p *answer.Peak) string {
	if p.UsageOnly && p.Of.Allocations+p.Of.Frees > 0 { // see plot.Relative
		return fmt.Sprintf("%s rose by %s; what was in use before is not recorded.", p.Space, units.Bytes(p.Bytes))
	}
	text := fmt.Sprintf("The peak of %s is %s", p.Space, units.Bytes(p.Bytes))
	if When(p.Of, p.At) == "the end" {
		text = fmt.Sprintf("At the end %s has %s in use", p.Space, units.Bytes(p.Bytes))
	}
	if tell(p.Categories) {
		text += ": " + PartsText(p.Parts) + "."
		if older := unknownOlder(p); older > 0 {
			text += fmt.Sprintf(" Of the unknown %s were allocated before the recording. %s", units.Bytes(older), p.NameOlder)
		}
		return text
	}
	if places := largestPlaces(p); places != "" {
		text += "; the largest: " + places
	}
	return text + "."
}

// largestPlaces names who holds most; "" if that is not known.
func largestPlaces(p *answer.Peak) string {
	var names []string
	for _, place := range p.Places[:min(len(p.Places), 3)] {
		names = append(names, units.Bytes(place.Bytes)+" "+place.Name)
	}
	if p.UsageOnly || p.Unknown {
		return ""
	}
	return strings.Join(names, ", ")
}

// tell reports whether categories name at least half of what has one; else places say more.
func tell(categories []answer.Part) bool {
	more := int64(-1) // bytes that have a name
	for _, c := range categories {
		switch c.Name {
		case purpose.UnknownCategory.String():
			more = units.AddSat(more, -c.Bytes)
		case purpose.Leaked.String(), lifetime.FromBase.String(), lifetime.FromStack.String(), lifetime.FromUsage.String():
		default:
			more = units.AddSat(more, c.Bytes)
		}
	}
	return more >= 0
}

// unknownOlder returns the bytes from before the recording of which only sizes are known, if they are a quarter of the peak; else 0.
func unknownOlder(p *answer.Peak) (bytes int64) {
	for _, o := range p.Older {
		if o.Name == purpose.UnknownCategory.String() {
			bytes = units.AddSat(bytes, o.Bytes)
		}
	}
	if bytes < p.Bytes/4 {
		return 0
	}
	return bytes
}
