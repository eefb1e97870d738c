package text

import (
	"fmt"
	"io"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
)

// maxFailures is the maximum number of failures that are written in full, and of those that a line names.
const maxFailures = 8

// OOMs writes failed allocations: who asked, what was there, who held it, why it failed, and what to do. Failures with the
// same request, place and reason, such as those of many ranks, are written once.
func OOMs(w io.Writer, a *answer.OOMs, s Style) error {
	p := NewPage(s)
	var groups [][]*answer.Failure
	index := map[string]int{}
	for i := range a.OOMs {
		f := &a.OOMs[i]
		key := strings.Join([]string{f.File, f.Source, f.Program, f.Reason, asked(f)}, "\x00")
		k, ok := index[key]
		if !ok {
			k = len(groups)
			index[key] = k
			groups = append(groups, nil)
		}
		groups[k] = append(groups[k], f)
	}
	for i, group := range groups[:min(len(groups), maxFailures)] {
		if i > 0 {
			p.Line("")
		}
		p.failure(group[0], group[1:])
	}
	if n := len(groups) - maxFailures; n > 0 {
		p.Line("\n%s", more(n, "failure"))
	}
	return p.To(w)
}

func (p *Page) failure(f *answer.Failure, alike []*answer.Failure) {
	p.Line("%s", Printable(head(f)))
	const indent = "       "
	line := func(label, text string) {
		p.Para(fmt.Sprintf("%-5s  ", label), indent, Printable(text))
	}
	line("asked", asked(f))
	line("there", there(f))
	line("held", held(f))
	why := strings.ReplaceAll(f.Reason, "_", " ") + ": " + f.Why
	if f.Proof != nil {
		why += "; " + *f.Proof
	}
	line("why", fmt.Sprintf("%s; confidence %.0f %%", why, 100*f.Confidence))
	line("do", f.Advice+" Next: "+f.Next)
	var names []string
	for _, other := range alike[:min(len(alike), maxFailures)] {
		name := other.Space
		if other.Line != nil {
			name += fmt.Sprintf(" in line %d", *other.Line)
		}
		names = append(names, name)
	}
	if n := len(alike) - maxFailures; n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	if names != nil {
		line("also", strings.Join(names, ", "))
	}
}

// head names the failure: file, line, process and device.
func head(f *answer.Failure) string {
	text := f.File
	if f.Line != nil {
		text += fmt.Sprintf(":%d", *f.Line)
	}
	if f.Space != "" {
		text += " " + f.Space
	}
	if f.Line == nil {
		text += " at " + f.When
	}
	var notes []string
	if f.First {
		notes = append(notes, "the first that failed")
	}
	if f.Times > 1 {
		notes = append(notes, fmt.Sprintf("printed %d times", f.Times))
	}
	if len(notes) > 0 {
		text += " (" + strings.Join(notes, ", ") + ")"
	}
	return text
}

// asked describes the request.
func asked(f *answer.Failure) string {
	who := f.Asked
	if who == "" {
		who = "code that the text does not name"
		if f.Program != "" {
			who = f.Program
		}
	}
	switch {
	case f.NeededBytes != nil && f.RequestedBytes == nil:
		return fmt.Sprintf("%s needs %s", who, units.Bytes(*f.NeededBytes))
	case f.Absurd:
		return "more than 1 EiB by " + who
	case f.RequestedBytes == nil:
		return who + "; the text does not say how much"
	}
	text := fmt.Sprintf("%s by %s", units.Bytes(*f.RequestedBytes), who)
	if f.Source == "torch" && (*f.RequestedBytes == 2<<20 || *f.RequestedBytes == 20<<20) {
		text += " (the allocator's smallest segments: the request itself may be much smaller)"
	}
	return text
}

// there describes the memory.
func there(f *answer.Failure) string {
	var parts []string
	add := func(bytes *int64, format string) {
		if bytes != nil {
			parts = append(parts, fmt.Sprintf(format, units.Bytes(*bytes)))
		}
	}
	add(f.CapacityBytes, "%s on the device")
	add(f.LimitBytes, "limit %s")
	add(f.ExceededBytes, "%s too much")
	add(f.LiveBytes, "%s live")
	add(f.UnallocatedBytes, "%s reserved but free")
	add(f.LargestFreeBytes, "largest free block %s")
	add(f.PrivatePoolsBytes, "%s idle in private pools")
	add(f.OutsideBytes, "%s outside of the allocator")
	add(f.OthersBytes, "%s in other processes")
	add(f.FreeBytes, "%s free on the device")
	if parts == nil {
		return "the text does not say"
	}
	return strings.Join(parts, ", ")
}

// held describes who held the memory.
func held(f *answer.Failure) string {
	if len(f.Holders) == 0 {
		return "the text does not say; a recording does"
	}
	if f.BySize != "" {
		return fmt.Sprintf("%s; the text does not say by whom: %s", units.Plural(f.Holders[0].Buffers, "buffer"), f.BySize)
	}
	return f.Largest(3)
}
