package pickle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
)

// Handler decides what to keep of lists and dicts. It gets each one once, when it is complete: at the first time that
// it is put into another container. items is valid during the call only.
//
// The result is a Record to replace it, Forget to drop it, or Keep.
type Handler interface {
	// Dict gets keys and values in turn. list is the list that receives the dict, or 0.
	Dict(items []Value, list Value) (Value, error)
	// List gets the items, without the dropped ones. list is the list itself. A Record depends on the items alone: it
	// may replace later lists with the same items, without a call.
	List(items []Value, list Value) (Value, error)
}

// Results of a Handler.
var (
	Keep   = value(None, 0)
	Forget = value(Gone, 0)
)

// Error is a pickle that cannot be decoded.
type Error struct {
	Msg     string
	Refused bool // the pickle may be intact, but it is more than plain data
}

func (e *Error) Error() string { return e.Msg }

// ErrTruncated is wrapped by the error of Decode if the pickle ends early.
var ErrTruncated = errors.New("the pickle ends early")

const (
	windowSize = 256 << 10
	// maxText is the maximum length of a string in bytes. The longest in snapshots are stack texts of some kilobytes.
	maxText = 16 << 20
	// maxLine bounds lines of text, which contain numbers and names, in bytes.
	maxLine = 64 << 10
	// maxNesting bounds open marks; snapshots nest six deep.
	maxNesting = 10000
	// maxValues bounds the stack, and the lists and dicts that no record replaced. Snapshots have some thousands.
	maxValues = 1 << 23
)

// Decoder reads one pickle.
type Decoder struct {
	handler Handler
	r       io.Reader
	readErr error

	buf      []byte // window of the input
	pos, end int
	base     int64 // offset of buf[0]
	opAt     int64 // offset of the current opcode

	stack []Value
	marks []int // heights of the stack

	memo    paged[uint32] // packed values; 0 = not set
	spilled []Value

	objects   paged[object]
	slots     [][]Value
	freeSlots []int
	pairs     map[[2]Value]Value

	strs   []string
	strIDs map[string]int
	known  int // strings of NewDecoder
	chars  int // bytes of the other strings
	floats []float64
	wide   []*big.Int

	repeats repeats

	cut        map[Value]bool // truncated containers
	unfinished bool
}

// NewDecoder returns a Decoder for one pickle. The known strings have the indexes
// from 0 (Value.Int), so that a handler can switch on keys.
func NewDecoder(r io.Reader, h Handler, known ...string) *Decoder {
	d := &Decoder{handler: h, r: r, buf: make([]byte, windowSize), pairs: map[[2]Value]Value{}, strIDs: map[string]int{}}
	for _, s := range known {
		d.text([]byte(s))
	}
	d.known, d.chars = len(d.strs), 0
	return d
}

// A decoder that waits for its next pickle keeps at most so much: values in lists and tables, strings and their bytes.
const (
	mostValuesKept  = 1 << 17
	mostStringsKept = 1 << 16
	mostCharsKept   = 4 << 20
)

// Open makes the decoder read another pickle, after Reset.
func (d *Decoder) Open(r io.Reader, h Handler) { d.r, d.handler = r, h }

// Reset removes what the decoder has of its pickle but the strings, which keep their Values: pickles of the ranks of
// one job have the same. If they are too many, it removes them as well; same is then false.
func (d *Decoder) Reset() (same bool) {
	slots := 0
	for i, items := range d.slots {
		slots += cap(items)
		d.slots[i] = items[:0]
	}
	if slots+len(d.slots) > mostValuesKept {
		d.slots = nil
	}
	d.freeSlots = d.freeSlots[:0]
	for i := range d.slots {
		d.freeSlots = append(d.freeSlots, i)
	}
	d.memo.reset()
	for _, page := range d.memo.pages {
		if page != nil {
			clear(page[:])
		}
	}
	d.objects.reset() // create sets each
	if len(d.pairs) > mostValuesKept/16 {
		d.pairs = map[[2]Value]Value{}
	}
	clear(d.pairs)
	d.stack, d.marks, d.spilled = emptied(d.stack), emptied(d.marks), emptied(d.spilled)
	d.floats, d.wide = emptied(d.floats), nil
	d.repeats.reset()
	if same = len(d.strs) <= mostStringsKept && d.chars <= mostCharsKept; !same {
		d.strs, d.chars, d.strIDs = slices.Clone(d.strs[:d.known]), 0, map[string]int{}
		for i, s := range d.strs {
			d.strIDs[s] = i
		}
	}
	d.handler, d.r, d.readErr = nil, nil, nil
	d.pos, d.end, d.base, d.opAt = 0, 0, 0, 0
	d.cut, d.unfinished = nil, false
	return same
}

