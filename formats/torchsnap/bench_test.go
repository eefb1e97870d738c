//go:build unix

package torchsnap_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memlane/memlane/formats"
)

// BenchmarkRead reads snapshots of 500,000 events and 20 frames, made by
// testdata/gen/big_snapshot.py, and compares with CPython's pickle.load of the
// same file in the same run: x-cpython is how many times less CPU reading into
// a Capture takes, rss/cpython the peak memory of "memlane info" as a share of
// Python's. Needs python3 on PATH.
func BenchmarkRead(b *testing.B) {
	python, err := exec.LookPath("python3")
	if err != nil {
		b.Skip("python3 is not there to make the input")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as memlane runs
	for _, stacks := range []string{"fresh", "shared"} {
		b.Run("stacks="+stacks, func(b *testing.B) {
			prefix := filepath.Join(b.TempDir(), "snapshot")
			args := []string{"../../testdata/gen/big_snapshot.py", "--events", "500000", "--proto", "4", "-o", prefix}
			if stacks == "shared" {
				args = append(args, "--shared")
			}
			if out, err := exec.Command(python, args...).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			file := prefix + ".p4.pickle"
			info, err := os.Stat(file)
			if err != nil {
				b.Fatal(err)
			}
			load, base := loadInPython(b, python, file)
			memory := peakMemory(b, python, memlane(b), "info", "--quiet", file) / peakMemory(b, python, python, "-c", unpickle, file)
			b.SetBytes(info.Size())
			b.ReportAllocs()
			b.ResetTimer()
			start := cpu(syscall.RUSAGE_SELF)
			for range b.N {
				if _, err := formats.Open(file, formats.Input{}); err != nil {
					b.Fatal(err)
				}
			}
			perRead := (cpu(syscall.RUSAGE_SELF) - start) / time.Duration(b.N)
			b.ReportMetric(float64(load-base)/float64(perRead), "x-cpython")
			b.ReportMetric(memory, "rss/cpython")
			b.ReportMetric(float64(perRead.Nanoseconds())/500000, "cpu-ns/event")
		})
	}
}

// loadInPython returns the CPU time of pickle.load (the best of three) and
// of a Python that does nothing.
func loadInPython(b *testing.B, python, file string) (load, base time.Duration) {
	b.Helper()
	best := func(script string) time.Duration {
		least := time.Duration(0)
		for range 3 {
			seconds := number(b, exec.Command(python, "-c", script, file))
			if d := time.Duration(seconds * float64(time.Second)); least == 0 || d < least {
				least = d
			}
		}
		return least
	}
	const clock = "\nimport time; print(time.process_time())"
	return best(unpickle + clock), best("import pickle, sys" + clock)
}

const unpickle = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"

// memlane builds the tool and returns its path.
func memlane(b *testing.B) string {
	b.Helper()
	tool := filepath.Join(b.TempDir(), "memlane")
	if out, err := exec.Command("go", "build", "-o", tool, "../../cmd/memlane").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return tool
}

// peakMemory runs a command and returns its largest resident size. A small
// process starts it: a process that is started from here begins with the peak
// of this one in its account.
func peakMemory(b *testing.B, python string, command ...string) float64 {
	b.Helper()
	const script = "import resource, subprocess, sys\n" +
		"subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n" +
		"print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
	return number(b, exec.Command(python, append([]string{"-c", script}, command...)...))
}

// number runs a command that prints one number.
func number(b *testing.B, c *exec.Cmd) float64 {
	b.Helper()
	out, err := c.Output()
	if err != nil {
		b.Fatal(err)
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func cpu(who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
