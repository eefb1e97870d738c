package scan

import (
	"bytes"
	"encoding/binary"
	"math"
)

// Programs write the events of a kind alike: the text between one value and the
// next, with the key in it, is the same every time. So it is remembered, and
// compared as a whole with what comes; only what is new is read byte by byte.

const (
	maxSteps = 256 // of a level
	maxStep  = 96  // bytes of one
	maxNext  = 4   // steps that are remembered after one
)

// step is a text from the end of a value to the beginning of the next one in the
// same object, such as `, "pid": `, or to the end of the object.
type step struct {
	text []byte
	f    field // that the key in it means, or closing
	next [maxNext]*step

	// The first eight bytes of the text and the last, those that there are: most
	// texts are no longer than both.
	head, tail, mask uint64
	end              int // of the tail's first byte
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

// matches reports whether the text stands at the start of b, which holds more.
func (st *step) matches(b []byte) bool {
	head, tail := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[st.end:])
	if ((head^st.head)|(tail^st.tail))&st.mask != 0 {
		return false
	}
	return st.end <= 8 || bytes.Equal(b[8:st.end], st.text[8:st.end])
}

// follow returns the step after one, if that is what stands at index i and, as
// it does not end the object, a value follows it; else nil.
func (s *scanner) follow(after *step, i int) *step {
	for k, st := range &after.next {
		if st == nil {
			break
		}
		if end := i + len(st.text); end+8 < len(s.b) && st.matches(s.b[i:]) && (s.b[end] > ' ' || st.f == closing) {
			if k > 0 { // the next one is as a rule the same
				after.next[k], after.next[k-1] = after.next[k-1], st
			}
			return st
		}
	}
	return nil
}

// learn remembers a step after one, and returns it.
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

// levelSteps is the steps in objects of a level.
type levelSteps struct {
	known   map[string]*step // by text
	first   step             // has no text: what follows it begins an object
	behind  step             // what follows it stands behind an object of the next level
	unknown step             // what follows it stands behind a text that is not remembered
}
