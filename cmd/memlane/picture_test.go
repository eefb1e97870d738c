package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/memlane/memlane/lifetime/answer"
)

// TestOnePicture: a page has for each memory ID the picture of memlane svg, byte for byte.
func TestOnePicture(t *testing.T) {
	part := regexp.MustCompile(`id="capture-0-(\d+)-picture">([^<]*)<`)
	for _, name := range []string{"torchsnap/leak_4mib_20steps.pickle", "torchsnap/twodev.pickle", "torchsnap/frag_oom.pickle", "meaning/a17.pickle.zst", "xplane/tf_leak.xplane.pb", "chrome/cuprof_leak.json.gz", "oomtext/bfc_frag.log", "jaxprof/leak_before.memory.prof"} {
		t.Run(name, func(t *testing.T) {
			file, dir := filepath.Join("../../testdata", name), t.TempDir()
			page := filepath.Join(dir, "page.html")
			succeed(t, "report", "-o", page, file)
			html, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			ids := decode[answer.Info](t, succeed(t, "info", "--json", file)).Captures[0].Spaces
			found := part.FindAllSubmatch(html, -1)
			for _, m := range found {
				number, err := strconv.Atoi(string(m[1]))
				if err != nil {
					t.Fatal(err)
				}
				packed, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(m[2])))
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(packed)
				if err != nil {
					t.Fatal(err)
				}
				if want := succeed(t, "svg", "--space", ids[number].ID, file); string(got) != want {
					t.Errorf("%s: the page has %d bytes, memlane svg writes %d", ids[number].ID, len(got), len(want))
				}
			}
			if len(found) != len(ids) {
				t.Errorf("the page has %d pictures of %d memory IDs", len(found), len(ids))
			}
		})
	}
}
