package chrometrace

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/memlane/memlane/formats/chrometrace/internal/scan"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// deviceTypes are the names of c10::DeviceType, by number.
var deviceTypes = [...]string{
	0: "cpu", 1: "cuda", 2: "mkldnn", 3: "opengl", 4: "opencl", 5: "ideep", 6: "hip", 7: "fpga", 8: "maia", 9: "xla", 10: "vulkan", 11: "metal",
	12: "xpu", 13: "mps", 14: "meta", 15: "hpu", 16: "ve", 17: "lazy", 18: "ipu", 19: "mtia", 20: "privateuseone",
}

// onHost tells the device types whose memory is that of the host.
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

// memoryEvent is a [memory] event.
type memoryEvent struct {
	at              int64
	addr            uint64
	bytes           int64 // below zero for a free
	total, reserved int64 // -1 = not told
	thread          *thread
	heap            heap
	site            lifetime.SiteID
	known           bool // addr is told
}

// heap is a device of a process.
type heap struct {
	pid        int32 // index into reader.pids
	deviceType int16
	device     int16
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
	m := memoryEvent{at: e.TS.NS, addr: a.Addr, bytes: a.Bytes, total: -1, reserved: -1, thread: r.thread(e.PID, e.TID), known: a.Has&scan.HasAddr != 0}
	m.heap = heap{r.pid(e.PID), int16(a.DeviceType), -1}
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

// pid returns the number of a process.
func (r *reader) pid(pid []byte) int32 {
	n, ok := r.pidNumbers[string(pid)]
	if !ok {
		n = int32(len(r.pids))
		r.pids = append(r.pids, string(pid))
		r.pidNumbers[r.pids[n]] = n
	}
	return n
}

// space adds the space of a heap.
func (r *reader) space(h heap) build.SpaceRef {
	ref := r.b.Space()
	r.b.Describe(ref, lifetime.SpaceInfo{
		Source: r.source, Host: r.host, Process: r.process(r.pids[h.pid]), Device: deviceName(int64(h.deviceType), int64(h.device)),
		Axis: lifetime.Time, Facts: lifetime.Clock,
	})
	return ref
}

// feed hands on the [memory] events.
func (r *reader) feed() {
	r.spaces = map[heap]build.SpaceRef{}
	var refs []build.SpaceRef
	for i := range r.memory {
		m := &r.memory[i]
		ref, ok := r.spaces[m.heap]
		if !ok {
			ref = r.space(m.heap)
			r.spaces[m.heap] = ref
			refs = append(refs, ref)
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

// sized is a report that tells no more than an address and a size in bytes.
func sized(addr uint64, bytes int64) lifetime.Report {
	return lifetime.Report{Addr: addr, Requested: bytes, Occupied: bytes, Allocated: -1, Stack: -1, Available: -1, Peak: -1, Step: -1}
}

// time returns a time of the trace as nanoseconds since 1970, where the trace
// tells when its clock began.
func (r *reader) time(ns int64) int64 { return lifetime.AddSat(ns, max(r.base, 0)) }

// stepPrefix begins the names of annotations that torch.profiler makes for its
// steps.
const stepPrefix = "ProfilerStep#"

// marks returns the annotations of the program: its steps, and other ranges
// that it named.
func (r *reader) marks() (marks []lifetime.Mark) {
	step := r.stepName()
	for _, t := range r.order {
		for i := range t.annotations {
			c := &t.annotations[i]
			m := lifetime.Mark{Begin: r.time(c.begin), End: r.time(c.end), Kind: lifetime.Annotation, Text: r.names.text(c.name)}
			if strings.HasPrefix(m.Text, stepPrefix) || step != "" && uncounted(m.Text) == step {
				m.Kind = lifetime.Step
			}
			m.End = max(m.End, m.Begin+1) // a point would take part in the order of events
			marks = append(marks, m)
		}
	}
	return marks
}

// minSteps is how often an annotation must come to be taken for the steps.
const minSteps = 3

// uncounted returns the name of a range without its number: "step 12" is a step.
func uncounted(name string) string { return numbered.ReplaceAllString(name, "") }

// stepName returns the annotation that stands for the program's steps where the
// profiler was not told of them: of those that come again and again, and are in
// no other one, that which takes most of the time. "" = there is none.
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
			if c.begin < end {
				continue
			}
			name := r.names.text(c.name)
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
