// Package loss lists the reasons why data of a capture is missing from the model.
// Readers and package build count losses; a bad record never stops the reader.
//
// Each [Reason] has one class and one explanation.
package loss

import (
	"strings"

	"github.com/memlane/memlane/internal/units"
)

// Class is the severity of a loss.
type Class uint8

const (
	Remark  Class = iota // nothing is missing
	Missing              // the capture is valid but incomplete
	Damage               // the capture is damaged
)

// String returns the severity as JSON names it.
func (c Class) String() string { return [...]string{"info", "data loss", "error"}[c] }

// Reason is the reason why data of a capture is missing from the model. Doc explains each.
type Reason uint8

const (
	BeforeWindow Reason = iota
	RingOverflow
	NotAHistory
	LostFree
	StateMismatch
	TotalMismatch
	ClockBackwards
	UnknownAction
	UnknownKey
	IncompleteRecord
	Truncated
	EndStateAfterCut
	Overlap
	AnnotationOpen
	NoMemoryEvents
	ProducerMessage
	OtherRuns
	DamagedModule
	Anonymous
	NoMemoryRecorded
	NotOfPyTorch
	DirtyJSON
	TooManySpaces
	Overflow
	InvalidSize
	UnknownSize
	DeepStacks
	ManyBuffers
	NamesIncomplete
	NameWithoutBuffer
	CallsCut
)

var reasons = [...]struct {
	name  string
	class Class
	doc   string
}{
	BeforeWindow:     {"before-window", Remark, "buffers were allocated before the recording began"},
	RingOverflow:     {"ring-overflow", Missing, "the ring buffer overflowed (max_entries): the oldest events were dropped"},
	NotAHistory:      {"not-a-history", Missing, "the capture has the end state, but no history of allocations and frees"},
	LostFree:         {"lost-free", Missing, "buffers ended without a recorded free"},
	StateMismatch:    {"state-mismatch", Missing, "the end state contradicts the history; the end state was used"},
	TotalMismatch:    {"total-mismatch", Missing, "the reported total differs from the sum of the recorded buffers"},
	ClockBackwards:   {"clock-backwards", Remark, "timestamps go backwards; events were kept in file order"},
	UnknownAction:    {"unknown-action", Remark, "events of unknown kinds were skipped"},
	UnknownKey:       {"unknown-key", Remark, "unknown fields were skipped"},
	IncompleteRecord: {"incomplete-record", Damage, "incomplete or contradictory records were skipped"},
	Truncated:        {"truncated", Damage, "the file ends early; everything before that point was used"},
	EndStateAfterCut: {"end-state-after-cut", Damage, "the history is truncated; blocks of the end state that do not fit it were left out"},
	Overlap:          {"overlap", Damage, "buffers contradict the events around them and were dropped"},
	AnnotationOpen:   {"annotation-open", Remark, "annotations have no end"},
	NoMemoryEvents: {"no-memory-events", Remark, "the profile has no memory events: JAX on CPU records none; TensorFlow on CPU needs " +
		"TF_CPU_ALLOCATOR_USE_BFC=1; elsewhere, record the first steps, when the program allocates"},
	ProducerMessage: {"producer-message", Remark, "the profiler reported errors or warnings"},
	OtherRuns:       {"other-runs", Remark, "the folder has other runs that were not read; to read one, give its folder"},
	Anonymous:       {"anonymous", Missing, "allocations and frees have no addresses: only changes of the usage are known, not its starting level"},
	NoMemoryRecorded: {"no-memory-recorded", Remark, "the trace has no [memory] events: record with torch.profiler.profile(profile_memory=True), " +
		"and with_stack=True to see who allocates"},
	NotOfPyTorch:      {"not-of-pytorch", Remark, "traces of XProf and JAX have no memory events: read the *.xplane.pb in the same folder"},
	DirtyJSON:         {"dirty-json", Remark, "the file is not valid JSON, but it could be read"},
	TooManySpaces:     {"too-many-spaces", Missing, "the capture names too many devices, allocators or programs; those beyond the limit were left out"},
	Overflow:          {"overflow", Damage, "sizes add up to more than 8 EiB; sums are limited to that"},
	InvalidSize:       {"odd-size", Damage, "sizes are negative or exceed 63 bits; they count as 0 or as the maximum"},
	DeepStacks:        {"deep-stacks", Remark, "calls nest so deep that lists of call sites have their innermost calls only; exports of the model have all"},
	ManyBuffers:       {"many-buffers", Remark, "info and peak do not tell what more than 2 million buffers are for; peak --by category does, and tune replays them"},
	UnknownSize:       {"unknown-size", Remark, "the device does not report the sizes of compiled programs (executables)"},
	NamesIncomplete:   {"names-incomplete", Missing, "the recorder did not name all live buffers"},
	NameWithoutBuffer: {"name-without-buffer", Remark, "tensors were named that are in none of the allocator's live buffers"},
	CallsCut: {"calls-cut", Missing, "the file ends before its calls of Python do: later buffers have the call site that ran the same operators before, " +
		"or only operators"},
	DamagedModule: {"damaged-module", Damage, "compiled modules cannot be read and were left out"},
}

