package answer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/selection"
)

// Ops lists the operations that changed the memory.
type Ops struct {
	Schema   string       `json:"schema"`   // "memlane/1"
	Next     string       `json:"next"`     // command that tells more
	Captures []CaptureOps `json:"captures"` // in the order of the command line
}

// CaptureOps are the operations of one capture.
type CaptureOps struct {
	File       string      `json:"file"`       // name on the command line
	Operations []Operation `json:"operations"` // sorted by --sort

	NoMemory string `json:"-"` // why the capture has no memory events; "" if it has
}

// Operation sums up the calls of one operation.
type Operation struct {
	Name       string         `json:"name"`         // name
	Kind       string         `json:"kind"`         // operator, range, function, or runtime: a call of the device's runtime or driver, or work of the profiler
	Calls      int64          `json:"calls"`        // number of calls
	TimeNS     int64          `json:"time_ns"`      // time in calls, in nanoseconds
	SelfTimeNS int64          `json:"self_time_ns"` // the same without operations called by it
	Host       OperationBytes `json:"host"`         // change of CPU memory
	Device     OperationBytes `json:"device"`       // change of GPU memory

	Function bool `json:"-"` // a Python function
}

// OperationBytes are the changes of one kind of memory by an operation.
type OperationBytes struct {
	Allocated int64 `json:"allocated_bytes"` // allocated while it ran
	Freed     int64 `json:"freed_bytes"`     // freed while it ran
	Bytes     int64 `json:"bytes"`           // allocated less freed
	SelfBytes int64 `json:"self_bytes"`      // the same without operations called by it
}

// Orders are the ways to sort operations, by the name that --sort has. "memory" is most bytes first.
var Orders = map[string]func(x, y Operation) int{
	"memory": func(x, y Operation) int {
		return cmp.Or(cmp.Compare(y.Host.SelfBytes+y.Device.SelfBytes, x.Host.SelfBytes+x.Device.SelfBytes),
			cmp.Compare(y.Host.Bytes+y.Device.Bytes, x.Host.Bytes+x.Device.Bytes), strings.Compare(x.Name, y.Name))
	},
	"time": func(x, y Operation) int {
		return cmp.Or(cmp.Compare(y.SelfTimeNS, x.SelfTimeNS), cmp.Compare(y.TimeNS, x.TimeNS), strings.Compare(x.Name, y.Name))
	},
	"calls": func(x, y Operation) int {
		return cmp.Or(cmp.Compare(y.Calls, x.Calls), strings.Compare(x.Name, y.Name))
	},
}

// OpsOf returns the operations of a capture, sorted by one of Orders, or by time if the capture has no memory events.
// It fails with a *selection.NothingError if there are no operations.
func OpsOf(c *lifetime.Capture, order string) (CaptureOps, error) {
	if len(c.Operations) == 0 {
		return CaptureOps{}, &selection.NothingError{File: c.Name(),
			Why: "no operations; only traces of the PyTorch profiler have them (export_chrome_trace)"}
	}
	out := CaptureOps{File: c.Name(), NoMemory: loss.NoEvents(c.Losses)}
	for _, o := range c.Operations {
		out.Operations = append(out.Operations, Operation{
			Name: o.Name, Kind: o.Kind, Calls: o.Calls, TimeNS: o.Time, SelfTimeNS: o.SelfTime,
			Host: bytesOf(o.Host), Device: bytesOf(o.Device), Function: o.Kind == "function",
		})
	}
	if order == "memory" && out.NoMemory != "" {
		order = "time"
	}
	slices.SortStableFunc(out.Operations, Orders[order])
	return out, nil
}

func bytesOf(b lifetime.OperationBytes) OperationBytes {
	return OperationBytes{b.Allocated, b.Freed, b.Bytes(), b.SelfBytes}
}
