// Package compiled has what only compiled programs record: what their allocations are for, how devices share tensors,
// and what arguments are.
package compiled

import (
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/internal/flags"
)

// Uses is the set of uses of a compiled program's buffer allocation: the flags of XLA's BufferAllocationProto.
type Uses uint8

const (
	ForParameter   Uses = 1 << iota // an argument of the entry computation
	ForOutput                       // may be alive after the run
	ForConstant                     // part of the program
	ForThreadLocal                  // on the stack of a thread
	ForTuple                        // a table of pointers
)

var useNames = [...]string{"parameter", "output", "constant", "thread-local", "tuple"}

// Whole reports whether the allocation lasts for the whole run of the program.
func (u Uses) Whole() bool {
	return u&(ForParameter|ForOutput|ForConstant) != 0 && u&ForThreadLocal == 0
}

// Names returns the names of the uses in a fixed order, as in native text.
func (u Uses) Names() []string { return flags.Names(useNames[:], u) }

// ParseUses is the inverse of Names joined by ",". ok is false for unknown text.
func ParseUses(text string) (u Uses, ok bool) { return flags.Parse[Uses](useNames[:], text, ",", "") }

// Role is what the data flow of a compiled program shows an argument, or a copy of one, to be for.
type Role string

// Roles. A training step overwrites the arguments with the first two.
const (
	Trained Role = "trained" // the differentiated computation uses it, and its new value depends on the backward pass
	State   Role = "state"   // its new value depends on the backward pass, and it goes only into that and the new value of one trained argument
	Copied  Role = "copied"  // a copy of another argument
)

// Sharding is how the devices that run a compiled program share a tensor. Its zero value means that it was not
// recorded.
type Sharding struct {
	Split  string // number of parts of each dimension: "1x8"; "" = it is not split
	Copies int64  // devices that have the same part; 0 = not recorded
}

// String returns "split 1x4, on 2 devices each", "replicated on 8 devices" or "".
func (s Sharding) String() string {
	switch {
	case s.Copies == 0:
		return ""
	case s.Split == "":
		return "replicated on " + units.Plural(s.Copies, "device")
	case s.Copies == 1:
		return "split " + s.Split
	}
	return "split " + s.Split + ", on " + units.Plural(s.Copies, "device") + " each"
}

// Change is a change of a compiled program and the peak of occupied bytes that it would have, by the live ranges of its schedule: from Low to
// High.
type Change struct {
	Kind      ChangeKind
	What      string // the arguments, or the line of the program; of a donation "" if none lowers the peak
	Low, High int64
}

// ChangeKind is what is changed.
type ChangeKind string

const (
	Donate     ChangeKind = "donate"     // arguments to results of their shape
	InPlace    ChangeKind = "in_place"   // a loop carries the array and writes into it, in place of into another one
	Checkpoint ChangeKind = "checkpoint" // the backward pass computes again what a round of a loop makes
	Layers     ChangeKind = "layers"     // and what each layer outside of loops makes
)
