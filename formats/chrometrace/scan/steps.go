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
	maxSteps = 512
	maxStep  = 96 // bytes of one
	maxNext  = 4  // steps that are remembered after one
)

// step is a text from the end of a value to the beginning of the next one in the
// same object, such as `, "pid": `.
type step struct {
	text []byte
	f    field // that the key in it means
	next [maxNext]uint16

	// The first eight bytes of the text and the last, those that there are: most
	// texts are no longer than both.
	head, tail, mask uint64
	end              int // of the tail's first byte
}

func newStep(text []byte, f field) step {
	st := step{text: text, f: f, mask: math.MaxUint64, end: max(len(text)-8, 0)}
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

// The first steps have no text: what follows them begins an object, or stands
// behind one.
const (
	atEvent = iota
	atArgs
	atSnapshot
	behindArgs
	behindSnapshot
	unknown   // and one for every level: behind a text that is not remembered
	firstStep = unknown + int(levels)
)

// follow returns the step after one, if that is what stands at index i and a
// value follows it; else 0.
func (s *scanner) follow(after uint16, i int) uint16 {
	next := &s.steps[after].next
	for k, n := range next {
		if n == 0 {
			break
		}
		st := &s.steps[n]
		if end := i + len(st.text); end+8 < len(s.b) && st.matches(s.b[i:]) && s.b[end] > ' ' {
			if k > 0 { // the next one is as a rule the same
				next[k], next[k-1] = next[k-1], n
			}
			return n
		}
	}
	return 0
}

// learn remembers a step after one, and returns it.
func (s *scanner) learn(after uint16, text []byte, f field) uint16 {
	unknown := unknown + uint16(s.level)
	if len(text) > maxStep {
		return unknown
	}
	known := s.known[s.level]
	n, ok := known[string(text)]
	if !ok {
		if len(s.steps) == maxSteps {
			return unknown
		}
		n = uint16(len(s.steps))
		s.steps = append(s.steps, newStep(bytes.Clone(text), f))
		known[string(text)] = n
	}
	next := &s.steps[after].next
	copy(next[1:], next[:])
	next[0] = n
	return n
}
