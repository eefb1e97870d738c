package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
)

// TestInputs: memlane reads the true figures from every kind of input, and equal fields make equal bytes.
func TestInputs(t *testing.T) {
	for _, in := range []input{
		{kind: "xspace", n: 5000, seed: 1},
		{kind: "sparse", n: 300, seed: 1},
		{kind: "trace", n: 20_000, seed: 1},
		{kind: "trace-line", n: 20_000, seed: 1},
		{kind: "trace-gz", n: 3000, seed: 1},
		{kind: "snapshot", n: 5000, seed: 1, stacks: 300},
		{kind: "snapshot", n: 60, seed: 1, stacks: 20}, // may end between the two records of a free
		{kind: "snapshot", n: 61, seed: 1, stacks: 20},
		{kind: "snapshot", n: 62, seed: 1, stacks: 20},
		{kind: "deep", n: 5000, seed: 1, stacks: 300},
		{kind: "all", n: 5000, seed: 1, stacks: 300},
		{kind: "blocks", n: 2500, seed: 1, stacks: 300},
		{kind: "shared", n: 2500, seed: 1, stacks: 300},
		{kind: "nested", n: 20_000, seed: 1},
		{kind: "hlo", n: 700, seed: 1},
		{kind: "hlo-xspace", n: 700, seed: 1},
	} {
		t.Run(in.name(), func(t *testing.T) {
			data, want := made(t, in)
			if again, _ := made(t, in); !bytes.Equal(data, again) {
				t.Error("the second input differs from the first")
			}
			file := filepath.Join(t.TempDir(), in.name())
			if err := os.WriteFile(file, data, 0o666); err != nil {
				t.Fatal(err)
			}
			c, err := formats.Open(file, formats.Input{})
			if err != nil {
				t.Fatal(err)
			}
			checkTruth(t, c, want)
		})
	}
}

func made(t *testing.T, in input) ([]byte, truth) {
	t.Helper()
	var w bytes.Buffer
	want, err := kinds[in.kind].write(&w, in)
	if err != nil {
		t.Fatal(err)
	}
	return w.Bytes(), want
}

func checkTruth(t *testing.T, c *lifetime.Capture, want truth) {
	t.Helper()
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	for _, l := range c.Losses {
		if l.Reason.Class() != loss.Remark && l.Reason != loss.NotAHistory {
			t.Errorf("loss: %+v", l)
		}
	}
	if len(c.Spaces) != 1 {
		t.Fatalf("%d spaces", len(c.Spaces))
	}
	s := c.Spaces[0]
	allocations, frees := s.Allocations, s.Frees
	if s.Allocations == 0 || s.Axis == lifetime.ProgramOrder { // there are buffers, but no events
		allocations, frees = len(s.Buffers), len(s.Buffers)
	}
	if got := (truth{allocations, frees, s.Peak(lifetime.Occupied).Bytes}); got != want {
		t.Errorf("memlane reads %+v, the truth is %+v", got, want)
	}
	if want.allocations < 10 || want.peak == 0 {
		t.Errorf("the input is nearly empty: %+v", want)
	}
}

// TestSeeds: another seed is another capture.
func TestSeeds(t *testing.T) {
	for _, kind := range []string{"xspace", "trace", "snapshot"} {
		first, _ := made(t, input{kind: kind, n: 500, seed: 1, stacks: 20})
		second, _ := made(t, input{kind: kind, n: 500, seed: 2, stacks: 20})
		if bytes.Equal(first, second) {
			t.Errorf("%s: two seeds make the same bytes", kind)
		}
	}
}

// TestInputArgs: args and inputOf are inverse.
func TestInputArgs(t *testing.T) {
	want := input{kind: "snapshot", n: 5, seed: 7, stacks: 9}
	if got, err := inputOf(want.args()); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, args := range [][]string{{"nothing", "1", "1", "0"}, {"hlo", "x", "1", "0"}, {"hlo", "1", "-1", "0"}, {"hlo", "1", "1", ""}, {}} {
		if _, err := inputOf(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// TestOpcodes: the limit reads a pickle to its end, whatever fits in its window, and fails without an end.
func TestOpcodes(t *testing.T) {
	for _, in := range []input{{kind: "deep", n: 300, seed: 1, stacks: 20}, {kind: "snapshot", n: 300, seed: 1, stacks: 20}} {
		data, _ := made(t, in)
		for _, window := range []int{9, 64, 1 << 20} {
			rest := bytes.NewReader(append(slices.Clone(data), "after"...))
			if err := opcodes(io.LimitReader(rest, int64(len(data))), make([]byte, window)); err != nil || rest.Len() != len("after") {
				t.Errorf("%s, window of %d: %v, %d bytes are left", in.kind, window, err, rest.Len()-len("after"))
			}
			if err := opcodes(bytes.NewReader(data[:len(data)-1]), make([]byte, window)); err == nil {
				t.Errorf("%s, window of %d: no error without the last opcode", in.kind, window)
			}
		}
	}
}
