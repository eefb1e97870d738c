package torchsnap

import (
	"fmt"
	"math"

	"github.com/memlane/memlane/formats/torchsnap/internal/pickle"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/loss"
)

// event adds one trace event to the builder. The events of a device are in order
// of time. If the clock goes back, the order in the file counts.
func (r *reader) event(f *fields, list pickle.Value) pickle.Value {
	if r.d.Unfinished() || f.get(keyAction).Kind() != pickle.Str {
		return r.lose()
	}
	tr := r.trace(list)
	action := f.get(keyAction).Int()
	if action < actAlloc || action > actAnnotate {
		r.time(tr, f) // it counts as an event
		tr.used = true
		r.b.Lose(loss.UnknownAction, 1, 0, fmt.Sprintf("%.40q, %s", r.d.Str(f.get(keyAction)), r.place()))
		return pickle.Forget
	}
	addr, hasAddr := r.d.Uint64(f.get(keyAddr))
	if !f.hasAll(1<<keySize) || !hasAddr && action != actOOM {
		return r.lose()
	}
	t := r.time(tr, f)
	size := r.size(f.get(keySize))
	tr.used = tr.used || action != actSnapshot || size != 0
	block := build.Block{Addr: addr, Requested: size, Occupied: rounded(size), Inferred: true}
	switch action {
	case actAlloc:
		block.Site = r.site(f)
		r.b.Alloc(tr.space, t, block)
		r.annotate(tr, t, addr, f)
	case actFreeRequested:
		tr.requests = true
		block.Site = r.site(f)
		r.b.FreeRequested(tr.space, t, block)
	case actFreeCompleted:
		if tr.events == 1 {
			tr.orphan = true
		}
		block.Site = r.site(f)
		r.b.Free(tr.space, t, block)
	case actSegmentAlloc, actSegmentMap:
		region := r.region(f, addr, size)
		region.Site = r.site(f)
		r.b.Reserve(tr.space, t, region)
	case actSegmentFree, actSegmentUnmap:
		r.b.Release(tr.space, t, r.region(f, addr, size))
	case actOOM:
		var free failure.Bytes
		if n, ok := r.d.Int64(f.get(keyDeviceFree)); ok {
			free = failure.BytesOf(n)
		}
		r.b.Mark(tr.space, lifetime.Mark{Begin: t, End: t, Kind: lifetime.OOM, Site: r.site(f), Requested: size,
			Free: free, Stream: r.stream(f.get(keyStream))})
	case actSnapshot:
		// Its size is torch.cuda.memory_allocated().
		r.b.Total(tr.space, lifetime.Total{T: t, Bytes: size, Measure: lifetime.OccupiedLessPending})
		r.b.Mark(tr.space, lifetime.Mark{Begin: t, End: t, Kind: lifetime.Snapshot})
	case actAnnotate:
		r.annotate(tr, t, addr, f)
	}
	return pickle.Forget
}

// Sizes of PyTorch's segments (kSmallBuffer and kRoundLarge in c10/cuda/CUDACachingAllocator.cpp).
const (
	smallSegment = 2 << 20
	roundLarge   = 2 << 20
)

// region returns the region of a segment event. Its kind follows from its size: segments for small requests are
// smallSegment, those for large requests are larger multiples of roundLarge. Expandable segments grow by pages of
// the same sizes. So only an unmapped range that is older than the window may hide that it was small: it can have
// several pages.
func (r *reader) region(f *fields, addr uint64, size int64) lifetime.Region {
	region := lifetime.Region{Addr: addr, Size: size, Stream: r.stream(f.get(keyStream)), Small: size == smallSegment}
	switch action := f.get(keyAction).Int(); {
	case action == actSegmentMap || action == actSegmentUnmap:
		region.Kind = lifetime.Expandable
	case region.Small:
		region.Kind = "small"
	case size > 0 && size%roundLarge == 0:
		region.Kind = "large"
	}
	r.pool(&region, f.get(keyPoolID))
	return region
}

