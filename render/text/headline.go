package text

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/lifetime/selection"
)

// Headline answers what a reader of a capture asks first, a line for each answer. Of a program that died or has a problem: what to do, why it
// died or what is wrong, and what filled the memory. Of others: what filled it, whether a request failed or anything leaks, what lowers it, and
// what to record to know more. found are its findings, and those of a series of captures; l is its answer of answer.LeaksOf. Without a memory
// ID it says what the capture is.
func Headline(c *judge.Capture, l *answer.CaptureLeaks, found []finding.Finding) string {
	if len(l.OOMs) > 0 && l.OOMs[0].Reason != string(oom.Survived) {
		return failureHeadline(&l.OOMs[0])
	}
	o := c.Outline()
	info := answer.InfoOf(o)
	shown := selection.Choose(o.Outline, false).Spaces
	if len(shown) == 0 {
		return contents(&info) + "."
	}
	highest := o.Spaces[slices.MaxFunc(shown, func(x, y int) int { return cmp.Compare(o.Spaces[x].Peak.Bytes, o.Spaces[y].Peak.Bytes) })]
	at := selection.AtPeak
	if highest.Facts&(lifetime.History|lifetime.EndState) == lifetime.EndState && highest.Allocations+highest.Frees == 0 && highest.Axis == lifetime.Time {
		at = selection.AtEnd // what was in use before is not recorded
	}
	p := answer.OutlinePeakOf(&o.Tables, highest, at)
	filled := peakSentence(&p)
	if info.Damaged { // more may have been in use later
		filled = "At least, as the file is damaged: " + filled
	}
	if f := worst(found); f != nil {
		wrong := fmt.Sprintf("%s in %s: %s.", named(f, strings.ReplaceAll(f.Rule, "_", " ")), f.Space.ID(), f.Description)
		return joined("\n", f.Advice(cmp.Or(f.Of, &c.Tables)), wrong, joined(" ", filled, ranOut(&info)))
	}
	filled = joined(" ", idle(&p), filled)
	well, unknown := judged(c, l, &info)
	notes, lowers := slices.DeleteFunc(slices.Clone(found), func(f finding.Finding) bool { return f.Kind == finding.KindFailure }), ""
	switch i := slices.IndexFunc(notes, func(f finding.Finding) bool { return !trifle(f.Amount.Bytes, &p) }); {
	case Plenty(&info): // nothing has to be done
	case i >= 0:
		f := &notes[i]
		lowers = joined(" ", fmt.Sprintf("In %s: %s.", f.Space.ID(), f.Description), f.Advice(cmp.Or(f.Of, &c.Tables)))
		if len(notes) > 1 {
			lowers += fmt.Sprintf(" %d more in Findings.", len(notes)-1)
		}
	default:
		p.AddSavings(c, highest.Recording)
		lowers, _ = lowering(&p)
	}
	if places := largestPlaces(&p); lowers == "" && places != "" && tell(p.Categories) {
		lowers = "The largest by place: " + places + "."
	}
	return joined("\n", filled, well, lowers, unknown)
}

// joined joins the texts that say something.
func joined(by string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), by)
}

// capital begins a text with a capital letter.
func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// named says whether what is found is sure.
func named(f *finding.Finding, what string) string {
	return capital(map[bool]string{true: "probable "}[f.Probable()] + what)
}

// judged says whether memory ran out and that nothing leaks, or of compiled programs whether they fit; and what to record to know more.
func judged(c *judge.Capture, l *answer.CaptureLeaks, info *answer.Capture) (well, unknown string) {
	if !slices.ContainsFunc(c.Spaces, func(s *lifetime.Space) bool { return s.Axis != lifetime.ProgramOrder }) {
		if fits := answer.FitsOf(c); len(fits) > 0 {
			return "It fits: " + OfCapacity(fits[0].NeededBytes, fits[0].CapacityBytes) + ".", ""
		}
		return "It is not recorded how much memory the device has: memlane oom --capacity SIZE tells whether the program fits.", ""
	}
	verdict, _, _ := strings.Cut(l.Verdict, ", ") // other findings come below
	text := capital(verdict)
	if len(l.Notes) > 0 {
		_, why, _ := strings.Cut(l.Notes[0], ": ") // after the memory IDs
		text += ": " + why
	}
	switch well = ranOut(info); {
	case strings.HasPrefix(verdict, "no"):
		well = joined(" ", well, text+".")
	case strings.HasSuffix(verdict, "cannot be judged"):
		unknown = text + "."
	}
	return well, unknown
}

