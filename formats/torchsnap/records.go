package torchsnap

import (
	"fmt"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/memlane/memlane/formats/torchsnap/internal/pickle"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/loss"
)

// reader is the pickle.Handler of one snapshot. It adds events to the builder at
// once. It keeps blocks, segments and annotations until their devices are known.
type reader struct {
	d *pickle.Decoder
	b *build.Builder

	frames map[frameKey]*knownFrame
	reads  int // number of this snapshot; see idle

	lastStacks, lastFrames int // of the last snapshot: this one may be of the same job

	noPythonFrame lifetime.FrameID // see noPython; 0 = not needed so far
	trains        bool             // there is a frame of backwardRan

	kind   kind // of the current record
	counts [len(kinds)]int

	fields fields             // scratch
	stack  []lifetime.FrameID // scratch
	sites  []lifetime.SiteID  // by stack, outside of compiled graphs; 0 = not interned yet

	traces    map[pickle.Value]*trace // by the list of the events
	lastList  pickle.Value
	lastTrace *trace

	histories   []block   // of blocks, each with what one of its allocations requested, and where
	blocks      []block   // read since the last list of blocks
	earlier     int       // number of blocks before them
	lists       [][]block // of the segments
	segments    []segment
	annotations []annotation
	streams     map[int64]int64 // stream pointer -> index, in order of appearance
	unfinished  []pickle.Value  // truncated lists that are not histories
	settings    []lifetime.Setting
}

// kind is the kind of a record, and the tag of its pickle.Value.
type kind int

const (
	kindEvent kind = iota
	kindFrame
	kindBlock
	kindSegment
	kindHistory
	kindAnnotation
	kindStack  // a list of frames
	kindBlocks // a list of blocks; the others are dicts
)

// kinds lists the dicts that are records. A dict is of the first kind whose keys, a set of bits, it has.
var kinds = [...]struct {
	name string
	keys uint64
}{
	kindEvent:      {"event", 1 << keyAction},
	kindFrame:      {"frame", 1<<keyFilename | 1<<keyLine | 1<<keyName},
	kindBlock:      {"block", 1<<keyState | 1<<keySize},
	kindSegment:    {"segment", 1 << keyTotalSize},
	kindHistory:    {"history", 1 << keyRealSize},
	kindAnnotation: {"annotation", 1 << keyStage},
}

type frameKey struct {
	name, file pickle.Value
	line       int64
}

type knownFrame struct {
	frame  frame.Frame
	trains bool             // see reader
	read   int              // number of the snapshot of id
	id     lifetime.FrameID // in that snapshot
}

// idle has readers that wait for their next snapshot. They know the strings and frames of the last ones: the ranks of a
// job share nearly all.
var idle sync.Pool

// mostFrames is the number of frames that a reader may know when it waits.
const mostFrames = 1 << 16

func newReader(in io.Reader, b *build.Builder) *reader {
	r, ok := idle.Get().(*reader)
	if !ok {
		r = &reader{frames: map[frameKey]*knownFrame{}}
		r.d = pickle.NewDecoder(nil, nil, known[:]...)
	}
	r.d.Open(in, r)
	r.b, r.reads, r.traces, r.streams = b, r.reads+1, map[pickle.Value]*trace{}, map[int64]int64{0: 0}
	b.GrowStacks(min(r.lastStacks, mostFrames), min(r.lastFrames, mostFrames))
	return r
}

// end makes the reader wait for its next snapshot.
func (r *reader) end() {
	stacks, frames := r.b.Stacks()
	*r = reader{d: r.d, frames: r.frames, reads: r.reads, lastStacks: stacks, lastFrames: frames}
	if same := r.d.Reset(); !same || len(r.frames) > mostFrames {
		r.frames = map[frameKey]*knownFrame{}
	}
	idle.Put(r)
}

type trace struct {
	space    build.SpaceRef
	events   int
	last     int64 // time of the last event
	hasTime  bool
	orphan   bool // the first event completes a free that was requested earlier
	requests bool // frees are requested before they complete
	cut      bool // the file ends in the history
	named    bool // its device is known
	used     bool // the program used the device: it has a segment, or an event other than a snapshot of no bytes
}

// block is a block of a segment, or an allocation in the history of one.
type block struct {
	addr            uint64
	size, requested int64
	stack           lifetime.StackID
	state           blockState
	hasAddr         bool
}

type blockState uint8

const (
	inactive blockState = iota // or not known; it still has the size and frames of its last allocation
	allocated
	pending // its free was requested
)

type segment struct {
	device int64
	region lifetime.Region // without Site
	stack  lifetime.StackID
	blocks pickle.Value
}

type annotation struct {
	start  bool
	name   string
	device int64
	t      int64
}

// fields are the known values of one dict. Only values with a bit in has are valid.
// The others may be stale, as clearing them takes as long as filling them in.
type fields struct {
	values [keyCount]pickle.Value
	has    uint64
}

