package chrometrace

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/memlane/memlane/formats/chrometrace/internal/scan"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/loss"
)

// Sniff reports whether head begins a Chrome trace or a memory timeline.
func Sniff(head []byte) bool { return scan.Sniff(head) }

type reader struct {
	b      *build.Builder
	source int

	names   interner
	inputs  interner          // of operators
	tensors map[uint32]string // of the inputs, by number of inputs

	threads map[[2]string]*thread // by pid and tid
	order   []*thread             // in order of first use
	last    *thread               // of the last event
	store   store                 // of the calls of all threads

	memory     []memoryEvent
	spaces     map[heap]build.SpaceRef // of the memory events
	objects    []objectEvent
	samples    []sample
	series     map[counterKey]bool // that have samples
	pids       []string            // of memory events, in order of first use
	pidNumbers map[string]int32
	timeline   *timeline

	base     int64 // start of the trace's clock in nanoseconds since 1970; 0 = not recorded
	rank     string
	host     string
	noTimes  int64 // memory events and counters without a time or bytes
	noDevice int64 // memory events of a device beyond 16 bits
	xprof    bool  // written by XProf or JAX

	truncated bool // the file ends early
}

// Read reads a trace into b. It fails if a read fails, if the input is not a trace, or if
// it cannot read back its temporary file.
func Read(file string, in io.Reader, b *build.Builder) error {
	r := &reader{
		b: b, names: newInterner(), inputs: newInterner(), tensors: map[uint32]string{}, threads: map[[2]string]*thread{},
		pidNumbers: map[string]int32{}, series: map[counterKey]bool{}, store: store{limit: maxInMemory},
	}
	defer r.store.close()
	in, groups := withGroups(in)
	tolerated, err := scan.Scan(in, scan.Handler{Event: r.event, Header: r.header, Row: r.row, RowEnd: r.rowEnd})
	if err != nil {
		return err
	}
	producer := "PyTorch profiler"
	switch {
	case r.timeline != nil:
		producer = "PyTorch memory timeline"
	case r.xprof:
		producer = "XProf"
	}
	r.source = b.Source(lifetime.Source{File: file, Format: "chrome-trace", Producer: producer, Groups: groups})
	r.truncated = tolerated.Truncated
	r.lose(tolerated)
	r.adoptRuntime()
	for _, t := range r.order {
		t.sort(&r.store)
	}
	r.attribute()
	byTime := r.byTime()
	r.separateShared(byTime)
	r.feed()
	if b.Keeps(build.Operations) {
		r.operations(byTime)
	}
	if b.Keeps(build.Calls) {
		r.keepCalls(byTime)
	}
	r.feedCounters()
	r.feedObjects()
	r.timeline.feed(r)
	r.explain()
	if r.store.err != nil {
		return fmt.Errorf("temporary file: %w", r.store.err)
	}
	return nil
}

// lose adds the losses of the JSON and of incomplete events.
func (r *reader) lose(t scan.Tolerated) {
	for _, k := range t.List {
		r.b.Lose(loss.DirtyJSON, k.Count, 0, fmt.Sprintf("byte %d: %s", k.First, k.Kind))
	}
	if t.Truncated {
		r.b.Lose(loss.Truncated, 1, 0, fmt.Sprintf("byte %d", t.End))
	}
	if r.noTimes > 0 {
		r.b.Lose(loss.IncompleteRecord, r.noTimes, 0, "memory events without ts or Bytes")
	}
	if r.noDevice > 0 {
		r.b.Lose(loss.IncompleteRecord, r.noDevice, 0, "memory events of devices beyond 32767")
	}
}

// explain adds a loss to a trace without memory.
func (r *reader) explain() {
	if len(r.memory) > 0 || len(r.samples) > 0 || len(r.objects) > 0 || r.timeline != nil {
		return
	}
	why := loss.NoMemoryRecorded
	if r.xprof {
		why = loss.NotOfPyTorch
	}
	r.b.Lose(why, 1, 0, "")
}

