package pprof

import (
	"cmp"
	"io"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// Sum is the total of the buffers of one call site in several memories. Without frames, the operation replaces
// the stack.
type Sum struct {
	Frames           []frame.Frame // innermost first
	Site             lifetime.Site // operation, region, shape and type become labels
	Allocated, InUse lifetime.Amount
	Leaked           int64 // bytes
	Memories         int   // that have the site
}

// The stacks of bytes in use that no buffer represents.
var (
	BeforeWindow = []frame.Frame{{Function: beforeWindow}}
	OutsideHeap  = []frame.Frame{{Function: besideHeap}}
)

// WriteSums writes sums as one gzipped profile.proto with the sample types of captures, one sample each. Its
// numeric label "memories" is the number of memories that have the site. Equal sums give the same bytes.
func WriteSums(w io.Writer, sums []Sum, comments []string) error {
	return write(w, Options{}, func(b *builder) {
		for i := range sums {
			b.addSum(&sums[i])
		}
		b.profile.Comments = comments
	})
}

func (b *builder) addSum(s *Sum) {
	if s.Memories == 0 {
		b.extra([]uint64{b.location(s.Frames[0].Function, "", 0)}, s.InUse.Bytes, nil)
		return
	}
	var stack []uint64
	op := s.Site.Op
	for i := range s.Frames {
		stack = append(stack, b.locationOf(&s.Frames[i]))
	}
	if len(stack) == 0 {
		stack, op = []uint64{b.location(cmp.Or(op, noStack), "", 0)}, ""
	}
	b.emit(&sample{
		stack: stack,
		values: values{allocObjects: s.Allocated.Count, allocSpace: s.Allocated.Bytes,
			inuseObjects: s.InUse.Count, inuseSpace: s.InUse.Bytes, leakedSpace: s.Leaked},
		labels:  siteLabels{kind: "buffer", op: op, region: s.Site.Region, shape: s.Site.Shape, dtype: s.Site.DType}.on(nil),
		numbers: []number{{"memories", "count", int64(s.Memories)}},
	})
}
