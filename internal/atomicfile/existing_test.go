//go:build unix

package atomicfile

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func modeOf(t *testing.T, file string) os.FileMode {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func writeText(file, text string) error {
	return Write(context.Background(), file, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// TestExistingFile checks that an existing file keeps its mode and the links that lead to it, and that another name of it keeps
// the old content.
func TestExistingFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, prepare := range map[string]func() error{
		"plain":         func() error { return nil },
		"for all":       func() error { return os.Chmod("out", 0o666) }, // more than the umask leaves
		"private":       func() error { return os.Chmod("out", 0o600) },
		"executable":    func() error { return os.Chmod("out", 0o750) },
		"hard link":     func() error { return os.Link("out", "other") },
		"symbolic link": func() error { return cmp.Or(os.Rename("out", "folder/file"), os.Symlink("folder/file", "out")) },
	} {
		for _, text := range []string{"short", "much longer than the old content"} {
			if err := cmp.Or(os.Mkdir("folder", 0o777), os.WriteFile("out", []byte("old content"), 0o644)); err != nil {
				t.Fatal(err)
			}
			if err := prepare(); err != nil {
				t.Logf("%s: %v", name, err)
			} else {
				before := modeOf(t, "out")
				if err := writeText("out", text); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				got, err := os.ReadFile("out")
				if now := modeOf(t, "out"); err != nil || string(got) != text || now != before {
					t.Errorf("%s: %q, %v; it was %v and is %v", name, got, err, before, now)
				}
				if other, err := os.ReadFile("other"); err == nil && string(other) != "old content" {
					t.Errorf("%s: the other name has %q", name, other)
				}
			}
			for file := range contentsBelow(t, ".") {
				if !slices.Contains([]string{"out", "other", "folder/file"}, file) {
					t.Errorf("%s: leaves %s", name, file)
				}
			}
			if err := cmp.Or(os.RemoveAll("folder"), os.Remove("out"), os.RemoveAll("other")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// contentsBelow returns the files in a folder and in those below.
func contentsBelow(t *testing.T, dir string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[path] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReadOnlyFile checks that a read-only file is refused, as > in a shell does.
func TestReadOnlyFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("out", []byte("old"), 0o444); err != nil {
		t.Fatal(err)
	}
	if f, err := os.OpenFile("out", os.O_WRONLY, 0); err == nil {
		f.Close()
		t.Skip("it may be written: by root")
	}
	if err := writeText("out", "new"); err == nil || err.Error() != "out: permission denied" {
		t.Errorf("error %v", err)
	}
	if got, err := os.ReadFile("out"); err != nil || string(got) != "old" {
		t.Errorf("the file is %q (%v)", got, err)
	}
}

// TestKilledWhileWriting checks that SIGKILL leaves no file that is not complete, but for temporary ones.
func TestKilledWhileWriting(t *testing.T) {
	if os.Getenv(killedHere) != "" {
		killedWhileWriting(t)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "existing"), []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWhileWriting$")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), killedHere+"=1")
	if out, err := cmd.CombinedOutput(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("%v: %s", err, out)
	}
	old, err := os.ReadFile(filepath.Join(dir, "existing"))
	if err != nil || string(old) != "old" {
		t.Errorf("the existing file has %q (%v)", old, err)
	}
	for file := range contentsBelow(t, dir) {
		if file != "existing" && !strings.HasPrefix(file, ".memlane-") {
			t.Errorf("leaves %s", file)
		}
	}
}

// killedHere is the variable that makes TestKilledWhileWriting write and be killed.
const killedHere = "MEMLANE_KILLED"

// killedWhileWriting writes a file, and is killed when it is nearly complete.
func killedWhileWriting(t *testing.T) {
	err := Write(t.Context(), "existing", func(w io.Writer) error {
		fmt.Fprint(w, "some of it")
		syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {} // until it has arrived
	})
	t.Fatal("not killed:", err)
}
