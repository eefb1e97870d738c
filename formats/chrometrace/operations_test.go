package chrometrace_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
)

// TestOperations compares the table of operations with the one that PyTorch printed for
// the same run (key_averages().table()): calls, memory and self memory of every row.
func TestOperations(t *testing.T) {
	tables, _ := filepath.Glob(captures + "/*.key_averages.txt")
	if dir := os.Getenv("MEMLANE_CAPTURES"); dir != "" {
		more, _ := filepath.Glob(filepath.Join(dir, "torch", "*.key_averages.txt"))
		tables = append(tables, more...)
	}
	rows := 0
	for _, table := range tables {
		text, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		c := open(t, traceOf(t, strings.TrimSuffix(table, ".key_averages.txt")))
		ours := map[string]lifetime.Operation{}
		for _, o := range c.Operations {
			if o.Kind == "function" {
				continue
			}
			name := o.Name
			if len(name) >= 55 { // the width of PyTorch's column
				name = name[:52] + "..."
			}
			ours[name] = o
		}
		for _, row := range printedRows(string(text)) {
			rows++
			o, ok := ours[row.name]
			got := printedRow{row.name, memoryText(o.Host.Bytes()), memoryText(o.Host.SelfBytes), fmt.Sprint(o.Calls)}
			if strings.Contains(table, "t212") { // its times in microseconds do not determine the nesting
				got.selfBytes = row.selfBytes
			}
			if !ok || got != row {
				t.Errorf("%s: got %q, want %q", table, got, row)
			}
		}
	}
	if rows < 20 {
		t.Errorf("only %d rows were compared", rows)
	}
}