// fill takes the keys and values of a dict. It returns the number of unknown keys, and the first of them.
func (f *fields) fill(items []pickle.Value) (unknown int64, first pickle.Value) {
	f.has = 0
	for i := 0; i+1 < len(items); i += 2 {
		if k := items[i]; k.Kind() == pickle.Str && k.Int() < keyCount {
			f.values[k.Int()] = items[i+1]
			f.has |= 1 << k.Int()
		} else if unknown++; unknown == 1 {
			first = k
		}
	}
	return unknown, first
}

// get returns a value, None if the dict does not have it.
func (f *fields) get(key int) pickle.Value {
	if f.has&(1<<key) == 0 {
		return 0
	}
	return f.values[key]
}

// hasAll reports whether the dict has all keys, given as a set of bits.
func (f *fields) hasAll(keys uint64) bool { return f.has&keys == keys }

// Dict implements pickle.Handler. It recognises records by their keys.
func (r *reader) Dict(items []pickle.Value, list pickle.Value) (pickle.Value, error) {
	f := &r.fields
	unknown, first := f.fill(items)
	k := kindEvent
	for ; !f.hasAll(kinds[k].keys); k++ {
		if k == kindAnnotation { // the last one
			return pickle.Keep, nil
		}
	}
	// Losses name records by number, which is the same in all pickle protocols.
	r.kind = k
	r.counts[k]++
	var v pickle.Value
	switch k {
	case kindEvent:
		v = r.event(f, list)
	case kindFrame:
		v = r.frame(f)
	case kindBlock:
		v = r.block(f)
	case kindSegment:
		v = r.segment(f)
	case kindHistory:
		r.histories = append(r.histories, block{requested: r.size(f.get(keyRealSize)), stack: stackOf(f.get(keyFrames))})
		v = newRecord(kindHistory, len(r.histories)-1)
	case kindAnnotation:
		v = r.annotation(f)
	}
	if unknown > 0 {
		r.b.Lose(loss.UnknownKey, unknown, 0, fmt.Sprintf("%.40q in %s", r.d.Str(first), r.place()))
	}
	return v, nil
}

// place names the current record, such as "event 17": the 17th event of the file.
func (r *reader) place() string { return fmt.Sprintf("%s %d", kinds[r.kind].name, r.counts[r.kind]) }

// List implements pickle.Handler. A list of frames becomes a stack, a list of blocks one of lists. A list whose events
// were added to the builder is a history.
func (r *reader) List(items []pickle.Value, list pickle.Value) (pickle.Value, error) {
	if tr := r.traces[list]; tr != nil {
		tr.cut = r.d.Unfinished()
		return pickle.Keep, nil
	}
	if r.d.Unfinished() {
		r.unfinished = append(r.unfinished, list)
		return pickle.Keep, nil
	}
	if len(items) > 0 && items[0].IsRecord(int(kindBlock)) {
		return r.blockList(items), nil
	}
	r.stack = r.stack[:0]
	for _, v := range items {
		if !v.IsRecord(int(kindFrame)) {
			return pickle.Keep, nil
		}
		r.stack = append(r.stack, lifetime.FrameID(v.Record()))
	}
	return newRecord(kindStack, int(r.b.Stack(r.stack))), nil
}

func newRecord(k kind, index int) pickle.Value { return pickle.NewRecord(int(k), index) }

// lose counts the current record as incomplete.
func (r *reader) lose() pickle.Value {
	r.b.Lose(loss.IncompleteRecord, 1, 0, r.place())
	return pickle.Forget
}

func stackOf(v pickle.Value) lifetime.StackID {
	if v.IsRecord(int(kindStack)) {
		return lifetime.StackID(v.Record())
	}
	return 0
}

func (r *reader) frame(f *fields) pickle.Value {
	if r.d.Unfinished() {
		return r.lose()
	}
	line, _ := r.d.Int64(f.get(keyLine))
	key := frameKey{f.get(keyName), f.get(keyFilename), line}
	known := r.frames[key]
	if known == nil {
		name, file := r.d.Str(key.name), r.d.Str(key.file)
		kind := frame.KindOf(name, file)
		trains := strings.HasSuffix(file, backwardRan) || strings.HasSuffix(file, `\torch\autograd\__init__.py`)
		if file == "??" {
			file = ""
		}
		known = &knownFrame{frame: frame.Frame{Function: name, File: file, Line: int(line), Kind: kind}, trains: trains}
		r.frames[key] = known
	}
	if known.read != r.reads {
		known.read, known.id = r.reads, r.b.Frame(known.frame)
		r.trains = r.trains || known.trains
	}
	return newRecord(kindFrame, int(known.id))
}

// blockList takes a list of blocks.
func (r *reader) blockList(items []pickle.Value) pickle.Value {
	kept := make([]block, 0, len(items))
	for _, v := range items {
		if !v.IsRecord(int(kindBlock)) {
			continue
		}
		if i := v.Record() - r.earlier; i >= 0 {
			kept = append(kept, r.blocks[i])
		} else {
			r.b.Lose(loss.IncompleteRecord, 1, 0, "a block in two lists")
		}
	}
	r.earlier, r.blocks = r.earlier+len(r.blocks), r.blocks[:0]
	r.lists = append(r.lists, kept)
	return newRecord(kindBlocks, len(r.lists)-1)
}

