package lifetime

import "fmt"

// Severity of a Loss.
type Severity uint8

const (
	Info     Severity = iota // worth knowing, nothing is missing
	DataLoss                 // correct reading, but the capture lacks something
	Damage                   // the capture is broken here
)

// String returns the name used in JSON.
func (s Severity) String() string { return [...]string{"info", "data loss", "error"}[s] }

// Reason is why something of a capture is not in the model. The list is
// closed: each reason has one severity and one sentence.
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
	name     string
	severity Severity
	doc      string
}{
	BeforeWindow:     {"before-window", Info, "buffers are older than the history; their allocation was not recorded"},
	RingOverflow:     {"ring-overflow", DataLoss, "the history's ring buffer overflowed (max_entries): its oldest events are gone"},
	NotAHistory:      {"not-a-history", DataLoss, "the capture holds the state at its end, but no history of allocations and frees"},
	LostFree:         {"lost-free", DataLoss, "buffers ended without a recorded free"},
	StateMismatch:    {"state-mismatch", DataLoss, "the end state contradicts the history; the end state was believed"},
	TotalMismatch:    {"total-mismatch", DataLoss, "the producer's total differs from the buffers seen"},
	ClockBackwards:   {"clock-backwards", Info, "events stand earlier than the event before them; file order was kept"},
	UnknownAction:    {"unknown-action", Info, "events of a kind that is not known were skipped"},
	UnknownKey:       {"unknown-key", Info, "fields that are not known were skipped"},
	IncompleteRecord: {"incomplete-record", Damage, "records are incomplete, or contradict others, and were skipped"},
	Truncated:        {"truncated", Damage, "the file ends early; it was used as far as it goes"},
	EndStateAfterCut: {"end-state-after-cut", Damage, "blocks of the end state cannot be placed in the cut history and were left out"},
	Overlap:          {"overlap", Damage, "nothing is left of buffers once the events around them are believed; they were dropped"},
	AnnotationOpen:   {"annotation-open", Info, "annotations have no end"},
	NoMemoryEvents: {"no-memory-events", Info, "the profile has no memory events: JAX on CPU records none, TensorFlow on CPU does with " +
		"TF_CPU_ALLOCATOR_USE_BFC=1, and others do while the program allocates; capture its first steps"},
	ProducerMessage: {"producer-message", Info, "the profiler that wrote the capture reports errors or warnings of its own"},
	OtherRuns:       {"other-runs", Info, "the folder holds other runs, which were not read; give their folder to read one"},
	Anonymous:       {"anonymous", DataLoss, "allocations and frees are told without addresses: only the usage is known, above a level that is not"},
	NoMemoryRecorded: {"no-memory-recorded", Info, "the trace has no [memory] events: record with torch.profiler.profile(profile_memory=True), " +
		"and with_stack=True to see who allocates"},
	NotOfPyTorch:  {"not-of-pytorch", Info, "a trace of XProf or JAX has no memory events: read the *.xplane.pb beside it"},
	DirtyJSON:     {"dirty-json", Info, "the file is not quite JSON; it was read nevertheless"},
	TooManySpaces: {"too-many-spaces", DataLoss, "the capture names more devices, allocators or programs than are kept; what happened in the others was left out"},
	Overflow:      {"overflow", Damage, "sizes add up to more than 8 EiB, as no memory has; sums of them end there"},
	OddSize:       {"odd-size", Damage, "sizes are below zero or beyond 63 bits; they count as nothing or as the most"},
	DamagedModule: {"damaged-module", Damage, "compiled modules cannot be read and were left out"},
}

// String returns the name used in JSON and native text.
func (r Reason) String() string { return reasons[r].name }

// Doc returns one sentence that explains the reason.
func (r Reason) Doc() string { return reasons[r].doc }

// Severity returns how bad the reason is.
func (r Reason) Severity() Severity { return reasons[r].severity }

// Loss counts what of a capture is not in the model, and why.
type Loss struct {
	Reason Reason
	Count  int64
	Bytes  int64  // bytes of buffers concerned; 0 when not known
	First  string // where it happened first: a byte offset, a path inside, an address
}

// add counts one more case. where is asked for the first one alone.
func (l *Loss) add(bytes int64, where func() string) {
	if l.Count++; l.Count == 1 {
		l.First = where()
	}
	l.Bytes = AddSat(l.Bytes, bytes)
}

// tell counts the cases in the losses of the capture, if there are any.
func (l *Loss) tell(b *Builder, r Reason, s *Space) {
	if l.Count > 0 {
		b.Lose(r, l.Count, l.Bytes, s.ID()+": "+l.First)
	}
}

// String returns the loss as one line for people.
func (l Loss) String() string {
	s := fmt.Sprintf("%s: %s (%d", l.Reason, l.Reason.Doc(), l.Count)
	if l.Bytes > 0 {
		s += fmt.Sprintf(", %d bytes", l.Bytes)
	}
	if l.First != "" {
		s += ", first at " + l.First
	}
	return s + ")"
}