// pool sets the pool of a region. Its ID is a pair: (0, 0) is the default pool. Before 2.15, events have none, before
// 2.1 segments have none.
func (r *reader) pool(region *lifetime.Region, id pickle.Value) {
	pair := r.d.Items(id)
	switch {
	case len(pair) != 2 || pair[0].Kind() != pickle.Int || pair[1].Kind() != pickle.Int:
		region.Edge |= lifetime.PoolUnknown
	case pair[0].Int() != 0 || pair[1].Int() != 0:
		region.Pool = fmt.Sprintf("%d,%d", pair[0].Int(), pair[1].Int())
	}
}

// minBlock is the multiple of bytes that PyTorch's caching allocators round
// requests up to (kMinBlockSize in c10/cuda/CUDACachingAllocator.cpp).
const minBlock = 512

func rounded(requested int64) int64 {
	if requested > math.MaxInt64-minBlock {
		return requested
	}
	return max(minBlock, (requested+minBlock-1)/minBlock*minBlock)
}

func (r *reader) trace(list pickle.Value) *trace {
	if r.lastTrace != nil && list == r.lastList {
		return r.lastTrace
	}
	tr := r.traces[list]
	if tr == nil {
		tr = &trace{space: r.b.Space()}
		r.b.InOrder(tr.space) // time returns increasing times
		r.traces[list] = tr
	}
	r.lastList, r.lastTrace = list, tr
	return tr
}

// time counts an event and returns its time in nanoseconds, or its number if the file has no times.
func (r *reader) time(tr *trace, f *fields) int64 {
	n := int64(tr.events)
	tr.events++
	if !isNumber(f.get(keyTime)) {
		if tr.hasTime {
			return tr.last
		}
		return n
	}
	t := r.nanoseconds(f.get(keyTime))
	if tr.hasTime && t < tr.last {
		r.b.Lose(loss.ClockBackwards, 1, 0, r.place())
		return tr.last
	}
	tr.hasTime, tr.last = true, t
	return t
}

// site returns the call site of an event: its stack, its operator, and the compiled graph that it ran in.
func (r *reader) site(f *fields) lifetime.SiteID {
	frames := f.get(keyFrames)
	stack := stackOf(frames)
	if stack == 0 && frames.IsRecord(int(kindStack)) {
		stack = r.noPython()
	}
	context := f.get(keyCompileContext)
	if context.Kind() != pickle.Str || context.Int() == valNone || r.d.Str(context) == "" {
		return r.siteOf(stack)
	}
	return r.b.Site(lifetime.Site{Stack: stack, Op: r.b.OperatorOf(stack), Module: r.d.Str(context)})
}

// siteOf returns the call site of a stack outside of compiled graphs.
func (r *reader) siteOf(stack lifetime.StackID) lifetime.SiteID {
	for int(stack) >= len(r.sites) {
		r.sites = append(r.sites, 0)
	}
	if r.sites[stack] == 0 && stack != 0 {
		r.sites[stack] = r.b.Site(lifetime.Site{Stack: stack, Op: r.b.OperatorOf(stack)})
	}
	return r.sites[stack]
}

// noPython returns the stack of an event whose list of frames is empty: without C++ frames, threads without
// Python record these.
func (r *reader) noPython() lifetime.StackID {
	if r.noPythonFrame == 0 {
		r.noPythonFrame = r.b.Frame(frame.Frame{Function: frame.NoPython, Kind: frame.Native})
	}
	return r.b.Call(r.noPythonFrame, 0)
}

// backwardRan is the place of Python code that starts a backward pass, which then runs in a thread without Python.
// (torch/_tensor.py calls it, as do torch.autograd.grad and the optimizers' closures.)
const backwardRan = "/torch/autograd/__init__.py"

// annotate attaches the program's metadata to the buffer at addr.
func (r *reader) annotate(tr *trace, t int64, addr uint64, f *fields) {
	if text := r.d.Str(f.get(keyUserMetadata)); text != "" {
		r.b.Annotate(tr.space, t, addr, r.b.Note(text))
	}
}
