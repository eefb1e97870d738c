package scan

import (
	"errors"
	"io"
)

const (
	windowSize = 256 << 10
	windowMax  = 2 << 20 // more than a string of maxString needs
	maxString  = 1 << 20
)

// Results of parsing functions besides the index of the next byte.
const (
	ended  = -1 // the input ends, or cannot be read any further
	broken = -2 // the JSON is invalid at scanner.at
)

// scanner is a window over the input and the state of the parser.
//
// Parsing functions take and return indices into the window b. To get more input they call more with the index of the
// first byte that they still need, which then has index 0. more fills the whole window, so results do not depend on the
// size of single reads.
type scanner struct {
	in   io.Reader
	h    Handler
	b    []byte // the window
	base int64  // offset of b[0] in the input
	eof  bool
	err  error // read error, unless the input ended

	object    // the event that is being read
	steps     [levels]levelSteps
	stack     []uint64        // a bit per open bracket in skip: 1 for objects
	captured  capture         // the raw text of the skipped value
	scratch   []byte          // the text of unused strings
	at        int             // index of the damage, after broken
	prev      byte            // precedes the damage: ':' if a value is expected
	hasBegun  bool            // an event, row or header was read
	cut       bool            // the input ends before its JSON
	finished  bool            // the input ends where its JSON may end
	path      []byte          // key of the current header member
	keys      map[string]bool // of the header so far
	row       []int64
	met       [kinds]Toleration
	tolerated int // sum of met
}

// more drops the bytes before index i, which becomes 0, and fills the window. It reports whether it read any bytes. It
// moves the window in both cases, unless the end of the input was known before. The window grows, up to windowMax, if a
// single token fills it.
func (s *scanner) more(i int) bool {
	if s.eof {
		return false
	}
	s.captured.keep(s.b, i)
	s.spill()
	n := len(s.b) - i
	switch {
	case n < cap(s.b):
		copy(s.b[:n], s.b[i:])
	case n < windowMax:
		grown := make([]byte, n, 2*n)
		copy(grown, s.b)
		s.b = grown
	default:
		return false
	}
	s.b = s.b[:n]
	s.base += int64(i)
	for empty := 0; len(s.b) < cap(s.b) && !s.eof; {
		got, err := s.in.Read(s.b[len(s.b):cap(s.b)])
		s.b = s.b[:len(s.b)+got]
		if err == nil && got == 0 {
			if empty++; empty == 100 {
				err = io.ErrNoProgress
			}
		}
		if err != nil {
			s.eof = true
			if err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
				s.err = err
			}
		}
	}
	return len(s.b) > n
}

// look reads until the window contains n bytes from index i, or the input ends. It
// returns the new index of the first of them.
func (s *scanner) look(i, n int) int {
	for len(s.b)-i < n && !s.eof {
		s.more(i)
		i = 0
	}
	return i
}

// count counts a toleration at an index of the window.
func (s *scanner) count(k Kind, i int) { s.countAt(k, s.base+int64(i)) }

func (s *scanner) countAt(k Kind, offset int64) {
	if s.met[k].Count == 0 {
		s.met[k].First = offset
	}
	s.met[k].Count++
	s.tolerated++
}

// fail records the damage at index i and the byte before it, and returns broken.
func (s *scanner) fail(i int, prev byte) int {
	s.at, s.prev = i, prev
	return broken
}

// maxRaw is the maximum raw text of a value in bytes.
const maxRaw = 4 << 10

// capture collects the raw text of a value across windows.
type capture struct {
	on   bool
	from int    // in the window
	text []byte // of earlier windows
}

func (c *capture) keep(b []byte, i int) {
	if c.on {
		c.add(b[min(c.from, i):i])
		c.from = 0
	}
}

func (c *capture) add(b []byte) {
	c.text = append(c.text, b[:min(len(b), maxRaw+1-len(c.text))]...)
}

// end returns the text up to index i, or nil if it is longer than maxRaw.
func (c *capture) end(b []byte, i int) []byte {
	c.on = false
	text := b[c.from:i]
	if len(c.text) > 0 {
		c.add(text)
		text = c.text
	}
	if len(text) > maxRaw {
		return nil
	}
	return text
}
