package scan

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/race"
)

// captures returns the traces in testdata, and those in the folder MEMLANE_CAPTURES.
func captures(t testing.TB) map[string][]byte {
	patterns := []string{"../../../../testdata/chrome/*.json*"}
	if dir := os.Getenv("MEMLANE_CAPTURES"); dir != "" {
		patterns = append(patterns, dir+"/torch/*.json*", dir+"/public/chrome/*")
	}
	all := map[string][]byte{}
	for _, p := range patterns {
		names, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.Contains(name, ".stats.") && !strings.Contains(name, ".facts.") {
				all[name] = content(t, name)
			}
		}
	}
	if len(all) == 0 {
		t.Fatal("no captures")
	}
	return all
}

func content(t testing.TB, name string) []byte {
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if data, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

func TestCaptures(t *testing.T) {
	if race.Enabled {
		t.Skip("takes minutes, in one goroutine")
	}
	for name, data := range captures(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			l := read(bytes.NewReader(data), windowSize)
			if l.err != nil || len(l.tol.List) > 0 || l.tol.Truncated || l.tol.End != int64(len(data)) {
				t.Errorf("tolerated %+v, error %v", l.tol, l.err)
			}
			events, rows := wantTrace(t, data)
			same(t, "event", l.events, events)
			same(t, "row", l.rows, rows)
			if !Sniff(data[:min(len(data), 4096)]) {
				t.Error("not recognised")
			}
			t.Logf("%d events, %d rows", len(events), len(rows))
		})
	}
}

func same(t testing.TB, what string, have, want []string) {
	t.Helper()
	if len(have) != len(want) {
		t.Errorf("%d %ss, want %d", len(have), what, len(want))
	}
	for i := range min(len(have), len(want)) {
		if have[i] != want[i] {
			t.Fatalf("%s %d:\n%s\nwant\n%s", what, i, have[i], want[i])
		}
	}
}

func TestWindows(t *testing.T) {
	if race.Enabled {
		t.Skip("takes minutes, in one goroutine")
	}
	for name, data := range captures(t) {
		if len(data) > 1<<20 {
			continue
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			want := read(bytes.NewReader(data), windowSize)
			for _, window := range []int{16, 61, 257, 4096} {
				have := read(iotest.OneByteReader(bytes.NewReader(data)), window)
				if have.String() != want.String() {
					same(t, "event", have.events, want.events)
					t.Fatalf("another result with a window of %d", window)
				}
			}
		})
	}
}

// TestCut cuts a real trace at random bytes. Scan must keep exactly the events that are
// complete before the cut.
func TestCut(t *testing.T) {
	if race.Enabled {
		t.Skip("takes minutes, in one goroutine")
	}
	data := content(t, "../../../../testdata/chrome/t212_cpu_leak.json.gz")
	whole := read(bytes.NewReader(data), windowSize)
	ends := eventEnds(t, data)
	r := rand.New(rand.NewPCG(1, 2))
	for range deep.Or(250, 1000) {
		cut := r.IntN(len(data))
		l := read(bytes.NewReader(data[:cut]), windowSize)
		n, _ := slices.BinarySearch(ends, int64(cut+1))
		if !slices.Equal(l.events, whole.events[:n]) {
			t.Fatalf("cut at %d: %d events, want %d", cut, len(l.events), n)
		}
		if cut > 10 && (!l.tol.Truncated || l.err != nil) {
			t.Fatalf("cut at %d: not reported: %+v %v", cut, l.tol, l.err)
		}
		for _, m := range l.tol.List {
			if m.Kind != Incomplete || m.Count != 1 {
				t.Fatalf("cut at %d: %v", cut, l.tol)
			}
		}
	}
}

// eventEnds returns the offsets after the events, as encoding/json finds them.
func eventEnds(t *testing.T, data []byte) (ends []int64) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	for token, err := dec.Token(); token != "traceEvents"; token, err = dec.Token() {
		if err != nil {
			t.Fatal(err)
		}
	}
	dec.Token() // the bracket
	for dec.More() {
		var event json.RawMessage
		if err := dec.Decode(&event); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, dec.InputOffset())
	}
	return ends
}
