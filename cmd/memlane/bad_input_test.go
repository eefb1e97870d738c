package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/pickletest"
	"github.com/memlane/memlane/lifetime/loss"
)

// field encodes a length-delimited field of a protocol buffer message. Numbers and wire
// types are those of xplane.proto and hlo.proto.
func field(number int, body ...string) string {
	text := strings.Join(body, "")
	return varint(uint64(number)<<3|2) + varint(uint64(len(text))) + text
}

func varfield(number int, n uint64) string { return varint(uint64(number)<<3) + varint(n) }

func varint(n uint64) string {
	var b []byte
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return string(append(b, byte(n)))
}

// xspaceOf returns an XSpace with events of the host. Metadata IDs 1 and 2 are events, 1
// to 4 statistics.
func xspaceOf(events ...string) string {
	names := func(number int, names ...string) (all string) {
		for i, name := range names {
			all += field(number, varfield(1, uint64(i+1)), field(2, varfield(1, uint64(i+1)), field(2, name)))
		}
		return all
	}
	return field(1, field(2, "/host:CPU"), field(3, append([]string{varfield(3, 1000)}, events...)...),
		names(4, "MemoryAllocation", "MemoryDeallocation"), names(5, "index_on_host", "addr", "allocation_bytes", "bytes_allocated"))
}

// allocated returns an allocation event of a device.
func allocated(device, at, addr, size uint64) string {
	stat := func(number int, n uint64) string { return field(4, varfield(1, uint64(number)), varfield(3, n)) }
	return field(4, varfield(1, 1), varfield(2, at), stat(1, device), stat(2, addr), stat(3, size), stat(4, size))
}

// damagedProgram is a profile whose only compiled program is damaged.
var damagedProgram = field(1, field(2, "/host:metadata"), field(4, varfield(1, 1), field(2, varfield(1, 1), field(2, "jit_f(1)"), field(5, varfield(1, 1), field(6, "\x0a\xff")))), field(5, varfield(1, 1), field(2, varfield(1, 1), field(2, "Hlo Proto")))) +
	field(4, "host")

// hloOf returns an HloProto with one buffer allocation in each memory space.
func hloOf(spaces int) string {
	assignment := ""
	for i := range spaces {
		assignment += field(3, varfield(1, uint64(i)), varfield(2, 512), varfield(8, uint64(i)))
	}
	return field(1, field(1, "jit_f"), field(2, "main")) + field(3, assignment)
}

// traceOf returns a trace with memory events, followed by more events.
func traceOf(more ...string) string {
	events := []string{memoryOf(1, 512), memoryOf(2, -512)}
	return `{"schemaVersion": 1, "traceEvents": [` + strings.Join(append(events, more...), ",\n") + `]}`
}

func memoryOf(ts int, size int64) string {
	return fmt.Sprintf(`{"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": %d, "args": {"Device Type": 1, "Device Id": 0, "Addr": 4096, "Bytes": %d, "Total Allocated": 512}}`, ts, size)
}

// snapshotOf returns a snapshot with events of cuda:0.
func snapshotOf(events ...any) string {
	return string(pickletest.Pickle(dict{"segments", list{}, "device_traces", list{list(events)}}))
}

func eventOf(action string, addr int, size any, time int) dict {
	return dict{"action", action, "addr", addr, "size", size, "stream", 0, "time_us", time}
}

// resultsOf returns a gpumemprof result with calls of functions.
func resultsOf(calls ...string) string { return `{"results": [` + strings.Join(calls, ",") + `]}` }

const aCall = `{"function_name": "f", "execution_time": 1, "memory_before": {"timestamp": 1, "allocated_memory": 5, "device_id": 0},
"memory_after": {"timestamp": 2, "allocated_memory": 7, "device_id": 0}}`

// nativeOf returns native text with lines about one space.
func nativeOf(lines string) string {
	return "memlane native 2\nsource format=\"f\" producer=\"p\"\nspace source=0 device=\"cuda:0\" axis=\"time\" begin=0 end=+100 facts=\"history\"\n" + lines
}

