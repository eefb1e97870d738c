package chrometrace

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/memlane/memlane/formats/chrometrace/internal/scan"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// deviceTypes are the names of c10::DeviceType.
var deviceTypes = [...]string{
	0: "cpu", 1: "cuda", 2: "mkldnn", 3: "opengl", 4: "opencl", 5: "ideep", 6: "hip", 7: "fpga", 8: "maia", 9: "xla",
	10: "vulkan", 11: "metal",
	12: "xpu", 13: "mps", 14: "meta", 15: "hpu", 16: "ve", 17: "lazy", 18: "ipu", 19: "mtia", 20: "privateuseone",
}

// onHost reports whether a device type uses host memory.
func onHost(deviceType int64) bool { return deviceType == 0 || deviceType == 2 || deviceType == 5 }

func deviceName(deviceType, id int64) string {
	name := fmt.Sprintf("device type %d", deviceType)
	if deviceType >= 0 && deviceType < int64(len(deviceTypes)) {
		name = deviceTypes[deviceType]
	}
	if id < 0 {
		return name
	}
	return name + ":" + strconv.FormatInt(id, 10)
}

// The names of memory events, and of the rows of those outside all operators.
const (
	memoryRow = "[memory]"
	failedRow = "[OutOfMemory]"
)

// memoryEvent is an allocation, a free, or an allocation that failed.
type memoryEvent struct {
	at              int64
	addr            uint64
	bytes           int64 // negative for a free
	total, reserved int64 // -1 = not recorded
	thread          *thread
	heap            heap
	site            lifetime.SiteID
	known           bool // addr is recorded
	failed          bool
}

// change returns the bytes allocated, negative for a free.
func (m *memoryEvent) change() int64 {
	if m.failed {
		return 0
	}
	return m.bytes
}

type heap struct {
	pid        int32 // index into reader.pids
	deviceType int16
	device     int16
	shared     bool // memory shared with other processes
}

func (r *reader) memoryEvent(e *scan.Event) {
	a := &e.Args
	if !e.TS.OK || a.Has&scan.HasBytes == 0 {
		r.noTimes++
		return
	}
	if int64(int16(a.DeviceType)) != a.DeviceType || int64(int16(a.DeviceID)) != a.DeviceID {
		r.noDevice++
		return
	}
	m := memoryEvent{
		at: e.TS.NS, addr: a.Addr, known: a.Has&scan.HasAddr != 0, bytes: a.Bytes, total: -1, reserved: -1,
		thread: r.thread(e.PID, e.TID), failed: string(e.Name) == failedRow,
	}
	m.heap = heap{r.pid(e.PID), int16(a.DeviceType), -1, false}
	if a.Has&scan.HasDeviceID != 0 {
		m.heap.device = int16(a.DeviceID)
	}
	if a.Has&scan.HasTotalAllocated != 0 {
		m.total = a.TotalAllocated
	}
	if a.Has&scan.HasTotalReserved != 0 {
		m.reserved = a.TotalReserved
	}
	r.memory = append(doubled(r.memory), m)
}

func (r *reader) pid(pid []byte) int32 {
	n, ok := r.pidNumbers[string(pid)]
	if !ok {
		n = int32(len(r.pids))
		r.pids = append(r.pids, string(pid))
		r.pidNumbers[r.pids[n]] = n
	}
	return n
}

// addSpace adds a space, with the properties that all spaces of a trace have.
func (r *reader) addSpace(s lifetime.SpaceInfo) build.SpaceRef {
	s.Source, s.Host, s.Axis, s.Facts = r.source, r.host, lifetime.Time, lifetime.Clock
	ref := r.b.Space()
	r.b.Describe(ref, s)
	return ref
}

// separateShared gives the files that PyTorch maps into memory a heap of their own: the storages that workers of a
// DataLoader share. The allocator does not count them. MapAllocator reports an allocation with its size as the reserved
// bytes and
// 0 allocated bytes, and a free with 0 of both (aten/src/ATen/MapAllocator.cpp).
func (r *reader) separateShared(byTime []int) {
	mapped := map[heap]map[uint64]bool{} // addresses
	for _, i := range byTime {
		m := &r.memory[i]
		switch {
		case !onHost(int64(m.heap.deviceType)) || !m.known || m.failed || m.total != 0:
			continue
		case m.bytes > 0 && m.reserved == m.bytes:
			if mapped[m.heap] == nil {
				mapped[m.heap] = map[uint64]bool{}
			}
			mapped[m.heap][m.addr] = true
		case m.bytes < 0 && m.reserved == 0 && mapped[m.heap][m.addr]:
			delete(mapped[m.heap], m.addr)
		default:
			continue
		}
		m.heap.shared, m.total, m.reserved = true, -1, -1
	}
}

