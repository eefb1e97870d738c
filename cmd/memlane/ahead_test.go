package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/memlimit"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/selection"
)

// TestReadAhead: answers, warnings and errors about several captures do not depend on how many are read at once.
func TestReadAhead(t *testing.T) {
	files, err := filepath.Glob("../../testdata/torchsnap/*.pickle")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	cut, bad := filepath.Join(t.TempDir(), "cut.pickle"), filepath.Join(t.TempDir(), "bad.pickle")
	for file, data := range map[string][]byte{cut: data[:len(data)/2], bad: []byte("\x80\x04cos\nsystem\n.")} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(processors int, args ...string) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		stdout, stderr, status := memlane("", args...)
		return fmt.Sprintf("%d\n%s\n%s", status, stdout, stderr)
	}
	for _, args := range [][]string{
		append([]string{"info", "--json"}, files...),
		append([]string{"peak", cut}, files...),
		append(append([]string{"leaks"}, files[:3]...), cut, bad, files[3]),
		append([]string{"info", bad}, files...),
	} {
		want := run(1, args...)
		for _, processors := range []int{2, 4, 8} {
			if got := run(processors, args...); got != want {
				t.Fatalf("%.60q: with %d processors\n%.400s\nwith one\n%.400s", args, processors, got, want)
			}
		}
	}
}

// TestReadAheadShort: if memory is short, eachAhead takes nothing and leaves all captures to be read alone.
func TestReadAheadShort(t *testing.T) {
	files, err := filepath.Glob("../../testdata/torchsnap/*.pickle")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	c := cli.NewContext(&cli.App{ErrWriter: io.Discard}, flag.NewFlagSet("", flag.ContinueOnError), nil)
	for limit, want := range map[*memlimit.Limit]int{memlimit.New(1000, "--max-memory"): 0, memlimit.New(64<<30, "--max-memory"): len(files), nil: len(files)} {
		taken := 0
		n, err := captures(0).eachAhead(c, files, &selection.Selection{}, limit, func(*judge.Capture) error {
			taken++
			return nil
		})
		if err != nil || n != want || taken != want {
			t.Errorf("read %d, took %d of %d: %v; want %d", n, taken, len(files), err, want)
		}
	}
}
