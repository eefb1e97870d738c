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

// What the parsing functions return instead of the index of the next byte.
const (
	ended  = -1 // the input ends, or cannot be read any further
	broken = -2 // it makes no sense at scanner.at
)

// scanner is a window over the input and what is being read in it.
//
// Parsing functions take and return indices into the window b. Whenever one
// needs more input, it calls more with the index of the first byte it still
// wants; that byte then has index 0. more fills the whole window, so nothing
// depends on how much a single read gives.
type scanner struct {
	in   io.Reader
	h    Handler
	b    []byte // what is in the window
	base int64  // offset of b[0] in the input
	eof  bool
	err  error // why reading ended, if not at the end

	object   // the event that is being read
	steps    [levels]levelSteps
	stack    []uint64        // a bit per open bracket in skip: 1 for objects
	captured capture         // the raw text of a value that is being skipped
	scratch  []byte          // the text of strings that nobody keeps
	at       int             // where it is broken
	prev     byte            // what stands before: ':' where a value is expected
	hasBegun bool            // something of use was read
	cut      bool            // the input ends before its JSON does
	finished bool            // the input ends, and so may its JSON
	path     []byte          // key of a header's member
	keys     map[string]bool // those of the header so far
	row      []int64
	met      [kinds]Toleration
	odd      int // how often anything was met
}

// more drops what stands before index i, which becomes 0, and fills the window.
// It reports whether there are more bytes than before; the move is made either
// way, unless the end of the input was known. The window grows only
// when a single token fills it, and only so far.
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

// look sees to it that n bytes from index i are in the window, if the input has
// as many, and returns the index that the first of them has then.
func (s *scanner) look(i, n int) int {
	for len(s.b)-i < n && !s.eof {
		s.more(i)
		i = 0
	}
	return i
}

// count notes one toleration at an index of the window.
func (s *scanner) count(k Kind, i int) { s.countAt(k, s.base+int64(i)) }

func (s *scanner) countAt(k Kind, offset int64) {
	if s.met[k].Count == 0 {
		s.met[k].First = offset
	}
	s.met[k].Count++
	s.odd++
}

// fail notes where it is broken, and what stands before that.
func (s *scanner) fail(i int, prev byte) int {
	s.at, s.prev = i, prev
	return broken
}

// maxRaw is how much raw text is kept of a value.
const maxRaw = 4 << 10

// capture collects the raw text of a value across windows.
type capture struct {
	on   bool
	from int    // in the window
	text []byte // of former windows
}

func (c *capture) start(i int) { c.on, c.from, c.text = true, i, c.text[:0] }

func (c *capture) keep(b []byte, i int) {
	if c.on {
		c.add(b[min(c.from, i):i])
		c.from = 0
	}
}

func (c *capture) add(b []byte) {
	c.text = append(c.text, b[:min(len(b), maxRaw+1-len(c.text))]...)
}

// end returns the text up to index i, nil when it is too long.
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