func (r *reader) block(f *fields) pickle.Value {
	if r.d.Unfinished() {
		return r.lose()
	}
	b := block{size: r.size(f.get(keySize)), stack: stackOf(f.get(keyFrames))}
	b.addr, b.hasAddr = r.d.Uint64(f.get(keyAddress))
	if f.hasAll(1<<keyAddress) && !b.hasAddr {
		return r.lose()
	}
	b.requested = b.size
	if n, ok := r.d.Int64(f.get(keyRequestedSize)); ok {
		b.requested = n
	}
	// PyTorch 2.0 writes the frames into the block's history, newest first.
	if h := r.d.Items(f.get(keyHistory)); len(h) > 0 && b.stack == 0 && h[0].IsRecord(int(kindHistory)) {
		first := &r.histories[h[0].Record()]
		b.stack = first.stack
		if !f.hasAll(1 << keyRequestedSize) {
			b.requested = first.requested
		}
	}
	switch state := f.get(keyState); state {
	case pickle.KnownString(stateInactive):
	case pickle.KnownString(stateAllocated):
		b.state = allocated
	case pickle.KnownString(statePending), pickle.KnownString(stateAwaiting):
		b.state = pending
	default:
		r.b.Lose(loss.UnknownAction, 1, max(b.size, 0), fmt.Sprintf("a block in state %.40q", r.d.Str(state)))
	}
	r.blocks = append(r.blocks, b)
	return newRecord(kindBlock, r.earlier+len(r.blocks)-1)
}

func (r *reader) segment(f *fields) pickle.Value {
	addr, hasAddr := r.d.Uint64(f.get(keyAddress))
	device, hasDevice := r.d.Int64(f.get(keyDevice))
	if !hasAddr || !hasDevice {
		return r.lose()
	}
	region := lifetime.Region{Addr: addr, Size: r.size(f.get(keyTotalSize)), Kind: r.d.Str(f.get(keySegmentType)),
		Stream: r.stream(f.get(keyStream))}
	region.Small = region.Kind == "small"
	if f.get(keyIsExpandable).Kind() == pickle.Bool && f.get(keyIsExpandable).Int() == 1 {
		region.Kind = lifetime.Expandable
	}
	r.pool(&region, f.get(keySegmentPoolID))
	r.segments = append(r.segments, segment{device, region, stackOf(f.get(keyFrames)), f.get(keyBlocks)})
	return newRecord(kindSegment, len(r.segments)-1)
}

func (r *reader) annotation(f *fields) pickle.Value {
	stage := f.get(keyStage)
	isStage := stage.Kind() == pickle.Str && (stage.Int() == valStart || stage.Int() == valEnd)
	if r.d.Unfinished() || !isStage || !f.hasAll(1<<keyName) || !isNumber(f.get(keyTime)) {
		return r.lose()
	}
	a := annotation{start: stage.Int() == valStart, name: r.d.Str(f.get(keyName)), device: -1, t: r.nanoseconds(f.get(keyTime))}
	if dev, ok := r.d.Int64(f.get(keyDevice)); ok {
		a.device = dev
	}
	r.annotations = append(r.annotations, a)
	return newRecord(kindAnnotation, len(r.annotations)-1)
}

// stream returns the number of a stream, in order of appearance. Snapshots contain the
// address of its handle. 0 is the default stream.
func (r *reader) stream(v pickle.Value) int64 {
	n, _ := r.d.Int64(v)
	id, ok := r.streams[n]
	if !ok {
		id = int64(len(r.streams))
		r.streams[n] = id
	}
	return id
}

// size returns a number of bytes, which may be negative. It limits a number beyond 63 bits and counts a loss.
func (r *reader) size(v pickle.Value) int64 {
	if n, ok := r.d.Int64(v); ok {
		return n
	}
	if v.Kind() != pickle.Wide {
		return 0
	}
	r.b.Lose(loss.InvalidSize, 1, 0, r.place())
	if r.d.Wide(v).Sign() > 0 {
		return math.MaxInt64
	}
	return 0
}

func isNumber(v pickle.Value) bool {
	return v.Kind() == pickle.Int || v.Kind() == pickle.Wide || v.Kind() == pickle.Float
}

// nanoseconds converts a time in microseconds, an integer or a float, to nanoseconds.
func (r *reader) nanoseconds(v pickle.Value) int64 {
	const limit = math.MaxInt64 / 1000
	us, ok := r.d.Int64(v)
	switch {
	case ok:
	case v.Kind() == pickle.Wide:
		us = int64(r.d.Wide(v).Sign()) * limit
	case !math.IsNaN(r.d.Float(v)): // Go leaves the conversion of NaN undefined
		us = int64(math.Max(-1<<52, math.Min(r.d.Float(v), 1<<52)))
	}
	return min(max(us, -limit), limit) * 1000
}
