package main

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	why "github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/render/plot"
)

// TestOneName: all answers call an array at the peak of a compiled program by the same line of the program, or by the same argument.
func TestOneName(t *testing.T) {
	line := regexp.MustCompile(`[^ (/]+\.py:[0-9]+`)
	var files []string
	for _, pattern := range append([]string{"../../testdata/xplane/*.hlo.pb*", "../../testdata/hlotext/proto/*.pb"}, filepath.SplitList(os.Getenv("MEMLANE_CAPTURES"))...) {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, matches...)
	}
	for _, file := range files {
		c, err := formats.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		var all, known [4]int64 // of all rooms
		for _, s := range c.Spaces {
			if s.Peak(lifetime.Occupied).Bytes < 1<<16 {
				continue // flags and tables of pointers
			}
			for _, row := range s.Breakdown(s.Peak(lifetime.Occupied).At) {
				argument := c.ArgumentOf(row.Kind, row.Site)
				name, place := plot.Name(c, s, row.Site) // of svg
				for i, text := range []string{c.SourcePlace(row.Site), why.BufferName(&c.Tables, row.Site), place + " " + name, c.PlaceOf(row.Site).String()} {
					all[i] += row.Bytes
					if argument != "" || line.MatchString(text) {
						known[i] += row.Bytes
					}
					if want := c.SourcePlace(row.Site); !strings.Contains(text, cmp.Or(want, argument)) && (i > 0 || argument == "") {
						t.Errorf("%s: %q of room %d lacks %q", file, text, i, cmp.Or(want, argument))
					}
				}
			}
		}
		for i := range all {
			if known[i] != known[0] || float64(known[i]) < .95*float64(all[i]) {
				t.Errorf("%s: room %d names %d, the first %d, of %d bytes", file, i, known[i], known[0], all[i])
			}
		}
	}
}
