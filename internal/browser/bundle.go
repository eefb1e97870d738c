package browser

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// CheckBundle compares the committed scripts and style of pages with a new build of their sources. command matches the
// //go:generate lines of the Go file source; its groups are the arguments of go and the output file.
func CheckBundle(t *testing.T, source string, command *regexp.Regexp) {
	t.Helper()
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	commands := command.FindAllStringSubmatch(string(text), -1)
	if len(commands) < 2 {
		t.Fatalf("found %d commands that bundle", len(commands))
	}
	for _, c := range commands {
		file := filepath.Join(t.TempDir(), "bundle"+filepath.Ext(c[2]))
		if out, err := exec.Command("go", append(strings.Fields(c[1]), "--outfile="+file)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := os.ReadFile(c[2]); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s does not match its sources (%v): run go generate in this folder", c[2], err)
		}
	}
}
