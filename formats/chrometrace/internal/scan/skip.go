package scan

import "encoding/binary"

// maxDepth is the maximum nesting of values.
const maxDepth = 1 << 16

// skip checks the structure of the value at index i, and returns the index after it.
func (s *scanner) skip(i int) int {
	switch s.b[i] {
	case '"':
		raw, next, f := s.str(i)
		if f != 0 && next >= 0 {
			s.check(raw, f, next)
		}
		return next
	case '{', '[':
		return s.skipNested(i)
	}
	if next := quickNumber(s.b, i); next >= 0 {
		return next
	}
	return s.word(i)
}

// skipNested is skip for arrays and objects. It keeps a bit per open bracket
// and does not recurse.
func (s *scanner) skipNested(i int) int {
	var (
		depth  = 0
		object = false // the innermost open value is an object
		comma  = false
		b      = s.b
	)
value:
	for {
		if i < len(b) && b[i] == ' ' { // usual after a comma
			i++
		}
		if i >= len(b) || b[i] <= ' ' {
			if i = s.ws(i); i < 0 {
				return i
			}
			b = s.b
		}
		switch c := b[i]; c {
		case '"':
			if n := shortString(b, i+1); n >= 0 {
				i += n + 2
				break
			}
			if end, f := quote(b, i+1); end >= 0 && f == 0 && end-i <= maxString {
				i = end + 1
				break
			}
			if i = s.skip(i); i < 0 {
				return i
			}
			b = s.b
		case '{', '[':
			if c == '[' && i+1 < len(b) && b[i+1] == ']' && depth > 0 {
				i += 2
				break
			}
			if depth == maxDepth {
				return s.fail(i, ':')
			}
			if depth>>6 == len(s.stack) {
				s.stack = append(s.stack, 0)
			}
			object = c == '{'
			if object {
				s.stack[depth>>6] |= 1 << (depth & 63)
			} else {
				s.stack[depth>>6] &^= 1 << (depth & 63)
			}
			depth++
			i++
			comma = false
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
			if next := quickNumber(b, i); next >= 0 {
				i = next
				break
			}
			if i = s.word(i); i < 0 {
				return i
			}
			b = s.b
		}
	after:
		if i >= len(b) || b[i] <= ' ' {
			if i = s.ws(i); i < 0 {
				return i
			}
			b = s.b
		}
		switch c := b[i]; {
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
		if i >= len(b) || b[i] <= ' ' {
			if i = s.ws(i); i < 0 {
				return i
			}
			b = s.b
		}
		switch b[i] {
		case '"':
			if i = s.skip(i); i < 0 {
				return i
			}
			b = s.b
		case '}':
			if comma {
				s.count(TrailingComma, i)
			}
			goto closing
		default:
			if _, i = s.bareKey(i); i < 0 {
				return i
			}
			b = s.b
		}
		if i < len(b) && b[i] == ':' {
			i++
		} else {
			if i = s.colon(i); i < 0 {
				return i
			}
			b = s.b
		}
		continue value
	}
}

// oneLine reports whether text contains no line breaks or other control characters.
func oneLine(text []byte) bool {
	for ; len(text) >= 8; text = text[8:] {
		x := binary.LittleEndian.Uint64(text)
		if (x-ones*' ')&^x&highs != 0 {
			return false
		}
	}
	for _, c := range text {
		if c < ' ' {
			return false
		}
	}
	return true
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
