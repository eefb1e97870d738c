package chrometrace

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/memlane/memlane/formats/chrometrace/internal/scan"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
)

// Sniff reports whether head begins a Chrome trace, or a memory timeline.
func Sniff(head []byte) bool { return scan.Sniff(head) }

// reader collects what a trace holds.
type reader struct {
	b      *build.Builder
	file   string
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

	base     int64 // nanoseconds at which the clock of the trace began; 0 = not told
	rank     string
	host     string
	noTimes  int64 // memory events without a time
	noDevice int64 // memory events of a device that cannot be
	xprof    bool  // written by XProf or JAX
}

// Read reads the trace in in.
func Read(file string, in io.Reader, b *build.Builder) error {
	r := &reader{b: b, file: file, names: newInterner(), inputs: newInterner(), tensors: map[uint32]string{}, threads: map[[2]string]*thread{}, pidNumbers: map[string]int32{}, series: map[counterKey]bool{}, store: store{limit: maxHeld}}
	defer r.store.close()
	tolerated, err := scan.Scan(in, scan.Handler{Event: r.event, Header: r.header, Row: r.row, RowEnd: r.rowEnd})
	if err != nil {
		return err
	}
	r.source = b.Source(lifetime.Source{File: file, Format: "chrome-trace", Producer: r.producer()})
	r.lose(tolerated)
	for _, t := range r.order {
		t.sort(&r.store)
	}
	r.attribute()
	r.feed()
	byTime := r.byTime()
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

// producer names what wrote the file.
func (r *reader) producer() string {
	switch {
	case r.timeline != nil:
		return "PyTorch memory timeline"
	case r.xprof:
		return "XProf"
	}
	return "PyTorch profiler"
}

// lose counts what was tolerated of the JSON.
func (r *reader) lose(t scan.Tolerated) {
	for _, k := range t.List {
		r.b.Lose(loss.DirtyJSON, k.Count, 0, fmt.Sprintf("byte %d: %s", k.First, k.Kind))
	}
	if t.Truncated {
		r.b.Lose(loss.Truncated, 1, 0, fmt.Sprintf("byte %d", t.End))
	}
	if r.noTimes > 0 {
		r.b.Lose(loss.IncompleteRecord, r.noTimes, 0, "[memory] events without ts or Bytes")
	}
	if r.noDevice > 0 {
		r.b.Lose(loss.IncompleteRecord, r.noDevice, 0, "[memory] events of devices beyond 32767")
	}
}

// explain says why a trace has no memory.
func (r *reader) explain() {
	if len(r.memory) > 0 || len(r.samples) > 0 || len(r.objects) > 0 || r.timeline != nil {
		return
	}
	if r.xprof {
		r.b.Lose(loss.NotOfPyTorch, 1, 0, "")
	} else {
		r.b.Lose(loss.NoMemoryRecorded, 1, 0, "")
	}
}

// header takes a member of the top-level object.
func (r *reader) header(key string, v scan.Value) {
	switch key {
	case "baseTimeNanoseconds":
		r.base = v.Int
	case "distributedInfo.rank":
		r.rank = "rank " + string(v.Text)
	case "host_name":
		r.host = string(v.Text)
	case "metadata.highres-ticks":
		r.xprof = true
	}
}

// kindOfCall returns the kind of a call by its category. PyTorch before 2.0 has
// other names.
func kindOfCall(category []byte) (callKind, bool) {
	switch string(category) {
	case "cpu_op", "Operator":
		return operator, true
	case "python_function", "Python function":
		return python, true
	case "user_annotation":
		return annotation, true
	}
	return 0, false
}

// event takes an event of the trace.
func (r *reader) event(e *scan.Event) {
	switch e.Phase {
	case 'X':
		if kind, ok := kindOfCall(e.Cat); ok && e.TS.OK && e.Dur.OK {
			r.call(kind, e)
		}
	case 'i', 'I':
		if string(e.Name) == "[memory]" {
			r.memoryEvent(e)
		}
	case 'C':
		r.counter(e)
	case 'M':
		if string(e.Name) == "process_name" && (bytes.HasPrefix(e.Args.Name, []byte("/device:")) || bytes.HasPrefix(e.Args.Name, []byte("/host:"))) {
			r.xprof = true
		}
	case 'N', 'D', 'O':
		r.object(e)
	}
}

// thread returns the thread of an event: as a rule that of the event before.
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

// process names the process of a pid for Space.Process.
func (r *reader) process(pid string) string {
	switch {
	case len(r.pids) <= 1:
		return r.rank
	case r.rank != "":
		return r.rank + ", pid " + pid
	}
	return "pid " + pid
}

// interner numbers texts; 0 is "". It looks up without making a string, and
// compares few.
type interner struct {
	seed  maphash.Seed
	slots []slot // a hash table, as long as a power of two
	all   []string
}

type slot struct {
	hash uint32
	id   uint32 // 0 = free
}

func newInterner() interner { return interner{seed: maphash.MakeSeed(), slots: make([]slot, 64)} }

// slot returns the slot of a text, a free one where it was not seen.
func (n *interner) slot(text []byte, hash uint32) *slot {
	for i := hash; ; i++ {
		s := &n.slots[i%uint32(len(n.slots))]
		if s.id == 0 || s.hash == hash && n.all[s.id-1] == string(text) {
			return s
		}
	}
}

// id returns the number of a text, which is a new one where it was not seen.
func (n *interner) id(text []byte) uint32 {
	if len(text) == 0 {
		return 0
	}
	if 4*len(n.all) >= 3*len(n.slots) {
		n.grow()
	}
	hash := uint32(maphash.Bytes(n.seed, text))
	s := n.slot(text, hash)
	if s.id == 0 {
		n.all = append(doubled(n.all), string(text))
		*s = slot{hash, uint32(len(n.all))}
	}
	return s.id
}

// known returns the number of a text, 0 where it was not seen.
func (n *interner) known(text []byte) uint32 {
	if len(text) == 0 {
		return 0
	}
	return n.slot(text, uint32(maphash.Bytes(n.seed, text))).id
}

func (n *interner) grow() {
	slots := make([]slot, 2*len(n.slots))
	for _, s := range n.slots {
		i := s.hash % uint32(len(slots))
		for s.id != 0 && slots[i].id != 0 {
			i = (i + 1) % uint32(len(slots))
		}
		if s.id != 0 {
			slots[i] = s
		}
	}
	n.slots = slots
}

func (n *interner) text(id uint32) string {
	if id == 0 {
		return ""
	}
	return n.all[id-1]
}

// frameOf makes a frame of the name of a Python call: "file.py(12): function",
// where the line is that of the def.
func frameOf(name string) lifetime.Frame {
	f := lifetime.Frame{Function: name}
	if strings.Contains(name, " at 0x") {
		f.Function = objectAddress.ReplaceAllString(name, ">")
	}
	if place, function, ok := strings.Cut(name, "): "); ok {
		if at := strings.LastIndexByte(place, '('); at >= 0 {
			if line, err := strconv.Atoi(place[at+1:]); err == nil {
				f = lifetime.Frame{Function: function, File: place[:at], Line: line}
			}
		}
	}
	f.Kind = kindOf(f)
	return f
}

// objectAddress matches what Python says of the object that a built-in method
// is of, which differs from run to run.
var objectAddress = regexp.MustCompile(` at 0x[0-9a-f]+>`)

// kindOf classifies a frame. The names of files are shortened by the profiler
// ("torch/nn/modules/linear.py"), which hides that they are installed.
func kindOf(f lifetime.Frame) lifetime.FrameKind {
	if f.File == "" {
		return lifetime.Framework // "<built-in ...>", "nn.Module: ..."
	}
	return lifetime.KindOfFrame(f.Function, cmp.Or(installed(f.File), f.File))
}

// installed returns a path that tells that a file is of an installed package,
// "" for others.
func installed(file string) string {
	if strings.HasPrefix(file, "torch/") || strings.HasPrefix(file, "<") {
		return "/site-packages/" + file
	}
	return ""
}
