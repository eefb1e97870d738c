package formats_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/nativetest"
)

// kinds are captures of all formats except the native one.
var kinds = []string{
	leak, profile, "../testdata/xplane/padded.hlo.pb", "../testdata/xplane/padded.buffer-assignment.txt", "../testdata/jaxprof/leak_after.memory.prof",
	"../testdata/gpumemprof/both.json", "../testdata/oomtext/versions.log", "../testdata/chrome/cpu_leak.json.gz", "../testdata/chrome/cpu_leak.timeline.raw.json.gz",
}

// TestBrokenDisk checks that a read error in the middle of a file is returned. The part
// before it must not pass as a truncated capture.
func TestBrokenDisk(t *testing.T) {
	broken := errors.New("broken disk")
	covered := map[string]bool{"native": true} // formats
	for _, file := range kinds {
		c, err := formats.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		covered[c.Sources[0].Format] = true
	}
	for _, f := range formats.All() {
		if !covered[f.Name] {
			t.Errorf("kinds has no capture of %s", f.Name)
		}
	}
	for _, file := range kinds {
		data := read(t, file)
		for _, data := range [][]byte{data, gzipped(t, data), zstded(t, data)} {
			for at := 0; at < len(data); at += 1 + len(data)/7 {
				_, err := formats.Open("-", formats.Input{Stdin: io.MultiReader(bytes.NewReader(data[:at]), failing{broken})})
				if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "-: ") {
					t.Errorf("%s: reading fails after %d of %d bytes: error %v", file, at, len(data), err)
				}
			}
		}
	}
}

// setTemp sets the folder of temporary files and returns the name of its variable.
func setTemp(t *testing.T, dir string) (variable string) {
	variable = "TMPDIR"
	if runtime.GOOS == "windows" {
		variable = "TMP"
	}
	t.Setenv(variable, dir)
	return variable
}

// TestNoTemporaryFolder checks that only formats with ReadAt need temporary files, and
// that the error without a folder for them names the variable to set.
func TestNoTemporaryFolder(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	packed := write(t, "packed.xplane.pb.gz", gzipped(t, read(t, profile)))
	variable := setTemp(t, missing)
	for _, file := range kinds {
		text(t, file, formats.Input{})
		_, err := formats.Open("-", formats.Input{Stdin: bytes.NewReader(read(t, file))})
		if file == profile {
			checkError(t, err, "-", "cannot write its content to a temporary file in "+missing)
			checkError(t, err, "-", "set "+variable+" to a folder")
		} else if err != nil {
			t.Errorf("%s on standard input: %v", file, err)
		}
	}
	_, err := formats.Open(packed, formats.Input{})
	checkError(t, err, packed, "temporary file in "+missing)
}

// TestChangesWhileRead checks files that grow, shrink or disappear while they are read:
// the result is the original model, a truncated capture or one error.
func TestChangesWhileRead(t *testing.T) {
	for _, kind := range kinds {
		data := read(t, kind)
		want := text(t, write(t, "plain", data), formats.Input{})
		for _, change := range []struct {
			name string
			same bool // the model must be that of the original file
			do   func(file string) error
		}{
			{"grows", kind == profile, func(file string) error {
				f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					return err
				}
				f.Write(bytes.Repeat([]byte{0xff}, 1000))
				return f.Close()
			}},
			{"goes away", true, os.Remove},
			{"is replaced", true, func(file string) error {
				if err := os.WriteFile(file+".new", []byte("other"), 0o666); err != nil {
					return err
				}
				return os.Rename(file+".new", file)
			}},
			{"shrinks", false, func(file string) error { return os.Truncate(file, int64(len(data))/2) }},
			{"is emptied", false, func(file string) error { return os.Truncate(file, 0) }},
		} {
			file := write(t, "capture", data)
			changed := false
			c, err := formats.Open(file, formats.Input{Progress: func(string, int64) func(int) {
				return func(int) {
					if !changed {
						changed = true
						if err := change.do(file); err != nil {
							t.Skipf("this system cannot change an open file: %v", err)
						}
					}
				}
			}})
			if err != nil {
				checkError(t, err, file, "")
				if change.same {
					t.Errorf("%s, which %s: %v", kind, change.name, err)
				}
				continue
			}
			if err := c.Check(); err != nil {
				t.Errorf("%s, which %s: %v", kind, change.name, err)
			}
			if change.same && nativetest.Text(t, c) != want {
				t.Errorf("%s, which %s, gives another model", kind, change.name)
			}
		}
	}
}
