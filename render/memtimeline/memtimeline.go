// Package memtimeline writes the buffers of a device as a raw memory timeline, the form of torch.profiler's
// export_memory_timeline for files named .raw.json.gz.
//
// Its place in the pipeline: the last step. The file is a JSON list of rows [nanoseconds, action, bytes, category], as
// in torch/profiler/_memory_profiler.py: actions are preexisting (1, at -1), create (2) and destroy (4), categories the
// numbers of _CATEGORY_TO_INDEX. Bytes are requested bytes. A buffer whose category PyTorch does not have, such as a
// workspace, is unknown.
package memtimeline

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Actions of rows.
const (
	preexisting = 1
	create      = 2
	destroy     = 4
)

// unknown is the number of buffers without a category.
const unknown = 7

// numbers are the numbers of categories.
var numbers = map[string]int{
	purpose.ModelParameter.String(): 0, purpose.OptimizerState.String(): 1, purpose.Input.String(): 2, purpose.TemporaryData.String(): 3,
	purpose.Activation.String(): 4, purpose.Gradient.String(): 5, "autograd detail": 6,
}

// Write writes the space of c with the highest peak that is no compiled program. It fails if there is none with
// buffers.
func Write(w io.Writer, c *lifetime.Capture) error {
	s := highest(c)
	if s == nil {
		return errors.New("no buffers of a run; a memory timeline has those of one device")
	}
	out := &rows{w: bufio.NewWriter(w), before: "["}
	if s.Base != 0 {
		out.row(-1, preexisting, s.Base, unknown)
	}
	for i := range s.Buffers {
		if b := &s.Buffers[i]; b.Edge&lifetime.BeginUnseen != 0 {
			out.row(-1, preexisting, b.Requested, categoryOf(c, s, i))
		}
	}
	for change := range s.Changes() {
		b := &s.Buffers[change.Buffer]
		switch {
		case !change.Begin:
			out.row(change.T, destroy, b.Requested, categoryOf(c, s, change.Buffer))
		case b.Edge&lifetime.BeginUnseen == 0:
			out.row(change.T, create, b.Requested, categoryOf(c, s, change.Buffer))
		}
	}
	if out.before == "[" { // no row
		fmt.Fprint(out.w, "[")
	}
	fmt.Fprint(out.w, "]\n") // bufio keeps the first error until Flush
	return out.w.Flush()
}

// highest returns the space with the highest peak; nil if no space of a run has buffers.
func highest(c *lifetime.Capture) (best *lifetime.Space) {
	most := int64(-1)
	for _, s := range c.Spaces {
		if s.Axis == lifetime.ProgramOrder || len(s.Buffers) == 0 {
			continue
		}
		if peak := s.Peak(lifetime.Occupied).Bytes; peak > most {
			best, most = s, peak
		}
	}
	return best
}

func categoryOf(c *lifetime.Capture, s *lifetime.Space, buffer int) int {
	b := &s.Buffers[buffer]
	if n, ok := numbers[c.Category(&s.SpaceInfo, b.Kind, b.Site, s.PurposeOf(buffer))]; ok {
		return n
	}
	return unknown
}

// rows writes rows, one a line.
type rows struct {
	w      *bufio.Writer
	before string
}

func (r *rows) row(at int64, action int, bytes int64, category int) {
	fmt.Fprintf(r.w, "%s[%d, %d, %d, %d]", r.before, at, action, bytes, category)
	r.before = ",\n"
}