// ranOut says that no memory ran out, that requests failed which the program survived, or what the capture tells of it.
func ranOut(c *answer.Capture) string {
	switch fullest := c.Fullest; {
	case c.Failed > 0:
		return units.Plural(c.Failed, "request") + " failed, and the program went on."
	case Plenty(c):
		return fmt.Sprintf("It used at most %s of the memory: %s of %s.", Percent(c.Used), units.Bytes(fullest.Peak.Bytes), units.Bytes(*fullest.LimitBytes))
	case !c.Cut && fullest != nil && (c.Fails || c.Used <= 0.9): // where requests that fail are not recorded
		what := map[bool]string{true: "did not run out of", false: "never filled the"}[c.Fails]
		return fmt.Sprintf("It %s memory: %s of %s in use at most.", what, units.Bytes(fullest.Peak.Bytes), units.Bytes(*fullest.LimitBytes))
	case c.Silent:
		return "Whether a request failed is not recorded in this kind of capture."
	case !c.Cut && c.Fails:
		return "No request failed in the recording."
	}
	return "No failed request is recorded."
}

// Plenty reports whether a program left nine tenths of the memory unused, so that it needs no advice to save any.
func Plenty(c *answer.Capture) bool {
	return !c.Cut && c.Failed == 0 && c.Fullest != nil && c.Used < 0.1
}

// idle says that most of what is reserved is idle, when most is reserved; "" if buffers have most of it.
func idle(p *answer.Peak) string {
	if p.Idle <= 0 {
		return ""
	}
	return fmt.Sprintf("%s of the %s reserved on %s was idle.", units.Bytes(p.Idle), units.Bytes(p.Reserved), p.Space)
}

// lowering says with which change the peak would be clearly lower, the cheapest, and its name; "" if none is known.
func lowering(p *answer.Peak) (text, change string) {
	for i := range p.Savings {
		if s := &p.Savings[i]; float64(*s.HighBytes) < 0.95*float64(p.Bytes) { // else nothing has to be done
			return fmt.Sprintf("%s The peak would be %s.", s.Advice, About(s.PeakBytes, s.LowBytes, s.HighBytes)), strings.Join(s.Edits, ",")
		}
	}
	return "", ""
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
		return named(f, "leak") + " in " + s.ID() + ": " + what
	}
	peak := answer.PeakSumsOf(&c.Tables, s)
	peak.Space = s.ID()
	if reserved, idle := region.Idle(s); idle > 0 {
		return units.Bytes(idle) + " idle of " + units.Bytes(reserved) + " reserved on " + peak.Space
	}
	filled := largestPlaces(&peak)
	if byCategory {
		filled = categoriesText(peak.Categories[:min(len(peak.Categories), 3)])
	}
	if filled == "" {
		return ""
	}
	return "Peak of " + units.Bytes(peak.Bytes) + " on " + peak.Space + ": " + filled
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
	held := strings.Repeat("Held: "+holding(f)+".", min(len(f.Holders), 1))
	return joined("\n", doing(f), "Out of memory: "+asked(f)+"; "+f.Words+".", held)
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
	return fmt.Sprintf("%s With %s this request %s fit.", f.Past.Advice, strings.Join(f.Past.Edits, ","), would)
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
		parts := p.Parts
		parts.Categories = slices.DeleteFunc(slices.Clone(parts.Categories), func(c answer.Part) bool { return trifle(c.Bytes, p) })
		text += ": " + PartsText(parts) + "."
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
	var sums []answer.Part // by name, whatever the shape
	index := map[string]int{}
	for _, place := range p.Places {
		sum := keyed.At(index, &sums, place.Name, answer.Part{Name: place.Name})
		sum.Bytes = units.AddSat(sum.Bytes, place.Bytes)
	}
	slices.SortStableFunc(sums, func(x, y answer.Part) int { return cmp.Compare(y.Bytes, x.Bytes) })
	var names []string
	for _, sum := range sums[:min(len(sums), 3)] {
		if !p.UsageOnly && !p.Unknown && !trifle(sum.Bytes, p) {
			names = append(names, units.Bytes(sum.Bytes)+" "+sum.Name)
		}
	}
	return strings.Join(names, ", ")
}

// trifle reports whether bytes are less than 1 % of a peak.
func trifle(bytes int64, p *answer.Peak) bool { return bytes < p.Bytes/100 }

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
