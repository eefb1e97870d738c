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
)

// Headline answers what a reader of a capture asks first, a line for each answer: what to do, why the program died or what is wrong, and what
// filled the memory. found are its findings, and those of a series of captures. Without a memory ID it says what the capture is.
func Headline(r *answer.CaptureReport, found []answer.Finding) string {
	if failures := r.Leaks.OOMs; len(failures) > 0 && failures[0].Reason != string(oom.Survived) {
		f := &failures[0]
		held := strings.Repeat("Held: "+holding(f)+".", min(len(f.Holders), 1))
		return joined("\n", doing(f), "Out of memory: "+asked(f)+"; "+f.Words+".", held)
	}
	peak := highest(r.Peaks)
	if peak == nil {
		return contents(&r.Info) + "."
	}
	well, unknown, record := judged(r, peak)
	do, f := advise(peak, found, r.Leaks.OOMs, Plenty(&r.Info), unknown == "" && isWhole(&r.Info), record)
	filled := peakSentence(peak)
	if places := largestPlaces(peak); f == nil && len(peak.Savings) == 0 && places != "" && tell(peak.Categories) {
		filled += " The largest by place: " + places + "."
	}
	if r.Info.Damaged { // more may have been in use later
		filled = "At least, as the file is damaged: " + filled
	}
	if f == nil {
		filled = joined(" ", idle(peak), filled)
	} else if isWrong(f) {
		return joined("\n", do, fmt.Sprintf("%s in %s: %s.", named(f, strings.ReplaceAll(f.Rule, "_", " ")), f.Space, f.Description), filled+" "+well)
	} else {
		well = joined(" ", fmt.Sprintf("In %s: %s.", f.Space, f.Description), well)
	}
	return joined("\n", do, joined(" ", well, unknown), filled)
}

// isWrong reports whether a finding is more than a note.
func isWrong(f *answer.Finding) bool { return f.Leak || f.Level() > finding.Info }

// advise says what to do about a capture of which no request failed for good, and which finding is the reason. That is the worst finding.
// Without one it says that nothing is wrong, as far as that is known, else what to record; and for those who need room, if there is not plenty, what gives
// most of it: what a note is about, or the cheapest change that surely lowers the peak. peak may be nil.
func advise(peak *answer.Peak, found []answer.Finding, survived []answer.Failure, plenty, sure bool, record string) (do string, of *answer.Finding) {
	if f := worst(found); f != nil {
		return f.Advice, f
	}
	do = map[bool]string{true: "Nothing has to be done.", false: joined(" ", "No problem was found.", record)}[sure]
	if len(survived) > 0 {
		do = survived[0].Advice
	}
	if plenty || peak == nil {
		return do, nil
	}
	saved, room := int64(0), ""
	if i := Best(peak); i >= 0 {
		s, until := &peak.Savings[i], map[bool]string{true: " until the recording ends"}[peak.Unfinished]
		saved, room = peak.Bytes-*s.HighBytes, fmt.Sprintf("%s The peak%s would be %s%s.", s.Advice, until, About(s.PeakBytes, s.LowBytes, s.HighBytes),
			map[bool]string{true: " instead of " + units.Bytes(peak.Bytes)}[peak.Unchanged == nil]) // else it lowers another peak
	}
	for i := range found {
		f := &found[i]
		less := peak.Program != nil && f.Bytes < peak.Program.Temporaries // than others need
		if !less && !f.Failure && f.Advice != "" && f.Space == peak.Space && f.File == peak.File && f.Bytes > saved && !trifle(f.Bytes, peak) {
			saved, room, of = f.Bytes, f.Advice, f
		}
	}
	if room != "" {
		do += " If you need room: " + room
	}
	return do, of
}

// Best returns the cheapest change with which a peak is surely lower by a twentieth, an index into Savings; -1 if none is known.
func Best(p *answer.Peak) int {
	return slices.IndexFunc(p.Savings, func(s answer.WhatIfScenario) bool { return *s.HighBytes < p.Bytes-p.Bytes/20 })
}

// joined joins the texts that say something.
func joined(by string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), by)
}

// capital begins a text with a capital letter.
func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// named says whether what is found is sure.
func named(f *answer.Finding, what string) string {
	return capital(map[bool]string{true: "probable "}[f.Probable] + what)
}

