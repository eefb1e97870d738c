package pickle

import "math/big"

// Kind is the kind of a Value.
type Kind uint8

const (
	None   Kind = iota
	Bool        // payload 0 or 1
	Int         // payload is the number
	Wide        // an integer that does not fit a payload: Decoder.Wide
	Float       // Decoder.Float
	Str         // text or bytes: Decoder.Str
	Tuple       // Decoder.Items
	Record      // replaces a list or dict, see Handler
	Gone        // a list or dict that the Handler dropped
	List        // Decoder.Items
	Dict        // Decoder.Items: key, value, key, value ...
	spill       // memo only: an index into Decoder.spilled
)

const (
	kindBits = 4
	// An index of objects or strings has 28 bits, so that a memo entry takes 4
	// bytes. Only a file of tens of gigabytes reaches this limit.
	maxIndex = 1 << 28
)

// Value is one value of a pickle: a kind and a payload of 60 bits, which is a number or an index into tables of the
// Decoder. Values contain no pointers and are comparable; equal strings have equal Values.
type Value uint64

func value(k Kind, payload int) Value { return Value(int64(payload)<<kindBits | int64(k)) }

// container reports whether v is a list or dict, which may still change.
func (v Value) container() bool { return v&(1<<kindBits-1) >= Value(List) }

// Kind returns what v is.
func (v Value) Kind() Kind { return Kind(v & (1<<kindBits - 1)) }

// Int returns the number of an Int, 0 or 1 for a Bool, and the index for other kinds.
func (v Value) Int() int64 { return int64(v) >> kindBits }

func (v Value) index() int { return int(int64(v) >> kindBits) }

// NewRecord returns a Value that represents a handler's record. tag is below MaxTags, index below 1<<28.
func NewRecord(tag, index int) Value { return value(Record, index<<tagBits|tag) }

// Tag returns the tag of a Record.
func (v Value) Tag() int { return v.index() & (MaxTags - 1) }

// IsRecord reports whether v is a Record with a tag.
func (v Value) IsRecord(tag int) bool { return v.Kind() == Record && v.Tag() == tag }

// Record returns the index of a Record.
func (v Value) Record() int { return v.index() >> tagBits }

// KnownString returns the Value of the i-th known string of NewDecoder.
func KnownString(i int) Value { return value(Str, i) }

const (
	tagBits = 3
	// MaxTags is the number of tags that records may have.
	MaxTags = 1 << tagBits
)

// Str returns the text of a Str, "" for other kinds. The text is not always valid UTF-8, as bytes are kept unchanged.
func (d *Decoder) Str(v Value) string {
	if v.Kind() != Str {
		return ""
	}
	return d.strs[v.index()]
}

// Float returns the number of a Float, 0 for other kinds.
func (d *Decoder) Float(v Value) float64 {
	if v.Kind() != Float {
		return 0
	}
	return d.floats[v.index()]
}

// Wide returns the number of a Wide, nil for other kinds.
func (d *Decoder) Wide(v Value) *big.Int {
	if v.Kind() != Wide {
		return nil
	}
	return d.wide[v.index()]
}

// Int64 returns the number of an Int or Wide. ok is false for other kinds and for numbers outside int64.
func (d *Decoder) Int64(v Value) (n int64, ok bool) {
	if v.Kind() == Int {
		return v.Int(), true
	}
	if w := d.Wide(v); w != nil {
		return w.Int64(), w.IsInt64()
	}
	return 0, false
}

// Uint64 returns the number of an Int or Wide. ok is false for other kinds and for numbers outside uint64.
func (d *Decoder) Uint64(v Value) (n uint64, ok bool) {
	if v.Kind() == Int {
		return uint64(v.Int()), v.Int() >= 0
	}
	if w := d.Wide(v); w != nil {
		return w.Uint64(), w.IsUint64()
	}
	return 0, false
}

// Items returns the items of a Tuple, List or Dict that the handler kept, nil for other values.
func (d *Decoder) Items(v Value) []Value {
	switch v.Kind() {
	case Tuple, List, Dict:
		if o := *d.objects.at(v.index()); o.state() == kept {
			return d.slots[o.index()]
		}
	}
	return nil
}
