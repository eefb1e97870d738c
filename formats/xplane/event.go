package xplane

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/memlane/memlane/lifetime"
)

// statKind is a statistic that the reader uses, told by its name: numbers
// differ from file to file.
type statKind uint8

const (
	otherStat statKind = iota
	allocatorName
	indexOnHost
	bytesReserved
	bytesAllocated
	bytesAvailable
	fragmentation
	peakBytesInUse
	requestedBytes
	allocationBytes
	address
	tfOp
	regionType
	dataType
	tensorShape
	stepNum
	isRoot
	producerType
	producerID
	consumerType
	consumerID
	groupID
	isAsync

	statCount
)

// statKinds are the names of statistics in XProf's xplane_schema. TPUs and
// plug-in devices name the device by a number in place of an allocator.
var statKinds = map[string]statKind{
	"allocator_name": allocatorName, "index_on_host": indexOnHost, "device_ordinal": indexOnHost,
	"bytes_reserved": bytesReserved, "bytes_allocated": bytesAllocated, "bytes_available": bytesAvailable,
	"fragmentation": fragmentation, "peak_bytes_in_use": peakBytesInUse,
	"requested_bytes": requestedBytes, "allocation_bytes": allocationBytes, "addr": address,
	"tf_op": tfOp, "region_type": regionType, "data_type": dataType, "shape": tensorShape,
	"step_num": stepNum, "_r": isRoot, "_pt": producerType, "_p": producerID, "_ct": consumerType, "_c": consumerID,
	"group_id": groupID, "_a": isAsync,
}

// statTable finds the kind of a statistic by its number.
type statTable struct {
	dense []usual
	rare  map[int64]statKind // numbers that would make dense long
	known uint32             // bits by statKind
}

const maxDense = 1 << 16

func (t *statTable) set(id int64, kind statKind) {
	t.known |= 1 << kind
	if id < 0 || id >= maxDense {
		if t.rare == nil {
			t.rare = map[int64]statKind{}
		}
		t.rare[id] = kind
		return
	}
	for int64(len(t.dense)) <= id {
		t.dense = append(t.dense, usual{})
	}
	t.dense[id] = usualOf(kind)
}

// has reports whether all of some kinds have a number.
func (t *statTable) has(kinds ...statKind) bool {
	for _, k := range kinds {
		if t.known&(1<<k) == 0 {
			return false
		}
	}
	return true
}

func (t *statTable) kind(id uint64) statKind {
	if id < uint64(len(t.dense)) {
		return t.dense[id].kind
	}
	return t.rare[int64(id)]
}

// textRef is a text of an event: the number of a text of the plane, or, below
// zero, one that stands in the event itself.
type textRef int64

const noText textRef = math.MinInt64

// event is an event of the host: its time and those of its statistics that the
// reader uses.
type event struct {
	meta     int64
	offset   int64 // picoseconds since the line's timestamp
	duration int64

	has           uint32 // bits by statKind
	stats         [statCount]int64
	fragmentation float64
}

// clear forgets the event before.
func (e *event) clear() { e.meta, e.offset, e.duration, e.has = 0, 0, 0, 0 }

func (e *event) is(kind statKind) bool { return e.has&(1<<kind) != 0 }

// number returns a figure of the event, or what stands for none.
func (e *event) number(kind statKind, none int64) int64 {
	if !e.is(kind) {
		return none
	}
	return e.stats[kind]
}

func (e *event) text(kind statKind) textRef { return textRef(e.number(kind, int64(noText))) }

// report tells what an allocator says in the event, but for Site and Step.
func (e *event) report(to *lifetime.Report, free bool) {
	*to = lifetime.Report{
		Free: free, Addr: uint64(e.number(address, 0)), Requested: e.number(requestedBytes, -1), Occupied: e.number(allocationBytes, -1),
		Allocated: e.number(bytesAllocated, -1), Stack: e.number(bytesReserved, -1), Available: e.number(bytesAvailable, -1),
		Peak: e.number(peakBytesInUse, -1), Fragmentation: e.fragmentation, HasFragmentation: e.is(fragmentation), RawTime: e.offset, Step: -1,
	}
}

// link joins a producer to its consumers: events with equal links.
type link struct{ kind, id int64 }

// A number of one byte, as most are, is read in place: a call would cost more
// than the rest. short tells them.
const short = 0x80

// varint reads the number at b[i:] and returns where it ends, -1 when it does
// not.
func varint(b []byte, i int) (uint64, int) {
	if i+8 <= len(b) {
		word := binary.LittleEndian.Uint64(b[i:])
		if last := lastByte(word); last < 64 {
			return sevens(word, last), i + last>>3 + 1
		}
	}
	v, n := binary.Uvarint(b[i:])
	if n <= 0 {
		return 0, -1
	}
	return v, i + n
}

