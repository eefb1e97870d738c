package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/render"
)

// TestSVG checks that every view of every capture is well-formed and reproducible. Without MEMLANE_DEEP=1 each capture has another
// third of the views.
func TestSVG(t *testing.T) {
	drawn := map[string]bool{}
	n := 0
	for _, name := range slices.Sorted(maps.Keys(pickles(t))) {
		file := pickles(t)[name]
		for _, layout := range slices.Sorted(maps.Keys(layouts)) {
			for _, color := range slices.Sorted(maps.Keys(colors)) {
				if n++; n%deep.Or(3, 1) != 0 && name != "frag_oom" {
					continue
				}
				args := []string{"svg", "--quiet", "--layout", layout, "--color", color, file}
				picture := succeed(t, args...)
				if err := wellFormed(picture); err != nil {
					t.Errorf("memlane %v: %v", args, err)
				}
				if name == "frag_oom" {
					drawn[picture] = true
					if again := succeed(t, args...); again != picture {
						t.Errorf("memlane %v: differs the second time", args)
					}
				}
			}
		}
	}
	if len(drawn) != len(layouts)*len(colors) {
		t.Errorf("%d layouts and %d colours make %d pictures", len(layouts), len(colors), len(drawn))
	}
}

func wellFormed(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	root := ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if start, ok := token.(xml.StartElement); ok && root == "" {
			root = start.Name.Local
		}
	}
	if root != "svg" {
		return fmt.Errorf("the root is <%s>", root)
	}
	return nil
}

// TestSVGOthers checks that a picture of one of several devices has panels of the others, unless the device is chosen.
func TestSVGOthers(t *testing.T) {
	file := "../../testdata/torchsnap/twodev.pickle"
	spaces := decode[answer.Info](t, succeed(t, "info", "--json", file)).Captures[0].Spaces
	for _, view := range []string{"usage", "blocks"} {
		shown := 0
		picture := succeed(t, "svg", "--quiet", "--view", view, file)
		for _, s := range spaces {
			if strings.Contains(picture, s.ID+"\npeak "+units.Exact(s.Peak.Bytes)+"</title>") {
				shown++
			}
		}
		if shown != 1 {
			t.Errorf("%s: %d panels of other devices, want 1", view, shown)
		}
		if picture := succeed(t, "svg", "--quiet", "--view", view, "--space", "cuda:0", file); strings.Contains(picture, "other memory IDs") {
			t.Errorf("%s: a picture of a chosen device has panels of others", view)
		}
		if picture := succeed(t, "svg", "--quiet", "--view", view, "--height", "300", file); !strings.Contains(picture, "1 other memory ID not shown") {
			t.Errorf("%s: a picture without room for another device does not say so", view)
		}
	}
}

// TestWhatIfPicture: the picture and the capture of a change are those of the change that was asked, also where only one step was recorded: the
// first change that the table names, not the step that follows. What is drawn has the peak that the table has.
func TestWhatIfPicture(t *testing.T) {
	const file = "../../testdata/whatif/one_step.pickle.zst"
	pictures := map[string]string{}
	for _, change := range []string{"batch=2", "batch=0.5", "checkpoint=blocks"} {
		picture := filepath.Join(t.TempDir(), "changed.svg")
		succeed(t, "whatif", "--set", change, "-o", picture, file)
		drawn, err := os.ReadFile(picture)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(drawn), change) {
			t.Errorf("the picture of %s does not name it", change)
		}
		for other, of := range pictures {
			if of == string(drawn) {
				t.Errorf("%s and %s have one picture", other, change)
			}
		}
		pictures[change] = string(drawn)
		changed := filepath.Join(t.TempDir(), "changed.native")
		succeed(t, "whatif", "--set", change, "-o", changed, file)
		peak := decode[answer.Info](t, succeed(t, "info", "--json", changed)).Captures[0].Spaces[0].Peak.Bytes
		scenarios := decode[answer.WhatIf](t, succeed(t, "whatif", "--json", "--set", change, file)).Spaces[0].Scenarios
		if of := scenarios[len(scenarios)-1]; peak < *of.LowBytes || peak > *of.HighBytes {
			t.Errorf("%s: %d bytes are drawn, the table says %d to %d", change, peak, *of.LowBytes, *of.HighBytes)
		}
	}
}

