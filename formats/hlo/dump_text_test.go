package hlo_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/hlo"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

const dumped = "../../testdata/hlotext"

// readText reads a text and checks the model.
func readText(t testing.TB, file string, text []byte) (*lifetime.Capture, error) {
	t.Helper()
	b := build.New(build.Everything)
	if err := hlo.ReadText(file, bytes.NewReader(text), b); err != nil {
		nativetest.Message(t, err, 300)
		return nil, err
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	return c, nil
}

// contents returns what a program has: its allocations, values, buffers with their sizes, and the peak of each memory space.
func contents(c *lifetime.Capture, times bool) (lines []string) {
	lines = assignment(c)
	for _, s := range c.Spaces {
		if !times {
			continue
		}
		peak, low := s.Peak(lifetime.Occupied), s.Peak(lifetime.Requested)
		lines = append(lines, fmt.Sprintf("%s %s: peak %d, unpadded %d", c.Spaces[0].Module, s.Memory, peak.Bytes, low.Bytes))
		for i := range s.Buffers {
			b := &s.Buffers[i]
			whole := b.Begin == s.Begin && b.End == s.End
			lines = append(lines, fmt.Sprintf("buffer %s %d of %d at %#x whole %t", b.Kind, b.Requested, b.Size, b.Addr, whole))
		}
	}
	slices.Sort(lines)
	return lines
}

// differ reports the lines that only one of two sorted lists has.
func differ(t *testing.T, file string, got, want []string) {
	t.Helper()
	less := func(all, others []string) (only []string) {
		left := map[string]int{}
		for _, line := range others {
			left[line]++
		}
		for _, line := range all {
			if left[line]--; left[line] < 0 {
				only = append(only, line)
			}
		}
		return only
	}
	if g, w := less(got, want), less(want, got); len(g)+len(w) > 0 {
		t.Errorf("%s: %q, want %q", filepath.Base(file), g, w)
	}
}

// TestTextEqualsProto: the assignment as text, with its live ranges, gives the same program as the proto of the same compilation.
func TestTextEqualsProto(t *testing.T) {
	files, err := filepath.Glob(dumped + "/proto/*.hlo.pb")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		want, err := readProgram(t, contentOf(t, file))
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dumped, "text", strings.TrimSuffix(filepath.Base(file), ".hlo.pb"))
		text := slices.Concat(contentOf(t, name+"-buffer-assignment.txt"), contentOf(t, name+"-live-range.txt"))
		got, err := readText(t, name+"-buffer-assignment.txt", text)
		if err != nil {
			t.Fatal(err)
		}
		differ(t, file, contents(got, true), contents(want, true))
		// The report has the sum of all allocations.
		report, err := readText(t, name+"-memory-usage-report.txt", contentOf(t, name+"-memory-usage-report.txt"))
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range want.Spaces {
			sum := sizes(s.Regions)
			if have := sizes(report.Spaces[i].Regions); have != sum || len(report.Spaces[i].Regions) != len(s.Regions) {
				t.Errorf("%s %s: the report has %d bytes in %d allocations, want %d in %d", filepath.Base(file), s.Memory, have,
					len(report.Spaces[i].Regions), sum, len(s.Regions))
			}
		}
	}
}

func sizes(regions []lifetime.Region) (sum int64) {
	for i := range regions {
		sum += regions[i].Size
	}
	return sum
}

// TestTextWithoutTimes: without live ranges, allocations and values are those of the proto, and nothing is in use for less than the
// whole program.
func TestTextWithoutTimes(t *testing.T) {
	texts, err := filepath.Glob(captures + "/*.buffer-assignment.txt")
	if err != nil || len(texts) < 5 {
		t.Fatal(texts, err)
	}
	for _, text := range texts {
		got, err := readText(t, text, contentOf(t, text))
		if err != nil {
			t.Fatal(err)
		}
		want, err := readProgram(t, contentOf(t, strings.TrimSuffix(text, ".buffer-assignment.txt")+".hlo.pb"))
		if err != nil {
			t.Fatal(err)
		}
		differ(t, text, contents(got, false), contents(want, false))
		for i, s := range got.Spaces {
			if peak, least := s.Peak(lifetime.Occupied).Bytes, want.Spaces[i].Peak(lifetime.Occupied).Bytes; peak < least {
				t.Errorf("%s %s: peak %d, less than %d", filepath.Base(text), s.Memory, peak, least)
			}
		}
	}
}

// TestOldReport: reports of up to 2025 number the allocations and round their sizes; the sum is exact.
func TestOldReport(t *testing.T) {
	c, err := readText(t, "x-memory-usage-report.txt", []byte(`Total bytes used: 12885032960 (12.00GiB)

Allocations sorted by size:

cumulative_size; total_size - cumulative_size; allocation
------------------------------------------------------------------------------
   8.00GiB( 67%);    4.00GiB; allocation 8: size 8.00GiB, preallocated-temp:
  12.00GiB(100%);   128.1KiB; allocation 1: size 4.00GiB, parameter 1, shape |f32[1024,1048576]| at ShapeIndex {}:
  12.00GiB(100%);         0B; allocation 2: size 129.0KiB, maybe-live-out:
  12.00GiB(100%);         0B; allocation 3: size 5B, color 1, preallocated-temp:


Allocations sorted by size with their values:
allocation 8: size 8.00GiB, preallocated-temp:
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range c.Spaces {
		for _, r := range s.Regions {
			got = append(got, fmt.Sprint(s.Memory, " ", r.Index, " ", r.Size))
		}
	}
	// 12885032960 less 4 GiB, 129 KiB and 5 bytes is 8 GiB less 1029 bytes.
	want := "space0 8 8589933563, space0 1 4294967296, space0 2 132096, space1 3 5"
	if strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", strings.Join(got, ", "), want)
	}
}

// TestGoldenText compares the whole model of a text with its native text.
func TestGoldenText(t *testing.T) {
	name := dumped + "/text/module_0012.jit_loop.cpu_after_optimizations"
	c, err := readText(t, name+"-buffer-assignment.txt", slices.Concat(contentOf(t, name+"-buffer-assignment.txt"), contentOf(t, name+"-live-range.txt")))
	if err != nil {
		t.Fatal(err)
	}
	nativetest.Golden(t, c, dumped+"/jit_loop.native")
}

// FuzzText reads arbitrary text: no panic, bounded memory, one clear error or a model that passes Check.
func FuzzText(f *testing.F) {
	files, _ := filepath.Glob(dumped + "/text/*.txt")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		hlo.SniffText(data[:min(len(data), 4096)])
		nativetest.Bounded(t, len(data), 16<<20, 10_000, func() {
			if c, err := readText(t, "x", data); err == nil {
				nativetest.Text(t, c)
			}
		})
	})
}