// repeated joins the texts for the numbers below n.
func repeated(n int, text func(i int) string, between string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = text(i)
	}
	return strings.Join(all, between)
}

// bombOf compresses a text that expands to many times its compressed size.
func bombOf(begin string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(begin))
	blank := bytes.Repeat([]byte(" "), 1<<20)
	for range 128 {
		z.Write(blank)
	}
	z.Close()
	return b.String()
}

// overwritten overwrites 100 bytes in the middle of data.
func overwritten(data []byte) []byte {
	copy(data[len(data)/2:], strings.Repeat("\xff", 100))
	return data
}

// badInputs returns an input for every class of docs/evidence/input.md that depends on the
// content of a file.
func badInputs(t *testing.T) map[string]string {
	read := func(file string) string {
		data, err := os.ReadFile("../../testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	pickle, profile, program := read("torchsnap/leak_4mib_20steps.pickle"), read("xplane/tf_warm_cache.xplane.pb"), read("xplane/padded.hlo.pb")
	many := func(i int) string { return fmt.Sprintf(`{"ph":"N","id":1,"pid":%d,"ts":%d,"args":{"size":5}}`, i, i) }
	const spaces, huge = 10_003, int64(1<<63 - 1)
	return map[string]string{
		"an empty file":                   "",
		"zeros":                           strings.Repeat("\x00", 1<<20),
		"text, or a file of another kind": "Dear diary,\nall is well.\n",
		"JSON of another kind":            `{"layers": []}`,
		"a log without a failure":         "step 1\nuse a smaller batch if you see \"CUDA out of memory\"\n",
		"a log that is cut off":           "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 4 has a total capac",
		"a dump of memory with a chunk twice": "Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.0KiB\nNext region of size 2048\n" +
			strings.Repeat("InUse at 1000 of size 1024 next 1\n", 2) + "2 Chunks of size 1024 totalling 2.0KiB\n",
		"an absurd number of blocks": "Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.0KiB\n" + fmt.Sprintf("%d Chunks of size %d totalling 8EiB\n", huge, huge),
		"a zip archive":              "PK\x03\x04 and so on",

		"damaged gzip":                      "\x1f\x8b\x08\xff nonsense",
		"damaged zstd":                      string(overwritten(zstded(bytes.Repeat([]byte(pickle), 20)))),
		"a compressed file that ends early": string(gzipped([]byte(pickle))[:1500]),
		"a decompression bomb":              bombOf(`{"traceEvents": [`),
		"compressed three times":            string(gzipped(gzipped(gzipped([]byte(pickle))))),
		"zstd that needs more than 128 MiB": "\x28\xb5\x2f\xfd\x00\xa0" + strings.Repeat("\x01", 60),

		"code to run":                                   "\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.",
		"data that is not a snapshot":                   string(pickletest.Pickle(dict{"epoch", 5})),
		"a snapshot that ends early":                    pickle[:5000],
		"lists in lists without end":                    "\x80\x02" + strings.Repeat("](", 100_000),
		"marks without end":                             "\x80\x02" + strings.Repeat("(", 100_000),
		"a huge index into the memo":                    "\x80\x02Nr\xff\xff\xff\x3f.",
		"a text that is longer than the file":           "\x80\x02}(X\xff\xff\xff\x00abc",
		"a text of more than 16 MiB":                    "\x80\x02}(X\xff\xff\xff\x7fabc",
		"records without what they need":                snapshotOf(dict{"action", "alloc"}, eventOf("alloc", 4096, 512, 1)),
		"sizes below zero":                              snapshotOf(eventOf("alloc", 4096, -512, 1)),
		"sizes that no sum can hold":                    snapshotOf(eventOf("alloc", 4096, huge, 1), eventOf("alloc", 8192, huge, 2)),
		"times that run backwards":                      snapshotOf(eventOf("alloc", 4096, 512, 9), eventOf("free_completed", 4096, 512, 3)),
		"events of an unknown kind":                     snapshotOf(eventOf("teleport", 4096, 512, 9), eventOf("alloc", 4096, 512, 9)),
		"an allocation at the address of a live buffer": snapshotOf(eventOf("alloc", 4096, 512, 1), eventOf("alloc", 4096, 512, 2), eventOf("free_completed", 4096, 512, 3)),

		"a trace that ends early":      traceOf()[:250],
		"nesting without end":          traceOf(`{"ph": "X", "args": {"a": ` + strings.Repeat("[", 1_000_000)),
		"numbers that do not fit":      traceOf(`{"ph": "i", "name": "[memory]", "pid": 1, "ts": 3, "args": {"Bytes": 1e999999}}`),
		"a key twice":                  traceOf(`{"ph": "X", "name": "a", "name": "b"}`),
		"bytes that are not UTF-8":     traceOf("{\"ph\": \"X\", \"name\": \"a\xff\"}"),
		"control characters":           traceOf("{\"ph\": \"X\", \"name\": \"a\x00\x1b\"}"),
		"a text of more than 1 MiB":    traceOf(`{"ph": "X", "name": "` + strings.Repeat("x", 2<<20) + `"}`),
		"words that are not JSON":      traceOf(`{"ph": "X", "name": "a", "dur": NaN}`),
		"text between events":          traceOf(`what is this`),
		"a trace without memory":       `{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 2}]}`,
		"more processes than are kept": `{"schemaVersion": 1, "traceEvents": [` + repeated(spaces, many, ",") + `]}`,

		"a profile that ends before its names":   profile[:len(profile)/2],
		"a profile converted as text":            strings.ToValidUTF8(profile, "\ufffd"),
		"a field longer than its message":        field(1, field(2, "/host:CPU"), "\x1a\x7f") + field(4, "host"),
		"a group, which no profile has":          field(1, field(2, "/host:CPU"), strings.Repeat("\x0b", 1000)) + field(4, "host"),
		"a profile without memory":               field(1, field(2, "/host:CPU")) + field(4, "host"),
		"100,000 planes and more":                strings.Repeat(field(1), 100_001),
		"a name of more than 1 MiB":              field(1, field(2, "/host:CPU")) + field(1, field(2, strings.Repeat("x", 2<<20))),
		"more allocators than are kept":          xspaceOf(repeated(spaces, func(i int) string { return allocated(uint64(i), uint64(i), 4096, 512) }, "")),
		"totals that no sum can hold":            xspaceOf(allocated(0, 1, 4096, uint64(huge)), allocated(0, 2, 8192, uint64(huge))),
		"a compiled program that cannot be read": xspaceOf(allocated(0, 1, 4096, 512)) + damagedProgram,
		"only programs, all unreadable":          damagedProgram,

		"a program that ends early":     program[:len(program)-100],
		"a program before optimization": field(1, field(1, "jit_f"), field(2, "main")),
		"more than 64 memory spaces":    hloOf(65),
		"an index without a buffer":     field(1, field(1, "jit_f"), field(2, "main")) + field(3, field(3, varfield(2, 512), field(9, varfield(1, 7)))),

		"values outside their allocation": "BufferAssignment:\nallocation 0: size 8, preallocated-temp:\n value: <1 a @0> (size=9,offset=99): f32[2]{0}\n",

		"nesting of 10,000 and more":   resultsOf(aCall)[:len(resultsOf(aCall))-2] + `,{"function_name": ` + strings.Repeat("[", 20_000),
		"results that end early":       resultsOf(aCall, aCall)[:len(aCall)+100],
		"records that are not results": resultsOf(aCall, `{"function_name": 7}`, "5"),

		"text that contradicts itself":     nativeOf("buffer +5 +3 0x200 1 1\n"),
		"sizes that exceed 8 EiB together": nativeOf("buffer +1 +9 0x1000 6917529027641081856 1 edge=end-open\nbuffer +2 +9 0x7000000000000000 6917529027641081856 1 edge=end-open\n"),
		"a line of another kind":           nativeOf("banana 1\n"),
		"a number of 65 bits":              nativeOf("buffer +1 +2 0x1 99999999999999999999 1\n"),
	}
}

// badPlaces returns the arguments for the classes that do not depend on content.
func badPlaces(t *testing.T) map[string][]string {
	dir := t.TempDir()
	loop := filepath.Join(dir, "loop.pickle")
	if err := os.Symlink("loop.pickle", loop); err != nil {
		t.Skip(err)
	}
	empty, crowded := filepath.Join(dir, "empty"), filepath.Join(dir, "crowded")
	for _, folder := range []string{empty, crowded} {
		if err := os.Mkdir(folder, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2000 {
		if err := os.WriteFile(filepath.Join(crowded, fmt.Sprint(i)), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return map[string][]string{
		"no such file":              {filepath.Join(dir, "missing.pickle")},
		"a link to itself":          {loop},
		"a device":                  {"/dev/zero"},
		"a folder without captures": {empty},
		"a folder of other files":   {crowded},
		"a capture that does not fit in `--max-memory`": {"--max-memory", "4KiB", snapshots + "/leak_4mib_20steps.pickle"},
	}
}

// row matches a row of the tables in docs/evidence/input.md: classes of input, and a message.
var row = regexp.MustCompile("(?m)^\\| (?:\\*\\*.*?\\*\\* )?(.+?) \\| .*?`` ?(.+?) ?``.*? \\|$")

// TestBadInput compares docs/evidence/input.md with memlane: the message of each row, and the status that its section has.
func TestBadInput(t *testing.T) {
	page, err := os.ReadFile("../../docs/evidence/input.md")
	if err != nil {
		t.Fatal(err)
	}
	contents, places := badInputs(t), badPlaces(t)
	cut := filepath.Join(t.TempDir(), "cut.pickle")
	if err := os.WriteFile(cut, []byte(contents["a snapshot that ends early"]), 0o666); err != nil {
		t.Fatal(err)
	}
	places["data damage, with `--strict`"] = []string{"--strict", cut}
	var classes []string
	check := func(class, message string, status int) {
		classes = append(classes, class)
		if class == "more processes than are kept" && !deep.Is() {
			return // takes more than all others
		}
		t.Run(class, func(t *testing.T) {
			args, size := places[class], 0
			if args == nil {
				content, ok := contents[class]
				if !ok {
					t.Fatal("no such input is made")
				}
				file := filepath.Join(t.TempDir(), "x")
				if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
					t.Fatal(err)
				}
				args, size = []string{file}, len(content)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			stdout, stderr, got := memlane("", append([]string{"info"}, args...)...)
			runtime.ReadMemStats(&after)
			if got != status || !strings.Contains(strings.Join(strings.Fields(stdout+stderr), " "), message) {
				t.Errorf("status %d, want %d with %q:\n%.2000s%.600s", got, status, message, stdout, stderr)
			}
			if strings.Count(stderr, "\n") > 1 || status != 0 && stdout != "" {
				t.Errorf("more than one line:\n%.600s%.600s", stdout, stderr)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > uint64(400<<20+400*size) {
				t.Errorf("%d bytes of memory for %d of input", took, size)
			}
		})
	}
	for _, section := range strings.Split(string(page), "\n## Status ")[1:] {
		status := int(section[0] - '0')
		for _, r := range row.FindAllStringSubmatch(section, -1) {
			message := r[2]
			if reason, ok := loss.Parse(message); ok {
				message += ": " + reason.Doc()
			}
			for _, class := range strings.Split(r[1], "; ") {
				check(class, message, status)
			}
		}
	}
	for class := range contents {
		if !slices.Contains(classes, class) {
			t.Errorf("no row is about %q", class)
		}
	}
	for class := range places {
		if !slices.Contains(classes, class) {
			t.Errorf("no row is about %q", class)
		}
	}
}
