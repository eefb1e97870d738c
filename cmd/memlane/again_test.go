package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/deep"
)

// TestSameAgain: a command that runs again over the same capture writes the same. Go ranges over maps in random order, also within a
// process; of two orders, every other pair of runs has both. Each capture has another twelfth of the commands, or third.
func TestSameAgain(t *testing.T) {
	captures, commands := mutantsOf(t)
	parts := deep.Or(12, 3)
	for i, capture := range captures {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "capture")
			if err := os.WriteFile(file, capture, 0o666); err != nil {
				t.Fatal(err)
			}
			for k := i % parts; k < len(commands); k += parts {
				command := commands[k]
				written := func() string {
					stdout, stderr, status := memlane("", argsOf(command+" --quiet FILE", file)...)
					return fmt.Sprintf("status %d\n%s\n%s", status, stderr, stdout)
				}
				if first, second := written(), written(); first != second {
					t.Errorf("memlane %s: the second run differs: %s", command, firstDifference(first, second))
				}
			}
		})
	}
}

// firstDifference returns the first lines that differ.
func firstDifference(x, y string) string {
	xs, ys := strings.Split(x, "\n"), strings.Split(y, "\n")
	for i := range min(len(xs), len(ys)) {
		if xs[i] != ys[i] {
			return fmt.Sprintf("line %d: %.300q, %.300q", i+1, xs[i], ys[i])
		}
	}
	return fmt.Sprintf("%d and %d lines", len(xs), len(ys))
}
