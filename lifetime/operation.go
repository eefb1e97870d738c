package lifetime

// Operation sums up the calls of one operation.
type Operation struct {
	Name  string
	Kind  OperationKind
	Calls int64

	// Time that the calls took, in nanoseconds; self is without the operations
	// that they called. Of functions only Time is told.
	Time, SelfTime int64

	// What changed while they ran, by whatever thread.
	Host, Device OperationBytes
}

// OperationBytes is what operations changed in one kind of memory.
type OperationBytes struct {
	Allocated, Freed int64
	SelfBytes        int64 // allocated less freed, without the operations that they called
}

// Bytes returns what was allocated less what was freed.
func (o OperationBytes) Bytes() int64 { return AddSat(o.Allocated, -o.Freed) }

// OperationKind is the kind of an Operation.
type OperationKind uint8

const (
	Operator OperationKind = iota // of the framework
	Range                         // that the program named
	Function                      // of Python
)

var operationNames = [...]string{"operator", "range", "function"}

// String returns the name used in JSON and native text.
func (k OperationKind) String() string { return operationNames[k] }

// ParseOperationKind is the inverse of OperationKind.String.
func ParseOperationKind(s string) (OperationKind, bool) {
	return parse[OperationKind](operationNames[:], s)
}

// LeaveOutOperations says that no one asks for the summaries of operations: to make
// them takes time that goes with the calls, not with the memory. It must be called
// before the first fact.
func (b *Builder) LeaveOutOperations() { b.noOperations = true }

// WantsOperations reports whether readers are to make summaries of operations.
func (b *Builder) WantsOperations() bool { return !b.noOperations }

// Operations adds the summaries of operations. all is kept.
func (b *Builder) Operations(all ...Operation) {
	if b.noOperations {
		return
	}
	if b.capture.Operations == nil {
		b.capture.Operations = all
		return
	}
	b.capture.Operations = append(b.capture.Operations, all...)
}
