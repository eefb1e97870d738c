package answer

import (
	"fmt"
	"strings"

	"github.com/memlane/memlane/internal/units"
)

// FailureLine is one of the five lines about a failure.
type FailureLine struct{ Label, Text string }

// Lines returns the five lines that answer why an allocation failed, the same everywhere: who asked, what was there, who held it,
// why, and what to do.
func (f *Failure) Lines() []FailureLine {
	why := f.Why
	if f.Proof != nil {
		why += "; " + *f.Proof
	}
	return []FailureLine{{"asked", f.asked()}, {"there", f.there()}, {"held", f.holding()},
		{"why", fmt.Sprintf("%s; confidence %.0f %%", why, 100*f.Confidence)}, {"do", f.Advice + " Next: " + f.Next}}
}

// Head names the failure: file, line, process and device.
func (f *Failure) Head() string {
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
func (f *Failure) asked() string {
	who := f.Asked
	if who == "" && f.Line == nil && f.Program == "" {
		return "a request that the recording does not have"
	}
	if who == "" {
		who = "code that the text does not name"
		if f.Program != "" {
			who = f.Program
		}
	}
	switch {
	case f.NeededBytes != nil && f.RequestedBytes == nil:
		return fmt.Sprintf("%s needs %s", who, units.Bytes(*f.NeededBytes))
	case f.Absurd && f.RequestedBytes == nil:
		return "more than 1 EiB by " + who
	case f.RequestedBytes == nil:
		return who + "; the text does not say how much"
	}
	text := fmt.Sprintf("%s by %s", units.Bytes(*f.RequestedBytes), who)
	if f.Callers != "" {
		text += ", called by " + f.Callers
	}
	if f.Context != "" {
		text += "; " + f.Context
	}
	if f.Source == "torch" && (*f.RequestedBytes == 2<<20 || *f.RequestedBytes == 20<<20) {
		text += " (the allocator's smallest segments: the request itself may be much smaller)"
	}
	return text
}

// there describes the memory.
func (f *Failure) there() string {
	var parts []string
	add := func(bytes *int64, format string) {
		if bytes != nil {
			parts = append(parts, fmt.Sprintf(format, units.Bytes(*bytes)))
		}
	}
	capacity := "%s on the device"
	if f.AtLeast {
		capacity = "at least %s on the device" // what others hold is not recorded
	}
	add(f.CapacityBytes, capacity)
	add(f.LimitBytes, "limit %s")
	add(f.ExceededBytes, "%s too much")
	add(f.LiveBytes, "%s live")
	parts = append(parts, f.byCategory()...)
	add(f.UnallocatedBytes, "%s reserved but free")
	add(f.LargestFreeBytes, "largest free block %s")
	add(f.PrivatePoolsBytes, "%s idle in private pools")
	add(f.OutsideBytes, "%s outside of the allocator")
	add(f.OthersBytes, "%s in other processes")
	add(f.FreeBytes, "%s free on the device")
	if f.ReleasedBytes > 0 {
		add(&f.ReleasedBytes, "%s given back right before to make room")
	}
	if f.Retries > 0 {
		parts = append(parts, units.Plural(f.Retries, "earlier request")+" fitted only after the allocator gave memory back")
	}
	if parts == nil {
		return "the text does not say"
	}
	return strings.Join(parts, ", ")
}

// holding describes who held the memory.
func (f *Failure) holding() string {
	switch {
	case len(f.Holders) == 0 && f.module() == "":
		return "the text does not say"
	case len(f.Holders) == 0:
		return "the text does not say; a recording does"
	}
	if f.BySize != "" {
		return fmt.Sprintf("%s; the text does not say by whom: %s", units.Plural(f.Holders[0].Buffers, "buffer"), f.BySize)
	}
	if f.Leak != "" {
		return "leak: " + f.Leak + "; " + f.Largest(3)
	}
	return f.Largest(3)
}

// byCategory returns the live bytes by category, largest first, if the capture has categories.
func (f *Failure) byCategory() (parts []string) {
	if f.Program != "" {
		return nil
	}
	for _, c := range f.categories {
		parts = append(parts, fmt.Sprintf("%s %s", c.Category, units.Bytes(c.Bytes)))
	}
	if len(parts) > 1 {
		return []string{"of them " + strings.Join(parts, ", ")}
	}
	return nil
}
