package gpumemprof_test

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/memlane/memlane/formats/gpumemprof"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
)

// recordsIn returns the number of records in a file's lists, counted by a strict parser; false if that parser
// rejects the file.
func recordsIn(data []byte) (n int64, ok bool) {
	var all any
	if json.Unmarshal(data, &all) != nil {
		return 0, false
	}
	switch all := all.(type) {
	case []any:
		n = int64(len(all))
	case map[string]any:
		for _, key := range []string{"results", "events", "input"} {
			if list, is := all[key].([]any); is {
				n += int64(len(list))
			}
		}
	}
	return n, true
}

// FuzzRead reads arbitrary input: no panic, bounded memory, and either one clear error or a model that passes
// Check and can be written. In valid JSON, every record is used or counted as lost.
func FuzzRead(f *testing.F) {
	for _, data := range nativetest.Contents(f, captures+"*.json") {
		f.Add(data)
	}
	for _, data := range nativetest.Contents(f, captures+"golden/*.json.gz") {
		f.Add(data[:min(len(data), 8<<10)])
	}
	f.Add([]byte("[" + result + "," + event + ",7,{}]"))
	f.Add([]byte(`{"results":[` + result + `],"x":[[{}]],"events":[` + event + `]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		gpumemprof.Sniff(data[:min(len(data), 4096)])
		var c *lifetime.Capture
		var err error
		nativetest.Bounded(t, len(data), 4<<20, 1500, func() { c, err = read(t, bytes.NewReader(data)) })
		if err != nil {
			return
		}
		nativetest.Text(t, c)
		records := int64(len(c.Calls)) + int64(len(c.Samples))
		for _, l := range c.Losses {
			if l.Reason == loss.IncompleteRecord {
				records += l.Count
			}
		}
		if want, ok := recordsIn(data); ok && records != want {
			t.Errorf("%d records are used or lost, the file has %d", records, want)
		}
	})
}
