package scan

import (
	"bytes"
	"slices"
)

const (
	maxPath   = 1 << 10 // maximum length of a key; longer ones are skipped
	maxNested = 32      // maximum nesting; deeper values are skipped
	maxKeys   = 1 << 10 // number of keys that are checked for duplicates
)

// topObject reads the rest of the top-level object from index i, and returns the index after its end.
func (s *scanner) topObject(i int) int {
	for {
		next := s.members(i)
		if next != broken {
			s.cut = s.cut || next == ended && !s.finished
			return next
		}
		s.count(Damaged, s.at)
		if i = s.resync(s.at, true); i < 0 {
			return i
		}
		s.path = s.path[:0]
		if s.b[i] != '"' {
			if i = s.array(i, false); i < 0 {
				return i
			}
			if i, _ = s.comma(i); i == ended {
				s.cut = true
				return i
			} else if i == broken {
				i = s.at
			}
		}
	}
}

// members reads the members of the top-level object and of the objects in it.
func (s *scanner) members(i int) int {
	var stack [maxNested]int // lengths of path
	depth, comma := 0, false
	s.path = s.path[:0]
	for {
		if i = s.ws(i); i < 0 {
			return i
		}
		base := len(s.path)
		if s.b[i] == '}' {
			if comma {
				s.count(TrailingComma, i)
			}
			i++
			if depth == 0 {
				s.hasBegun = true
				return i
			}
			depth--
			s.path = s.path[:stack[depth]]
			if i, comma = s.comma(i); i < 0 {
				return i
			}
			continue
		}
		key, next := s.anyKey(&s.scratch, i)
		if next < 0 {
			return next
		}
		s.pushKey(key, next, depth > 0)
		if i = s.colon(next); i < 0 {
			return i
		}
		if s.b[i] == '{' && depth < maxNested && len(s.path) < maxPath {
			stack[depth] = base
			depth++
			i++
			comma = false
			continue
		}
		if i = s.headerValue(i, depth == 0); i < 0 {
			return i
		}
		s.path = s.path[:base]
		if i, comma = s.comma(i); i < 0 {
			return i
		}
	}
}

// pushKey adds a key to the path and counts duplicates. It replaces dots in the key,
// so that "a.b" differs from "b" in "a".
func (s *scanner) pushKey(raw []byte, next int, nested bool) {
	if nested {
		s.path = append(s.path, '.')
	}
	for _, c := range raw[:min(len(raw), maxPath)] {
		if c == '.' {
			c = 0
		}
		s.path = append(s.path, c)
	}
	switch {
	case len(raw) > maxPath: // truncated
	case s.keys[string(s.path)]:
		s.count(DuplicateKey, next-len(raw)-2)
	case len(s.keys) < maxKeys:
		s.keys[string(s.path)] = true
	}
}

// headerValue reads a value that is not an object, or that nests too deep.
func (s *scanner) headerValue(i int, top bool) int {
	switch c := s.b[i]; {
	case c == '[' && top && string(s.path) == "traceEvents":
		s.hasBegun = true
		return s.array(i+1, false)
	case c == '[':
		return s.headerArray(i)
	case c == '{' || len(s.path) > maxPath:
		return s.skip(i)
	}
	return s.headerScalar(i)
}

// headerArray reads the scalars of an array.
func (s *scanner) headerArray(i int) int {
	s.path = append(s.path, "[]"...)
	comma := false
	i++
	for {
		if i = s.ws(i); i < 0 {
			return i
		}
		switch s.b[i] {
		case ']':
			if comma {
				s.count(TrailingComma, i)
			}
			return i + 1
		case '{', '[':
			i = s.skip(i)
		default:
			i = s.headerScalar(i)
		}
		if i < 0 {
			return i
		}
		if i = s.ws(i); i < 0 {
			return i
		}
		switch s.b[i] {
		case ',':
			comma = true
			i++
		case ']':
			comma = false
		case '}', ':':
			return s.fail(i, ',')
		default:
			s.count(MissingComma, i)
			comma = false
		}
	}
}

// headerScalar reads a scalar and passes it to Handler.Header.
func (s *scanner) headerScalar(i int) int {
	var text []byte
	var next int
	if s.b[i] == '"' {
		text, next = s.text(&s.scratch, i)
	} else if text, next = s.bare(i); next >= 0 && s.classify(text, next) == isNaN {
		return next
	}
	if next < 0 {
		return next
	}
	s.hasBegun = true
	if s.h.Header != nil {
		n, _ := wholeNumber(text)
		s.h.Header(string(s.path), text, n)
	}
	return next
}

// wholeNumber returns the value of a text that is a whole number of up to 64 bits.
func wholeNumber(text []byte) (int64, bool) {
	d, ok := parseDecimal(bytes.TrimSpace(text))
	if v, exact, fits := d.scaled(0); ok && exact && fits {
		return signed(d.neg, v)
	}
	return 0, false
}

// Sniff reports whether head may begin a trace: an object with a key that traces
// have, an array of objects, or an array of arrays of numbers.
func Sniff(head []byte) bool {
	head = bytes.TrimPrefix(head, byteOrderMark)
	head = bytes.TrimLeft(head, " \t\r\n")
	if len(head) == 0 {
		return false
	}
	rest := bytes.TrimLeft(head[1:], " \t\r\n")
	switch head[0] {
	case '[':
		if len(rest) == 0 {
			return false
		}
		if rest[0] != '[' {
			return rest[0] == '{'
		}
		rest = bytes.TrimLeft(rest[1:], " \t\r\n")
		return len(rest) > 0 && (rest[0] >= '0' && rest[0] <= '9' || rest[0] == '-' || rest[0] == ']' || rest[0] == '[')
	case '{':
		if len(rest) > 0 && rest[0] != '"' || bytes.Contains(head, []byte(`"memlane/`)) {
			return false
		}
		return hasKey(head, `"ph"`) || slices.ContainsFunc(headerKeys, func(key string) bool { return hasKey(head, key) })
	}
	return false
}

// hasKey reports whether b contains a quoted key and a colon after it.
func hasKey(b []byte, key string) bool {
	for {
		_, rest, ok := bytes.Cut(b, []byte(key))
		if !ok {
			return false
		}
		if b = bytes.TrimLeft(rest, " \t\r\n"); len(b) > 0 && b[0] == ':' {
			return true
		}
	}
}
