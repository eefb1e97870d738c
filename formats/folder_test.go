package formats_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
)

// logFolder makes a folder with copies of the profile at the given places.
func logFolder(t *testing.T, files ...string) string {
	t.Helper()
	name := "logs [1]*"
	if runtime.GOOS == "windows" {
		name = "logs [1]"
	}
	root := filepath.Join(t.TempDir(), name)
	for _, file := range append(files, "events.out.tfevents", "plugins/other/x.txt") {
		data := read(t, profile)
		if !strings.Contains(file, "xplane") {
			data = nil
		}
		if strings.HasSuffix(file, ".gz") {
			data = gzipped(t, data)
		}
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func folder(t *testing.T, dir string) *lifetime.Capture {
	t.Helper()
	c, err := formats.Open(dir, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	return c
}

// TestDumpFolder opens a folder of XLA's dumps: one dump of each program, and the same programs as protos and as text with their
// live ranges.
func TestDumpFolder(t *testing.T) {
	peaks := func(dir string) (all []string) {
		for _, s := range folder(t, dir).Spaces {
			all = append(all, fmt.Sprint(s.ID(), " ", s.Peak(lifetime.Occupied).Bytes))
		}
		return all
	}
	protos, texts := peaks("../testdata/hlotext/proto"), peaks("../testdata/hlotext/text")
	if len(protos) != 4 || !slices.Equal(protos, texts) {
		t.Errorf("%q, want %q", texts, protos)
	}
}

// TestFolder opens all folders of the layout of XProf and TensorBoard: a run and its
// parents.
func TestFolder(t *testing.T) {
	const run = "plugins/profile/2026_01_11_21_26_41/"
	root := logFolder(t, "train/"+run+"worker-0.xplane.pb", "train/"+run+"worker-1.xplane.pb.gz")
	for _, dir := range []string{"", "train", "train/plugins/profile", "train/" + run} {
		c := folder(t, filepath.Join(root, dir))
		if len(c.Sources) != 2 || len(c.Spaces) != 2 {
			t.Fatalf("%s: %d sources, %d spaces", dir, len(c.Sources), len(c.Spaces))
		}
		// The host in both files is vm, so the names of the files become the hosts.
		if a, b := c.Spaces[0], c.Spaces[1]; a.Host != "worker-0" || b.Host != "worker-1" || a.Source != 0 || b.Source != 1 {
			t.Errorf("%s: %s from %d, %s from %d", dir, a.ID(), a.Source, b.ID(), b.Source)
		}
		if len(c.Losses) != 0 {
			t.Errorf("%s: %v", dir, c.Losses)
		}
	}
}

// TestRuns opens a folder of several runs: only the latest is read.
func TestRuns(t *testing.T) {
	root := logFolder(t, "plugins/profile/2026_02_01_00_00_00/h.xplane.pb", "plugins/profile/2025_12_31_00_00_00/h.xplane.pb", "plugins/profile/2026_01_01_00_00_00/h.xplane.pb")
	c := folder(t, root)
	if len(c.Sources) != 1 || !strings.Contains(c.Sources[0].File, "2026_02_01") || c.Spaces[0].Host != "vm" {
		t.Errorf("read %+v", c.Sources)
	}
	if len(c.Losses) != 1 || c.Losses[0].Reason != loss.OtherRuns || c.Losses[0].Count != 2 {
		t.Errorf("losses %v", c.Losses)
	}
}

// TestExpand checks that folders and patterns expand to the captures in them, and that a
// log folder of XProf stays a folder.
func TestExpand(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.pickle", "a.json.gz", "notes.txt", "c.pb.zst", "logs/plugins/profile/1/h.xplane.pb"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	at := func(names ...string) (all []string) {
		for _, name := range names {
			all = append(all, filepath.Join(dir, name))
		}
		return all
	}
	logs := filepath.Join(dir, "logs")
	for _, c := range []struct{ names, want []string }{
		{[]string{"-", filepath.Join(dir, "b.pickle")}, append([]string{"-"}, at("b.pickle")...)},
		{at("*.p*"), at("b.pickle", "c.pb.zst")},
		{[]string{logs}, []string{logs}},
		{at("none.pickle"), at("none.pickle")},
	} {
		got, err := formats.Expand(c.names)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, %v; want %v", c.names, got, err, c.want)
		}
	}
	if err := os.RemoveAll(logs); err != nil {
		t.Fatal(err)
	}
	if got, err := formats.Expand([]string{dir}); err != nil || !slices.Equal(got, at("a.json.gz", "b.pickle", "c.pb.zst")) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := formats.Expand(at("*.none")); err == nil {
		t.Error("a pattern without matches is accepted")
	}
}