// lastByte returns the highest bit of the byte that ends a number, the first one in
// which it is not set; 64 when none of the eight does.
func lastByte(word uint64) int { return bits.TrailingZeros64(^word & 0x8080808080808080) }

// sevens puts the seven bits of each byte up to the last one together: two, four and
// eight bytes at a time.
func sevens(word uint64, last int) uint64 {
	word &= 1<<last - 1
	word = word&0x007f007f007f007f | word&0x7f007f007f007f00>>1
	word = word&0x00003fff00003fff | word&0x3fff00003fff0000>>2
	return word&0x000000000fffffff | word&0x0fffffff00000000>>4
}

// decoder reads the bodies of events. They are small and there are millions, so
// it works on the bytes without the help of a window.
type decoder struct {
	stats   *statTable
	strings map[string]textRef // texts that stand in events
	inline  []string           // the same by -1-textRef
}

// metaOf returns the number of the metadata of an event, which comes first as a
// rule, or -1.
func metaOf(b []byte) int64 {
	if len(b) > 1 && b[0] == eventMetadata<<3|varintType {
		if id, end := varint(b, 1); end > 0 {
			return int64(id)
		}
	}
	return -1
}

// decode reads the body of an event. It reports false when it is damaged.
func (d *decoder) decode(b []byte, e *event) bool {
	e.clear()
	for i := 0; i < len(b); {
		if b[i] == eventStats<<3|bytesType {
			if i = d.usualStats(b, i, e); i == len(b) {
				break
			}
		}
		var tag, v uint64
		if b[i] < short {
			tag, i = uint64(b[i]), i+1
		} else if tag, i = varint(b, i); i < 0 {
			return false
		}
		if tag&7 == fixed64Type || tag&7 == fixed32Type { // no field that is known
			if i += fixedSize(tag); i > len(b) {
				return false
			}
			continue
		}
		if i < len(b) && b[i] < short {
			v, i = uint64(b[i]), i+1
		} else if v, i = varint(b, i); i < 0 {
			return false
		}
		switch tag {
		case eventMetadata<<3 | varintType:
			e.meta = int64(v)
		case eventOffset<<3 | varintType:
			e.offset = int64(v)
		case eventDuration<<3 | varintType:
			e.duration = int64(v)
		default:
			switch {
			case tag&7 == varintType:
				continue
			case tag&7 != bytesType || v > uint64(len(b)-i):
				return false
			case tag == eventStats<<3|bytesType && !d.stat(b[i:i+int(v)], e):
				return false
			}
			i += int(v)
		}
	}
	return true
}

// fixedSize returns the bytes of a field of fixed size.
func fixedSize(tag uint64) int {
	if tag&7 == fixed64Type {
		return 8
	}
	return 4
}

// The usual statistic of an event: its tag, a length and the tag of its number, a
// byte each, the number, in one byte or two, the tag of its value and the value.
// usualMask and usualStat tell it by the first three bytes.
const (
	usualMask = 0xff<<16 | short<<8 | 0xff
	usualStat = (statMetadata<<3|varintType)<<16 | eventStats<<3 | bytesType
	usualRoom = 6 + 8 // up to the value, and what is loaded of it
	maxUsual  = 1 << 14
)

// usual tells what the usual form of a statistic is: the tags that its value may
// have as a number, a bit each. Fragmentations are doubles as a rule and have none.
type usual struct {
	tags uint64
	kind statKind
}

// Tags of numbers, a bit each.
const (
	unsigned  uint64 = 1 << (statUint<<3 | varintType)
	signed    uint64 = 1 << (statInt<<3 | varintType)
	ref       uint64 = 1 << (statRef<<3 | varintType)
	anyNumber        = unsigned | signed | ref
)

func usualOf(kind statKind) usual {
	switch {
	case kind.isText():
		return usual{ref, kind}
	case kind.isSigned():
		return usual{signed, kind}
	case kind == fragmentation:
		return usual{0, kind}
	}
	return usual{unsigned | signed, kind}
}

