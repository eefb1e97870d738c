package scan

import (
	"encoding/binary"
	"slices"
)

// maxDepth is the maximum nesting of values.
const maxDepth = 1 << 16

// skip checks the structure of the value at index i, and returns the index after it.
func (s *scanner) skip(i int) int {
	switch s.b[i] {
	case '"':
		_, next := s.text(&s.scratch, i)
		return next
	case '{', '[':
		return s.skipNested(i)
	}
	return s.scalar(i)
}

// skipNested is skip for arrays and objects. It keeps a bit per open bracket and does not recurse.
func (s *scanner) skipNested(i int) int {
	var (
		depth  = 0
		object = false // the innermost open value is an object
		comma  = false
		closed = false
	)
	for {
		if i < len(s.b) && s.b[i] == ' ' { // usual after a comma
			i++
		}
		if i = s.skipSpace(i); i < 0 {
			return i
		}
		switch c := s.b[i]; c {
		case '"':
			i = s.skipString(i)
		case '{', '[':
			if c == '[' && i+1 < len(s.b) && s.b[i+1] == ']' && depth > 0 {
				i += 2
				break
			}
			if depth == maxDepth {
				return s.fail(i, ':')
			}
			object, comma = c == '{', false
			s.open(depth, object)
			depth++
			i++
			if object {
				goto key
			}
			continue
		case ']':
			if object || depth == 0 {
				return s.fail(i, ':')
			}
			if comma {
				s.count(TrailingComma, i)
			}
			goto closing
		default:
			i = s.scalar(i)
		}
		if i < 0 {
			return i
		}
	after:
		if i = s.skipSpace(i); i < 0 {
			return i
		}
		switch c := s.b[i]; {
		case c == ',':
			i++
			comma = true
			if object {
				goto key
			}
			continue
		case c == '}' && object || c == ']' && !object:
			goto closing
		case c == '"' && object:
			s.count(MissingComma, i)
			goto key
		case c == '"' || !object && (c == '{' || c == '[' || class[c] == number || class[c] == letter):
			s.count(MissingComma, i)
			comma = false
			continue
		}
		return s.fail(i, ',')

	closing:
		i++
		if depth--; depth == 0 {
			return i
		}
		object = s.stack[(depth-1)>>6]>>((depth-1)&63)&1 != 0
		goto after

	key:
		if i, closed = s.skipKey(i, comma); i < 0 {
			return i
		}
		if closed {
			goto closing
		}
	}
}

// open notes a bracket at a depth.
func (s *scanner) open(depth int, object bool) {
	if depth>>6 == len(s.stack) {
		s.stack = append(s.stack, 0)
	}
	if object {
		s.stack[depth>>6] |= 1 << (depth & 63)
	} else {
		s.stack[depth>>6] &^= 1 << (depth & 63)
	}
}

// skipSpace returns the index of the next byte that is not white space.
func (s *scanner) skipSpace(i int) int {
	if i >= len(s.b) || s.b[i] <= ' ' {
		return s.ws(i)
	}
	return i
}

// skipString is skip for strings, most of which need no check.
func (s *scanner) skipString(i int) int {
	if n := shortString(s.b, i+1); n >= 0 {
		return i + n + 2
	}
	if end, f := quote(s.b, i+1); end >= 0 && f == 0 && end-i <= maxString {
		return end + 1
	}
	return s.skip(i)
}

// scalar is skip for numbers and words.
func (s *scanner) scalar(i int) int {
	if next := quickNumber(s.b, i); next >= 0 {
		return next
	}
	token, next := s.bare(i)
	if next >= 0 {
		s.classify(token, next)
	}
	return next
}

// skipKey skips a key and its colon. closed reports that the object ends instead; the index is then that of its
// bracket. comma tells whether a comma came before.
func (s *scanner) skipKey(i int, comma bool) (next int, closed bool) {
	if i = s.skipSpace(i); i < 0 {
		return i, false
	}
	switch s.b[i] {
	case '"':
		i = s.skip(i)
	case '}':
		if comma {
			s.count(TrailingComma, i)
		}
		return i, true
	default:
		_, i = s.bareKey(i)
	}
	if i >= 0 && i < len(s.b) && s.b[i] == ':' {
		return i + 1, false
	}
	if i >= 0 {
		i = s.colon(i)
	}
	return i, false
}

// oneLine reports whether text contains no line breaks or other control characters.
func oneLine(text []byte) bool {
	for ; len(text) >= 8; text = text[8:] {
		x := binary.LittleEndian.Uint64(text)
		if (x-ones*' ')&^x&highs != 0 {
			return false
		}
	}
	return !slices.ContainsFunc(text, func(c byte) bool { return c < ' ' })
}

// appendCompact appends JSON without white space.
func appendCompact(dst, text []byte) []byte {
	quoted := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\' && i+1 < len(text):
			dst = append(dst, c)
			i++
			c = text[i]
		case c == '"':
			quoted = !quoted
		}
		if quoted || class[c] != space {
			dst = append(dst, c)
		}
	}
	return dst
}

func isDigit(c byte) bool { return c-'0' <= 9 }
