package jaxprof_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/pprof/profile"
)

// withNames returns a profile of two buffers of 64 bytes made at a.py:1 on device 0, one of 32 bytes at a.py:1, and one of 64 at a.py:2 on
// device 1, with a text of names after it.
func withNames(t *testing.T, text string) []byte {
	t.Helper()
	fn := &profile.Function{ID: 1, Name: "f", SystemName: "f", Filename: "a.py"}
	line := func(n int64) *profile.Location {
		return &profile.Location{ID: uint64(n), Line: []profile.Line{{Function: fn, Line: n}}}
	}
	one, two := line(1), line(2)
	sample := func(at *profile.Location, count, bytes int64, device string) *profile.Sample {
		labels := map[string][]string{"kind": {"buffer"}, "device": {device}}
		return &profile.Sample{Location: []*profile.Location{at}, Value: []int64{count, bytes}, Label: labels}
	}
	p := profile.Profile{
		SampleType: []*profile.ValueType{{Type: "allocations", Unit: "count"}, {Type: "space", Unit: "bytes"}},
		Function:   []*profile.Function{fn}, Location: []*profile.Location{one, two},
		Sample: []*profile.Sample{sample(one, 2, 128, "gpu:0"), sample(one, 1, 32, "gpu:0"), sample(two, 1, 64, "gpu:1")},
	}
	var out bytes.Buffer
	if err := p.WriteUncompressed(&out); err != nil {
		t.Fatal(err)
	}
	field := binary.AppendUvarint(binary.AppendUvarint(out.Bytes(), 1000<<3|2), uint64(len(text)))
	return append(field, text...)
}

// entry is a named array of a test.
type entry struct {
	name, line    string
	device, bytes int64
}

func textOf(entries ...entry) string {
	table := map[string]any{"version": 1, "note": ""}
	texts, columns := []string{"", "variable"}, map[string][]int64{}
	add := func(column, text string) {
		texts = append(texts, text)
		columns[column] = append(columns[column], int64(len(texts)-1))
	}
	for i, e := range entries {
		stack := ""
		if e.line != "" {
			sum := sha256.Sum256([]byte(e.line + "\n"))
			stack = hex.EncodeToString(sum[:8])
		}
		add("stack", stack)
		add("name", e.name)
		for column, n := range map[string]int64{"kind": 1, "device": e.device, "bytes": e.bytes, "address": int64(i + 1)} {
			columns[column] = append(columns[column], n)
		}
	}
	table["texts"] = texts
	for column, numbers := range columns {
		table[column] = numbers
	}
	text, _ := json.Marshal(table)
	return string(text)
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		what, text string
		names      []string // of the buffers, sorted
		losses     string
	}{
		{"each buffer has one",
			textOf(entry{"a", "a.py:1", 0, 64}, entry{"b", "a.py:1", 0, 64}, entry{"c", "a.py:1", 0, 32}, entry{"d", "a.py:2", 1, 64}),
			[]string{"a", "b", "c", "d"}, ""},
		{"buffers of nobody", textOf(entry{"a", "a.py:1", 0, 64}), []string{"", "", "", "a"}, ""},
		{"more names than buffers",
			textOf(entry{"a", "a.py:1", 0, 32}, entry{"b", "a.py:1", 0, 32}, entry{"d", "a.py:2", 1, 64}),
			[]string{"", "", "", "d"}, "name-without-buffer 2 0 "},
		{"another size, device, line", textOf(entry{"a", "a.py:1", 0, 65}, entry{"b", "a.py:1", 2, 64}, entry{"c", "b.py:1", 0, 64}),
			[]string{"", "", "", ""}, "name-without-buffer 3 0 "},
		{"no stack", textOf(entry{"a", "", 0, 64}), []string{"", "", "", ""}, "name-without-buffer 1 0 array without a stack"},
		{"no text", "x", []string{"", "", "", ""}, "incomplete-record 1 0 names of tensors"},
	} {
		capture := mustRead(t, withNames(t, c.text))
		var names []string
		for _, s := range capture.Spaces {
			for i := range s.Buffers {
				name := ""
				if h := capture.HolderOf(s, i); h != nil {
					name = h.Name
				}
				names = append(names, name)
			}
		}
		slices.Sort(names)
		if got := fmt.Sprint(names, losses(capture)); got != fmt.Sprint(c.names, c.losses) {
			t.Errorf("%s: %s", c.what, got)
		}
	}
}