// usualStats reads the statistics of the usual form that stand at b[i:], and returns
// where they end; what is not usual is left to stat. This is where the time of
// reading a profile goes: an event has a dozen.
func (d *decoder) usualStats(b []byte, i int, e *event) int {
	kinds := d.stats.dense
	whole := b[:cap(b)] // what lies behind an event is loaded with it, and masked
	for i+usualRoom <= len(whole) {
		head := binary.LittleEndian.Uint64(whole[i:])
		end := i + 2 + int(head>>8&0xff)
		if head&usualMask != usualStat || end > len(b) {
			return i
		}
		id, tag, at := head>>24&0xff, head>>32&0xff, i+5
		if id >= short {
			if id, tag, at = id&(short-1)|tag<<7, head>>40&0xff, i+6; id >= maxUsual {
				return i
			}
		}
		u := usual{}
		if id < uint64(len(kinds)) {
			u = kinds[id]
		}
		value := binary.LittleEndian.Uint64(whole[at:])
		switch {
		case u.tags>>tag&1 != 0:
			last := lastByte(value)
			if last>>3 != end-at-1 || last == 64 {
				return i
			}
			e.stats[u.kind] = int64(sevens(value, last))
			e.has = e.has&^overruled[u.kind] | 1<<u.kind
		case u.kind == otherStat: // whatever it says
		case u.kind == fragmentation && tag == statDouble<<3|fixed64Type && end == at+8:
			e.fragmentation = math.Float64frombits(value)
			e.has |= 1 << fragmentation
		case u.kind != fragmentation && anyNumber>>tag&1 != 0 && lastByte(value)>>3 == end-at-1 && end-at < 8: // of a type that XProf does not look at
		default:
			return i
		}
		i = end
	}
	return i
}

// stat reads a statistic whatever its fields and their order: of several values the
// last one counts.
func (d *decoder) stat(b []byte, e *event) bool {
	kind := d.stats.kind(0) // where no number stands
	var tag, v uint64       // of the value
	var text []byte
	for i := 0; i < len(b); {
		var field, n uint64
		if b[i] < short {
			field, i = uint64(b[i]), i+1
		} else if field, i = varint(b, i); i < 0 {
			return false
		}
		if field == statDouble<<3|fixed64Type {
			if i+8 > len(b) {
				return false
			}
			tag, v = field, binary.LittleEndian.Uint64(b[i:])
			i += 8
			continue
		}
		if i < len(b) && b[i] < short {
			n, i = uint64(b[i]), i+1
		} else if n, i = varint(b, i); i < 0 {
			return false
		}
		switch field {
		case statMetadata<<3 | varintType:
			if kind = d.stats.kind(n); kind == otherStat {
				return true // whatever it says
			}
		case statInt<<3 | varintType, statUint<<3 | varintType, statRef<<3 | varintType:
			tag, v = field, n
		case statString<<3 | bytesType, statBytes<<3 | bytesType:
			if n > uint64(len(b)-i) {
				return false
			}
			tag, text = field, b[i:i+int(n)]
			i += int(n)
		default:
			return false
		}
	}
	d.take(e, kind, tag, v, text)
	return true
}

// take takes the value of a statistic, unless it is of a type that XProf does not
// look at: a figure, a text by its number or one that stands in the event.
func (d *decoder) take(e *event, kind statKind, tag, v uint64, text []byte) {
	switch {
	case tag == statDouble<<3|fixed64Type && kind == fragmentation:
		e.fragmentation = math.Float64frombits(v)
		e.has |= 1 << fragmentation
	case tag == statString<<3|bytesType && kind.isText():
		e.set(kind, int64(d.intern(text)))
	case tag == statRef<<3|varintType && kind.isText() && v <= math.MaxInt64,
		tag == statInt<<3|varintType && !kind.isText(),
		tag == statUint<<3|varintType && !kind.isText() && !kind.isSigned():
		e.set(kind, int64(v))
	}
}

// overruled are the statistics, a bit each, that one takes the place of: of the two
// names of an allocator the last one counts.
var overruled = [statCount]uint32{allocatorName: 1 << indexOnHost, indexOnHost: 1 << allocatorName}

// set takes a statistic.
func (e *event) set(kind statKind, v int64) {
	e.stats[kind] = v
	e.has = e.has&^overruled[kind] | 1<<kind
	if kind == fragmentation { // 0 is written as a whole number
		e.fragmentation = float64(v)
	}
}

func (k statKind) isText() bool {
	return k == allocatorName || k == tfOp || k == regionType || k == tensorShape
}

// isSigned reports whether XProf reads the statistic as a signed number only.
func (k statKind) isSigned() bool {
	return k == producerType || k == consumerType || k == groupID
}

// maxInline bounds the texts that stand in events and are kept.
const maxInline = 1 << 20

// intern returns the reference of a text that stands in an event.
func (d *decoder) intern(b []byte) textRef {
	ref, ok := d.strings[string(b)]
	if !ok && len(d.inline) < maxInline {
		if d.strings == nil {
			d.strings = map[string]textRef{}
		}
		d.inline = append(d.inline, string(b))
		ref = -textRef(len(d.inline))
		d.strings[string(b)] = ref
	}
	return ref
}
