package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/pickletest"
	"github.com/memlane/memlane/render"
)

// shapes are captures that grow with n. A shape belongs here if it made something grow with
// the square of its size, or could.
var shapes = map[string]func(n int) string{
	"trace: calls one after the other": func(n int) string {
		return traceOf(eventsOf(n, func(i int) string { return callOf(i, 10*i, 5) + "," + allocationOf(10*i+2, i) })...)
	},
	"trace: calls inside calls": func(n int) string {
		return traceOf(eventsOf(n, func(i int) string { return callOf(i, 10*i, 20*(n-i)) + "," + allocationOf(10*i+2, i) })...)
	},
	"trace: one call with many children": func(n int) string {
		return traceOf(append(eventsOf(n, func(i int) string { return callOf(i, 10*i+1, 5) + "," + allocationOf(10*i+2, i) }), callOf(n, 0, 10*n+10))...)
	},
	"native: many buffers with one deep stack": func(n int) string {
		return longNative(n, chainOf(n)+fmt.Sprintf("site 1 stack=%d op=\"\" module=\"\"\n", n)+repeated(n, func(i int) string {
			return fmt.Sprintf("buffer +%d +%d 0x%x 512 512 site=1 edge=end-open", 1+i, n+10, 4096+512*i)
		}, "\n")+"\n")
	},
	"native: a buffer at each depth of a stack": func(n int) string {
		return longNative(n, chainOf(n)+repeated(n, func(i int) string {
			return fmt.Sprintf("site %d stack=%d op=\"\" module=\"\"\nbuffer +%d +%d 0x%x 512 512 site=%d edge=end-open", i+1, i+1, 1+i, n+10, 4096+512*i, i+1)
		}, "\n")+"\n")
	},
	"native: many buffers with one long note": func(n int) string {
		return longNative(n, fmt.Sprintf("note 1 %q\n", strings.Repeat("n", 20*n))+repeated(n, func(i int) string {
			return fmt.Sprintf("buffer +%d +%d 0x%x 512 512 note=1 edge=end-open", 1+i, n+10, 4096+512*i)
		}, "\n")+"\n")
	},
	"native: many buffers with one long name": func(n int) string {
		return longNative(n, fmt.Sprintf("site 1 stack=0 op=%q module=\"\"\n", strings.Repeat("n", 20*n))+repeated(n, func(i int) string {
			return fmt.Sprintf("buffer +%d +%d 0x%x 512 512 site=1 edge=end-open", 1+i, n+10, 4096+512*i)
		}, "\n")+"\n")
	},
	"native: a function that calls itself": func(n int) string {
		return longNative(n, "frame 1 user \"f\" \"main.py\" 1\n"+repeated(n, func(i int) string {
			return fmt.Sprintf("stack %d 1 caller=%d\nsite %d stack=%d op=\"\" module=\"\"\nbuffer +%d +%d 0x%x 512 512 site=%d edge=end-open",
				i+1, i, i+1, i+1, 1+i, n+10, 4096+512*i, i+1)
		}, "\n")+"\n")
	},
	"native: many call paths to one line": func(n int) string {
		return longNative(n, "frame 1 user \"f\" \"main.py\" 1\n"+repeated(n, func(i int) string {
			return fmt.Sprintf("frame %d user \"g\" \"main.py\" %d\nstack %d %d\nstack %d 1 caller=%d\nsite %d stack=%d op=\"\" module=\"\"\n"+
				"buffer +%d +%d 0x%x 512 512 site=%d edge=end-open", i+2, i+2, 2*i+1, i+2, 2*i+2, 2*i+1, i+1, 2*i+2, 1+i, n+10, 4096+512*i, i+1)
		}, "\n")+"\n")
	},
	"native: many operations": func(n int) string {
		return longNative(n, repeated(n, func(i int) string {
			return fmt.Sprintf("site %d stack=0 op=\"op%d\" module=\"\"\nbuffer +%d +%d 0x%x 512 512 site=%d edge=-", i+1, i, 1+i, n+5, 4096+512*i, i+1)
		}, "\n")+"\n")
	},
	"native: many regions": func(n int) string {
		return longNative(n, repeated(n, func(i int) string {
			return fmt.Sprintf("region +%d +%d 0x%x 2097152 kind=\"small\" stream=0 pool=\"\" site=0 edge=end-open\nbuffer +%d +%d 0x%x 512 512 edge=end-open",
				1+i, n+10, 4096*(i+1)*1024, 1+i, n+10, 4096*(i+1)*1024)
		}, "\n")+"\n")
	},
	"native: marks inside marks": func(n int) string {
		return longNative(n, repeated(n, func(i int) string {
			return fmt.Sprintf("mark +%d +%d annotation site=0 requested=0 free=0 text=\"m%d\"\nbuffer +%d +%d 0x%x 512 512", i, 2*n-i, i, 1+i, n+5, 4096+512*i)
		}, "\n")+"\n")
	},
	"snapshot: events of one stack": func(n int) string {
		stack := pickletest.Share(stackOf(60, 0))
		return allocationsOf(n, func(int) any { return stack })
	},
	"snapshot: a stack for each event": func(n int) string {
		return allocationsOf(n, func(i int) any { return stackOf(10, i) })
	},
	"snapshot: live blocks": func(n int) string {
		blocks := pickletest.List{}
		for i := range n {
			blocks = append(blocks, pickletest.Dict{"address", 1<<40 + 512*i, "size", 512, "requested_size", 500, "state", "active_allocated", "frames", stackOf(5, i%50)})
		}
		segment := pickletest.Dict{"device", 0, "address", 1 << 40, "total_size", 512 * n, "stream", 0, "segment_type", "large", "blocks", blocks}
		return string(pickletest.Pickle(pickletest.Dict{"segments", pickletest.List{segment}, "device_traces", pickletest.List{pickletest.List{}}}))
	},
	"log: many failures": func(n int) string {
		return repeated(n, func(i int) string {
			return fmt.Sprintf("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %d.00 MiB. GPU 0 has a total capacity of 39.39 GiB of which %d.00 MiB is free.", 100+i, i)
		}, "\n") + "\n"
	},
	"native: many devices": func(n int) string {
		return "memlane native 2\nsource format=\"f\" producer=\"p\"\n" + repeated(n, func(i int) string {
			return fmt.Sprintf("space source=0 device=\"cuda:%d\" axis=\"time\" begin=0 end=+100 facts=\"history\"\nbuffer +1 +9 0x200 512 512", i)
		}, "\n") + "\n"
	},
}

