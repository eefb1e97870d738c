package render_test

import (
	"bytes"
	"encoding/csv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/render"
)

// captures reads captures of every format once for all tests. MEMLANE_CAPTURES adds those
// of a folder.
var captures = sync.OnceValues(func() (map[string]*lifetime.Capture, error) {
	const ours = "../testdata/"
	globs := []string{ours + "torchsnap/*.pickle", ours + "xplane/*.pb", ours + "chrome/*.json.gz", ours + "jaxprof/*.prof", ours + "gpumemprof/*.json", ours + "oomtext/*.log", ours + "hlotext/text/*-buffer-assignment.txt",
		ours + "labelled/d1*.trace.json.zst"}
	if dir := os.Getenv("MEMLANE_CAPTURES"); dir != "" {
		for _, glob := range []string{"snapshot/*.pickle", "chrome/*.json.gz", "jaxprof/*.prof", "xplane/*.pb"} {
			globs = append(globs, filepath.Join(dir, "public", glob))
		}
	}
	all := map[string]*lifetime.Capture{}
	for _, glob := range globs {
		files, err := filepath.Glob(glob)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			c, err := judged.Open(file, formats.Input{})
			if err != nil && !strings.HasPrefix(file, ours) {
				continue // some files are invalid on purpose
			} else if err != nil {
				return nil, err
			}
			all[strings.TrimPrefix(file, ours)] = c.Capture
		}
	}
	return all, nil
})

// ofCaptures calls each with every capture, and with one that has all features.
func ofCaptures(t *testing.T, each func(t *testing.T, c *lifetime.Capture)) {
	all, err := captures()
	if err != nil || len(all) < 70 {
		t.Fatal(len(all), err)
	}
	for _, f := range formats.All() {
		if !f.States && !slices.ContainsFunc(slices.Collect(maps.Values(all)), func(c *lifetime.Capture) bool { return c.Sources[0].Format == f.Name }) {
			t.Errorf("no capture of %s is tried", f.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) { each(t, all[name]) })
	}
	t.Run("small", func(t *testing.T) { each(t, small(t)) })
}