// judged says whether memory ran out and that nothing leaks, or of compiled programs whether they fit; and what to record to know more.
func judged(r *answer.CaptureReport, peak *answer.Peak) (well, unknown, record string) {
	if !slices.ContainsFunc(r.Info.Spaces, func(s answer.Space) bool { return s.Program == nil }) {
		if len(r.Fits) > 0 {
			return "It fits: " + OfCapacity(r.Fits[0].NeededBytes, r.Fits[0].CapacityBytes) + ".", "", ""
		}
		return "", "It is not recorded how much memory the device has: memlane oom --capacity SIZE tells whether the program fits.", ""
	}
	verdict, _, _ := strings.Cut(r.Leaks.Verdict, ", ") // other findings come below
	text := capital(verdict)
	if len(r.Leaks.Notes) > 0 {
		_, why, _ := strings.Cut(r.Leaks.Notes[0], ": ") // after the memory IDs
		why, record, _ = strings.Cut(why, "; ")
		text += ": " + why
	}
	if well = endured(&r.Info); peak != nil && peak.Unfinished {
		well += " The recording ends in the middle of a pass: the rest may need more."
	}
	switch {
	case strings.HasPrefix(verdict, "no"):
		well += " " + text + "."
	case strings.HasSuffix(verdict, "cannot be judged"):
		unknown = text + "."
	}
	if record != "" {
		record = capital(record) + "."
	}
	return well, unknown, record
}

// endured says whether requests failed, as far as the capture tells, and how much memory was left.
func endured(c *answer.Capture) (text string) {
	switch {
	case c.Failed > 0:
		return units.Plural(c.Failed, "request") + " failed, and the program went on."
	case Plenty(c):
	case c.Silent:
		text = "Whether a request failed is not recorded in this kind of capture."
	case !c.Cut && c.Fails:
		text = "No request failed in the recording."
	default:
		text = "No failed request is recorded."
	}
	if of := c.Fullest; of != nil && !c.Cut {
		text = joined(" ", fmt.Sprintf("At most %s of %s were in use.", units.Bytes(of.Peak.Bytes), units.Bytes(*of.LimitBytes)), text)
	}
	return text
}

// isWhole reports whether a capture tells that no request failed for good.
func isWhole(c *answer.Capture) bool { return Plenty(c) || !c.Silent && !c.Cut }

// Plenty reports whether more memory was left than the program used, so that it needs no advice to save any.
func Plenty(c *answer.Capture) bool {
	return !c.Cut && c.Failed == 0 && c.Fullest != nil && c.Used < 0.5
}

// idle says that most of what is reserved is idle, when most is reserved; "" if buffers have most of it.
func idle(p *answer.Peak) string {
	if p.Unused.Idle == 0 {
		return ""
	}
	return fmt.Sprintf("%s of the %s reserved on %s was idle.", units.Bytes(p.Unused.Idle), units.Bytes(p.Unused.Reserved), p.Space)
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
	if f := worst(answer.FindingsOf(c.Capture, c.Leaks(s))); f != nil {
		what, _, _ := strings.Cut(f.Description, "; ")
		return named(f, "leak") + " in " + s.ID() + ": " + what
	}
	peak := answer.PeakSumsOf(&c.Tables, s)
	peak.Space = s.ID()
	if peak.Unused = c.Idle(s); peak.Unused.Idle > 0 {
		return strings.TrimSuffix(idle(&peak), ".")
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
func worst(found []answer.Finding) (worst *answer.Finding) {
	for i := range found {
		f := &found[i]
		if isWrong(f) && (worst == nil || f.Leak && !worst.Leak || f.Leak == worst.Leak && f.Level() > worst.Level()) {
			worst = f
		}
	}
	return worst
}

// doing says what to do about a failure: first the change with which the request fits, which is about this program.
func doing(f *answer.Failure) string {
	if pastFirst(f) {
		return joined(" ", past(f), f.Advice)
	}
	return joined(" ", f.Advice, past(f))
}

// pastFirst reports whether the change with which a request fits comes before the advice: unless only the advice is proved.
func pastFirst(f *answer.Failure) bool {
	return f.Past != nil && (!f.Tuned || f.Past.Fits != nil && *f.Past.Fits)
}

// past says which change gets past a failed request; "" if none is known.
func past(f *answer.Failure) string {
	if f.Past == nil {
		return ""
	}
	would := map[bool]string{true: "would", false: "may"}[f.Past.Fits != nil && *f.Past.Fits]
	return fmt.Sprintf("%s With %s this request %s have fit.", f.Past.Advice, strings.Join(f.Past.Edits, ","), would)
}

// rose reports whether only changes are known, from an unknown level: see plot.Relative.
func rose(p *answer.Peak) bool { return p.UsageOnly && p.Of.Allocations+p.Of.Frees > 0 }

// peakSentence tells what the memory is for, by category or, if none is known but of what leaks, by place.
func peakSentence(p *answer.Peak) string {
	if rose(p) {
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
