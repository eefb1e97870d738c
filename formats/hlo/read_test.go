package hlo_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/hlo"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/native"
)

const captures = "../../testdata/xplane"

// programs returns the files of compiled programs, and those in the folder MEMLANE_CAPTURES.
func programs(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(captures + "/*.hlo.pb")
	if err != nil || len(files) == 0 {
		t.Fatal("no programs", err)
	}
	if root := os.Getenv("MEMLANE_CAPTURES"); root != "" {
		for _, pattern := range []string{"xplane/*/*.hlo.pb", "public/xplane/*.hlo_proto.pb"} {
			more, err := filepath.Glob(filepath.Join(root, pattern))
			if err != nil || len(more) == 0 {
				t.Fatal("no programs", err)
			}
			files = append(files, more...)
		}
	}
	return files
}

func contentOf(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// readBare reads a program without any checks.
func readBare(proto []byte) (*lifetime.Capture, error) {
	b := build.New(build.Everything)
	if err := hlo.Read("f.hlo.pb", bytes.NewReader(proto), b); err != nil {
		return nil, err
	}
	return b.Finish()
}

// readProgram reads a program and checks the model: Check, the laws, and a round trip through native text.
func readProgram(t testing.TB, proto []byte) (*lifetime.Capture, error) {
	t.Helper()
	c, err := readBare(proto)
	if err != nil {
		return nil, err
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	checkLaws(t, c)
	text := nativetest.Text(t, c)
	again := build.New(build.Everything)
	if err := native.Read("", strings.NewReader(text), again); err != nil {
		t.Fatal("native text is not read back: ", err)
	}
	c2, err := again.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if nativetest.Text(t, c2) != text {
		t.Error("the model changes on its way through native text")
	}
	return c, nil
}

// mustRead reads a program built by a test.
func mustRead(t testing.TB, p program) *lifetime.Capture {
	t.Helper()
	c, err := readProgram(t, p.proto())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSniff(t *testing.T) {
	for _, file := range programs(t) {
		if data := contentOf(t, file); !hlo.Sniff(data[:min(len(data), 4096)]) {
			t.Errorf("%s is not recognized", file)
		}
	}
	plane := message{}.num(1, 3).text(2, "/host:CPU")
	for name, data := range map[string][]byte{
		"nothing":                  nil,
		"one byte":                 {0x0a},
		"XSpace, plane with id":    message{}.put(1, plane),
		"XSpace, plane with name":  message{}.put(1, message{}.text(2, "/host:metadata")),
		"XSpace, empty plane":      message{}.put(1, message{}).put(1, plane),
		"XSpace, plane with lines": message{}.put(1, message{}.put(3, message{}.text(2, "name"))),
		"pprof profile":            message{}.put(1, message{}.num(1, 1).num(2, 2)).put(2, message{}.num(1, 1)),
		"pickle":                   []byte("\x80\x04\x95\x10\x00\x00\x00"),
		"text":                     []byte("\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n"),
		"JSON":                     []byte("\n{\n\t\"planes\":\n\t[]\n}\n" + strings.Repeat(" ", 200)),
		"name alone":               message{}.put(1, message{}.text(1, "jit_f").text(3, "x").num(4, 9))[:3],
		"name and no more":         message{}.put(1, message{}.text(1, "jit_f")),
		"name with blanks":         message{}.put(1, message{}.text(1, "two words").text(2, "main")),
	} {
		if hlo.Sniff(data) {
			t.Errorf("%s is recognized as a program", name)
		}
	}
}

// TestRefused: for a program that failed to compile, the sizes in the compiler's message are those at the peak.
func TestRefused(t *testing.T) {
	for file, gib := range map[string]float64{"oom.hlo.pb": 48, "seed_oom.hlo.pb": 300} {
		c, err := readProgram(t, contentOf(t, filepath.Join(captures, file)))
		if err != nil {
			t.Fatal(err)
		}
		s := c.Spaces[0]
		if s.Memory != "space0" {
			t.Fatalf("%s: the first space is %s", file, s.ID())
		}
		peak := s.Peak(lifetime.Occupied)
		if got := float64(peak.Bytes) / (1 << 30); got < gib || got > gib*1.0001 {
			t.Errorf("%s: the peak is %.4f GiB, the compiler reports %v", file, got, gib)
		}
		lines := 0
		for _, row := range s.Breakdown(peak.At) {
			site := c.Sites[row.Site]
			if site.Shape == "" || site.DType == "" && site.Shape[0] != '(' || site.Instr == "" || site.Opcode == "" {
				t.Errorf("%s: a row of %d bytes has no description: %+v", file, row.Bytes, site)
			}
			if frame, ok := c.FrameOf(row.Site); ok && frame.Line > 0 {
				lines++
			}
		}
		if lines == 0 {
			t.Errorf("%s: no row has a source location", file)
		}
	}
}

// TestErrors: unreadable files are refused with the place and the reason.
func TestErrors(t *testing.T) {
	whole := program{
		instructions: []message{instruction(1, array(f32, 8), metadata("f/g"))}, buffers: []message{buffer(1, 32, 1)},
		allocations: []message{allocation(0, 32, 1, 0)},
	}
	bad := func(change func(p *program)) []byte {
		p := whole
		change(&p)
		return p.proto()
	}
	tooMany := func(p *program) {
		for i := range int64(65) {
			p.allocations = append(p.allocations, allocation(i, 1).num(color, i))
		}
	}
	for name, c := range map[string]struct {
		proto []byte
		want  string
	}{
		"module only": {message{}.put(1, message{}.text(1, "jit_f").text(2, "main")), "has no buffer assignment"},
		"cut short":   {whole.proto()[:60], "the field at byte 0 is cut short"},
		"instruction": {bad(func(p *program) { p.instructions = append(p.instructions, message("\x0a\x7f")) }),
			"hlo_module.computations[0].instructions[1]: the field at byte "},
		"second computation": {message{}.put(1, message{}.put(3, message{}.put(2, instruction(1, nil, nil)), message{}.put(2, message("\x0a\x7f")))),
			"hlo_module.computations[1].instructions[0]: the field at byte "},
		"frames":   {bad(func(p *program) { p.frames = message("\x0a\x7f") }), "hlo_module.stack_frame_index: the field at byte "},
		"layout":   {bad(func(p *program) { p.instructions[0] = instruction(1, message{}.put(5, message("\x10")), nil) }), "layout: the field at byte "},
		"metadata": {bad(func(p *program) { p.instructions[0] = instruction(1, array(f32, 8), message("\x10")) }), "metadata: the field at byte "},
		"shape":    {bad(func(p *program) { p.instructions[0] = instruction(1, message("\x10"), metadata("")) }), "is cut short"},
		"location": {bad(func(p *program) { p.buffers = []message{message{}.num(1, 1).put(3, message("\x0a"))} }), "is cut short"},
		"assigned": {bad(func(p *program) { p.allocations = []message{message{}.put(9, message("\x08"))} }),
			"buffer_assignment.buffer_allocations[0].assigned[0]: the field at byte "},
		"event": {bad(func(p *program) { p.traces = []message{message{}.put(1, message("\x0f"))} }),
			"buffer_assignment.heap_simulator_traces[0].events[0]"},
		"spaces": {bad(tooMany), "65 memory spaces"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readProgram(t, c.proto); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestMostSpaces: a program may have 64 memory spaces, and its assignment may come in pieces, like any message.
func TestMostSpaces(t *testing.T) {
	var proto []byte
	for i := range int64(64) {
		p := program{instructions: []message{instruction(i, array(f32, 2), nil)}, buffers: []message{buffer(i, 8, i).colored(i)},
			allocations: []message{allocation(i, 8, i, 0).num(color, i)}}
		proto = append(proto, p.proto()...)
	}
	c, err := readProgram(t, proto)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Spaces) != 64 || len(c.Losses) > 0 {
		t.Errorf("%d spaces, lost %v", len(c.Spaces), c.Losses)
	}
}

// TestTruncated cuts programs: a clear error, or everything before the cut.
func TestTruncated(t *testing.T) {
	for _, file := range []string{"padded.hlo.pb", "jax_donate.jit_donated.hlo.pb"} {
		data := contentOf(t, filepath.Join(captures, file))
		for n := 0; n < len(data); n += 1 + len(data)/700 {
			if _, err := readProgram(t, data[:n]); err != nil {
				nativetest.Message(t, err, 300)
			}
		}
	}
}
