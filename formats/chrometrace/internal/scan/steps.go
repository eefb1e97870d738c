package scan

import (
	"bytes"
	"encoding/binary"
	"math"
)

// Programs write all events of a kind in the same form: the text between two values,
// which contains the key, is the same every time. So scanner remembers these texts and
// compares the input with them. It reads only unknown texts byte by byte.

const (
	maxSteps = 256 // per level
	maxStep  = 96  // bytes
	maxNext  = 4   // known steps after each step
)

// step is the text from the end of a value to the next value in the same object, such
// as `, "pid": `, or to the end of the object.
type step struct {
	text []byte
	f    field // of its key, or closing
	next [maxNext]*step

	// The first and the last eight bytes of the text, which cover most texts. mask selects the bytes of a shorter text.
	head, tail, mask uint64
	end              int // index of the tail
}

func newStep(text []byte, f field) *step {
	st := &step{text: text, f: f, mask: math.MaxUint64, end: max(len(text)-8, 0)}
	if len(text) < 8 {
		st.mask = 1<<(8*len(text)) - 1
	}
	var word [8]byte
	copy(word[:], text)
	st.head = binary.LittleEndian.Uint64(word[:])
	copy(word[:], text[st.end:])
	st.tail = binary.LittleEndian.Uint64(word[:])
	return st
}

// matches reports whether b, which is longer than the text, begins with it.
func (st *step) matches(b []byte) bool {
	head, tail := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[st.end:])
	if ((head^st.head)|(tail^st.tail))&st.mask != 0 {
		return false
	}
	return st.end <= 8 || bytes.Equal(b[8:st.end], st.text[8:st.end])
}

// follow returns the known step at index i that follows another step, or nil. A value
// must follow it, unless it ends the object.
func (s *scanner) follow(after *step, i int) *step {
	for k, st := range &after.next {
		if st == nil {
			break
		}
		if end := i + len(st.text); end+8 < len(s.b) && st.matches(s.b[i:]) && (s.b[end] > ' ' || st.f == closing) {
			if k > 0 { // the same step usually comes next time
				after.next[k], after.next[k-1] = after.next[k-1], st
			}
			return st
		}
	}
	return nil
}

// learn stores a step that follows another one, and returns it.
func (s *scanner) learn(after *step, text []byte, f field) *step {
	known := s.steps[s.level].known
	st := known[string(text)]
	if st == nil {
		if len(text) > maxStep || len(known) == maxSteps {
			return &s.steps[s.level].unknown
		}
		st = newStep(bytes.Clone(text), f)
		known[string(text)] = st
	}
	copy(after.next[1:], after.next[:])
	after.next[0] = st
	return st
}

// levelSteps are the steps in objects of a level. first, behind and unknown have no
// text: they lead to the steps after them.
type levelSteps struct {
	known   map[string]*step // by text
	first   step             // at the beginning of an object
	behind  step             // after an object of the next level
	unknown step             // after a text that is not stored
}
