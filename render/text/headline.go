package text

import (
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

// Headline answers what a reader of a capture asks first, a line for each answer: what to do, why the program died or what leaks, and what
// filled the memory. failures are those of answer.OOMsOf. Without a memory ID it says what the capture is.
func Headline(c *judge.Capture, failures []answer.Failure) string {
	if len(failures) > 0 && failures[0].Reason != string(oom.Survived) {
		return failureHeadline(&failures[0])
	}
	o := c.Outline()
	var highest *outline.Space
	for _, i := range selection.Choose(o.Outline, false).Spaces {
		if s := o.Spaces[i]; highest == nil || s.Peak.Bytes > highest.Peak.Bytes {
			highest = s
		}
	}
	if highest == nil {
		return contents(new(answer.InfoOf(o))) + "."
	}
	p := answer.OutlinePeakOf(&o.Tables, highest, selection.AtPeak)
	filled := peakSentence(&p)
	if f := worstLeak(c.Findings()); f != nil {
		leak := fmt.Sprintf("Leak in %s: %s.", f.Space.ID(), f.Description)
		return strings.Join(append(slices.Clone(f.Suggestions[:min(len(f.Suggestions), 1)]), leak, filled), "\n")
	}
	return filled
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
	if f := worstLeak(c.Leaks(s)); f != nil {
		what, _, _ := strings.Cut(f.Description, "; ")
		return "Leak in " + s.ID() + ": " + what
	}
	peak := answer.PeakOf(&c.Tables, s, s.Peak(lifetime.Occupied).At)
	filled := largestPlaces(&peak)
	if byCategory {
		filled = categoriesText(peak.Categories[:min(len(peak.Categories), 3)])
	}
	if filled == "" {
		return ""
	}
	return "Peak of " + units.Bytes(peak.Bytes) + " on " + s.ID() + ": " + filled
}

// worstLeak returns the most severe leak; nil if there is none.
func worstLeak(found []finding.Finding) (worst *finding.Finding) {
	for i := range found {
		if f := &found[i]; f.IsLeak() && f.Severity > finding.Info && (worst == nil || f.Severity > worst.Severity) {
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

// doing says what to do about a failure: first the change with which the request fits, if a replay proves it.
func doing(f *answer.Failure) string {
	if f.Past == nil || f.Past.Fits == nil || !*f.Past.Fits {
		return f.Advice
	}
	return strings.TrimSpace(past(f) + " " + f.Advice)
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
	if When(p.Of, p.At) == "the end" { // what was in use before is not recorded
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
