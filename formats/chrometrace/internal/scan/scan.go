package scan

import (
	"bytes"
	"fmt"
	"io"
)

// Scan reads a trace. It fails if a read fails, or if the input is not a JSON trace.
// A read that fails with io.ErrUnexpectedEOF ends a truncated input.
func Scan(in io.Reader, h Handler) (Tolerated, error) {
	return scan(in, h, windowSize)
}

func scan(in io.Reader, h Handler, window int) (Tolerated, error) {
	s := &scanner{in: in, h: h, b: make([]byte, 0, window), keys: map[string]bool{}}
	for i := range s.steps {
		s.steps[i].known = map[string]*step{}
	}
	s.init()
	err := s.run()
	if s.err != nil {
		err = fmt.Errorf("at byte %d: %w", s.base+int64(len(s.b)), s.err)
	}
	t := Tolerated{Truncated: s.cut, End: s.base + int64(len(s.b))}
	for k, m := range s.met {
		if m.Kind = Kind(k); m.Count > 0 {
			t.List = append(t.List, m)
		}
	}
	return t, err
}

var byteOrderMark = []byte("\ufeff")

func (s *scanner) run() error {
	s.look(0, len(byteOrderMark))
	i := 0
	if bytes.HasPrefix(s.b, byteOrderMark) {
		s.count(ByteOrderMark, 0)
		i = len(byteOrderMark)
	}
	if i = s.ws(i); i < 0 {
		return fmt.Errorf("not a trace: the input is empty (byte %d)", s.base+int64(len(s.b)))
	}
	switch s.b[i] {
	case '{':
		i = s.topObject(i + 1)
	case '[':
		i = s.array(i+1, true)
	default:
		defer func() { s.b = s.b[:i] }() // for Tolerated.End
		return fmt.Errorf("not a trace: it begins with %q at byte %d, not with { or [", s.b[i:i+1], s.base+int64(i))
	}
	for i >= 0 {
		i = s.afterEnd(i)
	}
	if !s.hasBegun && s.met[Damaged].Count > 0 {
		return fmt.Errorf("not a trace: invalid JSON at byte %d", s.met[Damaged].First)
	}
	return nil
}

// afterEnd checks the text after the JSON. In damaged JSON, the end may have been a
// wrong one, and more events may follow: then it returns the index after them.
func (s *scanner) afterEnd(i int) int {
	if i = s.ws(i); i < 0 {
		return i
	}
	if s.met[Damaged].Count > 0 {
		if i = s.resync(i, false); i >= 0 {
			return s.array(i, false)
		}
		return i
	}
	s.count(Garbage, i)
	s.b = s.b[:i] // for Tolerated.End
	return ended
}

// array reads the rest of the event array from index i, and returns the index after
// its end. A bare array has no object around it, and may contain rows.
func (s *scanner) array(i int, bare bool) int {
	value, comma := false, false
	for {
		if i >= len(s.b) || s.b[i] <= ' ' {
			if i = s.ws(i); i < 0 {
				s.cut = true
				return i
			}
		}
		switch c := s.b[i]; {
		case c == ',':
			if !value {
				s.count(TrailingComma, i)
			}
			value, comma = false, true
			i++
			continue
		case c == ']':
			if comma && !value {
				s.count(TrailingComma, i)
			}
			s.hasBegun = true
			return i + 1
		case c == '}' && !bare:
			if i = s.missingBracket(i); i < 0 {
				return i
			}
			value, comma = false, false
			continue
		}
		if value {
			s.count(MissingComma, i)
		}
		if i, value = s.element(i, bare); i < 0 {
			return i
		}
		comma = false
	}
}

// element reads one value of the event array. whole is false if it is damaged: then
// next is the index of the next event.
func (s *scanner) element(i int, bare bool) (next int, whole bool) {
	offset := s.base + int64(i)
	c := s.b[i]
	switch {
	case c == '{':
		next = s.readEvent(i)
		if next >= 0 {
			s.hasBegun = true
			if s.h.Event != nil {
				s.h.Event(&s.ev)
			}
			return next, true
		}
	case c == '[' && bare:
		if next = s.rows(i); next >= 0 {
			s.hasBegun = true
			return next, true
		}
	default:
		if next = s.other(i); next >= 0 {
			s.countAt(NotAnEvent, offset)
			return next, true
		}
	}
	if next == broken {
		s.countAt(Damaged, offset)
		if c == '[' && bare {
			return s.resyncRows(s.at), false
		}
		return s.resync(s.at, false), false
	}
	s.cut = true
	s.countAt(Incomplete, offset)
	return next, false
}

// other skips a value that is not an event. It fails at a word that is not JSON: another
// program wrote text between the events.
func (s *scanner) other(i int) int {
	if class[s.b[i]] != letter {
		return s.skip(i)
	}
	token, next := s.bare(i)
	if next >= 0 && kindOf(token) == isWord {
		return s.fail(next, ',')
	}
	return next
}

// missingBracket reads a closing brace inside the event array. It closes the top-level
// object if the input ends after it. Otherwise it is damage.
func (s *scanner) missingBracket(i int) int {
	offset := s.base + int64(i)
	if i = s.ws(i + 1); i < 0 {
		s.countAt(MissingBracket, offset)
		s.finished = true
		return i
	}
	s.countAt(Damaged, offset)
	s.prev = ','
	return s.resync(i, false)
}
