package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
)

// profiles returns the profiles and compiled programs in testdata, and those
// below MEMLANE_CAPTURES.
func profiles(t *testing.T) []string {
	t.Helper()
	all := []string{"../../testdata/native/programs.native", "../../testdata/native/runtime.native"}
	patterns := []string{"../../testdata/xplane/*.pb"}
	if dir := os.Getenv("MEMLANE_CAPTURES"); dir != "" {
		patterns = append(patterns, filepath.Join(dir, "xplane/*/*.pb"), filepath.Join(dir, "public/xplane/*.pb"), filepath.Join(dir, "labelled/*.pb"))
	}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, files...)
	}
	return slices.DeleteFunc(all, func(file string) bool { return strings.Contains(file, "MANGLED") })
}

// TestProfiles checks that info, peak, pprof and svg agree on the peak of every memory ID,
// and that every view draws it.
func TestProfiles(t *testing.T) {
	heap := filepath.Join(t.TempDir(), "heap.pb.gz")
	for _, file := range profiles(t) {
		info := decode[answer.Info](t, succeed(t, "info", "--json", file)).Captures[0]
		peaks := decode[answer.Peaks](t, succeed(t, "peak", "--quiet", "--json", "--space", "*", file)).Peaks
		if len(peaks) != len(info.Spaces) || len(peaks) == 0 {
			t.Fatalf("%s: %d peaks in %d memory IDs", file, len(peaks), len(info.Spaces))
		}
		total := int64(0)
		for i, s := range info.Spaces {
			total += s.Peak.Bytes
			checkRows(t, file, s, peaks[i])
		}
		if total > 0 {
			succeed(t, "pprof", "--quiet", "--space", "*", "-o", heap, file)
			if got := totals(t, heap)["inuse_space"]; got != total {
				t.Errorf("%s: inuse_space is %d, the peaks come to %d", file, got, total)
			}
			for _, layout := range slices.Sorted(maps.Keys(layouts)) {
				if err := wellFormed(succeed(t, "svg", "--quiet", "--layout", layout, file)); err != nil {
					t.Errorf("%s: %s: %v", file, layout, err)
				}
			}
		}
		for _, f := range decode[answer.Leaks](t, succeed(t, "leaks", "--quiet", "--json", file)).Findings {
			ofProgram := f.Rule == "whole_program" || f.Rule == "padding"
			if ofProgram != (f.Evidence["peak_bytes"] != nil) || f.Bytes <= 0 || f.Description == "" || len(f.Suggestions) == 0 {
				t.Errorf("%s: incomplete: %+v", file, f)
			}
		}
	}
}

// checkRows compares a breakdown with the figures of info.
func checkRows(t *testing.T, file string, s answer.Space, p answer.Peak) {
	t.Helper()
	var bytes, padding, stack, base int64
	for _, r := range p.Rows {
		bytes += r.Bytes
		switch {
		case r.Category == lifetime.FromBase.String():
			base += r.Bytes
		case r.Category == lifetime.FromStack.String():
			stack += r.Bytes
		case (r.PaddingBytes != nil) != (s.PaddingBytes != nil):
			t.Errorf("%s %s: a row has padding, and its memory ID has not, or the other way round", file, s.ID)
		case r.PaddingBytes != nil:
			padding += *r.PaddingBytes
			if r.Category == "plain" || r.Category == "thread-local" {
				t.Errorf("%s %s: a row of kind %s", file, s.ID, r.Category)
			}
		}
	}
	if p.Space != s.ID || p.At != s.Peak.At || bytes != s.Peak.Bytes || p.Bytes != bytes {
		t.Errorf("%s %s: rows have %d bytes at %d, info has %+v", file, p.Space, bytes, p.At, s.Peak)
	}
	if s.PaddingBytes != nil && padding != *s.PaddingBytes {
		t.Errorf("%s %s: rows have %d bytes of padding, info has %d", file, s.ID, padding, *s.PaddingBytes)
	}
	if s.StackBytes != nil && stack != *s.StackBytes || s.StackBytes == nil && stack != 0 || base != s.BaseBytes {
		t.Errorf("%s %s: rows have a stack of %d and a base of %d bytes, info has %v and %d", file, s.ID, stack, base, s.StackBytes, s.BaseBytes)
	}
	if (s.Module != "") != (s.MemorySpace != nil) {
		t.Errorf("%s %s: module %q, memory space %v", file, s.ID, s.Module, s.MemorySpace)
	}
	if n := s.MemorySpace; n != nil && !strings.HasSuffix(s.ID, s.Module+"/space"+strconv.FormatInt(*n, 10)) {
		t.Errorf("%s %s: memory space %d", file, s.ID, *n)
	}
}

