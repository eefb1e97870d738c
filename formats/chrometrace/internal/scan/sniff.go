package scan

import "bytes"

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
		for _, key := range headerKeys {
			if hasKey(head, key) {
				return true
			}
		}
		return hasKey(head, `"ph"`)
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
