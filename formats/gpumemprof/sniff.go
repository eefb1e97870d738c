package gpumemprof

import (
	"bytes"
	"encoding/json"
)

// Sniff reports whether head may begin a file of gpumemprof: a list, or an object with one, whose first record
// is a result or an event. A list alone may be empty, if nothing was called.
func Sniff(head []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(head))
	switch t, _ := dec.Token(); t {
	case json.Delim('['):
		if dec.More() {
			return sniffRecord(dec)
		}
		_, err := dec.Token()
		return err == nil && len(bytes.TrimSpace(head[dec.InputOffset():])) == 0
	case json.Delim('{'):
		return sniffObject(dec)
	}
	return false
}

// sniffObject searches head for a list of records. An empty list counts if there is no other.
func sniffObject(dec *json.Decoder) bool {
	empty := false
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			break
		}
		value, err := dec.Token()
		switch {
		case err != nil:
			return empty
		case !isList(key) || value != json.Delim('['):
			err = skipRest(dec, value)
		case dec.More():
			return sniffRecord(dec)
		default:
			_, err = dec.Token()
			empty = empty || err == nil
		}
		if err != nil {
			break
		}
	}
	return empty
}

// sniffRecord reports whether the next value is a record by its keys.
func sniffRecord(dec *json.Decoder) bool {
	if t, _ := dec.Token(); t != json.Delim('{') {
		return false
	}
	result, event := 0, 0
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			break
		}
		switch key {
		case "function_name", "execution_time", "memory_before":
			result++
		case "device_used_bytes", "allocator_reserved_bytes", "allocator_allocated_bytes":
			event++
		}
		if result == 2 || event == 1 {
			return true
		}
		value, err := dec.Token()
		if err != nil || skipRest(dec, value) != nil {
			break
		}
	}
	return false
}