// header reads a member of the top-level object, see scan.Handler.
func (r *reader) header(key string, text []byte, n int64) {
	switch key {
	case "baseTimeNanoseconds":
		r.base = n
	case "distributedInfo.rank":
		r.rank = "rank " + string(text)
	case "host_name":
		r.host = string(text)
	case "metadata.highres-ticks":
		r.xprof = true
	}
}

// kindOfCall returns the kind of a call by its category. PyTorch before 2.0 uses
// different names. (kineto, libkineto/src/ActivityType.cpp; HIP has the names of CUDA)
func kindOfCall(category []byte) (callKind, bool) {
	switch string(category) {
	case "cpu_op", "Operator":
		return operator, true
	case "python_function", "Python function":
		return python, true
	case "user_annotation":
		return annotation, true
	case "cuda_runtime", "cuda_driver", "Runtime", "xpu_runtime", "mtia_runtime", "privateuse1_runtime",
		"privateuse1_driver", "glow_runtime", "overhead":
		return runtime, true
	}
	return 0, false
}

func (r *reader) event(e *scan.Event) {
	switch e.Phase {
	case 'X':
		if kind, ok := kindOfCall(e.Cat); ok && e.TS.OK && e.Dur.OK && (kind != runtime || r.b.Keeps(build.Operations)) {
			r.call(kind, e)
		}
	case 'i', 'I':
		if name := string(e.Name); name == memoryRow || name == failedRow {
			r.memoryEvent(e)
		}
	case 'C':
		r.counter(e)
	case 'M':
		if string(e.Name) == "process_name" &&
			(bytes.HasPrefix(e.Args.Name, []byte("/device:")) || bytes.HasPrefix(e.Args.Name, []byte("/host:"))) {
			r.xprof = true
		}
	case 'N', 'D', 'O':
		r.object(e)
	}
}

// thread returns the thread of an event, usually that of the previous event.
func (r *reader) thread(pid, tid []byte) *thread {
	if last := r.last; last != nil && last.pid == string(pid) && last.tid == string(tid) {
		return last
	}
	key := [2]string{string(pid), string(tid)}
	t, ok := r.threads[key]
	if !ok {
		t = &thread{pid: key[0], tid: key[1]}
		r.threads[key] = t
		r.order = append(r.order, t)
	}
	r.last = t
	return t
}

// process returns the SpaceInfo.Process of a pid.
func (r *reader) process(pid string) string {
	switch {
	case len(r.pids) <= 1:
		return r.rank
	case r.rank != "":
		return r.rank + ", pid " + pid
	}
	return "pid " + pid
}

// interner numbers texts. "" is 0.
type interner struct {
	ids map[string]uint32
	all []string
}

func newInterner() interner { return interner{map[string]uint32{"": 0}, []string{""}} }

// id returns the number of a text, a new one if the text is new.
func (n *interner) id(text []byte) uint32 {
	id, ok := n.ids[string(text)]
	if !ok {
		id = uint32(len(n.all))
		n.all = append(doubled(n.all), string(text))
		n.ids[n.all[id]] = id
	}
	return id
}

func (n *interner) text(id uint32) string { return n.all[id] }

// frameOf parses the name of a Python call, "file.py(12): function". The line is that of the def.
func frameOf(name string) frame.Frame {
	f := frame.Frame{Function: name}
	if strings.Contains(name, " at 0x") {
		f.Function = objectAddress.ReplaceAllString(name, ">")
	}
	if place, function, ok := strings.Cut(name, "): "); ok {
		if at := strings.LastIndexByte(place, '('); at >= 0 {
			if line, err := strconv.Atoi(place[at+1:]); err == nil {
				f = frame.Frame{Function: function, File: place[:at], Line: line}
			}
		}
	}
	switch {
	case f.File == "":
		f.Kind = frame.Framework // "<built-in ...>", "nn.Module: ..."
	case strings.HasPrefix(f.File, "torch/"), strings.HasPrefix(f.File, "<"): // the profiler cut the path of the package
		f.Kind = frame.KindOf(f.Function, "/site-packages/"+f.File)
	default:
		f.Kind = frame.KindOf(f.Function, f.File)
	}
	return f
}

// objectAddress matches the address of a built-in method's object, which differs from run to run.
var objectAddress = regexp.MustCompile(` at 0x[0-9a-f]+>`)
