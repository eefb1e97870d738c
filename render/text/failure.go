package text

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/purpose"
)

// FailureLine is one of the lines about a failure.
type FailureLine struct{ Label, Text string }

// FailureLines returns the lines that answer why an allocation failed, the same everywhere: who asked, what the memory
// held, the reason, what to do, the next command, and what would have got past it.
func FailureLines(f *answer.Failure) []FailureLine {
	why := reason(f)
	if f.Proof != nil {
		why += "; " + *f.Proof
	}
	lines := []FailureLine{{"asked", asked(f)}, {"memory", memory(f)}, {"held", holding(f)}, {"reason", why}, {"do", f.Advice}, {"more", f.Next}}
	if f.Past != nil {
		at := len(lines)
		if pastFirst(f) {
			at = slices.Index(lines, FailureLine{"do", f.Advice})
		}
		lines = slices.Insert(lines, at, FailureLine{"past", past(f) + map[bool]string{true: " That is " + answer.Scope + "."}[f.Unfinished]})
	}
	return lines
}

// reason names the reason, with its confidence, and what the memory shows, which was recorded.
func reason(f *answer.Failure) string {
	return strings.ReplaceAll(f.Reason, "_", " ") + confident(f.Confidence) + ": " + strings.TrimSuffix(f.Words+"; "+f.Unfit, "; ")
}

