package scan

import (
	"bytes"
	"slices"
)

// lookahead is how many bytes resync examines, whatever the size of the window.
const lookahead = 512

// resync returns the index of the next event after damage at index i, or of the bracket that ends the event array, or
// with header of the key traceEvents. It returns ended if there is none.
//
// An event is an object that has an event's key and does not follow a colon, which excludes args. Quotes have no
// meaning here, as i may be inside a string. In a valid string no quote follows a brace.
func (s *scanner) resync(i int, header bool) int {
	prev := s.prev
	var last byte
	for {
		b := s.b
		for ; i < len(b); i++ {
			c := b[i]
			switch c {
			case '{', ']', '"':
				if c == '{' && prev == ':' || c == '"' && !header {
					break
				}
				if len(b)-i < lookahead {
					i = s.look(i, lookahead)
					b = s.b
				}
				rest := b[i:min(len(b), i+lookahead)]
				if c == '{' && looksEvent(rest) || c == ']' && looksEnd(rest, len(rest) < lookahead) || c == '"' && looksArray(rest) {
					return i
				}
			case ',', '}', '[', ':':
			default:
				continue
			}
			if c != '"' {
				prev = c
			}
		}
		if text := bytes.TrimRight(b, " \t\r\n"); len(text) > 0 {
			last = text[len(text)-1]
		}
		if !s.more(len(b)) {
			s.finished = last == ']' || last == '}'
			s.cut = s.cut || !s.finished
			return ended
		}
		i = 0
	}
}

// looksEvent reports whether the brace at the start of b begins an event.
func looksEvent(b []byte) bool {
	rest := bytes.TrimLeft(b[1:], " \t\r\n")
	if len(rest) == 0 || rest[0] != '"' {
		return len(rest) > 0 && rest[0] == '}'
	}
	end := bytes.IndexByte(rest[1:], '"')
	if end < 0 {
		return false
	}
	key, rest := rest[1:1+end], bytes.TrimLeft(rest[2+end:], " \t\r\n")
	if len(rest) == 0 || rest[0] != ':' {
		return false
	}
	switch fields[inEvent][string(key)] {
	case fieldPhase, fieldCat, fieldPID, fieldTID, fieldTS, fieldDur, fieldArgs:
		return true
	case fieldName, fieldID:
		// Other objects have these too.
		phase := bytes.Index(rest, []byte(`"ph"`))
		return phase >= 0 && bytes.IndexByte(rest[:phase], '}') < 0
	}
	return false
}

// looksEnd reports whether the bracket at the start of b ends the event array: the top-level object ends after it, or
// continues with a header key. all is set if the input ends with b.
func looksEnd(b []byte, all bool) bool {
	rest := bytes.TrimLeft(b[1:], " \t\r\n")
	if len(rest) == 0 {
		return all
	}
	first, rest := rest[0], bytes.TrimLeft(rest[1:], " \t\r\n")
	if first == '}' {
		return all && len(rest) == 0
	}
	return first == ',' && slices.ContainsFunc(headerKeys, func(key string) bool { return bytes.HasPrefix(rest, []byte(key)) })
}

// looksArray reports whether b begins with the key of the event array.
func looksArray(b []byte) bool {
	rest, isKey := bytes.CutPrefix(b, []byte(`"traceEvents"`))
	rest, isMember := bytes.CutPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(`:`))
	return isKey && isMember && bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(`[`))
}

// headerKeys are keys that only the top-level object has.
var headerKeys = []string{
	`"traceEvents"`, `"traceName"`, `"schemaVersion"`, `"displayTimeUnit"`, `"baseTimeNanoseconds"`,
	`"deviceProperties"`, `"computeProperties"`, `"distributedInfo"`, `"otherData"`, `"metadata"`,
	`"systemTraceEvents"`, `"controllerTraceDataKey"`, `"stackFrames"`, `"samples"`, `"trace_id"`,
}
