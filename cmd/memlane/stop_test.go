//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// interrupting is a capture in whose middle the user presses Ctrl-C.
type interrupting struct {
	rest    io.Reader
	pressed bool
}

func (r *interrupting) Read(p []byte) (int, error) {
	n, err := r.rest.Read(p[:min(len(p), 1000)])
	if !r.pressed {
		r.pressed = true
		syscall.Kill(syscall.Getpid(), syscall.SIGINT)
		time.Sleep(50 * time.Millisecond) // until it has arrived
	}
	return n, err
}

// TestInterrupted: Ctrl-C ends a command with one line and the status that shells
// know, and leaves neither an output nor a temporary file.
func TestInterrupted(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(snapshots, "leak_loss.pickle"))
	if err != nil {
		t.Fatal(err)
	}
	endless := bytes.Repeat(data, 1000) // the signal comes when it comes
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, args := range []string{"info -", "leaks -", "svg -o " + filepath.Join(dir, "x.svg") + " -", "info --input-format xplane -"} {
		var stdout, stderr bytes.Buffer
		status := run(&interrupting{rest: bytes.NewReader(endless)}, &stdout, &stderr, append([]string{"memlane"}, strings.Fields(args)...))
		if status != statusInterrupted || stderr.String() != "memlane: -: interrupted\n" || stdout.Len() > 0 {
			t.Errorf("memlane %s: status %d, stderr %q, stdout %q", args, status, stderr.String(), stdout.String())
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d files are left (%v)", len(left), err)
	}
}

// TestMaxMemory: a capture that fits is read as ever.
func TestMaxMemory(t *testing.T) {
	file := filepath.Join(snapshots, "leak_loss.pickle")
	if got, want := succeed(t, "leaks", "--json", "--max-memory", "8GiB", file), succeed(t, "leaks", "--json", file); got != want {
		t.Errorf("with --max-memory:\n%s\nwithout:\n%s", got, want)
	}
}
