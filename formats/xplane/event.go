package xplane

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// statKind is a statistic that the reader uses. The reader finds it by name, because numbers differ from file to file.
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
	loopID
	iterationNumber

	statCount
)

// statKinds maps the names of statistics in XProf's xplane_schema to their kinds. TPUs and plug-in devices
// identify the device by a number instead of an allocator name.
var statKinds = map[string]statKind{
	"allocator_name": allocatorName, "index_on_host": indexOnHost, "device_ordinal": indexOnHost,
	"bytes_reserved": bytesReserved, "bytes_allocated": bytesAllocated, "bytes_available": bytesAvailable,
	"fragmentation": fragmentation, "peak_bytes_in_use": peakBytesInUse,
	"requested_bytes": requestedBytes, "allocation_bytes": allocationBytes, "addr": address,
	"tf_op": tfOp, "region_type": regionType, "data_type": dataType, "shape": tensorShape,
	"step_num": stepNum, "_r": isRoot, "_pt": producerType, "_p": producerID, "_ct": consumerType, "_c": consumerID,
	"group_id": groupID, "_a": isAsync, "id": loopID, "iter_num": iterationNumber,
}

// statTable finds the kind of a statistic by its number.
type statTable struct {
	dense []common
	rare  map[int64]statKind // numbers beyond maxDense
	known uint32             // one bit per statKind
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
		t.dense = append(t.dense, common{})
	}
	t.dense[id] = commonOf(kind)
}

// has reports whether every kind in kinds has a number.
func (t *statTable) has(kinds ...statKind) bool {
	return !slices.ContainsFunc(kinds, func(k statKind) bool { return t.known&(1<<k) == 0 })
}

func (t *statTable) kind(id uint64) statKind {
	if id < uint64(len(t.dense)) {
		return t.dense[id].kind
	}
	return t.rare[int64(id)]
}

// textRef refers to a text of an event: the number of a text in the plane, or, if negative, a text stored in
// the event itself.
type textRef int64

const noText textRef = math.MinInt64

// event is a host event: its time and the statistics that the reader uses.
type event struct {
	meta     int64
	offset   int64 // picoseconds since the line's timestamp
	duration int64

	has           uint32 // one bit per statKind
	stats         [statCount]int64
	fragmentation float64
}

func (e *event) is(kind statKind) bool { return e.has&(1<<kind) != 0 }

// number returns the value of a statistic, or none if the event has no such statistic.
func (e *event) number(kind statKind, none int64) int64 {
	if !e.is(kind) {
		return none
	}
	return e.stats[kind]
}

func (e *event) text(kind statKind) textRef { return textRef(e.number(kind, int64(noText))) }

// report fills to with the allocator statistics of the event, except Site and Step. A missing number is -1.
func (e *event) report(to *lifetime.AllocatorEvent, free bool) {
	*to = lifetime.AllocatorEvent{
		Free: free, Addr: uint64(e.number(address, 0)), Requested: e.number(requestedBytes, -1), Occupied: e.number(allocationBytes, -1),
		Allocated: e.number(bytesAllocated, -1), Stack: e.number(bytesReserved, -1), Available: e.number(bytesAvailable, -1),
		Peak: e.number(peakBytesInUse, -1), Fragmentation: e.fragmentation, HasFragmentation: e.is(fragmentation),
		RawTime: e.offset, Step: -1,
	}
}

// link connects a producer to its consumers: events with equal links.
type link struct{ kind, id int64 }

// produces returns the link to the consumers of e. ok is false if e is no producer.
func (e *event) produces() (of link, ok bool) {
	return link{e.stats[producerType], e.stats[producerID]}, e.is(producerID) && e.is(producerType)
}

// Kinds of links from ContextType in tsl's context_types.h.
const (
	pjrtCall   = 14 // into a library, on the same thread
	threadpool = 15 // the consumers are instants, which enclose nothing
)

// launches returns the link to the consumers of e that may enclose allocations on other threads. ok is false if it has
// none.
func (e *event) launches() (of link, ok bool) {
	of, ok = e.produces()
	return of, ok && of.kind != pjrtCall && of.kind != threadpool
}

// consumes returns the link to the producer of e. ok is false if e is no consumer.
func (e *event) consumes() (of link, ok bool) {
	return link{e.stats[consumerType], e.stats[consumerID]}, e.is(consumerID) && e.is(consumerType)
}

// short is the first byte value that is not a complete one-byte varint. Most varints have one byte; they are
// decoded inline because a function call would cost more than the decoding.
const short = 0x80

// varint decodes the varint at b[i:] and returns the index after it, or -1 if it is incomplete or too long.
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

// lastByte returns the index of the highest bit of the last byte of a varint, the first byte whose highest bit
// is not set; 64 if all eight bytes continue.
func lastByte(word uint64) int { return bits.TrailingZeros64(^word & 0x8080808080808080) }

// sevens joins the lower seven bits of each byte up to the last one, two, four and eight bytes at a time.
func sevens(word uint64, last int) uint64 {
	word &= 1<<last - 1
	word = word&0x007f007f007f007f | word&0x7f007f007f007f00>>1
	word = word&0x00003fff00003fff | word&0x3fff00003fff0000>>2
	return word&0x000000000fffffff | word&0x0fffffff00000000>>4
}

// decoder decodes the bodies of events. There are millions of small ones, so it works on the bytes without a window.
type decoder struct {
	stats   *statTable
	strings map[string]textRef // texts stored in events
	inline  []string           // the same texts, indexed by -1-textRef
}