// TestKeyAverages compares every figure of the table of operations with PyTorch's key_averages of the same run.
// Times differ by the rounding of floating point.
func TestKeyAverages(t *testing.T) {
	files, _ := filepath.Glob(captures + "/*.key_averages.json")
	if len(files) < 4 {
		t.Fatalf("only %d references", len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		type row struct {
			Name      string
			Calls     int64
			Time      float64 `json:"time_us"`
			Self      float64 `json:"self_time_us"`
			Bytes     int64
			SelfBytes int64 `json:"self_bytes"`
		}
		var want []row
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		got := map[string]row{}
		for _, o := range open(t, traceOf(t, strings.TrimSuffix(file, ".key_averages.json"))).Operations {
			if o.Kind != "function" {
				got[o.Name] = row{o.Name, o.Calls, float64(o.Time) / 1000, float64(o.SelfTime) / 1000, o.Host.Bytes(), o.Host.SelfBytes}
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d rows, want %d", file, len(got), len(want))
		}
		for _, w := range want {
			g := got[w.Name]
			if math.Abs(g.Time-w.Time) > 0.01 || math.Abs(g.Self-w.Self) > 0.01 {
				t.Errorf("%s: %s: %g us, self %g, want %g and %g", file, w.Name, g.Time, g.Self, w.Time, w.Self)
			}
			if g.Time, g.Self = w.Time, w.Self; g != w {
				t.Errorf("%s: got %+v, want %+v", file, g, w)
			}
		}
	}
}

// TestOtherThreads: a Python function is credited only with the memory of its own thread.
func TestOtherThreads(t *testing.T) {
	trace := `[{"ph":"X","cat":"python_function","name":"a.py(1): main","pid":0,"tid":0,"ts":1,"dur":100,"args":{"Python id":1}},
		{"ph":"i","name":"[memory]","pid":7,"tid":8,"ts":50,"args":{"Bytes":512,"Device Type":0,"Addr":4096}}]`
	file := filepath.Join(t.TempDir(), "trace.json")
	if err := os.WriteFile(file, []byte(trace), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, o := range open(t, file).Operations {
		if o.Kind == "function" && (o.Calls != 1 || o.Host.Allocated != 0) {
			t.Errorf("%+v", o)
		}
	}
}

// TestOutOfMemory: a failed allocation is a mark with its request, beside the totals of the allocator.
func TestOutOfMemory(t *testing.T) {
	c := open(t, traceOf(t, filepath.Join(captures, "cpu_oom")))
	var failed []lifetime.Mark
	for _, m := range c.Spaces[0].Marks {
		if m.Kind == lifetime.OOM {
			failed = append(failed, m)
		}
	}
	if len(c.Spaces) != 1 || len(failed) != 3 {
		t.Fatalf("%d spaces, %d failures", len(c.Spaces), len(failed))
	}
	for i, m := range failed {
		level := c.Spaces[0].LevelAt(m.Begin, lifetime.Occupied)
		if m.Requested != 1<<50 || m.Free.Known() || level != int64(i+1)<<20 || c.Sites[m.Site].Op != "aten::empty" {
			t.Errorf("%+v by %q with %d B in use", m, c.Sites[m.Site].Op, level)
		}
	}
}

type printedRow struct{ name, bytes, selfBytes, calls string }

// printedRows parses the rows of a printed table.
func printedRows(text string) []printedRow {
	var header []string
	var rows []printedRow
	text = strings.NewReplacer("Mb", "MB", "Kb", "KB", " b ", " B ").Replace(text) // PyTorch 2.1
	for _, line := range strings.Split(text, "\n") {
		var cells []string
		for _, cell := range strings.Split(strings.TrimSpace(line), "  ") {
			if cell = strings.TrimSpace(cell); cell != "" {
				cells = append(cells, cell)
			}
		}
		switch {
		case len(cells) > 3 && cells[0] == "Name":
			header = cells
		case header == nil || len(cells) != len(header) || strings.HasPrefix(cells[0], "---"):
		default:
			at := map[string]string{}
			for i, h := range header {
				at[h] = cells[i]
			}
			if _, ok := at["CPU Mem"]; ok {
				rows = append(rows, printedRow{at["Name"], at["CPU Mem"], at["Self CPU Mem"], at["# of Calls"]})
			}
		}
	}
	return rows
}

// memoryText formats bytes like PyTorch's tables.
func memoryText(n int64) string {
	size := float64(max(n, -n))
	switch {
	case size >= 1<<30:
		return fmt.Sprintf("%.2f GB", float64(n)/(1<<30))
	case size >= 1<<20:
		return fmt.Sprintf("%.2f MB", float64(n)/(1<<20))
	case size >= 1<<10:
		return fmt.Sprintf("%.2f KB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// TestShared checks that files mapped into memory, which the workers of a DataLoader share, have a space of their own: the
// allocator reports them with totals that do not contain them.
func TestShared(t *testing.T) {
	event := func(at, addr, bytes, total, reserved int64) string {
		return fmt.Sprintf(`{"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":%d,"args":{"Bytes":%d,"Device Type":0,"Device Id":-1,"Addr":%d,"Total Allocated":%d,"Total Reserved":%d}}`,
			at, bytes, addr, total, reserved)
	}
	trace := "[" + strings.Join([]string{
		event(1, 0x1000, 512, 512, 0), event(2, 0x2000, 32768, 0, 32768), event(3, 0x3000, 256, 0, 256), event(4, 0x2000, -32768, 0, 0),
		event(5, 0x1000, -512, 0, 0), event(6, 0x4000, 64, 64, 0),
	}, ",") + "]"
	file := filepath.Join(t.TempDir(), "trace.json")
	if err := os.WriteFile(file, []byte(trace), 0o666); err != nil {
		t.Fatal(err)
	}
	c := open(t, file)
	var got []string
	for _, s := range c.Spaces {
		_, reserved := region.Reserved(s)
		got = append(got, fmt.Sprint(s.ID(), " ", s.Allocations, " ", s.Frees, " ", s.Peak(lifetime.Occupied).Bytes, " ", reserved))
	}
	if want := []string{"cpu 2 1 512 0", "cpu/shared 2 1 33024 0"}; !slices.Equal(got, want) || len(c.Losses) > 0 {
		t.Errorf("%q, lost %v; want %q", got, c.Losses, want)
	}
}

// TestRuntimeCalls: calls of the device's runtime and driver are rows, and children of the operators around them. What the profiler does for
// itself has no thread, and belongs to the thread of the steps. The figures are those of PyTorch 2.8's FunctionEvent classes.
func TestRuntimeCalls(t *testing.T) {
	trace := `{"traceEvents":[
		{"ph":"X","cat":"user_annotation","name":"ProfilerStep#4","pid":7,"tid":7,"ts":0,"dur":200},
		{"ph":"X","cat":"cpu_op","name":"aten::addmm","pid":7,"tid":7,"ts":10,"dur":100,"args":{"External id":1}},
		{"ph":"X","cat":"cuda_runtime","name":"cudaMalloc","pid":7,"tid":7,"ts":20,"dur":30,"args":{"External id":1}},
		{"ph":"i","name":"[memory]","pid":7,"tid":7,"ts":40,"args":{"Bytes":512,"Device Type":1,"Device Id":0,"Addr":4096}},
		{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":7,"ts":60,"dur":40,"args":{"External id":1}},
		{"ph":"X","cat":"cuda_driver","name":"cuLaunchKernel","pid":7,"tid":7,"ts":70,"dur":20,"args":{"External id":1}},
		{"ph":"X","cat":"kernel","name":"sgemm","pid":0,"tid":7,"ts":90,"dur":50},
		{"ph":"X","cat":"overhead","name":"Buffer Flush","pid":-1,"tid":0,"ts":120,"dur":10},
		{"ph":"X","cat":"cpu_op","name":"aten::relu","pid":7,"tid":9,"ts":121,"dur":5}]}`
	file := filepath.Join(t.TempDir(), "trace.json")
	if err := os.WriteFile(file, []byte(trace), 0o666); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range open(t, file).Operations {
		got = append(got, fmt.Sprint(o.Kind, " ", o.Name, " ", o.Calls, " ", o.Time/1000, " ", o.SelfTime/1000, " ", o.Device.Bytes(), " ", o.Device.SelfBytes))
	}
	slices.Sort(got)
	want := []string{
		"operator aten::addmm 1 100 30 512 0", "operator aten::relu 1 5 5 0 0",
		"range ProfilerStep* 1 200 90 512 0",
		"runtime Buffer Flush 1 10 10 0 0", "runtime cuLaunchKernel 1 20 20 0 0", "runtime cudaLaunchKernel 1 40 20 0 0", "runtime cudaMalloc 1 30 30 512 512",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