// allocationsOf returns a snapshot of n allocations.
func allocationsOf(n int, frames func(i int) any) string {
	events := pickletest.List{}
	for i := range n {
		events = append(events, pickletest.Dict{"action", "alloc", "addr", 1<<40 + 512*i, "size", 512, "stream", 0, "time_us", 10 * i, "frames", frames(i)})
	}
	return string(pickletest.Pickle(pickletest.Dict{"segments", pickletest.List{}, "device_traces", pickletest.List{events}}))
}

// stackOf returns the frames of a snapshot's stack; the innermost one is of a line.
func stackOf(depth, line int) pickletest.List {
	frames := pickletest.List{}
	for i := range depth {
		frames = append(frames, pickletest.Dict{"filename", "main.py", "line", line * max(1-i, 0), "name", fmt.Sprint("f", i)})
	}
	return frames
}

// longNative is nativeOf with room for n buffers.
func longNative(n int, lines string) string {
	return strings.Replace(nativeOf(lines), "end=+100", fmt.Sprintf("end=+%d", n+10), 1)
}

func eventsOf(n int, of func(i int) string) (all []string) {
	for i := range n {
		all = append(all, of(i))
	}
	return all
}

func callOf(i, ts, dur int) string {
	return fmt.Sprintf(`{"ph": "X", "cat": "cpu_op", "name": "aten::f%d", "pid": 1, "tid": 1, "ts": %d, "dur": %d}`, i, ts, dur)
}

func allocationOf(ts, i int) string {
	return fmt.Sprintf(`{"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": %d, "args": {"Device Type": 1, "Device Id": 0, "Addr": %d, "Bytes": 512, "Total Allocated": %d}}`,
		ts, 4096+512*i, 512*(i+1))
}

