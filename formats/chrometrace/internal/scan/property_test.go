package scan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/internal/race"
)

// TestAgainstEncodingJSON compares every field of random traces.
func TestAgainstEncodingJSON(t *testing.T) {
	if race.Enabled {
		t.Skip("takes minutes, in one goroutine")
	}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		data := []byte(randomTrace(r))
		if !json.Valid(data) {
			t.Fatalf("generator: %s", data)
		}
		if r.IntN(3) == 0 {
			var b bytes.Buffer
			json.Indent(&b, data, "", "  ")
			data = b.Bytes()
		}
		l := read(bytes.NewReader(data), 16+r.IntN(300))
		if l.err != nil || l.tol.Truncated {
			t.Fatal(l.err, l.tol)
		}
		for _, m := range l.tol.List {
			if m.Kind != StringNumber && m.Kind != BigNumber && m.Kind != BadNumber {
				t.Fatalf("seed %d tolerated %v", seed, m.Kind)
			}
		}
		events, _ := wantTrace(t, data)
		same(t, fmt.Sprintf("seed %d: event", seed), l.events, events)
	}
}

func randomTrace(r *rand.Rand) string {
	var events []string
	for range r.IntN(8) {
		events = append(events, randomEvent(r))
	}
	list := "[" + strings.Join(events, ", ") + "]"
	if r.IntN(3) == 0 && len(events) > 0 {
		return list
	}
	parts := []string{`"traceEvents": ` + list, `"schemaVersion": 1`, `"metadata": {"traceEvents": [{"ph":"X"}], "x": ` + randomValue(r, 3) + `}`}
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return "{" + strings.Join(parts, ", ") + "}"
}

func randomEvent(r *rand.Rand) string {
	keys := []string{"ph", "name", "cat", "pid", "tid", "ts", "dur", "id", "args", "s", "bp", "extra", "n\u00e4me", "id2"}
	phases := []string{"X", "C", "M", "i", "N", "s", ""}
	return randomObject(r, keys, func(key string) string {
		switch key {
		case "ph":
			return strconv.Quote(phases[r.IntN(len(phases))])
		case "args":
			return randomArgs(r)
		case "ts", "dur":
			return randomTime(r)
		}
		return randomValue(r, 1)
	})
}

func randomArgs(r *rand.Rand) string {
	keys := []string{"Bytes", "Total Allocated", "Total Reserved", "Device Type", "Device Id", "Sequence number", "Fwd thread id", "Python id", "Python parent id", "Python module id",
		"Ev Idx", "Addr", "CallFrom", "name", "Input Dims", "Input type", "size", "size_bytes", "bytes", "snapshot", "Concrete Inputs", "other", "External id"}
	return randomObject(r, keys, func(key string) string {
		switch {
		case key == "snapshot" && r.IntN(2) == 0:
			return randomObject(r, []string{"size", "bytes", "size_bytes", "name"}, func(string) string { return randomValue(r, 1) })
		case key == "Addr" && r.IntN(2) == 0:
			return strconv.FormatUint(r.Uint64(), 10)
		case key[0] >= 'a' || key == "CallFrom" || key[0] == 'I' || r.IntN(4) == 0:
			return randomValue(r, 3)
		}
		return strconv.FormatInt(int64(r.Uint64())>>r.IntN(64), 10)
	})
}

func randomObject(r *rand.Rand, keys []string, value func(key string) string) string {
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	var b strings.Builder
	b.WriteString("{")
	for i, key := range keys[:r.IntN(len(keys)+1)] {
		if i > 0 {
			b.WriteString([]string{",", ", ", ",\n    ", "\r\n,\t"}[r.IntN(4)])
		}
		quoted := strconv.Quote(key)
		if r.IntN(30) == 0 {
			quoted = fmt.Sprintf(`"\u%04x%s`, key[0], quoted[2:])
		}
		b.WriteString(quoted + []string{":", ": ", " : "}[r.IntN(3)] + value(key))
	}
	return b.String() + []string{"}", " }", "\n  }"}[r.IntN(3)]
}

