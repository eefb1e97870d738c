package main

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/deep"
)

// TestPeakAndEndAlone checks that info and peak, which read outlines, print the same as
// with all buffers. "--from 0s" makes them read all buffers of the whole capture. Recordings of programs are long and
// all of a kind, so every eighth is enough, or every 32nd with a third of the other captures.
func TestPeakAndEndAlone(t *testing.T) {
	programs := regexp.MustCompile(`[/\\](labelled|leaks|meaning|replay|whatif)[/\\]`)
	compared, recordings, others := 0, 0, 0
	err := filepath.WalkDir("../../testdata", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if programs.MatchString(file) {
			if recordings++; recordings%deep.Or(32, 8) != 0 {
				return nil
			}
		} else if others++; others%deep.Or(3, 1) != 0 {
			return nil
		}
		for _, args := range [][]string{{"info", "--json"}, {"peak", "--json"}} {
			whole, wholeErr, wholeStatus := memlane("", append(args, "--from", "0s", file)...)
			if wholeStatus == statusInput || strings.Contains(wholeErr, "have no time to select") {
				return nil // not a capture, or one without a window
			}
			stdout, stderr, status := memlane("", append(args, file)...)
			if compared++; stdout != whole || stderr != wholeErr || status != wholeStatus {
				t.Errorf("%s %s: status %d, %s%s\nwith all buffers: status %d, %s%s", strings.Join(args, " "), file, status, stdout, stderr,
					wholeStatus, whole, wholeErr)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if compared < deep.Or(70, 250) {
		t.Errorf("%d outputs compared", compared)
	}
}