// TestPprof checks that the totals of a profile equal those of info, for every capture.
func TestPprof(t *testing.T) {
	file := filepath.Join(t.TempDir(), "heap.pb.gz")
	for name, capture := range pickles(t) {
		info := decode[answer.Info](t, succeed(t, "info", "--json", capture)).Captures[0]
		var peak, live, count int64
		for _, s := range info.Spaces {
			peak, live, count = peak+s.Peak.Bytes, live+s.BaseBytes+s.Live.Bytes, count+s.Live.Count
		}
		allocated, allocations := allocations(t, capture)
		succeed(t, "pprof", "--quiet", "-o", file, capture)
		atPeak := totals(t, file)
		succeed(t, "pprof", "--quiet", "--at", "end", "-o", file, capture)
		atEnd := totals(t, file)
		for sample, want := range map[string]int64{"inuse_space": peak, "alloc_space": allocated, "alloc_objects": allocations} {
			if atPeak[sample] != want {
				t.Errorf("%s: %s is %d, want %d", name, sample, atPeak[sample], want)
			}
		}
		for sample, want := range map[string]int64{"inuse_space": live, "inuse_objects": count, "alloc_space": allocated} {
			if atEnd[sample] != want {
				t.Errorf("%s at the end: %s is %d, want %d", name, sample, atEnd[sample], want)
			}
		}
	}
}

// totals returns the sums of a profile by sample type.
func totals(t *testing.T, file string) map[string]int64 {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]int64{}
	for _, s := range p.Sample {
		for i, v := range s.Value {
			sums[p.SampleType[i].Type] += v
		}
	}
	return sums
}

// TestGoToolPprof opens a profile with go tool pprof.
func TestGoToolPprof(t *testing.T) {
	if testing.Short() {
		t.Skip("runs go tool pprof")
	}
	file := filepath.Join(t.TempDir(), "heap.pb.gz")
	succeed(t, "pprof", "-o", file, pickles(t)["leak_loss"])
	for flag, want := range map[string][]string{
		"-top": {"of 45751296B total", "forward", "warning: leak: forward (leak_loss.py:9): 8 buffers (16.0 MiB) were never freed"},
		"-raw": {"inuse_space/bytes[dflt]", "leak:[leak:warning]", "device:[cuda:0]"},
	} {
		out := goTool(t, "pprof", flag, "-unit=b", file)
		for _, text := range want {
			if !strings.Contains(strings.ReplaceAll(string(out), "b total", "B total"), text) {
				t.Errorf("%s: no %s in\n%s", flag, text, out)
			}
		}
	}
}

// allocations returns the bytes and the count of the buffers that begin in the window,
// from the model.
func allocations(t *testing.T, file string) (bytes, count int64) {
	t.Helper()
	c, err := judged.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Spaces {
		for _, row := range s.Summary().Sites {
			bytes += row.Allocated.Bytes
			count += row.Allocated.Count
		}
	}
	return bytes, count
}

// TestExport checks that exported models have as many items as the model, and that -o FILE
// and -o - write the same.
func TestExport(t *testing.T) {
	type model struct {
		Sites, Stacks, Frames, Losses []any
		Spaces                        []struct {
			ID                              string
			Buffers, Regions, Marks, Totals []any
		}
	}
	for name, file := range pickles(t) {
		c, err := judged.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		text := succeed(t, "export", "--quiet", "--to", "json", file)
		var m model
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		got := []int{len(m.Sites), len(m.Stacks), len(m.Frames), len(m.Losses), len(m.Spaces)}
		want := []int{len(c.Sites), len(c.Stacks), len(c.Frames), len(c.Losses), len(c.Spaces)}
		for i, s := range c.Spaces {
			e := m.Spaces[i]
			got = append(got, len(e.Buffers), len(e.Regions), len(e.Marks), len(e.Totals))
			want = append(want, len(s.Buffers), len(s.Regions), len(s.Marks), len(s.Totals))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v things in JSON, %v in the model", name, got, want)
		}
	}
	file := pickles(t)["t215_host"]
	for _, e := range render.Exports {
		if e.Needs != render.Buffers {
			continue // export.txtar tests the formats that need XProf captures
		}
		out := filepath.Join(t.TempDir(), "out"+e.Extension)
		if printed := succeed(t, "export", "--to", e.Name, "-o", out, file); printed != "" {
			t.Errorf("%s: -o prints %q", e.Name, printed)
		}
		data, err := os.ReadFile(out)
		if text := succeed(t, "export", "--to="+e.Name, file, "-o", "-"); err != nil || text != string(data) {
			t.Errorf("%s: %v: -o FILE and -o - differ", e.Name, err)
		}
		one := succeed(t, "export", "--to", e.Name, "--space", "cpu/*", file)
		if all := e.Name != "torch.memory_timeline"; all && len(one) >= len(data) || strings.Contains(one, "cuda:0") {
			t.Errorf("%s: --space leaves cuda:0 in", e.Name)
		}
	}
}
