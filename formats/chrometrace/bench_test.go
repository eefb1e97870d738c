//go:build unix

package chrometrace_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/memlimit"
	"github.com/memlane/memlane/lifetime/build"
)

// BenchmarkRead reads a trace of 200 MB from testdata/gen/big_trace.py into a Capture,
// plain and gzipped. x-python is the CPU time of Python's json.load for the same file
// divided by that of Open. x-gunzip is the CPU time of Open for the gzipped file divided
// by that of decompression alone. It needs python3.
func BenchmarkRead(b *testing.B) {
	plain := filepath.Join(b.TempDir(), "trace.json")
	if out, err := exec.Command("python3", "../../testdata/gen/big_trace.py", "200", plain).CombinedOutput(); err != nil {
		b.Skipf("python3 cannot make the input: %v %s", err, out)
	}
	packed := plain + ".gz"
	compress(b, plain, packed)
	peer := loadInPython(b, plain)
	memlimit.Pace() // as memlane does
	b.Run("plain", func(b *testing.B) {
		took := readFile(b, plain)
		b.ReportMetric(float64(peer)/float64(took), "x-python")
	})
	b.Run("gzip", func(b *testing.B) {
		before := used()
		decompress(b, packed)
		alone := used() - before
		b.ReportMetric(float64(readFile(b, packed))/float64(alone), "x-gunzip")
	})
}

// readFile returns the CPU time of one Open.
func readFile(b *testing.B, file string) time.Duration {
	info, err := os.Stat(file)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	before := used()
	for b.Loop() {
		if _, err := formats.Open(file, formats.Input{Keep: build.Operations}); err != nil {
			b.Fatal(err)
		}
	}
	return (used() - before) / time.Duration(b.N)
}

func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func loadInPython(b *testing.B, file string) time.Duration {
	b.Helper()
	const script = "import json, sys, time\nt = time.process_time()\njson.load(open(sys.argv[1]))\nprint(time.process_time() - t)"
	out, err := exec.Command("python3", "-c", script, file).Output()
	if err != nil {
		b.Fatal(err)
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(seconds * float64(time.Second))
}

func compress(b *testing.B, from, to string) {
	b.Helper()
	in, err := os.Open(from)
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	z := gzip.NewWriter(out)
	if _, err := io.Copy(z, in); err != nil {
		b.Fatal(err)
	}
	if err := z.Close(); err != nil {
		b.Fatal(err)
	}
}

func decompress(b *testing.B, file string) {
	b.Helper()
	in, err := os.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	z, err := gzip.NewReader(in)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, z); err != nil {
		b.Fatal(err)
	}
}