// String returns the name used in JSON and native text.
func (r Reason) String() string { return reasons[r].name }

// Doc returns a one-line explanation of the reason.
func (r Reason) Doc() string { return reasons[r].doc }

// Class returns the severity of the reason.
func (r Reason) Class() Class { return reasons[r].class }

// Parse is the inverse of Reason.String. ok is false for an unknown name.
func Parse(name string) (r Reason, ok bool) {
	for r := range reasons {
		if reasons[r].name == name {
			return Reason(r), true
		}
	}
	return 0, false
}

// Loss counts the data that is missing from the model for one reason.
type Loss struct {
	Reason Reason
	Count  int64
	Bytes  int64  // of the affected buffers; 0 = not known
	First  string // the first place: a byte offset, a path inside the file, or an address
}

// String returns the loss as one line for people.
func (l Loss) String() string {
	var details []string
	if l.Count > 1 {
		details = append(details, units.Plural(l.Count, "case"))
	}
	if l.Bytes > 0 {
		details = append(details, units.Bytes(l.Bytes))
	}
	switch {
	case l.First != "" && l.Count > 1:
		details = append(details, "first at "+l.First)
	case l.First != "":
		details = append(details, "at "+l.First)
	}
	text := l.Reason.String() + ": " + l.Reason.Doc()
	if len(details) > 0 {
		text += " (" + strings.Join(details, ", ") + ")"
	}
	return text
}

// NoEvents explains why a profile has no memory events, and what to do; "" if it has.
func NoEvents(all []Loss) string {
	for _, l := range all {
		switch l.Reason {
		case NoMemoryEvents, NoMemoryRecorded:
			return l.Reason.Doc()
		case NotOfPyTorch:
			if l.First != "" {
				return l.Reason.Doc() + ": " + l.First
			}
			return l.Reason.Doc()
		}
	}
	return ""
}

// Worst returns the most severe loss of class from or above, and the number of others in that range. The Count of worst
// is 0 if there is none. Truncated wins over other damage, because a file that ends early causes it.
func Worst(all []Loss, from Class) (worst Loss, others int) {
	for _, l := range all {
		class := l.Reason.Class()
		if class < from {
			continue
		}
		others++
		if worst.Count == 0 || class > worst.Reason.Class() || l.Reason == Truncated {
			worst = l
		}
	}
	return worst, max(others-1, 0)
}

// Unnamed returns why memlane's recorder did not name all that is alive at the end; "" if it did, or was not asked to.
func Unnamed(all []Loss) string {
	for _, l := range all {
		if l.Reason == NamesIncomplete {
			return strings.Trim(l.First, `"`)
		}
	}
	return ""
}
