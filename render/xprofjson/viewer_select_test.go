package xprofjson_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/hlo"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/native"
	"github.com/memlane/memlane/render/xprofjson"
)

// several is a capture of several programs.
func several(t *testing.T, names ...string) *lifetime.Capture {
	t.Helper()
	proto, err := os.ReadFile(programs + "/padded.hlo.pb")
	if err != nil {
		t.Fatal(err)
	}
	b := build.New(build.Everything)
	source := b.Source(lifetime.Source{Format: "hlo"})
	for _, name := range names {
		if err := hlo.Add(b, hlo.Module{Name: name, Source: source}, proto); err != nil {
			t.Fatal(err)
		}
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSelection: a program is found by its name with its number, or by its name alone if that is unique.
// Otherwise the error lists all programs.
func TestSelection(t *testing.T) {
	c := several(t, "jit_f(5)", "jit_g(6)", "jit_g(7)", "jit_h")
	for _, k := range []struct{ module, want string }{
		{"jit_f(5)", ""}, {"jit_f", ""}, {"jit_g(7)", ""}, {"jit_h", ""},
		{"jit_g", `several compiled programs are called "jit_g"; available: jit_f(5), jit_g(6), jit_g(7), jit_h`},
		{"jit_f(6)", `no compiled program is called "jit_f(6)"; available: jit_f(5), jit_g(6), jit_g(7), jit_h`},
		{"jit", "no compiled program"},
		{"", "no compiled program"},
	} {
		var out bytes.Buffer
		err := xprofjson.WriteMemoryViewer(&out, c, k.module, 0)
		if k.want == "" && (err != nil || out.Len() < 1000) || k.want != "" && (err == nil || !strings.Contains(err.Error(), k.want) || out.Len() > 0) {
			t.Errorf("%s: %v and %d bytes", k.module, err, out.Len())
		}
	}
	none := build.New(build.Everything)
	none.Source(lifetime.Source{})
	empty, err := none.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := xprofjson.WriteMemoryViewer(&bytes.Buffer{}, empty, "jit_f", 0); err == nil || !strings.Contains(err.Error(), "no compiled programs") {
		t.Errorf("without programs: %v", err)
	}
}

// TestNoMemory: only names are written for a memory space without an allocation, and for a program without any.
func TestNoMemory(t *testing.T) {
	const want = `{"moduleName":"jit_f","entryComputationName":"main.6"}` + "\n"
	var out bytes.Buffer
	if err := xprofjson.WriteMemoryViewer(&out, several(t, "jit_f(5)"), "jit_f(5)", 3); err != nil || out.String() != want {
		t.Errorf("%v %s", err, out.String())
	}
	out.Reset()
	if got := view(t, "jit_f(5)", nil, 0); string(got) != `{"moduleName":"jit_f"}`+"\n" {
		t.Errorf("an empty program: %s", got)
	}
}

// TestForeignModel: a model that does not come from a program is refused.
func TestForeignModel(t *testing.T) {
	for _, space := range []string{
		`begin=-1 end=+1000000000000000000`,
		`begin=0 end=+1`,
		"begin=-1 end=+1 facts=\"\"\nbuffer +0 +1 0x0 5 5 site=0 edge=end-open",
	} {
		b := build.New(build.Everything)
		text := "memlane native 2\nsource format=\"hlo\" producer=\"\"\nspace source=0 memory=\"space0\" module=\"m\" axis=\"program order\" " + space + "\n"
		if err := native.Read("", strings.NewReader(text), b); err != nil {
			t.Fatal(err)
		}
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if err := xprofjson.WriteMemoryViewer(&bytes.Buffer{}, c, "m", 0); err == nil || !strings.Contains(err.Error(), "not read from a compiled program") {
			t.Errorf("%s: %v", space, err)
		}
	}
}

type noRoom struct{}

var errNoRoom = errors.New("no room")

func (noRoom) Write([]byte) (int, error) { return 0, errNoRoom }

func TestViewerWriteError(t *testing.T) {
	if err := xprofjson.WriteMemoryViewer(noRoom{}, several(t, "jit_f(5)"), "jit_f(5)", 0); !errors.Is(err, errNoRoom) {
		t.Errorf("error %v", err)
	}
}
