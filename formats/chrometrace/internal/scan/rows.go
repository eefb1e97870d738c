package scan

import "bytes"

// maxRow is the maximum of numbers in one call of Row.
const maxRow = 4 << 10

// rows reads the array at index i and those in it, and passes their numbers to Row.
// Only arrays may nest here, so a counter of their depth is enough.
func (s *scanner) rows(i int) int {
	depth := 0
	value, comma := false, false // what precedes: a value, a comma
	nested := false              // the innermost array contained arrays
	given := false               // Row was called for it
	whole := true                // it contained only integers
	give := func() {
		if s.h.Row != nil {
			s.h.Row(s.row, whole)
		}
		s.row, given, whole = s.row[:0], true, true
	}
	for {
		if i >= len(s.b) || s.b[i] <= ' ' {
			if i = s.ws(i); i < 0 {
				return i
			}
		}
		c := s.b[i]
		if c != ',' && c != ']' && value {
			s.count(MissingComma, i)
		}
		switch {
		case c == ',':
			if !value {
				s.count(TrailingComma, i)
			}
			value, comma = false, true
			i++
			continue
		case c == '[':
			if len(s.row) > 0 || !whole {
				whole = false
				give()
			}
			if given && s.h.RowEnd != nil {
				s.h.RowEnd()
			}
			depth++
			i++
			value, comma, nested, given, whole = false, false, false, false, true
			continue
		case c == ']':
			if comma {
				s.count(TrailingComma, i)
			}
			if len(s.row) > 0 || !whole || !given && !nested {
				give()
			}
			if given && s.h.RowEnd != nil {
				s.h.RowEnd()
			}
			value, comma, nested, given, whole = true, false, true, false, true
			i++
			if depth--; depth == 0 {
				return i
			}
			continue
		case class[c] == number:
			v, next := quickInt(s.b, i)
			ok := next >= 0
			if !ok {
				if v, next, ok = s.rowNumber(i); next < 0 {
					s.row = s.row[:0]
					return next
				}
			}
			i = next
			whole = whole && ok && !nested
			if !ok {
				break
			}
			s.row = append(s.row, v)
			if len(s.row) == maxRow {
				give()
			}
		default:
			whole = false
			if i = s.skip(i); i < 0 {
				s.row = s.row[:0]
				return i
			}
		}
		value, comma = true, false
	}
}

// rowNumber reads any number. ok is false if it is not an integer.
func (s *scanner) rowNumber(i int) (v int64, next int, ok bool) {
	token, next := s.bare(i)
	if next < 0 || s.classify(token, next) != isNumber {
		return 0, next, false
	}
	v, ok = wholeNumber(token)
	return v, next, ok
}

// resyncRows returns the index of the next row after damage, or ended.
func (s *scanner) resyncRows(i int) int {
	for {
		if n := bytes.IndexByte(s.b[i:], '['); n >= 0 {
			return i + n
		}
		if !s.more(len(s.b)) {
			s.cut = true
			return ended
		}
		i = 0
	}
}
