//go:build unix

package scan

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpu returns the processor time of this program, or of its children, so far.
func cpu(who int) time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(who, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkScan reads all events of a generated trace. x-encoding/json and
// x-python-json are the processor times of encoding/json's Decoder and Python's
// json.load for the same bytes in the same run, divided by that of Scan.
func BenchmarkScan(b *testing.B) {
	data := trace(60_000_000)
	for _, layout := range []struct {
		name string
		data func() []byte
	}{{"indented", func() []byte { return data }}, {"compact", func() []byte {
		var c bytes.Buffer
		json.Compact(&c, data)
		return c.Bytes()
	}}} {
		b.Run(layout.name, func(b *testing.B) { benchmark(b, layout.data()) })
	}
}

func benchmark(b *testing.B, data []byte) {
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	events := 0
	handler := Handler{Event: func(*Event) { events++ }}
	before := cpu(syscall.RUSAGE_SELF)
	for b.Loop() {
		if t, err := Scan(bytes.NewReader(data), handler); err != nil || len(t.List) > 0 {
			b.Fatal(t, err)
		}
	}
	b.StopTimer()
	once := float64(cpu(syscall.RUSAGE_SELF)-before) / float64(b.N)
	b.ReportMetric(once/float64(events/b.N), "ns/event")
	before = cpu(syscall.RUSAGE_SELF)
	decode(b, data)
	b.ReportMetric(float64(cpu(syscall.RUSAGE_SELF)-before)/once, "x-encoding/json")
	if took := python(b, data); took > 0 {
		b.ReportMetric(float64(took)/once, "x-python-json")
	}
}

// decode reads a trace with encoding/json, one event at a time.
func decode(b *testing.B, data []byte) {
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		t, err := dec.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			b.Fatal(err)
		}
		if t != "traceEvents" {
			continue
		}
		dec.Token()
		for dec.More() {
			var e struct {
				Ph, Cat, Name string
				PID, TID      any
				TS, Dur       json.Number
				Args          struct {
					Bytes     int64
					Total     int64 `json:"Total Allocated"`
					Reserved  int64 `json:"Total Reserved"`
					Device    int64 `json:"Device Id"`
					Kind      int64 `json:"Device Type"`
					Addr      uint64
					EvIdx     int64           `json:"Ev Idx"`
					Parent    int64           `json:"Python parent id"`
					ID        int64           `json:"Python id"`
					Dims      json.RawMessage `json:"Input Dims"`
					InputType json.RawMessage `json:"Input type"`
				}
			}
			if err := dec.Decode(&e); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// python returns the processor time of json.load, 0 without Python.
func python(b *testing.B, data []byte) time.Duration {
	if _, err := exec.LookPath("python3"); err != nil {
		return 0
	}
	name := filepath.Join(b.TempDir(), "trace.json")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		b.Fatal(err)
	}
	out, err := exec.Command("python3", "-c", "import json,sys,time\nt=time.process_time()\njson.load(open(sys.argv[1]))\nprint(time.process_time()-t)", name).Output()
	if err != nil {
		return 0
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(seconds * float64(time.Second))
}
