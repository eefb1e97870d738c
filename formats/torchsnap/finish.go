package torchsnap

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/formats/internal/holders"
	"github.com/memlane/memlane/formats/torchsnap/internal/pickle"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/loss"
)

var errNoSnapshot = errors.New("a pickle, but not a memory snapshot: it has neither \"segments\" nor \"device_traces\"; " +
	"write one with torch.cuda.memory._dump_snapshot(\"FILE\")")

// finish names the spaces and adds the end state and the annotations, after the whole file was read.
func (r *reader) finish(root pickle.Value) error {
	top := r.topLevel(root)
	if !top.hasAll(1<<keySegments) && !top.hasAll(1<<keyDeviceTraces) {
		return errNoSnapshot
	}
	devices := map[int64]*trace{}
	for i, list := range r.d.Items(top.get(keyDeviceTraces)) {
		if tr := r.traceOf(list); tr != nil && i < maxDevices {
			tr.named = true
			devices[int64(i)] = tr
		}
	}
	r.endState(top.get(keySegments), func(s segment) *trace { return r.device(devices, s.device) })
	recorded := false // PyTorch records all devices or none
	for _, tr := range devices {
		recorded = recorded || tr.events > 1
	}
	maps.DeleteFunc(devices, func(_ int64, tr *trace) bool { return !tr.used }) // PyTorch lists all devices of the machine
	for _, n := range slices.Sorted(maps.Keys(devices)) {
		r.describe(devices[n], lifetime.SpaceInfo{Device: fmt.Sprintf("cuda:%d", n)}, r.complete(top, keySegments), recorded)
	}
	r.host(top)
	for _, tr := range r.traces {
		if !tr.named {
			r.b.Lose(loss.IncompleteRecord, int64(tr.events), 0, "events outside device_traces")
		}
	}
	r.marks(devices)
	r.names(top, devices)
	if r.trains && r.noPythonFrame != 0 {
		r.b.Reclassify(r.noPythonFrame, frame.Engine)
	}
	r.allocatorSettings(top.get(keyAllocatorSettings))
	return nil
}

// names takes the names of tensors and what holds them, as memlane's recorder found them at the end.
func (r *reader) names(top *fields, devices map[int64]*trace) {
	if !top.hasAll(1 << keyMemlane) {
		return
	}
	holders.Read(r.d.Str(top.get(keyMemlane)), r.b, func(e *holders.Entry) {
		if tr := devices[e.Device]; tr != nil {
			r.b.Hold(tr.space, e.Address, r.b.Holder(e.Holder))
		} else {
			r.b.Lose(loss.NameWithoutBuffer, 1, 0, fmt.Sprintf("device %d", e.Device))
		}
	})
}

// allocatorSettings takes the settings of the allocator (since PyTorch 2.2). Values are texts, numbers and truth
// values; roundup_power2_divisions is a dict, which becomes "1:0,2:0,...".
func (r *reader) allocatorSettings(dict pickle.Value) {
	items := r.d.Items(dict)
	for i := 0; i+1 < len(items); i += 2 {
		value, ok := r.setting(items[i+1])
		if items[i].Kind() != pickle.Str || !ok {
			r.b.Lose(loss.IncompleteRecord, 1, 0, fmt.Sprintf("setting %.40q", r.d.Str(items[i])))
			continue
		}
		r.settings = append(r.settings, lifetime.Setting{Key: r.d.Str(items[i]), Value: value})
	}
	slices.SortStableFunc(r.settings, func(x, y lifetime.Setting) int { return strings.Compare(x.Key, y.Key) })
}