func randomTime(r *rand.Rand) string {
	switch r.IntN(8) {
	case 0:
		return strconv.FormatFloat(r.NormFloat64()*1e15, 'g', -1, 64)
	case 1:
		return fmt.Sprintf("%d.%d", r.IntN(1e9), r.IntN(1e9))
	case 2:
		return fmt.Sprintf("-%d.%03d", r.IntN(1e9), r.IntN(1000))
	case 3:
		return fmt.Sprintf("%d", r.Uint64())
	case 4:
		return fmt.Sprintf("%d.%dE%+d", r.IntN(10), r.IntN(1e6), r.IntN(30)-10)
	case 5:
		return randomValue(r, 1)
	}
	return fmt.Sprintf("%d.%03d", r.Int64N(1e16), r.IntN(1000))
}

func randomValue(r *rand.Rand, depth int) string {
	switch k := r.IntN(12); {
	case k < 4:
		return randomString(r)
	case k < 6:
		return strconv.Itoa(r.IntN(2000) - 1000)
	case k == 6:
		return strconv.FormatFloat(r.NormFloat64()*1e3, 'f', r.IntN(9), 64)
	case k == 7:
		return []string{"null", "true", "false", `"0"`, `"-17.0"`}[r.IntN(5)]
	case depth == 0:
		return "0"
	case k < 10:
		var list []string
		for range r.IntN(5) {
			list = append(list, randomValue(r, depth-1))
		}
		return "[" + strings.Join(list, []string{",", ", "}[r.IntN(2)]) + "]"
	default:
		return randomObject(r, []string{"a", "b", "size", "name", "traceEvents"}, func(string) string { return randomValue(r, depth-1) })
	}
}

func randomString(r *rand.Rand) string {
	parts := []string{"a", "aten::empty", `\"`, `\\`, `\n`, `\u00e9`, `\ud83d\ude00`, "é", "😀", "[", "}", ",", " ", "/usr/lib/python3/x.py(12): f", `\/`, `{\"ph\"`}
	var b strings.Builder
	for range r.IntN(6) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return `"` + b.String() + `"`
}

func TestEventsCostNoAllocations(t *testing.T) {
	small, large := trace(1<<20), trace(4<<20)
	allocs := func(data []byte) float64 {
		return testing.AllocsPerRun(5, func() {
			if _, err := Scan(bytes.NewReader(data), Handler{Event: func(*Event) {}}); err != nil {
				t.Fatal(err)
			}
		})
	}
	// More windows split a few more texts.
	if a, b := allocs(small), allocs(large); b > a+20 {
		t.Errorf("%v allocations, and %v for four times the events", a, b)
	}
}

func FuzzScan(f *testing.F) {
	for _, d := range dialects {
		if len(d.in) < 1000 {
			f.Add([]byte(d.in), uint16(3))
		}
	}
	f.Add([]byte(`[[1,2,[3]],[[4.5]]]`), uint16(9))
	f.Add(trace(2000), uint16(100))
	for _, data := range nativetest.Contents(f, "../../../../testdata/chrome/*.json.gz") {
		f.Add(data[:min(len(data), 4<<10)], uint16(200))
	}
	f.Fuzz(func(t *testing.T, data []byte, window uint16) {
		Sniff(data)
		want := read(bytes.NewReader(data), windowSize)
		have := read(&chunks{data, rand.New(rand.NewPCG(1, uint64(window)))}, 1+int(window)%1000)
		if have.String() != want.String() {
			t.Fatalf("in pieces:\n%s\nas a whole:\n%s", have, want)
		}
		if !jsontext.Value(data).IsValid() || bytes.IndexAny(bytes.TrimSpace(data)[:1], "{[") != 0 {
			return
		}
		if want.err != nil || want.tol.Truncated {
			t.Fatalf("valid JSON: %v, truncated %v", want.err, want.tol.Truncated)
		}
		whole := true
		for _, m := range want.tol.List {
			switch m.Kind {
			case StringNumber, BadNumber, BigNumber:
			case NotAnEvent, LongString, TooMany, NotANumber:
				whole = false
			default:
				t.Fatalf("tolerated %v in valid JSON", m.Kind)
			}
		}
		if whole && len(want.rows) == 0 {
			events, _ := wantTrace(t, data)
			same(t, "event", want.events, events)
		}
	})
}

// chunks is a reader that returns its data in small pieces.
type chunks struct {
	data []byte
	r    *rand.Rand
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.data[:min(len(c.data), 1+c.r.IntN(9))])
	c.data = c.data[n:]
	return n, nil
}
