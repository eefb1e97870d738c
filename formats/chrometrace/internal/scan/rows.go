package scan

import "bytes"

// maxRow is how many numbers Row is given at once.
const maxRow = 4 << 10

// rows reads the array at index i and those in it, and gives their numbers to
// Row. Arrays are all that may nest here, so their depth is a count.
func (s *scanner) rows(i int) int {
	depth := 0
	value, comma := false, false // what stands before: a value, a comma
	nested := false              // the innermost array held arrays
	given := false               // Row was called for it
	whole := true                // it held integers only
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
					return s.rowsBroken(next)
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
				return s.rowsBroken(i)
			}
		}
		value, comma = true, false
	}
}

// rowNumber reads a number that may be no integer, which is no damage.
func (s *scanner) rowNumber(i int) (v int64, next int, ok bool) {
	token, next := s.bare(i)
	if next < 0 {
		return 0, next, false
	}
	if s.tell(token, next) != isNumber {
		return 0, next, false
	}
	v, ok = wholeNumber(token)
	return v, next, ok
}

// rowsBroken gives up the rows that are being read.
func (s *scanner) rowsBroken(next int) int {
	s.row = s.row[:0]
	return next
}

// resyncRows returns the index of the next row after damage, ended when there
// is none.
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
