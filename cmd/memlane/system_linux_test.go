package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/memlane/memlane/internal/atomicfile"
)

// TestOpenFiles checks that the limit of open files is named.
func TestOpenFiles(t *testing.T) {
	capture := absolute(t, snapshots+"/twodev.pickle")
	t.Chdir(t.TempDir())
	// A limit that is low enough keeps the program from starting.
	usual := atomicfile.Inject
	t.Cleanup(func() { atomicfile.Inject = usual })
	atomicfile.Inject = func(operation string) error { return &os.PathError{Op: operation, Path: "hidden", Err: syscall.EMFILE} }
	_, stderr, status := memlane("", "svg", "--quiet", "-o", "out.svg", capture)
	if status != statusOutput || !strings.Contains(stderr, ": too many open files; ") || !strings.HasSuffix(stderr, "; raise the limit with ulimit -n\n") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("without a free descriptor: status %d: %s", status, stderr)
	}
}
