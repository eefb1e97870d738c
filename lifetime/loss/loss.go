// Package loss names what of a capture is not in the model, and why. Readers and
// package build count losses; a bad record never ends the reading.
//
// The list of reasons is closed: each has one class and one sentence.
package loss

import (
	"fmt"
	"strings"
)

// Class says how much harm a loss does to the answers.
type Class uint8

const (
	Remark  Class = iota // nothing is missing
	Missing              // the reading is right, but the capture lacks something
	Damage               // the capture is broken here
)

// String returns the name that JSON has as the severity of a loss.
func (c Class) String() string { return [...]string{"info", "data loss", "error"}[c] }

// Reason is why something of a capture is not in the model.
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
	OddSize
)

var reasons = [...]struct {
	name  string
	class Class
	doc   string
}{
	BeforeWindow:     {"before-window", Remark, "buffers are older than the history; their allocation was not recorded"},
	RingOverflow:     {"ring-overflow", Missing, "the history's ring buffer overflowed (max_entries): its oldest events are gone"},
	NotAHistory:      {"not-a-history", Missing, "the capture holds the state at its end, but no history of allocations and frees"},
	LostFree:         {"lost-free", Missing, "buffers ended without a recorded free"},
	StateMismatch:    {"state-mismatch", Missing, "the end state contradicts the history; the end state was believed"},
	TotalMismatch:    {"total-mismatch", Missing, "the producer's total differs from the buffers seen"},
	ClockBackwards:   {"clock-backwards", Remark, "events stand earlier than the event before them; file order was kept"},
	UnknownAction:    {"unknown-action", Remark, "events of a kind that is not known were skipped"},
	UnknownKey:       {"unknown-key", Remark, "fields that are not known were skipped"},
	IncompleteRecord: {"incomplete-record", Damage, "records are incomplete, or contradict others, and were skipped"},
	Truncated:        {"truncated", Damage, "the file ends early; it was used as far as it goes"},
	EndStateAfterCut: {"end-state-after-cut", Damage, "blocks of the end state cannot be placed in the cut history and were left out"},
	Overlap:          {"overlap", Damage, "nothing is left of buffers once the events around them are believed; they were dropped"},
	AnnotationOpen:   {"annotation-open", Remark, "annotations have no end"},
	NoMemoryEvents: {"no-memory-events", Remark, "the profile has no memory events: JAX on CPU records none, TensorFlow on CPU does with " +
		"TF_CPU_ALLOCATOR_USE_BFC=1, and others do while the program allocates; capture its first steps"},
	ProducerMessage: {"producer-message", Remark, "the profiler that wrote the capture reports errors or warnings of its own"},
	OtherRuns:       {"other-runs", Remark, "the folder holds other runs, which were not read; give their folder to read one"},
	Anonymous:       {"anonymous", Missing, "allocations and frees are told without addresses: only the usage is known, above a level that is not"},
	NoMemoryRecorded: {"no-memory-recorded", Remark, "the trace has no [memory] events: record with torch.profiler.profile(profile_memory=True), " +
		"and with_stack=True to see who allocates"},
	NotOfPyTorch:  {"not-of-pytorch", Remark, "a trace of XProf or JAX has no memory events: read the *.xplane.pb beside it"},
	DirtyJSON:     {"dirty-json", Remark, "the file is not quite JSON; it was read nevertheless"},
	TooManySpaces: {"too-many-spaces", Missing, "the capture names more devices, allocators or programs than are kept; what happened in the others was left out"},
	Overflow:      {"overflow", Damage, "sizes add up to more than 8 EiB, as no memory has; sums of them end there"},
	OddSize:       {"odd-size", Damage, "sizes are below zero or beyond 63 bits; they count as nothing or as the most"},
	DamagedModule: {"damaged-module", Damage, "compiled modules cannot be read and were left out"},
}

// String returns the name used in JSON and native text.
func (r Reason) String() string { return reasons[r].name }

// Doc returns one sentence that explains the reason.
func (r Reason) Doc() string { return reasons[r].doc }

// Class returns how much harm the reason does.
func (r Reason) Class() Class { return reasons[r].class }

// Parse is the inverse of Reason.String.
func Parse(name string) (r Reason, ok bool) {
	for r := range reasons {
		if reasons[r].name == name {
			return Reason(r), true
		}
	}
	return 0, false
}

// Loss counts what of a capture is not in the model for one reason.
type Loss struct {
	Reason Reason
	Count  int64
	Bytes  int64  // of the buffers concerned; 0 when not known
	First  string // where it happened first: a byte offset, a path inside, an address
}

// String returns the loss as one line for people.
func (l Loss) String() string {
	return l.Text(func(bytes int64) string { return fmt.Sprintf("%d bytes", bytes) })
}

// Text returns the loss as one line for people, its bytes as size writes them.
func (l Loss) Text(size func(bytes int64) string) string {
	var details []string
	if l.Count > 1 {
		details = append(details, fmt.Sprintf("%d cases", l.Count))
	}
	if l.Bytes > 0 {
		details = append(details, size(l.Bytes))
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

// Worst returns the loss of a list that does most harm, and how many others are of
// class from or above; its Count is 0 where none is. A file that ends early is the
// cause of other damage.
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
