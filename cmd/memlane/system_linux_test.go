package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/answer"
)

// limited runs a program under a limit of ulimit. It returns its status and standard error.
func limited(limit, command string) (status int, message string) {
	out, err := exec.Command("sh", "-c", "ulimit "+limit+"; exec "+command+" 2>&1 >/dev/null").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	}
	return status, string(out)
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
	if status, message := limited("-n 100", args); status != 0 {
		t.Errorf("with 100 open files: status %d: %s", status, message)
	}
	if files, err := filepath.Glob("heap-*.pb.gz"); err != nil || len(files) != len(many) {
		t.Errorf("%d files, %v", len(files), err)
	}
	for n := 30; n > 0; n-- {
		status, message := limited(fmt.Sprint("-n ", n), args)
		if status == statusOutput && strings.HasSuffix(message, ": too many open files; raise the limit with ulimit -n\n") && strings.Count(message, "\n") == 1 {
			return
		} else if status != 0 {
			t.Fatalf("with %d open files: status %d: %s", n, status, message)
		}
	}
	t.Error("no limit is too low")
}
