package torchsnap

import (
	"fmt"
	"math"

	"github.com/memlane/memlane/formats/torchsnap/internal/pickle"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
)

// Tags of the records that stand in place of dicts and lists.
const (
	tagFrame = iota
	tagStack
	tagBlock
	tagSegment
	tagHistory
	tagAnnotation
)

// reader is the pickle.Handler of one snapshot. Events go to the builder as
// they come; blocks, segments and annotations are kept until the device of
// each is known.
type reader struct {
	d *pickle.Decoder
	b *build.Builder

	frameIDs map[frameKey]lifetime.FrameID
	kind     kind // of the record at work
	counts   [len(kinds)]int

	fields fields             // scratch
	stack  []lifetime.FrameID // scratch
	sites  []lifetime.SiteID  // by stack, for events outside compiled graphs; 0 = not made yet

	traces    map[pickle.Value]*trace // by the list that holds the events
	lastList  pickle.Value
	lastTrace *trace

	blocks      []block
	segments    []segment
	annotations []annotation
	streams     map[int64]int64 // stream pointer -> index, in order of appearance
	unfinished  []pickle.Value  // lists that the file ends in, but for histories
}

// kind of a dict that is a record.
type kind int

const (
	anEvent kind = iota
	aFrame
	aBlock
	aSegment
	aHistory
	anAnnotation
)

// kinds are looked through in order: a dict is of the first kind whose keys, a
// set of bits, it has.
var kinds = [...]struct {
	name string
	keys uint64
}{
	anEvent:      {"event", 1 << keyAction},
	aFrame:       {"frame", 1<<keyFilename | 1<<keyLine | 1<<keyName},
	aBlock:       {"block", 1<<keyState | 1<<keySize},
	aSegment:     {"segment", 1 << keyTotalSize},
	aHistory:     {"history", 1 << keyRealSize},
	anAnnotation: {"annotation", 1 << keyStage},
}

type frameKey struct {
	name, file pickle.Value
	line       int64
}

// trace is the history of one device.
type trace struct {
	space    build.SpaceRef
	events   int
	last     int64 // time of the last event
	hasTime  bool
	orphan   bool // the first event completes a free that was asked for earlier
	requests bool // frees are asked for before they are completed
	cut      bool // the file ends among its events
	named    bool // its device is known
}

type block struct {
	addr            uint64
	hasAddr         bool
	size, requested int64
	state           pickle.Value
	stack           lifetime.StackID
}

type segment struct {
	device     int64
	addr       uint64
	size       int64
	stream     int64
	kind, pool string
	stack      lifetime.StackID
	blocks     pickle.Value
}

type annotation struct {
	start  bool
	name   string
	device int64
	t      int64
}

// fields are the known values of one dict. Only those in has are set: what was
// there before stays, since clearing them all takes as long as filling them in.
type fields struct {
	values [keyCount]pickle.Value
	has    uint64
}

// fill takes the keys and values of a dict. It returns how many keys are not
// known, and the first of them.
func (f *fields) fill(items []pickle.Value) (strangers int64, first pickle.Value) {
	f.has = 0
	for i := 0; i+1 < len(items); i += 2 {
		if k := items[i]; k.Kind() == pickle.Str && k.Int() < keyCount {
			f.values[k.Int()] = items[i+1]
			f.has |= 1 << k.Int()
		} else if strangers++; strangers == 1 {
			first = k
		}
	}
	return strangers, first
}

// get returns a value, None when the dict does not have it.
func (f *fields) get(key int) pickle.Value {
	if f.has&(1<<key) == 0 {
		return 0
	}
	return f.values[key]
}

// hasAll reports whether the dict has all keys of a set of bits.
func (f *fields) hasAll(keys uint64) bool { return f.has&keys == keys }

// Dict implements pickle.Handler: it recognises a record by its keys.
func (r *reader) Dict(items []pickle.Value, list pickle.Value) (pickle.Value, error) {
	f := &r.fields
	strangers, unknown := f.fill(items)
	k := anEvent
	for ; !f.hasAll(kinds[k].keys); k++ {
		if k == anAnnotation { // the last one
			return pickle.Keep, nil
		}
	}
	// Losses name records by number, which does not depend on the protocol.
	r.kind = k
	r.counts[k]++
	var v pickle.Value
	switch k {
	case anEvent:
		v = r.event(f, list)
	case aFrame:
		v = r.frame(f)
	case aBlock:
		v = r.block(f)
	case aSegment:
		v = r.segment(f)
	case aHistory:
		v = r.history(f)
	case anAnnotation:
		v = r.annotation(f)
	}
	if strangers > 0 {
		r.b.Lose(loss.UnknownKey, strangers, 0, fmt.Sprintf("%.40q in %s", r.d.Str(unknown), r.place()))
	}
	return v, nil
}

// place names the record at work, such as "event 17": the 17th of the file.
func (r *reader) place() string { return fmt.Sprintf("%s %d", kinds[r.kind].name, r.counts[r.kind]) }

// List implements pickle.Handler: a list of frames is a stack, a list whose
// events were taken away a history.
func (r *reader) List(items []pickle.Value, list pickle.Value) (pickle.Value, error) {
	if tr := r.traces[list]; tr != nil {
		tr.cut = r.d.Unfinished()
		return pickle.Keep, nil
	}
	if r.d.Unfinished() {
		r.unfinished = append(r.unfinished, list)
		return pickle.Keep, nil
	}
	r.stack = r.stack[:0]
	for _, v := range items {
		if v.Kind() != pickle.Record || v.Tag() != tagFrame {
			return pickle.Keep, nil
		}
		r.stack = append(r.stack, lifetime.FrameID(v.Record()))
	}
	return pickle.NewRecord(tagStack, int(r.b.Stack(r.stack))), nil
}

