package replay

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// Law says how much of a recording the rules of the allocator predict. Only events of the recording count.
type Law struct {
	Addresses, Equal        int // allocations; those at the predicted address
	Segments, SegmentsEqual int // segments, or ranges of expandable ones, that were taken or returned; those predicted
	First                   int // number of the event that differs first; -1 = none
	Unknown                 int // blocks of unknown size at the start of the recording
}

// recorded is the device of a recording: it gives the segments that were recorded.
type recorded struct {
	law     *Law
	waiting []segment // segments that were taken but not yet used
	fake    uint64    // address of a segment that was not recorded
}

func (m *recorded) alloc(size int64) (addr uint64, ok bool) {
	if len(m.waiting) > 0 && m.waiting[0].size == size && !m.waiting[0].expandable {
		addr = m.waiting[0].addr
		m.waiting = m.waiting[1:]
		m.law.SegmentsEqual++
		return addr, true
	}
	m.fake += 1 << 40
	return m.fake, true
}

func (m *recorded) release(uint64, int64) {}

// reserve returns the range in which the next recorded page lies.
func (m *recorded) reserve() (addr uint64, size int64) {
	if len(m.waiting) > 0 && m.waiting[0].expandable {
		return m.waiting[0].addr, boundlessRange
	}
	m.fake += boundlessRange
	return m.fake, boundlessRange
}

func (m *recorded) mapRange(addr uint64, size int64) bool {
	if len(m.waiting) > 0 && m.waiting[0].addr == addr && m.waiting[0].size == size && m.waiting[0].expandable {
		m.waiting = m.waiting[1:]
		m.law.SegmentsEqual++
	}
	return true
}

func (m *recorded) unmapRange(uint64, int64) {}

// verifier replays a recording under its own settings.
type verifier struct {
	*allocator
	h      *History
	device *recorded
	law    Law
	at     []int32 // block of each request
}

// Verify replays a history under its own settings and compares it with the recording. If
// something differs, later replays are not exact.
func (h *History) Verify() Law {
	v := &verifier{h: h, at: make([]int32, len(h.requests))}
	v.law.First = -1
	v.device = &recorded{law: &v.law, fake: 1 << 62}
	v.allocator = newAllocator(h.Settings, v.device, 0)
	v.law.Unknown = startOf(h).seed(v.allocator, v.at)
	for _, e := range h.events {
		if v.work > maxWork {
			v.law.Addresses = h.allocations // the rest counts as different
			break
		}
		v.event(e)
	}
	h.differs = v.law.Rate() < 1
	return v.law
}

// Rate returns the share of the addresses and segments that the rules predict; 1 if there are none.
func (l *Law) Rate() float64 {
	if l.Addresses+l.Segments == 0 {
		return 1
	}
	return float64(l.Equal+l.SegmentsEqual) / float64(l.Addresses+l.Segments)
}

// Recording is a history that was compared with the rules of the allocator.
type Recording struct {
	*History
	Law     Law
	Refused string // why other settings cannot be replayed; "" = they can
}

// Check returns the recording of a space, nil where Of does.
func Check(s *lifetime.Space, recorded []lifetime.Setting) *Recording {
	h := Of(s, recorded)
	if h == nil {
		return nil
	}
	law := h.Verify()
	return &Recording{h, law, h.Refusal(&law)}
}

// minRate is the rate of a recording below which Refusal refuses it.
const minRate = 0.9

// Refusal returns why other settings cannot be replayed; "" if they can.
func (h *History) Refusal(l *Law) string {
	switch {
	case len(h.pools) > 0 && h.poolsUnknown:
		return "the program uses private pools (CUDA graphs or MemPool), and PyTorch before 2.15 does not record which allocations are theirs"
	case l.Rate() < minRate:
		return fmt.Sprintf("only %s of %s recorded addresses follow the rules of PyTorch's allocator: the capture is damaged, was not made by it, "+
			"or its version has other rules", units.Count(int64(l.Equal)), units.Count(int64(l.Addresses)))
	}
	return ""
}

func (v *verifier) event(e event) {
	switch e.op {
	case opAlloc:
		v.allocate(e.of)
	case opFree:
		if i := v.at[e.of]; i != 0 {
			v.free(i, e.of+1)
		}
	case opSegment:
		v.law.Segments++
		v.device.waiting = append(v.device.waiting, v.h.segments[e.of])
	case opFull:
		v.mapWaiting()
	case opRelease:
		v.mapWaiting()
		v.law.Segments++
		v.released(&v.h.segments[e.of])
	}
}

func (v *verifier) allocate(of int32) {
	r := &v.h.requests[of]
	i, _ := v.malloc(r, of+1)
	v.at[of] = i
	if r.number < 0 {
		return
	}
	v.law.Addresses++
	if v.blocks[i].addr == r.addr && len(v.device.waiting) == 0 {
		v.law.Equal++
	} else if v.law.First < 0 {
		v.law.First = int(r.number)
	}
	v.device.waiting = v.device.waiting[:0]
}

// mapWaiting maps pages of expandable segments that did not suffice for a request: the device became full on the way.
func (v *verifier) mapWaiting() {
	for len(v.device.waiting) > 0 {
		s := v.device.waiting[0]
		left := len(v.device.waiting)
		if g := v.group(s.pool, s.stream, s.small); s.expandable {
			unmapped := &v.groups[g].unmapped
			k, ok := unmapped.get(unmapped.find(key{addr: s.addr}))
			if !ok || k.addr != s.addr {
				k.id = v.newRange(g, s.size)
			}
			v.mapBlock(k.id, s.size)
		}
		if len(v.device.waiting) == left {
			v.device.waiting = v.device.waiting[1:]
		}
	}
}

// released takes a segment that was returned: it must be free as a whole.
func (v *verifier) released(s *segment) {
	g, ok := v.index[groupKey{s.pool, s.stream, s.small}]
	if !ok {
		return
	}
	if !s.expandable {
		free := &v.groups[g].free
		k, ok := free.get(free.find(key{s.size, s.addr, 0}))
		if ok && k.addr == s.addr && k.size == s.size && v.blocks[k.id].whole() {
			v.releaseSegment(k.id)
			v.law.SegmentsEqual++
		}
		return
	}
	for _, k := range v.groups[g].free.all() {
		lo, hi := v.pages(k.id)
		if v.blocks[k.id].expandable && lo == s.addr && hi == s.addr+uint64(s.size) {
			v.shrink(k.id)
			v.law.SegmentsEqual++
			return
		}
	}
}