// emptied returns a list without its items, and without their memory if that is large.
func emptied[T any](list []T) []T {
	if cap(list) > mostValuesKept {
		return nil
	}
	return list[:0]
}

// Unfinished reports whether the container that the handler got is truncated by the end of the file.
func (d *Decoder) Unfinished() bool { return d.unfinished }

// Decode reads the pickle and returns its value. If the pickle ends early, Decode passes
// the incomplete containers to the handler and returns the value so far, with an error
// that wraps ErrTruncated. Errors of the pickle are of type *Error.
func (d *Decoder) Decode() (Value, error) {
	err := d.run()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		at := d.base + int64(d.end)
		v, unwound := d.unwind()
		if unwound != nil {
			return 0, unwound
		}
		return v, fmt.Errorf("byte %d: %w", at, ErrTruncated)
	}
	if err != nil {
		return 0, err
	}
	top := d.stack[len(d.stack)-1:]
	if err := d.settleAll(top); err != nil {
		return 0, err
	}
	return top[0], nil
}

func (d *Decoder) errorf(format string, args ...any) error {
	return &Error{Msg: fmt.Sprintf("byte %d: %s", d.opAt, fmt.Sprintf(format, args...))}
}

// more makes at least n bytes available in the window. It fails with io.ErrUnexpectedEOF at the end of the input.
func (d *Decoder) more(n int) error {
	if d.end-d.pos >= n {
		return nil
	}
	copy(d.buf, d.buf[d.pos:d.end])
	d.base += int64(d.pos)
	d.end -= d.pos
	d.pos = 0
	for d.end < n {
		if d.readErr == io.EOF {
			return io.ErrUnexpectedEOF
		} else if d.readErr != nil {
			return d.readErr
		}
		var m int
		m, d.readErr = d.r.Read(d.buf[d.end:])
		d.end += m
	}
	return nil
}

// take returns the next n bytes, n <= windowSize, which are valid until the next read.
func (d *Decoder) take(n int) ([]byte, error) {
	if err := d.more(n); err != nil {
		return nil, err
	}
	b := d.buf[d.pos : d.pos+n]
	d.pos += n
	return b, nil
}

// long returns the next n bytes. It allocates for the bytes that it reads, not for n.
func (d *Decoder) long(n uint64) ([]byte, error) {
	if n > maxText {
		return nil, d.errorf("a string of %d bytes; the limit is %d", n, maxText)
	}
	if n <= windowSize {
		return d.take(int(n))
	}
	var b []byte
	for left := int(n); left > 0; {
		piece, err := d.take(min(left, windowSize))
		if err != nil {
			return nil, err
		}
		b = append(b, piece...)
		left -= len(piece)
	}
	return b, nil
}

// line returns the text up to the next newline, valid until the next read.
func (d *Decoder) line() ([]byte, error) {
	for searched := 0; ; {
		if i := bytes.IndexByte(d.buf[d.pos+searched:d.end], '\n'); i >= 0 && searched+i <= maxLine {
			line := d.buf[d.pos : d.pos+searched+i]
			d.pos += searched + i + 1
			return line, nil
		}
		if searched = d.end - d.pos; searched > maxLine {
			return nil, d.errorf("a line of more than %d bytes", maxLine)
		}
		if err := d.more(searched + 1); err != nil {
			return nil, err
		}
	}
}

func (d *Decoder) text(b []byte) Value {
	id, ok := d.strIDs[string(b)]
	if !ok {
		id = len(d.strs)
		d.chars += len(b)
		d.strs = append(d.strs, string(b))
		d.strIDs[d.strs[id]] = id
	}
	return value(Str, id)
}

func (d *Decoder) number(n int64) Value {
	if v := value(Int, int(n)); v.Int() == n {
		return v
	}
	return d.bigNumber(big.NewInt(n))
}

func (d *Decoder) bigNumber(n *big.Int) Value {
	d.wide = append(d.wide, n)
	return value(Wide, len(d.wide)-1)
}