// lose counts the record at work, which lacks what it needs.
func (r *reader) lose() pickle.Value {
	r.b.Lose(loss.IncompleteRecord, 1, 0, r.place())
	return pickle.Forget
}

// stackOf returns the stack of a record's frames value.
func stackOf(v pickle.Value) lifetime.StackID {
	if v.Kind() == pickle.Record && v.Tag() == tagStack {
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
	id, ok := r.frameIDs[key]
	if !ok {
		name, file := r.d.Str(key.name), r.d.Str(key.file)
		kind := lifetime.KindOfFrame(name, file)
		if file == "??" {
			file = ""
		}
		id = r.b.Frame(lifetime.Frame{Function: name, File: file, Line: int(max(line, 0)), Kind: kind})
		r.frameIDs[key] = id
	}
	return pickle.NewRecord(tagFrame, int(id))
}

func (r *reader) history(f *fields) pickle.Value {
	r.blocks = append(r.blocks, block{requested: r.size(f.get(keyRealSize)), stack: stackOf(f.get(keyFrames))})
	return pickle.NewRecord(tagHistory, len(r.blocks)-1)
}

func (r *reader) block(f *fields) pickle.Value {
	if r.d.Unfinished() {
		return r.lose()
	}
	b := block{size: r.size(f.get(keySize)), state: f.get(keyState), stack: stackOf(f.get(keyFrames))}
	b.addr, b.hasAddr = r.d.Uint64(f.get(keyAddress))
	if f.hasAll(1<<keyAddress) && !b.hasAddr {
		return r.lose()
	}
	b.requested = b.size
	if n, ok := r.d.Int64(f.get(keyRequestedSize)); ok && n >= 0 {
		b.requested = n
	}
	// PyTorch 2.0 keeps the frames in the block's history, newest first.
	if h := r.d.Items(f.get(keyHistory)); len(h) > 0 && b.stack == 0 && h[0].Kind() == pickle.Record && h[0].Tag() == tagHistory {
		first := r.blocks[h[0].Record()]
		b.stack = first.stack
		if !f.hasAll(1 << keyRequestedSize) {
			b.requested = first.requested
		}
	}
	r.blocks = append(r.blocks, b)
	return pickle.NewRecord(tagBlock, len(r.blocks)-1)
}

func (r *reader) segment(f *fields) pickle.Value {
	addr, hasAddr := r.d.Uint64(f.get(keyAddress))
	device, hasDevice := r.d.Int64(f.get(keyDevice))
	if !hasAddr || !hasDevice {
		return r.lose()
	}
	s := segment{device: device, addr: addr, size: r.size(f.get(keyTotalSize)), kind: r.d.Str(f.get(keySegmentType)), stack: stackOf(f.get(keyFrames)), blocks: f.get(keyBlocks)}
	s.stream = r.stream(f.get(keyStream))
	if f.get(keyIsExpandable).Kind() == pickle.Bool && f.get(keyIsExpandable).Int() == 1 {
		s.kind = lifetime.Expandable
	}
	if id := r.d.Items(f.get(keySegmentPoolID)); len(id) == 2 && (id[0].Int() != 0 || id[1].Int() != 0) {
		s.pool = fmt.Sprintf("%d,%d", id[0].Int(), id[1].Int())
	}
	r.segments = append(r.segments, s)
	return pickle.NewRecord(tagSegment, len(r.segments)-1)
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
	return pickle.NewRecord(tagAnnotation, len(r.annotations)-1)
}

// stream numbers streams in order of appearance; a snapshot names them by the
// address of a handle. 0 is the default stream.
func (r *reader) stream(v pickle.Value) int64 {
	n, _ := r.d.Int64(v)
	id, ok := r.streams[n]
	if !ok {
		id = int64(len(r.streams))
		r.streams[n] = id
	}
	return id
}

// size returns a number of bytes, which may be below zero. One that does not fit is
// cut, and lost.
func (r *reader) size(v pickle.Value) int64 {
	if n, ok := r.d.Int64(v); ok {
		return n
	}
	if v.Kind() != pickle.Wide {
		return 0
	}
	r.b.Lose(loss.OddSize, 1, 0, r.place())
	if r.d.Wide(v).Sign() > 0 {
		return math.MaxInt64
	}
	return 0
}

func isNumber(v pickle.Value) bool {
	return v.Kind() == pickle.Int || v.Kind() == pickle.Wide || v.Kind() == pickle.Float
}

// nanoseconds returns a time that is given in microseconds, as an integer or a
// float.
func (r *reader) nanoseconds(v pickle.Value) int64 {
	const limit = math.MaxInt64 / 1000
	us, ok := r.d.Int64(v)
	switch {
	case ok:
	case v.Kind() == pickle.Wide:
		us = int64(r.d.Wide(v).Sign()) * limit
	case !math.IsNaN(r.d.Float(v)): // Go does not say what integer a NaN is
		us = int64(math.Max(-1<<52, math.Min(r.d.Float(v), 1<<52)))
	}
	return min(max(us, -limit), limit) * 1000
}
