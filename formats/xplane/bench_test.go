//go:build unix

package xplane_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	pw "google.golang.org/protobuf/encoding/protowire"
)

// The input of the benchmark: as many events as an hour of a busy host has, of
// which one in three is an allocator's.
const (
	benchLines  = 16
	benchEvents = 2_000_000
	benchFiller = 5_000_000
)

// BenchmarkRead runs "memlane info" and "memlane export --to
// xprof.memory_profile" on a profile of 400 MB with 2 million events of an
// allocator, and XProf's own memory_profile on the same file in the same run:
// x-xprof is how many times less CPU memlane takes, rss/xprof its peak memory
// as a share of XProf's, bytes/event its peak memory beyond 64 MiB. XProf must
// be importable by python3, or by the interpreter that MEMLANE_PYTHON names;
// without it the figures of memlane alone are reported.
func BenchmarkRead(b *testing.B) {
	file := filepath.Join(b.TempDir(), "host.xplane.pb")
	writeBig(b, file)
	tool := filepath.Join(b.TempDir(), "memlane")
	if out, err := exec.Command("go", "build", "-o", tool, "../../cmd/memlane").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	peer, found := xprof(b, file)
	for _, args := range [][]string{{"info"}, {"export", "--to", "xprof.memory_profile"}} {
		b.Run(args[0], func(b *testing.B) {
			var total usage
			for range b.N {
				total = total.plus(run(b, tool, append(args, "--quiet", file)...))
			}
			cpu := total.cpu / time.Duration(b.N)
			b.ReportMetric(float64(cpu.Nanoseconds())/benchEvents, "cpu-ns/event")
			b.ReportMetric(float64(total.rss-64<<20)/benchEvents, "bytes/event")
			if found {
				b.ReportMetric(float64(peer.cpu)/float64(cpu), "x-xprof")
				b.ReportMetric(float64(total.rss)/float64(peer.rss), "rss/xprof")
			}
		})
	}
}

// usage is what a process took: CPU, and memory at its peak.
type usage struct {
	cpu time.Duration
	rss int64
}

func (u usage) plus(v usage) usage { return usage{u.cpu + v.cpu, max(u.rss, v.rss)} }

// runScript starts a command from a small process: one that is started from a
// large one begins with the memory of that in its account.
const runScript = `import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
u = resource.getrusage(resource.RUSAGE_CHILDREN)
print(u.ru_utime + u.ru_stime, u.ru_maxrss)`

func run(b *testing.B, command string, args ...string) usage {
	b.Helper()
	out, err := exec.Command("python3", append([]string{"-c", runScript, command}, args...)...).Output()
	if err != nil {
		b.Skip("python3 is not there to measure with: ", err)
	}
	fields := strings.Fields(string(out))
	seconds, _ := strconv.ParseFloat(fields[0], 64)
	kib, _ := strconv.ParseInt(fields[1], 10, 64)
	return usage{time.Duration(seconds * float64(time.Second)), kib << 10}
}

// xprof measures XProf's memory_profile, less what Python and its imports take.
func xprof(b *testing.B, file string) (usage, bool) {
	python := os.Getenv("MEMLANE_PYTHON")
	if python == "" {
		python = "python3"
	}
	const load = "from xprof.convert import raw_to_tool_data\n"
	if err := exec.Command(python, "-c", load).Run(); err != nil {
		b.Logf("no peer: %s has no xprof", python)
		return usage{}, false
	}
	idle := run(b, python, "-c", load)
	u := run(b, python, "-c", load+"import sys\nraw_to_tool_data.xspace_to_tool_data([sys.argv[1]], 'memory_profile', {})", file)
	u.cpu -= idle.cpu
	return u, true
}

// writeBig writes the input: lines of events with the statistics that a BFC
// allocator writes, and shorter ones between them.
func writeBig(b *testing.B, file string) {
	b.Helper()
	f, err := os.Create(file)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var lines [][]byte
	g := bigTrace{rnd: rand.New(rand.NewPCG(1, 2))}
	length := 0
	for i := range benchLines {
		lines = append(lines, g.line(i))
		length += pw.SizeTag(3) + pw.SizeBytes(len(lines[i]))
	}
	head, tail := bytesField(nil, 2, []byte("/host:CPU")), g.names()
	w := bufio.NewWriter(f)
	w.Write(pw.AppendVarint(pw.AppendTag(nil, 1, pw.BytesType), uint64(len(head)+length+len(tail))))
	w.Write(head)
	for i := range lines {
		w.Write(pw.AppendVarint(pw.AppendTag(nil, 3, pw.BytesType), uint64(len(lines[i]))))
		w.Write(lines[i])
	}
	w.Write(tail)
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if info, err := f.Stat(); err == nil {
		b.Logf("%d MB", info.Size()/1e6)
	}
	syscall.Sync()
}