// chainOf returns n stacks, each the caller of the next one.
func chainOf(n int) string {
	return "frame 1 user \"main\" \"main.py\" 1\nstack 1 1\n" + repeated(n-1, func(i int) string {
		return fmt.Sprintf("frame %d user \"f%d\" \"main.py\" %d\nstack %d %d caller=%d", i+2, i, i+2, i+2, i+2, i+1)
	}, "\n") + "\n"
}

// growing are the commands that grow faster than a capture of a shape. Their formats have the whole text of each buffer: a note,
// a name or, in Perfetto's JSON, a stack.
var growing = map[string][]string{
	"native: many buffers with one deep stack": {"export --to perfetto.json"},
	"native: many buffers with one long note":  {"export --to json", "export --to csv", "export --to perfetto.json"},
	"native: many buffers with one long name":  {"export --to csv", "export --to perfetto.json"},
}

// The most bytes of output and of allocated memory for each byte by which a capture grows. peak --json has the whole stack of
// each call site.
const mostWritten, mostTaken = 150, 1500

// TestGrowth checks that neither output nor memory grows faster than a capture, except those
// in growing, and by how much.
func TestGrowth(t *testing.T) {
	commands := []string{"info", "info --json", "leaks", "leaks --json", "peak --json", "report", "report --json", "report --format markdown", "report --format html",
		"report --format sarif", "svg", "svg --view usage", "svg --view peak", "pprof", "diff FILE", "diff --json FILE"}
	for _, e := range render.Exports {
		if e.Needs == render.Buffers {
			commands = append(commands, "export --to "+e.Name)
		}
		for _, table := range e.Tables[min(len(e.Tables), 1):] {
			commands = append(commands, "export --to "+e.Name+" --table "+table)
		}
	}
	file := filepath.Join(t.TempDir(), "capture")
	const n, times = 50, 4
	for name, shape := range shapes {
		contents := [...]string{shape(n), shape(n * times), shape(n * times * times)}
		for _, command := range commands {
			measure := func() (written, taken [len(contents)]float64) {
				for i, content := range contents {
					if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
						t.Fatal(err)
					}
					before := allocatedBytes()
					stdout, stderr, status := memlane("", strings.Fields(strings.ReplaceAll(command, "FILE", file)+" --quiet "+file)...)
					if status != 0 && status != statusNothing && !strings.Contains(stderr, "no buffers") { // of logs
						t.Fatalf("%s: memlane %s: status %d: %s", name, command, status, stderr)
					}
					written[i], taken[i] = float64(len(stdout)), float64(allocatedBytes()-before)
				}
				return written, taken
			}
			// From the difference of two sizes: what is there at any size does not count.
			least := 1.6 * float64(len(contents[2])-len(contents[1])) / float64(len(contents[1])-len(contents[0]))
			grows := func(y [3]float64, small float64) bool { return y[2]-y[1] > max(least*(y[1]-y[0]), small) }
			written, taken := measure()
			grown := func() bool { return grows(written, 64<<10) || grows(taken, 6<<20) }
			want := slices.Contains(growing[name], command)
			for range 3 { // what encoders keep in pools is allocated again after a collection, so the least of a few runs counts
				if grown() == want {
					break
				}
				_, again := measure()
				for i := range taken {
					taken[i] = min(taken[i], again[i])
				}
			}
			longer := float64(len(contents[2]) - len(contents[1]))
			if w, m := (written[2]-written[1])/longer, (taken[2]-taken[1])/longer; !want && (w > mostWritten || m > mostTaken) {
				t.Errorf("%s: memlane %s: %.0f bytes of output and %.0f bytes of memory for each byte of the capture", name, command, w, m)
			}
			got := grown()
			if got != want {
				t.Errorf("%s: memlane %s: grows faster than its input: %v, listed: %v; from %d, %d and %d bytes it writes %.0f and allocates %.0f", name, command, got, want,
					len(contents[0]), len(contents[1]), len(contents[2]), written, taken)
			}
		}
	}
}

// allocatedBytes returns the bytes allocated since the program started.
func allocatedBytes() uint64 {
	var all runtime.MemStats
	runtime.ReadMemStats(&all)
	return all.TotalAlloc
}