// written returns what an export writes.
func written(t *testing.T, c *lifetime.Capture, name, table string) []byte {
	t.Helper()
	i := slices.IndexFunc(render.Exports, func(e render.Export) bool { return e.Name == name })
	var b bytes.Buffer
	if err := render.Exports[i].Write(&b, c, render.Options{Table: table}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestCollapsed checks that each line is a stack and a number, and that the lines of a
// space sum to its peak.
func TestCollapsed(t *testing.T) {
	ofCaptures(t, func(t *testing.T, c *lifetime.Capture) {
		have := map[string]int64{}
		for line := range strings.Lines(string(written(t, c, "collapsed", ""))) {
			line = strings.TrimSuffix(line, "\n")
			i := strings.LastIndexByte(line, ' ')
			n, err := strconv.ParseInt(line[i+1:], 10, 64)
			space, stack, ok := strings.Cut(line[:i], ";")
			if err != nil || !ok || slices.Contains(strings.Split(stack, ";"), "") {
				t.Fatalf("%q", line)
			}
			have[space] += n
		}
		for _, s := range c.Spaces {
			if want := s.Peak(lifetime.Occupied).Bytes; have[s.ID()] != want {
				t.Errorf("%s: lines sum to %d, the peak is %d", s.ID(), have[s.ID()], want)
			}
		}
	})
}

// TestBenchfmt checks that each line is a result or unit metadata of the benchmark format
// (golang.org/design/14313-benchmark-format), and that the results match the spaces.
func TestBenchfmt(t *testing.T) {
	ofCaptures(t, func(t *testing.T, c *lifetime.Capture) {
		results, units := 0, map[string]bool{}
		for line := range strings.Lines(string(written(t, c, "benchfmt", ""))) {
			words := strings.Fields(line)
			if words[0] == "Unit" {
				units[words[1]] = words[len(words)-1] == "assume=exact"
				continue
			}
			s := c.Spaces[results]
			results++
			if want := "BenchmarkMemory/" + strings.ReplaceAll(s.ID(), " ", "_"); words[0] != want || words[1] != "1" || len(words)%2 != 0 {
				t.Fatalf("%q, want %s", line, want)
			}
			have := map[string]float64{}
			for i := 2; i < len(words); i += 2 {
				n, err := strconv.ParseFloat(words[i], 64)
				if err != nil || !units[words[i+1]] {
					t.Errorf("%q: %v", line, err)
				}
				have[words[i+1]] = n
			}
			want := s.Peak(lifetime.Occupied).Bytes
			if int64(have["peak-bytes"]) != want || have["end-bytes"] > have["peak-bytes"] || s.Facts&lifetime.History != 0 && int(have["allocs"]) != s.Allocations {
				t.Errorf("%q: the peak is %d, of %d allocations", line, want, s.Allocations)
			}
		}
		if results != len(c.Spaces) {
			t.Errorf("%d results of %d spaces", results, len(c.Spaces))
		}
	})
}

// rows reads a CSV table and returns the cells of each row by column name.
func rows(t *testing.T, data []byte) []map[string]string {
	t.Helper()
	all, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]map[string]string, len(all)-1)
	for i, cells := range all[1:] {
		out[i] = map[string]string{}
		for k, name := range all[0] {
			out[i][name] = cells[k]
		}
	}
	return out
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestTables checks that the sums over each table match the model.
func TestTables(t *testing.T) {
	ofCaptures(t, func(t *testing.T, c *lifetime.Capture) {
		type figures struct{ live, allocated, peak, requested, reserved int64 }
		buffers, sites := map[string]figures{}, map[string]figures{}
		for _, row := range rows(t, written(t, c, "csv", "")) {
			f := buffers[row["space"]]
			if row["live"] == "true" {
				f.live += number(t, row["size"])
			}
			if row["begin_unseen"] == "false" {
				f.allocated++
			}
			buffers[row["space"]] = f
		}
		for _, row := range rows(t, written(t, c, "csv", "sites")) {
			f := sites[row["space"]]
			f.live += number(t, row["live_bytes"])
			f.allocated += number(t, row["allocated_count"])
			sites[row["space"]] = f
		}
		levels := map[string]figures{}
		for _, row := range rows(t, written(t, c, "csv", "usage")) {
			f, bytes := levels[row["space"]], number(t, row["bytes"])
			switch row["measure"] {
			case "occupied":
				f.peak = max(f.peak, bytes)
			case "requested":
				f.requested = max(f.requested, bytes)
			case "reserved":
				f.reserved = max(f.reserved, bytes)
			}
			levels[row["space"]] = f
		}
		for _, s := range c.Spaces {
			id := s.ID()
			sum := s.Summary()
			_, reserved := region.Reserved(s)
			want := figures{peak: sum.Peak.Bytes, requested: sum.PeakRequested.Bytes, reserved: reserved}
			if s.UsageOnly() {
				want.requested = 0
			}
			if levels[id] != want {
				t.Errorf("%s: usage %v, want %v", id, levels[id], want)
			}
			want = figures{live: sum.Live.Bytes, allocated: buffers[id].allocated}
			if s.Axis != lifetime.ProgramOrder && !s.UsageOnly() { // a compiled program allocates nothing
				want.allocated = int64(s.Allocations)
			}
			if buffers[id] != want || sites[id] != want {
				t.Errorf("%s: buffers %v, sites %v, want %v", id, buffers[id], sites[id], want)
			}
		}
		frames, seen := 0, map[lifetime.StackID]bool{0: true}
		for _, site := range c.Sites {
			for _, id := range []lifetime.StackID{site.Stack, site.Source} {
				if !seen[id] {
					seen[id] = true
					for range c.FramesOf(id) {
						frames++
					}
				}
			}
		}
		if n := len(rows(t, written(t, c, "csv", "stacks"))); n != frames {
			t.Errorf("%d rows of stacks, want %d", n, frames)
		}
	})
}

// TestHostileNames checks that hostile names do not become formulas, lines, frames or
// terminal commands.
func TestHostileNames(t *testing.T) {
	names := []string{"=cmd|' /C calc'!A0", "+1", "-2+3", "@SUM(1)", "\t=1", " =1", "\r\n=1", "a;b 7\nc", "\x1b[31m", "\xff\xfe", "\"},{", "\u202e", "</script>", "\uff1d1"}
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "x"})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "=1 \x1b\n;"})
	for i, name := range names {
		stack := b.Stack([]lifetime.FrameID{b.Frame(frame.Frame{Function: name, File: name, Line: 1})})
		b.Alloc(s, int64(i), build.Block{Addr: uint64(i+1) << 20, Requested: 1, Occupied: 1, Site: b.Site(lifetime.Site{Stack: stack, Op: name, Shape: name})})
		b.Annotate(s, int64(i), uint64(i+1)<<20, b.Note(name))
		b.Mark(s, lifetime.Mark{Begin: int64(i), End: int64(i) + 1, Text: name})
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range ofBuffers() {
		for _, table := range append(e.Tables, "") {
			out := written(t, c, e.Name, table)
			if e.Binary {
				continue
			}
			if i := bytes.IndexFunc(out, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }); i >= 0 {
				t.Errorf("%s: byte %d is %q", e.Name, i, out[i:min(len(out), i+10)])
			}
		}
	}
	for _, row := range rows(t, written(t, c, "csv", "")) {
		for column, text := range row {
			if strings.ContainsAny(text[:min(1, len(text))], "=+-@\t\r") {
				t.Errorf("%s is %q", column, text)
			}
		}
	}
	if n := strings.Count(string(written(t, c, "collapsed", "")), "\n"); n != len(names) {
		t.Errorf("%d lines for %d stacks", n, len(names))
	}
}

// TestIDs: the memory IDs of a source differ, so that every output can tell them apart.
func TestIDs(t *testing.T) {
	type key struct {
		source int
		id     string
	}
	ofCaptures(t, func(t *testing.T, c *lifetime.Capture) {
		seen := map[key]bool{}
		for _, s := range c.Spaces {
			if seen[key{s.Source, s.ID()}] {
				t.Errorf("two memory IDs are %s", s.ID())
			}
			seen[key{s.Source, s.ID()}] = true
		}
	})
}