// TestProfileWidth checks that text about profiles fits a terminal, except long names of
// programs.
func TestProfileWidth(t *testing.T) {
	for _, file := range profiles(t) {
		for _, command := range []string{"leaks", "peak"} {
			for line := range strings.Lines(onTerminal(t, command, "--quiet", file)) {
				if n := len([]rune(line)); n > 82 && !strings.Contains(line, "  on ") && !strings.HasPrefix(line, file) {
					t.Errorf("memlane %s %s: %d wide: %s", command, file, n-1, line)
				}
			}
		}
	}
}

// TestNoMemory checks that a capture without memory data says why, for its format.
func TestNoMemory(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"silent": {"loss no-memory-events count=1\n", "holds no memory data: the profile has no memory events: JAX on CPU records none"},
		"bare":   {"", "holds no memory data: no history, no end state and no compiled program"},
		"damaged": {"loss no-memory-events count=1\nloss damaged-module count=3 first=\"jit_f(5) (byte 51): cut\"\n",
			"holds no memory data: damaged-module: compiled modules cannot be read and were left out (3 cases, first at jit_f(5) (byte 51): cut); the profile has no memory events"},
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("memlane native 2\nsource format=\"xplane\" producer=\"a test\"\n"+c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"info", "leaks", "peak", "svg"} {
			_, stderr, status := memlane("", command, file)
			if status != statusNothing || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "torch") {
				t.Errorf("memlane %s %s: status %d, %s", command, name, status, stderr)
			}
		}
	}
	// There are programs, but the requested data would have been recorded at run time.
	programs, err := os.ReadFile("../../testdata/native/programs.native")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "programs")
	if err := os.WriteFile(file, append(programs, "loss no-memory-events count=1\n"...), 0o666); err != nil {
		t.Fatal(err)
	}
	for flag, why := range map[string]bool{"--space=cuda:0": true, "--module=nosuch": false} {
		_, stderr, status := memlane("", "info", flag, file)
		if status != statusNothing || strings.Contains(stderr, "; the profile has no memory events") != why {
			t.Errorf("memlane info %s: status %d, %s", flag, status, stderr)
		}
	}
	if out := succeed(t, "peak", "--quiet", file); !strings.Contains(out, "jit_step(5)/space0") {
		t.Errorf("peak shows\n%s", out)
	}
}

// TestViewerSpaces: --space chooses a memory space of a program for XProf's viewer and changes nothing in it, also if the program leaves it empty.
func TestViewerSpaces(t *testing.T) {
	for space, order := range map[int]string{0: "maxHeapBySize", 2: "", 4: "", 12: ""} { // XProf orders equal sizes in another way
		want, err := os.ReadFile(fmt.Sprintf("../../testdata/xplane/tpu_offload.memory_viewer.jit_offload-0.s%d.json", space))
		if err != nil {
			t.Fatal(err)
		}
		out := succeed(t, "export", "--to", "xprof.memory_viewer", "--space", fmt.Sprintf("*/space%d", space), "../../testdata/xplane/offload.hlo.pb.zst")
		got, right := decode[map[string]any](t, out), decode[map[string]any](t, string(want))
		for _, v := range []map[string]any{got, right} {
			for _, key := range []string{order, "bySizeToMaxHeap", "maxHeapToBySize"} {
				delete(v, key)
			}
		}
		if !reflect.DeepEqual(got, right) {
			t.Errorf("space %d: %s", space, out)
		}
	}
}
