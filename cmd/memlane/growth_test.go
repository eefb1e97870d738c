package main

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/internal/pickletest"
	"github.com/memlane/memlane/internal/race"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render"
	"github.com/memlane/memlane/render/web"
)

// shapes are captures that grow with n, by the format and what grows. A shape belongs here if it made something grow with
// the square of its size, or could.
var shapes = map[string]func(n int) string{
	"trace: calls one after the other": func(n int) string {
		return traceOf(eventsOf(n, func(i int) string { return callOf(i, 10*i, 5) + "," + allocationOf(10*i+2, i) })...)
	},
	"trace: calls inside calls": func(n int) string {
		return traceOf(eventsOf(n, func(i int) string { return callOf(i, 10*i, 20*(n-i)) + "," + allocationOf(10*i+2, i) })...)
	},
	"trace: calls that overlap and do not enclose each other": func(n int) string {
		return traceOf(append(eventsOf(n, func(i int) string { return callOf(i, 2*i, 2*n+1) }), eventsOf(n, func(i int) string { return allocationOf(2*n+2*i, i) })...)...)
	},
	"trace: ranges that enclose the allocations": func(n int) string {
		ranges := eventsOf(n, func(i int) string { return strings.Replace(callOf(i, i, 4*n-2*i), "cpu_op", "user_annotation", 1) })
		return traceOf(append(ranges, eventsOf(n, func(i int) string { return allocationOf(n+i, i) })...)...)
	},
	"trace: a thread for each call": func(n int) string {
		return traceOf(eventsOf(n, func(i int) string {
			return strings.ReplaceAll(callOf(i, 10*i, 5)+","+allocationOf(10*i+2, i), `"tid": 1`, fmt.Sprintf(`"tid": %d`, i+2))
		})...)
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
	"native: marks one after the other": func(n int) string {
		return longNative(n, repeated(n, func(i int) string {
			return fmt.Sprintf("mark +%d +%d annotation site=0 requested=0 free=0 text=\"m%d\"\nbuffer +%d +%d 0x%x 512 512", i, i+1, i, 1+i, n+5, 4096+512*i)
		}, "\n")+"\n")
	},
	"native: steps": func(n int) string {
		return longNative(n, "site 1 stack=0 op=\"aten::add\" module=\"\"\n"+repeated(n, func(i int) string {
			return fmt.Sprintf("mark +%d +%d step site=0 requested=0 free=0 text=\"step\"\nbuffer +%d +%d 0x%x 512 512 site=1 edge=-", i, i+1, 1+i, i+2, 4096+512*i)
		}, "\n")+"\n")
	},
	"native: failures that the program survived": func(n int) string {
		return longNative(2*n, "frame 1 user \"try\" \"main.py\" 1\nstack 1 1\nsite 1 stack=1 op=\"\" module=\"\"\n"+repeated(n, func(i int) string {
			return fmt.Sprintf("mark +%d +%d oom site=1 requested=1099511627776 free=1024 text=\"\"\nbuffer +%d +%d 0x%x 512 512 site=1 edge=-", 2*i+1, 2*i+1, 2*i+2, 2*i+3, 4096+512*i)
		}, "\n")+"\n")
	},
	"native: a list that holds all buffers": func(n int) string {
		return longNative(n, repeated(n, func(i int) string {
			return fmt.Sprintf("holder %d kind=variable name=\"kept[%d]\" path=\"kept[%d]\" where=\"__main__\" owner=\"kept\" container=\"list\"\nbuffer +%d +%d 0x%x 512 512 edge=end-open holder=%d",
				i+1, i, i, 1+i, n+10, 4096+512*i, i+1)
		}, "\n")+"\n")
	},
	"native: modules that share another one": func(n int) string {
		return longNative(2*n, repeated(n, func(i int) string {
			holder := func(id int, name string) string {
				return fmt.Sprintf("holder %d kind=variable name=%q path=%q where=\"\" owner=\"model\" container=\"\"\nbuffer +%d +%d 0x%x 512 512 edge=end-open holder=%d",
					id, name, name, id, 2*n+10, 4096+512*id, id)
			}
			return holder(2*i+1, fmt.Sprintf("model.%d.weight", i)) + "\n" + holder(2*i+2, fmt.Sprintf("model.0.shared.%d.weight", i))
		}, "\n")+"\n")
	},
	"snapshot: failures that the program survived in steps that leak": func(n int) string {
		stack := pickletest.Share(stackOf(10, 0))
		event := func(action string, at, addr, size int) any {
			return pickletest.Dict{"action", action, "addr", addr, "size", size, "stream", 0, "time_us", at, "frames", stack}
		}
		trace := pickletest.List{event("segment_alloc", 0, 1<<40, (n+10)<<20)}
		for i := range n {
			at, addr := 10*i+1, 1<<40+i<<20
			trace = append(trace, event("alloc", at, addr, 1<<20), event("alloc", at+1, addr+1<<20, 1<<20),
				pickletest.Dict{"action", "oom", "size", 1 << 40, "stream", 0, "time_us", at + 2, "device_free", 1 << 20, "frames", stack},
				event("free_requested", at+3, addr+1<<20, 1<<20), event("free_completed", at+4, addr+1<<20, 1<<20))
		}
		return string(pickletest.Pickle(pickletest.Dict{"segments", pickletest.List{}, "device_traces", pickletest.List{trace}}))
	},
	"native: buffers of a module that is deep inside others": func(n int) string {
		return longNative(n, fmt.Sprintf("site 1 stack=0 op=\"\" module=%q\n", strings.Repeat("block.", n)+"weight")+repeated(n, func(i int) string {
			return fmt.Sprintf("buffer +%d +%d 0x%x 512 512 site=1 edge=end-open", 1+i, n+10, 4096+512*i)
		}, "\n")+"\n")
	},
	"native: counters": func(n int) string {
		return longNative(n, repeated(n, func(i int) string {
			return fmt.Sprintf("total +%d %d occupied\ntotal +%d %d reserved", i, 512*i, i, 1024*i)
		}, "\n")+
			"\nbuffer +1 +9 0x1000 512 512\n")
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
	"hlo: buffers of a deep network": func(n int) string {
		return programOf(n, func(i int, m message) message { return m.text(2, fmt.Sprintf("jit(f)/layer%d/dot_general", i)) }, nil)
	},
	"hlo: a buffer at each depth of a stack": func(n int) string {
		return programOf(n, func(i int, m message) message { return m.number(15, i+1) }, framesOf(n))
	},
	"hlo: scopes inside scopes": func(n int) string {
		return programOf(n, func(_ int, m message) message { return m.text(2, strings.Repeat("while/body/", 20)+"add") }, nil)
	},
	"hlo-text: values of one allocation": assignmentOf,
	"xplane: allocations of some operations": func(n int) string {
		var events []message
		for i := range n {
			events = append(events, profiledAllocation(i, i%50))
		}
		return planeOf(50, lineOf(0, events...))
	},
	"xplane: an operation for each allocation": func(n int) string {
		var events []message
		for i := range n {
			events = append(events, profiledAllocation(i, i))
		}
		return planeOf(n, lineOf(0, events...))
	},
	"xplane: a thread for each allocation": func(n int) string {
		var lines []message
		for i := range n {
			lines = append(lines, lineOf(i, profiledAllocation(i, 0)))
		}
		return planeOf(1, lines...)
	},
	"xplane: calls inside calls": func(n int) string {
		var events []message
		for i := range n {
			events = append(events, profiledCall(i, n-i), profiledAllocation(i, 0))
		}
		return planeOf(n, lineOf(0, events...))
	},
	"jaxprof: a call site for each buffer": func(n int) string {
		return liveProfileOf(n, func(p *profile.Profile, _ int) []*profile.Location { return []*profile.Location{locationOf(p, 1)} })
	},
	"jaxprof: buffers of one stack": func(n int) string {
		return liveProfileOf(n, func(p *profile.Profile, i int) []*profile.Location {
			for i == 0 && len(p.Location) < 20 {
				locationOf(p, 1)
			}
			return p.Location
		})
	},
	"jaxprof: buffers of one location with many inlined calls": func(n int) string {
		return liveProfileOf(n, func(p *profile.Profile, i int) []*profile.Location {
			if i == 0 {
				locationOf(p, n)
			}
			return p.Location
		})
	},
	"gpumemprof: results of one function": func(n int) string {
		return `{"results":[` + repeated(n, func(i int) string { return resultOf(i, "step") }, ",") + "]}"
	},
	"gpumemprof: a function for each result": func(n int) string {
		return `{"results":[` + repeated(n, func(i int) string { return resultOf(i, fmt.Sprint("f", i)) }, ",") + "]}"
	},
	"gpumemprof: telemetry of many devices": func(n int) string {
		return "[" + repeated(n, func(i int) string {
			return fmt.Sprintf(`{"timestamp_ns":%d,"event_type":"sample","device_id":%d,"device_used_bytes":%d,"host":"h"}`, 1000*i, i, 512*i)
		}, ",") + "]"
	},
	"native: many devices": func(n int) string {
		return "memlane native 2\nsource format=\"f\" producer=\"p\"\n" + repeated(n, func(i int) string {
			return fmt.Sprintf("space source=0 device=\"cuda:%d\" axis=\"time\" begin=0 end=+100 facts=\"history\"\nbuffer +1 +9 0x200 512 512", i)
		}, "\n") + "\n"
	},
}

// growing are the commands that grow faster than a capture of a shape. Their formats have the whole text of each buffer: a note,
// a name or, in XProf's, a stack.
var growing = map[string][]string{
	"hlo: a buffer at each depth of a stack":                 {"export --to xprof.memory_viewer"},
	"native: many buffers with one long note":                {"export --to json", "serve /api/model", "export --to csv"},
	"native: many buffers with one long name":                {"export --to csv"},
	"native: buffers of a module that is deep inside others": {"export --to json", "serve /api/model", "export --to csv"},
}

// The most bytes of output and of allocated memory for each byte by which a capture grows, and the most allocations for each of its
// records. peak --json has the whole stack of each call site, up to 100 calls.
const mostWritten, mostTaken, mostAllocations, mostOfDeep = 150, 1700, 280, 1100

// deepShapes are those with about as many calls in a stack as records.
var deepShapes = []string{"trace: calls inside calls", "native: a buffer at each depth of a stack", "native: a function that calls itself", "hlo: a buffer at each depth of a stack",
	"xplane: calls inside calls"}

// growth is what commands need for captures of a shape with n, 4n and 16n records.
type growth [3]cost

// cost is what a command needs for a capture: bytes in, out and allocated, and the number of allocations.
type cost struct{ in, out, taken, allocations float64 }

// faster reports whether a figure grows faster than the capture, by more than small: more for a byte from 4n to 16n records than from n to
// 4n, and than all of it for a byte of 4n. What is there at any size differs a little from size to size.
func (g growth) faster(figure func(cost) float64, small float64) bool {
	more := figure(g[2]) - figure(g[1])
	last, first, all := more/(g[2].in-g[1].in), (figure(g[1])-figure(g[0]))/(g[1].in-g[0].in), figure(g[1])/g[1].in
	return more > small && last > 1.6*first && last > 1.2*all
}

// grows reports whether the output or the memory of a command grows faster than the capture. 50 leaks that only the largest capture
// is long enough for are 80 KiB of JSON.
func (g growth) grows() bool {
	return g.faster(func(c cost) float64 { return c.out }, 96<<10) || g.faster(func(c cost) float64 { return c.taken }, 6<<20)
}

// perByte returns by how much output and memory grow for each byte of the capture, and allocations for each of more records.
func (g growth) perByte(more int) (out, taken, allocations float64) {
	in := g[2].in - g[1].in
	return (g[2].out - g[1].out) / in, (g[2].taken - g[1].taken) / in, (g[2].allocations - g[1].allocations) / float64(more)
}

// TestGrowth checks that neither output nor memory grows faster than a capture, except those
// in growing, and by how much. With -v it prints the most for each shape.
func TestGrowth(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates too")
	}
	commands := []string{"info", "info --json", "leaks", "leaks --json", "peak --json", "peak --by layer", "peak --by stack", "report", "report --json", "report --format markdown", "report --format html",
		"report --format sarif", "svg", "svg --view usage", "svg --view peak", "pprof", "ops --json", "diff FILE", "diff --json FILE",
		"oom --json", "tune --json", "whatif --json", "whatif --search --json"}
	for _, e := range render.Exports {
		commands = append(commands, "export --to "+e.Name)
		for _, table := range e.Tables[min(len(e.Tables), 1):] {
			commands = append(commands, "export --to "+e.Name+" --table "+table)
		}
	}
	served := []string{"serve /", "serve /api/info", "serve /api/leaks", "serve /api/peak", "serve /api/model"}
	for i, name := range slices.Sorted(maps.Keys(shapes)) {
		if i%deep.Or(3, 1) != 0 {
			continue
		}
		var some []string
		for k, command := range append(commands, served[0]) { // each shape with others
			if parts := deep.Or(6, 1); k%parts == i/deep.Or(3, 1)%parts {
				some = append(some, command)
			}
		}
		if some[len(some)-1] == served[0] {
			some = append(some, served[1:]...)
		}
		t.Run(name, func(t *testing.T) { testShape(t, name, some) })
	}
}

// testShape checks all commands with captures of a shape.
func testShape(t *testing.T, name string, commands []string) {
	const n, times = 50, 4
	file, contents := filepath.Join(t.TempDir(), "capture"), [3]string{}
	for i := range contents {
		contents[i] = shapes[name](n * []int{1, times, times * times}[i])
	}
	var most [3]float64
	var of [3]string
	var servers [3]*web.Server // of the contents
	for _, command := range commands {
		var g growth
		collect := debug.SetGCPercent(-1)                                  // what encoders keep in pools would be allocated again after a collection
		for i, content := range slices.Concat(contents[:1], contents[:]) { // the first time, pools are filled
			if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
			g[max(i-1, 0)] = costOf(t, command, file, &servers[max(i-1, 0)])
			g[max(i-1, 0)].in = float64(len(content))
		}
		debug.SetGCPercent(collect)
		want := slices.Contains(growing[name], command)
		if got := g.grows(); got != want {
			t.Errorf("memlane %s: grows faster than its input: %v, listed: %v; %.0f", command, got, want, g)
		}
		if want {
			continue
		}
		limit := float64(mostAllocations)
		if slices.Contains(deepShapes, name) {
			limit = mostOfDeep
		}
		out, taken, allocations := g.perByte(n*times*times - n*times)
		if out > mostWritten || taken > mostTaken || allocations > limit {
			t.Errorf("memlane %s: %.0f bytes of output and %.0f bytes of memory for each byte of the capture, %.0f allocations for each record", command, out, taken, allocations)
		}
		for k, v := range []float64{out, taken, allocations} {
			if v > most[k] {
				most[k], of[k] = v, fmt.Sprintf("%.0f (%s)", v, command)
			}
		}
	}
	t.Logf("%d bytes; at most, output / byte %s, memory / byte %s, allocations / record %s", len(contents[2]), of[0], of[1], of[2])
}

// costOf runs a command, or asks the server for a path. It makes the server for the first one.
func costOf(t *testing.T, command, file string, server **web.Server) (c cost) {
	t.Helper()
	taken, allocations := allocatedHere()
	if path, ok := strings.CutPrefix(command, "serve "); ok {
		if path == "/" {
			*server = serverOf(t, file)
		}
		c.out = float64(answerLength(t, path, *server))
	} else {
		stdout, stderr, status := memlane("", argsOf(command+" --quiet FILE", file)...)
		if status != 0 && status != statusNothing && (status != statusUsage || !strings.HasPrefix(command, "export")) {
			t.Fatalf("memlane %s: status %d: %s", command, status, stderr)
		}
		c.out = float64(len(stdout))
	}
	c.taken, c.allocations = allocatedHere()
	c.taken -= taken
	c.allocations -= allocations
	return c
}

// serverOf returns the server of memlane serve.
func serverOf(t *testing.T, file string) *web.Server {
	t.Helper()
	server := &web.Server{Read: func(func(string, int64) func(int)) ([]*judge.Capture, error) {
		c, err := judged.Open(file, formats.Input{})
		if err != nil {
			return nil, err
		}
		return []*judge.Capture{c}, nil
	}, Log: t.Output()}
	if err := server.Load(); err != nil {
		t.Fatal(err)
	}
	return server
}

// answerLength returns the length of an answer of memlane serve.
func answerLength(t *testing.T, path string, server *web.Server) int {
	t.Helper()
	answer := lengthWriter{header: http.Header{}, status: http.StatusOK}
	server.ServeHTTP(&answer, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
	if answer.status != http.StatusOK {
		t.Fatalf("%s: status %d", path, answer.status)
	}
	return answer.length
}

// lengthWriter is the length of an answer.
type lengthWriter struct {
	header         http.Header
	status, length int
}

func (w *lengthWriter) Header() http.Header    { return w.header }
func (w *lengthWriter) WriteHeader(status int) { w.status = status }
func (w *lengthWriter) Write(b []byte) (int, error) {
	w.length += len(b)
	return len(b), nil
}

// allocatedHere returns the bytes and the number of objects allocated since the program started.
func allocatedHere() (bytes, objects float64) {
	var all runtime.MemStats
	runtime.ReadMemStats(&all)
	return float64(all.TotalAlloc), float64(all.Mallocs)
}