// FailureHead names the failure: file, line, process and device.
func FailureHead(f *answer.Failure) string {
	text := f.File
	if f.Line != nil {
		text += fmt.Sprintf(":%d", *f.Line)
	}
	if f.Space != "" {
		text += " " + f.Space
	}
	if f.Line == nil {
		text += " at " + When(f.Of, f.At)
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
	who := ""
	if f.Requester != nil {
		who = f.Requester.Name
	}
	if who == "" && f.Line == nil && !compiled(f) {
		return "a request that the recording does not have"
	}
	if who == "" {
		who = "code that the text does not name"
		if compiled(f) {
			who = cmp.Or(f.Of.Module, "a program without a name")
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
	if callers := f.Callers[:min(len(f.Callers), maxCallers)]; len(callers) > 0 {
		text += ", called by " + strings.Join(callers, ", ")
	}
	if context := contextOf(f); context != "" {
		text += "; " + context
	}
	if f.Source == "torch" && (*f.RequestedBytes == 2<<20 || *f.RequestedBytes == 20<<20) {
		text += " (the allocator's smallest segments: the request itself may be much smaller)"
	}
	return text
}

// memory describes what the device and the allocator had, and after a colon the parts that add up to the capacity.
func memory(f *answer.Failure) string {
	head, parts := memoryOf(f, "%s")
	parts = slices.DeleteFunc(parts, func(part string) bool { return strings.HasPrefix(part, "0 B ") })
	text := strings.Trim(strings.Join(head, ", ")+": "+strings.Join(parts, ", "), ": ")
	return cmp.Or(text, "the text does not say") + beside(f.Beside)
}

// memoryOf returns the figures of the memory, also those that follow from what the text gives. parts, whose sizes have the format sized, add
// up to the capacity.
func memoryOf(f *answer.Failure, sized string) (head, parts []string) {
	add := func(bytes *int64, format string, inAccount bool) {
		switch {
		case bytes == nil:
		case inAccount && f.Account != nil:
			parts = append(parts, fmt.Sprintf(format, fmt.Sprintf(sized, units.Bytes(*bytes))))
		default:
			head = append(head, fmt.Sprintf(format, units.Bytes(*bytes)))
		}
	}
	a, capacity, live, free := f.Account, "%s on the device", "%s live", "%s free on the device"
	switch {
	case a == nil:
		a = &answer.Account{OutsideBytes: f.OutsideBytes, FreeBytes: f.FreeBytes}
	case f.CapacityBytes == nil:
		free = "%s not reserved yet"
	}
	if f.AtLeast {
		capacity = "at least " + capacity // what others hold is not recorded
	}
	if of := byCategory(f); of != "" {
		live += " (" + strings.ReplaceAll(of, "%", "%%") + ")"
	}
	add(f.CapacityBytes, capacity, false)
	add(f.LimitBytes, "limit %s", false)
	add(f.ExceededBytes, "%s too much", false)
	add(f.LiveBytes, live, true)
	add(f.UnallocatedBytes, "%s reserved but free", true)
	add(f.LargestFreeBytes, "largest free block %s", false)
	add(f.PrivatePoolsBytes, "%s idle in private pools", true)
	add(a.OutsideBytes, "%s outside of the allocator", true)
	add(f.OthersBytes, "%s in other processes", true)
	if rest := a.UnaccountedBytes; rest > max(4*f.RoundingBytes, a.CapacityBytes/512) { // three digits show it
		add(&rest, restOf(f), true)
	}
	add(a.FreeBytes, free, true)
	if f.ReleasedBytes > 0 {
		add(&f.ReleasedBytes, "%s given back right before to make room", false)
	}
	if f.Retries > 0 {
		head = append(head, units.Plural(f.Retries, "earlier request")+" fitted only after the allocator gave memory back")
	}
	return head, parts
}

// restOf says what is known of the memory that nobody is known to have.
func restOf(f *answer.Failure) string {
	switch a := f.Account; {
	case a.OutsideBytes != nil && f.Line != nil:
		return "%s in no process that the text lists"
	case f.OutsideBytes != nil:
		return "%s outside of the allocator"
	case a.FreeBytes == nil:
		return "%s free, or not accounted for"
	case a.LiveBytes == nil:
		return "%s not free"
	}
	return "%s not accounted for"
}

// beside tells what other devices had in use.
func beside(all []answer.DeviceBytes) string {
	const most = 4 // that are named
	if len(all) > most {
		by := func(x, y answer.DeviceBytes) int { return cmp.Compare(x.Bytes, y.Bytes) }
		return fmt.Sprintf("; %d other devices: %s live", len(all),
			Between(slices.MinFunc(all, by).Bytes, slices.MaxFunc(all, by).Bytes))
	}
	var texts []string
	for _, of := range all {
		texts = append(texts, of.ID+" "+units.Bytes(of.Bytes))
	}
	if texts == nil {
		return ""
	}
	return "; beside it " + strings.Join(texts, ", ") + " live"
}

// holding describes who held the memory.
func holding(f *answer.Failure) string {
	switch {
	case len(f.Holders) == 0 && f.RecordedBy() == "":
		return "the text does not say"
	case len(f.Holders) == 0:
		return "the text does not say; a recording does"
	}
	if f.Sizes != nil {
		return fmt.Sprintf("%s; the text does not say by whom: %s", units.Plural(f.Holders[0].Buffers, "buffer"), bySize(f.Sizes))
	}
	if l := f.Leak; l != nil {
		leak := fmt.Sprintf("leak: %s leaked %s in %s", l.Name, units.Bytes(l.Bytes), units.Plural(l.Count, "buffer"))
		if l.PerStep > 0 {
			leak += fmt.Sprintf(", %s per step", units.Bytes(l.PerStep))
		}
		if f.Holders[0].Name == l.Name && f.Holders[0].Bytes == l.Bytes { // it is said already
			return strings.TrimSuffix(leak+"; "+largest(f.Holders[1:]), "; ")
		}
		return leak + "; " + largest(f.Holders)
	}
	return largest(f.Holders)
}

// maxHolders is the number of holders and maxSizes that of sizes that a line names.
const (
	maxHolders = 3
	maxSizes   = 4
)

// largest returns the names and bytes of the largest holders. Those of one place have their category.
func largest(holders []answer.Holder) string {
	var parts []string
	const little = 100 // times less than the largest
	names := map[string]int{}
	for _, h := range holders[:min(maxHolders, len(holders))] {
		names[h.Name]++
	}
	for i := range holders[:min(maxHolders, len(holders))] {
		h := &holders[i]
		if h.Bytes < holders[0].Bytes/little {
			break
		}
		text := h.Name + " " + units.Bytes(h.Bytes)
		if names[h.Name] > 1 && h.Category != "" {
			text += " " + purpose.Words(h.Category)
		}
		if h.Buffers > 1 {
			text += " in " + units.Count(h.Buffers)
			if len(parts) == 0 {
				text += " buffers"
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// bySize returns the largest groups of buffers of one size.
func bySize(all []answer.SizeHeld) string {
	var parts []string
	for _, size := range all[:min(len(all), maxSizes)] {
		parts = append(parts, fmt.Sprintf("%s of %s", units.Count(size.Count), units.Bytes(size.Bytes)))
	}
	if n := len(all) - len(parts); n > 0 {
		parts = append(parts, units.Plural(n, "smaller group"))
	}
	return strings.Join(parts, ", ")
}

// maxCallers is the number of callers of a requester that a line names.
const maxCallers = 3

// contextOf returns the operator, the stream, the step and the phase of a request, and what the program named around it.
func contextOf(f *answer.Failure) string {
	var parts []string
	add := func(text, unless string) {
		if text != unless {
			parts = append(parts, text)
		}
	}
	add("operator "+f.Operator, "operator ")
	add(f.Printed, "")
	if f.Stream != 0 {
		add("on stream "+strconv.FormatInt(f.Stream, 10), "")
	}
	if f.Step > 0 {
		step := "in step " + units.Count(int64(f.Step))
		if f.StepName != "" && !strings.HasSuffix(f.StepName, strconv.Itoa(f.Step)) {
			step += " (" + f.StepName + ")"
		}
		add(step, "")
	}
	add("during "+f.Within, "during ")
	add(f.Phase.Words(), "")
	return strings.Join(parts, ", ")
}

// compiled reports whether a compiled program failed.
func compiled(f *answer.Failure) bool {
	return f.Of != nil && f.Of.Axis == lifetime.ProgramOrder
}

// byCategory describes the live bytes by category and by holder, largest first, as far as the capture has categories
// and holders.
func byCategory(f *answer.Failure) string {
	if compiled(f) {
		return ""
	}
	var parts, lines []string
	for _, c := range f.Categories {
		parts = append(parts, units.Bytes(c.Bytes)+" "+purpose.Words(c.Name))
	}
	if len(parts) > 1 {
		lines = append(lines, strings.Join(parts, ", "))
	}
	if len(f.HeldBy) > 0 {
		lines = append(lines, "held by "+partsText(f.HeldBy))
	}
	return strings.Join(lines, "; ")
}
