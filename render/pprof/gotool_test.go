package pprof

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// training returns the capture that the tests of go tool pprof read: two GPUs, each with 64 MiB from before the
// window, a list that grows by 2 MiB per step, and temporary activations.
func training(t *testing.T) (*lifetime.Capture, Options) {
	const start = 1_700_000_000_000_000_000 // 2023-11-14 22:13:20 in ns
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "train.json", Format: "chrometrace", Producer: "PyTorch Profiler"})
	module := b.Frame(lifetime.Frame{Function: "<module>", File: "/job/train.py", Line: 120})
	step := b.Frame(lifetime.Frame{Function: "train_step", File: "/job/train.py", Line: 80})
	site := func(f lifetime.Frame) lifetime.SiteID {
		return b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{b.Frame(f), step, module})})
	}
	weights := b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{module})})
	leak := site(lifetime.Frame{Function: "log_losses", File: "/job/metrics.py", Line: 14})
	forward := site(lifetime.Frame{Function: "forward", File: "/job/net.py", Line: 33})
	for gpu, device := range []string{"cuda:0", "cuda:1"} {
		s := b.Space()
		b.Describe(s, lifetime.SpaceInfo{Process: "rank" + device[5:], Device: device})
		b.Total(s, lifetime.Total{T: start + 1, Bytes: 64 << 20, Measure: lifetime.Requested})
		b.Alloc(s, start+10, build.Block{Addr: 1 << 40, Requested: 32 << 20, Occupied: 32 << 20, Site: weights})
		for i := range int64(10) {
			at := start + (i+1)*1e6
			b.Alloc(s, at, build.Block{Addr: 1 << 20, Requested: 512 << 10, Occupied: 512 << 10, Site: forward})
			b.Alloc(s, at+10, build.Block{Addr: uint64(1+i) << 30, Requested: 2 << 20, Occupied: 2 << 20, Site: leak})
			b.Free(s, at+5e5+int64(gpu), build.Block{Addr: 1 << 20, Requested: 512 << 10, Occupied: 512 << 10})
		}
	}
	c := finish(t, b)
	return c, Options{Marks: leaking(c.Spaces[0], leak)}
}

// TestGoTool compares the output of go tool pprof with the expected one. The peak of each GPU is 64 MiB from
// before the window, 32 MiB of weights, ten leaked blocks and one activation: 116.50 MiB.
func TestGoTool(t *testing.T) {
	if testing.Short() {
		t.Skip("runs go tool pprof, which the go command may have to build first")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	c, o := training(t)
	file := filepath.Join(t.TempDir(), "heap.pb.gz")
	var buf bytes.Buffer
	if err := Write(&buf, []*lifetime.Capture{c}, o); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range goTool {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			out := runTool(t, test.args, file)
			for _, want := range test.want {
				if !regexp.MustCompile("(?m)" + want).Match(out) {
					t.Errorf("nothing matches %q in\n%s", want, out)
				}
			}
			if test.not != "" && regexp.MustCompile(test.not).Match(out) {
				t.Errorf("%q must not match\n%s", test.not, out)
			}
		})
	}
}

// runTool runs go tool pprof on file. SELF in args stands for the file.
func runTool(t *testing.T, args, file string) []byte {
	t.Helper()
	dir := filepath.Dir(file)
	all := append([]string{"tool", "pprof"}, strings.Fields(args)...)
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "SELF", file)
	}
	cmd := exec.Command("go", append(all, file)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+dir, "TZ=UTC")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// goTool lists commands and expressions that must match their output.
var goTool = []struct {
	args string
	want []string
	not  string
}{
	{"-top", []string{
		`^Type: inuse_space$`,
		`^Time: 2023-11-14 22:13:20 UTC$`,
		`^Duration: 10.50ms, Total samples = 233MB`,
		`^file train\.json: format chrometrace, producer PyTorch Profiler$`,
		`^space rank0/cuda:0: 117 MiB \(122,159,104 B\) in use at its peak`,
		`^space rank1/cuda:1: `,
		`^rank0/cuda:0: warning: leak: it keeps 2 MiB of every step$`,
		`128MB .* \[before the recording\]$`,
		`64MB 27\.47% .* 105MB 45\.06%  <module> \(train\.py:120\)$`,
		`40MB .* log_losses \(metrics\.py:14\)$`,
	}, `<unknown>|Main binary`},
	{"-top -tagfocus=leak=leak:warning", []string{`accounting for 20MB, .* of 233MB total`, `20MB .* log_losses \(metrics\.py:14\)$`}, `forward|before`},
	{"-top -tagfocus=leak=.", []string{`20MB .* log_losses \(metrics\.py:14\)$`}, `forward|before`},
	{"-top -tagfocus=memory_id=rank1/", []string{`accounting for 116MB, 49\.79%`, ` 52\.50MB .* <module> \(train\.py:120\)$`}, ""},
	{"-top -tagfocus=bytes=1mb:", []string{`40MB .* log_losses \(metrics\.py:14\)$`, `64MB .* <module> \(train\.py:120\)$`}, `forward|before`},
	{"-top -tagfocus=lifetime=:1ms", []string{` 1MB .* forward .*$`}, `before`},
	{"-top -tagfocus=kind=buffer", []string{`accounting for 105MB`}, `before`},
	{"-top -cum -tagroot=device", []string{`116\.50MB 50\.00%  cuda:0$`, `116\.50MB 50\.00%  cuda:1$`}, ""},
	{"-top -cum", []string{`116\.50MB 50\.00%  rank0/cuda:0$`, `116\.50MB 50\.00%  rank1/cuda:1$`}, ""},
	{"-tags", []string{
		`^ *device: Total 233MB of 233MB`, `^ *leak: Total 20MB`, `leak:warning$`, `kind: Total 105MB`, `memory_id: `, `rank0/cuda:0$`,
		`^ *bytes: `, `32MB$`, `^ *lifetime: `, `500us$`,
	}, ""},
	{"-comments", []string{`^file train\.json`, `: warning: leak: it keeps`}, ""},
	{"-sample_index=alloc_space -top", []string{`^Type: alloc_space$`, `10MB .* forward .*$`, `accounting for 114MB, 100%`}, `before`},
	{"-sample_index=alloc_objects -top", []string{`^Type: alloc_objects$`, ` 20 47\.62%.* forward .*$`}, ""},
	{"-inuse_objects -top", []string{`^Type: inuse_objects$`, ` 20 83\.33%.* log_losses \(metrics\.py:14\)$`}, ""},
	{"-peek=log_losses", []string{`40MB .*\| +train_step .*$`, `40MB .*\| log_losses \(metrics\.py:14\)$`}, ""},
	{"-list=log_losses", []string{`ROUTINE =+ log_losses \(metrics\.py:14\) in /job/metrics\.py`}, ""},
	{"-lines -top", []string{`log_losses \(metrics\.py:14\) /job/metrics\.py:14$`, `<module> \(train\.py:120\) /job/train\.py:120$`}, ""},
	{"-diff_base=SELF -top", []string{`accounting for 0, 0% of 233MB total`}, ""},
}