func (r *reader) feed() {
	r.spaces = map[heap]build.SpaceRef{}
	var refs []build.SpaceRef
	for i := range r.memory {
		m := &r.memory[i]
		ref, ok := r.spaces[m.heap]
		if !ok {
			h := m.heap
			info := lifetime.SpaceInfo{Process: r.process(r.pids[h.pid]), Device: deviceName(int64(h.deviceType), int64(h.device))}
			info.OnlyOccupied = !onHost(int64(h.deviceType)) // caching allocators report the sizes of their blocks
			if h.shared {
				info.Memory = "shared"
			}
			ref = r.addSpace(info)
			r.b.FreesName(ref)
			r.spaces[m.heap] = ref
			refs = append(refs, ref)
		}
		if m.failed {
			r.fail(ref, m)
			continue
		}
		if !m.known {
			r.b.Delta(ref, r.time(m.at), m.bytes)
			continue
		}
		report := sized(m.addr, max(m.bytes, -m.bytes, 0))
		report.Free, report.Site, report.Allocated, report.Reserved = m.bytes < 0, m.site, m.total, max(m.reserved, 0)
		r.b.Report(ref, r.time(m.at), &report)
	}
	r.b.MarkAll(refs, r.marks())
}

// fail adds an allocation that failed, and the totals that it reports.
func (r *reader) fail(ref build.SpaceRef, m *memoryEvent) {
	t := r.time(m.at)
	if m.total >= 0 {
		r.b.Total(ref, lifetime.Total{T: t, Bytes: m.total, Measure: lifetime.Occupied})
	}
	if m.reserved > 0 {
		r.b.Total(ref, lifetime.Total{T: t, Bytes: m.reserved, Measure: lifetime.Reserved})
	}
	r.b.Mark(ref, lifetime.Mark{Begin: t, End: t, Kind: lifetime.OOM, Site: m.site, Requested: m.bytes})
}

// sized returns a report with only an address and a size in bytes.
func sized(addr uint64, bytes int64) lifetime.AllocatorEvent {
	return lifetime.AllocatorEvent{Addr: addr, Requested: bytes, Occupied: bytes, Allocated: -1, Stack: -1,
		Available: -1, Peak: -1, Step: -1}
}

// time converts a time of the trace to nanoseconds since 1970, if the start of its clock is recorded.
func (r *reader) time(ns int64) int64 { return units.AddSat(ns, max(r.base, 0)) }

// stepPrefix begins the names of torch.profiler's steps.
const stepPrefix = "ProfilerStep#"

// optimizerPrefix begins the names of the annotations of torch.optim: "Optimizer.step#Adam.step",
// "Optimizer.zero_grad#Adam.zero_grad".
const optimizerPrefix = "Optimizer."

// marks returns the annotations of the program: its steps and other named ranges.
func (r *reader) marks() (marks []lifetime.Mark) {
	step := r.stepName()
	for _, t := range r.order {
		for i := range t.annotations {
			c := &t.annotations[i]
			m := lifetime.Mark{Begin: r.time(c.begin), End: r.time(c.end), Kind: lifetime.Annotation, Text: r.names.text(c.name)}
			if strings.HasPrefix(m.Text, stepPrefix) || step != "" && uncounted(m.Text) == step {
				m.Kind = lifetime.Step
			}
			m.End = max(m.End, m.Begin+1) // build orders points among the events
			marks = append(marks, m)
		}
	}
	return marks
}

// minSteps is the minimum number of annotations that count as steps.
const minSteps = 3

// uncounted returns the name of a range without its number: "step" for "step 12".
func uncounted(name string) string { return numbered.ReplaceAllString(name, "") }

// stepName returns the name of the annotations that are probably the program's steps, or
// "" if there are none or the profiler recorded steps. They are repeated, not inside
// another annotation, and take the most time. PyTorch's own annotation of an optimizer is the end of a step: see
// program.Steps.
func (r *reader) stepName() string {
	type runs struct {
		count int
		time  int64
	}
	outer := map[string]*runs{}
	var names []string
	for _, t := range r.order {
		end := int64(math.MinInt64)
		for i := range t.annotations {
			c := &t.annotations[i]
			name := r.names.text(c.name)
			if c.begin < end || strings.HasPrefix(name, optimizerPrefix) {
				continue
			}
			if strings.HasPrefix(name, stepPrefix) {
				return ""
			}
			name, end = uncounted(name), c.end
			if outer[name] == nil {
				outer[name] = &runs{}
				names = append(names, name)
			}
			outer[name].count++
			outer[name].time += c.end - c.begin
		}
	}
	best := ""
	for _, name := range names {
		if o := outer[name]; o.count >= minSteps && (best == "" || o.time > outer[best].time) {
			best = name
		}
	}
	return best
}
