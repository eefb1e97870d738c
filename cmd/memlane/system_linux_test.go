package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/memlane/memlane/internal/atomicfile"
	"github.com/memlane/memlane/lifetime/answer"
)

// limited runs a program under a limit of ulimit. It returns its status and standard error.
func limited(limit, command string) (status int, message string) {
	cmd := exec.Command("sh", "-c", "ulimit "+limit+"; exec "+command)
	var out strings.Builder
	cmd.Stderr = &out
	var exit *exec.ExitError
	if errors.As(cmd.Run(), &exit) {
		status = exit.ExitCode()
	}
	return status, out.String()
}

// TestOpenFiles checks that the limit of open files is named, and that a series of files
// does not depend on it.
func TestOpenFiles(t *testing.T) {
	capture := absolute(t, snapshots+"/twodev.pickle")
	t.Chdir(t.TempDir())
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("%dns", 1000+i))
	}
	args := "memlane pprof --quiet -o heap.pb.gz --at " + strings.Join(many, ",") + " " + answer.Quoted(capture)
	if status, message := limited("-n 20", args); status != 0 {
		t.Errorf("with 20 open files: status %d: %s", status, message)
	}
	if files, err := filepath.Glob("heap-*.pb.gz"); err != nil || len(files) != len(many) {
		t.Errorf("%d files, %v", len(files), err)
	}
	// A limit that is low enough keeps the program from starting.
	usual := atomicfile.Inject
	t.Cleanup(func() { atomicfile.Inject = usual })
	atomicfile.Inject = func(operation string) error { return &os.PathError{Op: operation, Path: "hidden", Err: syscall.EMFILE} }
	_, stderr, status := memlane("", "svg", "--quiet", "-o", "out.svg", capture)
	if status != statusOutput || !strings.Contains(stderr, ": too many open files; ") || !strings.HasSuffix(stderr, "; raise the limit with ulimit -n\n") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("without a free descriptor: status %d: %s", status, stderr)
	}
}