// metaOf returns the metadata number of an event if it is the first field, as it usually is; otherwise -1.
func metaOf(b []byte) int64 {
	if len(b) > 1 && b[0] == eventMetadata<<3|varintType {
		if id, end := varint(b, 1); end > 0 {
			return int64(id)
		}
	}
	return -1
}

// decode decodes the body of an event into e. It returns false if the body is damaged.
func (d *decoder) decode(b []byte, e *event) bool {
	e.meta, e.offset, e.duration, e.has = 0, 0, 0, 0
	for i := 0; i < len(b); {
		if b[i] == eventStats<<3|bytesType {
			if i = d.commonStats(b, i, e); i == len(b) {
				break
			}
		}
		var tag, v uint64
		if b[i] < short {
			tag, i = uint64(b[i]), i+1
		} else if tag, i = varint(b, i); i < 0 {
			return false
		}
		if tag&7 == fixed64Type || tag&7 == fixed32Type { // every known field is a varint or bytes
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

// fixedSize returns the size in bytes of a fixed32 or fixed64 field.
func fixedSize(tag uint64) int {
	if tag&7 == fixed64Type {
		return 8
	}
	return 4
}

// The common form of a statistic: its tag, a length and the tag of its number (one byte each), the number (one
// or two bytes), the tag of its value, and the value. commonMask and commonStat match its first three bytes.
const (
	commonMask = 0xff<<16 | short<<8 | 0xff
	commonStat = (statMetadata<<3|varintType)<<16 | eventStats<<3 | bytesType
	commonRoom = 6 + 8 // the bytes before the value, plus one 8-byte load of the value
	maxCommon  = 1 << 14
)

// common describes the common form of a statistic: one bit for each tag that a numeric value may have.
// Fragmentation is normally a double and has no such tag.
type common struct {
	tags uint64
	kind statKind
}

// Tags of numbers, one bit each.
const (
	unsigned  uint64 = 1 << (statUint<<3 | varintType)
	signed    uint64 = 1 << (statInt<<3 | varintType)
	ref       uint64 = 1 << (statRef<<3 | varintType)
	anyNumber        = unsigned | signed | ref
)

func commonOf(kind statKind) common {
	switch {
	case kind.isText():
		return common{ref, kind}
	case kind.isSigned():
		return common{signed, kind}
	case kind == fragmentation:
		return common{0, kind}
	}
	return common{unsigned | signed, kind}
}

// commonStats decodes consecutive statistics in the common form at b[i:] and returns the index after them; stat decodes
// the others. Reading a profile spends most of its time here, because an event has about a dozen statistics.
func (d *decoder) commonStats(b []byte, i int, e *event) int {
	kinds := d.stats.dense
	whole := b[:cap(b)] // 8-byte loads may run past the event; the extra bytes are masked
	for i+commonRoom <= len(whole) {
		head := binary.LittleEndian.Uint64(whole[i:])
		end := i + 2 + int(head>>8&0xff)
		if head&commonMask != commonStat || end > len(b) {
			return i
		}
		id, tag, next := head>>24&0xff, head>>32&0xff, i+5
		if id >= short {
			if id, tag, next = id&(short-1)|tag<<7, head>>40&0xff, i+6; id >= maxCommon {
				return i
			}
		}
		u := common{}
		if id < uint64(len(kinds)) {
			u = kinds[id]
		}
		value := binary.LittleEndian.Uint64(whole[next:])
		switch {
		case u.tags>>tag&1 != 0:
			last := lastByte(value)
			if last>>3 != end-next-1 || last == 64 {
				return i
			}
			e.stats[u.kind] = int64(sevens(value, last))
			e.has = e.has&^overruled[u.kind] | 1<<u.kind
		case u.kind == otherStat: // not used, whatever its value
		case u.kind == fragmentation && tag == statDouble<<3|fixed64Type && end == next+8:
			e.fragmentation = math.Float64frombits(value)
			e.has |= 1 << fragmentation
		case u.kind != fragmentation && anyNumber>>tag&1 != 0 && lastByte(value)>>3 == end-next-1 && end-next < 8:
			// XProf ignores values of this type
		default:
			return i
		}
		i = end
	}
	return i
}

// stat decodes a statistic with its fields in any order. If there are several values, the last one counts.
func (d *decoder) stat(b []byte, e *event) bool {
	kind := d.stats.kind(0) // protocol buffers omit a number that is 0
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
		if field&7 == fixed64Type || field&7 == fixed32Type { // of a newer version
			if i += fixedSize(field); i > len(b) {
				return false
			}
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
				return true // not used, whatever its value
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
			switch {
			case field&7 == varintType:
				continue
			case field&7 != bytesType || n > uint64(len(b)-i):
				return false
			}
			i += int(n)
		}
	}
	d.take(e, kind, tag, v, text)
	return true
}

// take stores the value of a statistic: a number, a text number, or a text stored in the event. It drops values
// of a type that XProf ignores.
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

// overruled lists, one bit each, the statistics that a statistic replaces: if an event names its allocator
// twice, the last name counts.
var overruled = [statCount]uint32{allocatorName: 1 << indexOnHost, indexOnHost: 1 << allocatorName}

func (e *event) set(kind statKind, v int64) {
	e.stats[kind] = v
	e.has = e.has&^overruled[kind] | 1<<kind
	if kind == fragmentation { // profilers write 0 as an integer
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

// maxInline bounds the number of texts kept that are stored in events.
const maxInline = 1 << 20

// intern returns the reference of a text stored in an event. Beyond maxInline texts it returns 0.
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