func (d *Decoder) float(f float64) Value {
	d.floats = append(d.floats, f)
	return value(Float, len(d.floats)-1)
}

func (d *Decoder) push(v Value) { d.stack = append(d.stack, v) }

// floor is the minimum height of the stack: the height of the last mark.
func (d *Decoder) floor() int {
	if n := len(d.marks); n > 0 {
		return d.marks[n-1]
	}
	return 0
}

// pop removes the top n values and returns them, valid until the next push.
func (d *Decoder) pop(n int) ([]Value, error) {
	if len(d.stack)-n < d.floor() {
		return nil, d.errorf("the stack is empty")
	}
	top := d.stack[len(d.stack)-n:]
	d.stack = d.stack[:len(d.stack)-n]
	return top, nil
}

// popMark removes the values above the last mark, and the mark.
func (d *Decoder) popMark() ([]Value, error) {
	n := len(d.marks)
	if n == 0 {
		return nil, d.errorf("no mark is set")
	}
	at := d.marks[n-1]
	d.marks = d.marks[:n-1]
	top := d.stack[at:]
	d.stack = d.stack[:at]
	return top, nil
}

func (d *Decoder) top() (Value, error) {
	if len(d.stack) <= d.floor() {
		return 0, d.errorf("the stack is empty")
	}
	return d.stack[len(d.stack)-1], nil
}

// put stores the top value in the memo. The index cannot exceed the bytes read so far,
// as Python numbers memo entries one by one.
func (d *Decoder) put(i uint64) error {
	v, err := d.top()
	if err != nil {
		return err
	}
	if i > uint64(d.opAt) || i >= maxIndex {
		return d.errorf("memo index %d after %d bytes", i, d.opAt)
	}
	// 0 means an unset entry, so None (kind 0) is spilled too.
	packed := uint32(v)
	if Value(packed) != v || packed == 0 {
		if len(d.spilled) >= maxIndex {
			return d.errorf("more than %d memo entries", maxIndex)
		}
		packed = uint32(value(spill, len(d.spilled)))
		d.spilled = append(d.spilled, v)
	}
	entry := d.memo.make(int(i))
	if *entry == 0 {
		d.memo.n++
	} else {
		d.repeats.forget()
	}
	*entry = packed
	return nil
}

func (d *Decoder) get(i uint64) error {
	v, ok := d.recall(i)
	if !ok {
		return d.errorf("memo entry %d is not set", i)
	}
	d.push(v)
	return nil
}

// recall returns a value of the memo. If a record replaced it, recall stores the record
// in the memo: snapshots contain millions of references to a few frames.
func (d *Decoder) recall(i uint64) (v Value, ok bool) {
	entry := d.memo.find(i)
	if entry == nil || *entry == 0 {
		return 0, false
	}
	switch v = Value(*entry); {
	case !v.container():
		return v, true
	case v.Kind() == spill:
		return d.spilled[v.index()], true
	}
	if o := *d.objects.at(v.index()); o.state() >= records {
		v = NewRecord(o.state()-records, o.index())
		if Value(uint32(v)) == v {
			*entry = uint32(v)
		}
	}
	return v, true
}

const pageLen = 4096

// paged is a list that grows in pages. It never copies its entries, and two distant
// entries cost two pages. Its users maintain n.
type paged[T any] struct {
	pages []*[pageLen]T
	n     int
}

// reset removes all entries. It leaves what their pages contain.
func (p *paged[T]) reset() {
	if p.n = 0; len(p.pages)*pageLen > mostValuesKept {
		p.pages = nil
	}
}

// at returns an existing entry.
func (p *paged[T]) at(i int) *T { return &p.pages[uint(i)/pageLen][uint(i)%pageLen] }

// find returns an entry, or nil if its page does not exist.
func (p *paged[T]) find(i uint64) *T {
	if i/pageLen >= uint64(len(p.pages)) || p.pages[i/pageLen] == nil {
		return nil
	}
	return p.at(int(i))
}

// make returns an entry, and creates its page if necessary.
func (p *paged[T]) make(i int) *T {
	for len(p.pages) <= i/pageLen {
		p.pages = append(p.pages, nil)
	}
	if p.pages[i/pageLen] == nil {
		p.pages[i/pageLen] = new([pageLen]T)
	}
	return p.at(i)
}