func (r *reader) setting(v pickle.Value) (text string, ok bool) {
	switch v.Kind() {
	case pickle.Dict:
		var parts []string
		items := r.d.Items(v)
		for i := 0; i+1 < len(items); i += 2 {
			part, plain := r.setting(items[i+1])
			if !plain || items[i+1].Kind() == pickle.Dict || items[i].Kind() != pickle.Str {
				return "", false
			}
			parts = append(parts, r.d.Str(items[i])+":"+part)
		}
		return strings.Join(parts, ","), true
	case pickle.Str:
		return r.d.Str(v), true
	case pickle.Bool:
		return strconv.FormatBool(v.Int() == 1), true
	case pickle.Float:
		return strconv.FormatFloat(r.d.Float(v), 'g', -1, 64), true
	case pickle.Int:
		return strconv.FormatInt(v.Int(), 10), true
	case pickle.Wide: // an unlimited size may be 2^64 - 1
		return r.d.Wide(v).String(), true
	}
	return "", false
}

// maxDevices bounds device numbers, as each device is a space. PyTorch supports 120.
const maxDevices = 1024

// traceOf returns the trace of a list of events, nil if a device already has it.
func (r *reader) traceOf(list pickle.Value) *trace {
	if tr := r.traces[list]; list.Kind() == pickle.List && tr != nil && !tr.named {
		return tr
	}
	return nil
}

// topLevel returns the known fields of the root and counts the others. In the
// oldest files, the root is the list of segments.
func (r *reader) topLevel(root pickle.Value) *fields {
	var f fields
	items := r.d.Items(root)
	if root.Kind() == pickle.List && len(items) > 0 && items[0].IsRecord(int(kindSegment)) {
		items = []pickle.Value{pickle.KnownString(keySegments), root}
	} else if root.Kind() != pickle.Dict {
		return &f
	}
	if unknown, first := f.fill(items); unknown > 0 {
		r.b.Lose(loss.UnknownKey, unknown, 0, fmt.Sprintf("%.40q at the top level", r.d.Str(first)))
	}
	return &f
}

// device returns the trace of device n, a new one if it has no events, or nil if n is out of range.
func (r *reader) device(devices map[int64]*trace, n int64) *trace {
	if n < 0 || n >= maxDevices {
		r.b.Lose(loss.IncompleteRecord, 1, 0, fmt.Sprintf("a segment of device %d", n))
		return nil
	}
	tr := devices[n]
	if tr == nil {
		tr = &trace{space: r.b.Space(), named: true}
		devices[n] = tr
	}
	tr.used = true
	return tr
}

// host adds pinned host memory, which newer versions record too.
func (r *reader) host(top *fields) {
	tr := r.traceOf(top.get(keyHostTraces))
	segments := r.d.Items(top.get(keyHostSegments))
	if tr == nil && len(segments) == 0 {
		return
	}
	if tr == nil {
		tr = &trace{space: r.b.Space()}
	}
	tr.named = true
	r.endState(top.get(keyHostSegments), func(segment) *trace { return tr })
	r.describe(tr, lifetime.SpaceInfo{Device: "cpu", Memory: "pinned"}, r.complete(top, keyHostSegments), true)
}

// complete reports whether the file contains the whole list of segments under a key.
func (r *reader) complete(top *fields, key int) bool {
	return top.hasAll(1<<key) && !slices.Contains(r.unfinished, top.get(key))
}

// endState adds segments and their active blocks. space may return nil.
func (r *reader) endState(list pickle.Value, space func(segment) *trace) {
	for _, v := range r.d.Items(list) {
		if !v.IsRecord(int(kindSegment)) {
			continue
		}
		s := r.segments[v.Record()]
		tr := space(s)
		if tr == nil {
			continue
		}
		to := tr.space
		s.region.Site = r.b.Site(lifetime.Site{Stack: s.stack})
		r.b.LiveRegion(to, s.region)
		next := s.region.Addr // blocks of PyTorch 2.0 have no address: they are in order, without gaps
		if !s.blocks.IsRecord(int(kindBlocks)) {
			continue
		}
		list := s.blocks.Record()
		if r.lists[list] == nil {
			r.b.Lose(loss.IncompleteRecord, 1, 0, "a list of blocks of two segments")
		}
		for i := range r.lists[list] {
			b := &r.lists[list][i]
			if b.hasAddr {
				next = b.addr
			}
			r.live(to, b, next)
			next += uint64(max(b.size, 0))
		}
		r.lists[list] = nil // all lists may be as large as the model
	}
}