// bigTrace makes events in order of time over all lines.
type bigTrace struct {
	rnd    *rand.Rand
	now    uint64
	inUse  uint64
	blocks []bigBlock
}

type bigBlock struct{ addr, size uint64 }

var bigStats = []string{"allocator_name", "bytes_reserved", "bytes_allocated", "bytes_available", "fragmentation", "peak_bytes_in_use",
	"requested_bytes", "allocation_bytes", "addr", "tf_op", "id", "region_type", "data_type", "shape"}

// Numbers of the texts that events refer to.
const bigTexts, bigOps = 100, 400

func (g *bigTrace) line(i int) []byte {
	out := varintField(bytesField(varintField(nil, 1, uint64(i+1)), 2, fmt.Appendf(nil, "worker/%d", i)), 3, 1_752_000_000_000_000_000)
	var event []byte
	for n := range benchEvents / benchLines {
		g.now += g.rnd.Uint64N(5_000_000)
		event = g.event(event[:0])
		out = bytesField(out, 4, event)
		for range benchFiller*(n+1)/benchEvents - benchFiller*n/benchEvents {
			event = varintField(varintField(varintField(event[:0], 1, 3+g.rnd.Uint64N(2000)), 2, g.now), 3, g.rnd.Uint64N(9_000_000))
			event = stat(stat(event, 20, 4, g.rnd.Uint64N(1<<20)), 21, 7, bigTexts+g.rnd.Uint64N(bigOps))
			out = bytesField(out, 4, event)
		}
	}
	return out
}

// event appends an allocation or a free.
func (g *bigTrace) event(b []byte) []byte {
	kind, block := uint64(1), bigBlock{g.now, 512 << g.rnd.UintN(18)}
	if n := len(g.blocks); n > 0 && (n > 4000 || g.rnd.UintN(2) == 0) {
		i := g.rnd.IntN(n)
		kind, block = 2, g.blocks[i]
		g.blocks[i] = g.blocks[n-1]
		g.blocks = g.blocks[:n-1]
		g.inUse -= block.size
	} else {
		g.blocks = append(g.blocks, block)
		g.inUse += block.size
	}
	b = varintField(varintField(b, 1, kind), 2, g.now)
	for i, v := range []uint64{bigTexts, 0, g.inUse, 1<<37 - g.inUse, 0, g.inUse + 1<<20, block.size - 7, block.size, block.addr,
		bigTexts + g.rnd.Uint64N(bigOps), 5, bigTexts + 1, 14, bigTexts + 2} {
		switch bigStats[i] {
		case "allocator_name", "tf_op", "region_type", "shape":
			b = stat(b, uint64(i+1), 7, v)
		case "fragmentation":
			value := varintField(nil, 1, uint64(i+1))
			b = bytesField(b, 4, pw.AppendFixed64(pw.AppendTag(value, 2, pw.Fixed64Type), 0x3fb0000000000000+g.rnd.Uint64N(1<<30)))
		default:
			b = stat(b, uint64(i+1), 4, v)
		}
	}
	return b
}

func stat(b []byte, id uint64, field pw.Number, v uint64) []byte {
	return bytesField(b, 4, varintField(varintField(nil, 1, id), field, v))
}

// names are the metadata maps.
func (g *bigTrace) names() []byte {
	var out []byte
	add := func(field pw.Number, id uint64, name string) {
		out = bytesField(out, field, bytesField(varintField(nil, 1, id), 2, bytesField(varintField(nil, 1, id), 2, []byte(name))))
	}
	add(4, 1, "MemoryAllocation")
	add(4, 2, "MemoryDeallocation")
	for i := range uint64(2000) {
		add(4, i+3, fmt.Sprintf("ThunkExecute#hlo_op=fusion.%d#", i))
	}
	for i, name := range bigStats {
		add(5, uint64(i+1), name)
	}
	add(5, 20, "run_id")
	add(5, 21, "hlo_op")
	for i := range uint64(bigOps) {
		add(5, bigTexts+i, fmt.Sprintf("train_step/transformer/layer_%d/dot_general", i))
	}
	return out
}
