package xprofjson_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/xplane"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// captures returns captures with the output of XProf 2.24.2: those in testdata, and those below the folder
// MEMLANE_CAPTURES.
func captures(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	folders := []string{filepath.Join("..", "..", "testdata", "xplane")}
	if dir := os.Getenv("MEMLANE_CAPTURES"); dir != "" {
		public, oracle := filepath.Join(dir, "public", "xplane"), filepath.Join(dir, "public", "oracle")
		folders = append(folders, filepath.Join(dir, "xplane", "tf"))
		found[filepath.Join(public, "tpu_v6e_4chip_inference.xplane.pb")] = filepath.Join(oracle, "xprof2.24.2_tpu_v6e_memory_profile.json.gz")
		found[filepath.Join(public, "mi300x_jax08_attention.xplane.pb")] = filepath.Join(oracle, "xprof2.24.2_mi300x_attention_memory_profile.json.gz")
	}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "tf_*.memory_profile.json*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no reference output in %s (%v)", folder, err)
		}
		for _, file := range files {
			stem, _, _ := strings.Cut(file, ".memory_profile.json")
			found[stem+".xplane.pb"] = file
		}
	}
	return found
}

// TestAgainstXProf compares whole documents.
func TestAgainstXProf(t *testing.T) {
	references := captures(t)
	for _, file := range slices.Sorted(maps.Keys(references)) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			have, want := written(t, read(t, file)), parse(t, content(t, references[file]))
			for _, d := range []document{have, want} {
				for _, p := range d.MemoryProfilePerAllocator {
					p.forgetWhich()
				}
			}
			if diff := difference(t, have, want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// forgetWhich removes the fields that distinguish equal allocations, because XProf displays any of them.
func (p *profile) forgetWhich() {
	for _, a := range p.ActiveAllocations {
		if i := number(a.SnapshotIndex); i >= 0 && a.NumOccurrences != "1" {
			s := &p.MemoryProfileSnapshots[i]
			s.TimeOffsetPs, s.AggregationStats, s.ActivityMetadata.Address = "", stats{}, ""
		}
	}
}

func read(t *testing.T, file string) *lifetime.Capture {
	t.Helper()
	b := build.New(build.Reports)
	in := bytes.NewReader(content(t, file))
	err := xplane.ReadAt(file, in, in.Size(), b)
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// content returns the content of a file that may be compressed.
func content(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil && strings.HasSuffix(file, ".gz") {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(text)); err == nil {
			text, err = io.ReadAll(z)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}