func (r *reader) live(to build.SpaceRef, b *block, addr uint64) {
	if b.state == inactive {
		return
	}
	live := build.Block{
		Addr: addr, Requested: b.requested, Occupied: b.size, Pending: b.state == pending,
		Site: r.siteOf(b.stack),
	}
	if b.size == 0 {
		live.Occupied, live.Inferred = rounded(b.requested), true
	}
	r.b.Live(to, live)
}

// describe names a space and sets which facts about it are recorded.
func (r *reader) describe(tr *trace, s lifetime.SpaceInfo, endState, recorded bool) {
	s.Axis = lifetime.Event
	if tr.hasTime {
		s.Axis = lifetime.Time
		s.Facts |= lifetime.Clock
	}
	if endState {
		s.Facts |= lifetime.EndState
	}
	r.b.Describe(tr.space, s)
	r.b.FreesName(tr.space)
	if tr.cut {
		r.b.HistoryTruncated(tr.space)
	}
	// Recording with enabled="state" keeps a ring of one event.
	if tr.events <= 1 && !recorded {
		r.b.NoHistory(tr.space)
	} else if tr.orphan && tr.requests || looksFull(tr.events) {
		r.b.RingFull(tr.space)
	}
}

// looksFull reports whether n, a number of events, looks like a limit that a user chose: 80, 100, 250000, 1<<20.
// Snapshots do not record a ring buffer overflow (pytorch/pytorch#179276).
func looksFull(n int) bool {
	if n < 50 {
		return false
	}
	if bits.OnesCount(uint(n)) == 1 {
		return true
	}
	for n%10 == 0 {
		n /= 10
	}
	return n < 10 || n < 100 && n%5 == 0
}

// stepName matches names of single iterations.
var stepName = regexp.MustCompile(`(?i)step[ #_:=-]*\d+`)

// marks pairs the starts and ends of annotations: an end closes the latest open start with its name.
func (r *reader) marks(devices map[int64]*trace) {
	type key struct {
		name   string
		device int64
	}
	open := map[key][]int{}
	first := int64(math.MaxInt64)
	for n := range devices {
		first = min(first, n)
	}
	for i, a := range r.annotations {
		if a.device < 0 { // PyTorch writes a device
			a.device = first
		}
		k := key{a.name, a.device}
		if a.start {
			open[k] = append(open[k], i)
			continue
		}
		starts := open[k]
		if len(starts) == 0 {
			r.b.Lose(loss.AnnotationOpen, 1, 0, fmt.Sprintf("%.40q ends without a start", a.name))
			continue
		}
		start := r.annotations[starts[len(starts)-1]]
		open[k] = starts[:len(starts)-1]
		r.mark(devices, a.device, start, a.t)
	}
	for _, k := range slices.SortedFunc(maps.Keys(open), func(x, y key) int { return strings.Compare(x.name, y.name) }) {
		for range open[k] {
			r.b.Lose(loss.AnnotationOpen, 1, 0, fmt.Sprintf("%.40q starts without an end", k.name))
		}
	}
}

// maxMarks bounds the copies of step marks.
const maxMarks = 1 << 20

// mark adds one annotation to its device. A step belongs to the program, so mark adds
// it to all devices, up to maxMarks in total.
func (r *reader) mark(devices map[int64]*trace, device int64, a annotation, end int64) {
	m := lifetime.Mark{Begin: a.t, End: max(end, a.t+1), Kind: lifetime.Annotation, Text: a.name}
	if stepName.MatchString(a.name) {
		m.Kind = lifetime.Step
	}
	if m.Kind == lifetime.Step && len(devices)*len(r.annotations) <= maxMarks {
		for _, tr := range devices {
			r.b.Mark(tr.space, m)
		}
	} else if tr := devices[device]; tr != nil {
		r.b.Mark(tr.space, m)
	}
}
