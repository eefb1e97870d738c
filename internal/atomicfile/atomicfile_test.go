package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// TestHalfWritten checks that a failed series leaves no file and keeps the old files. Links
// stay links, even without a target. Names may have the maximum length.
func TestHalfWritten(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	long := strings.Repeat("n", 255)
	listing := func() (names string) {
		entries, err := os.ReadDir(".")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			data, _ := os.ReadFile(e.Name())
			names += fmt.Sprintf("%s %.8s: %q\n", e.Type(), e.Name(), data)
		}
		return names
	}
	if err := os.WriteFile(long, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("later", "link"); err != nil {
		t.Skip(err)
	}
	before := listing()
	for _, file := range []string{"new", long, "link"} {
		err := Write(t.Context(), file, func(w io.Writer) error {
			fmt.Fprint(w, "part")
			return errors.New("stop")
		})
		if err == nil || err.Error() != "stop" {
			t.Errorf("error %v", err)
		}
		if got := listing(); got != before {
			t.Errorf("%s fails, and leaves\n%swant\n%s", file, got, before)
		}
	}
	for i, file := range []string{"new", long, "link"} {
		if err := Write(t.Context(), file, func(w io.Writer) error {
			_, err := fmt.Fprint(w, i)
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	if got, want := listing(), "---------- later: \"2\"\nL--------- link: \"2\"\n---------- new: \"0\"\n---------- nnnnnnnn: \"1\"\n"; got != want {
		t.Errorf("leaves\n%swant\n%s", got, want)
	}
}

// TestEnds checks that a file is not written after its context has ended, and that the cause is the error, without the name
// of the file.
func TestEnds(t *testing.T) {
	t.Chdir(t.TempDir())
	ended := errors.New("ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := Write(ctx, "first", func(w io.Writer) error {
		cancel(ended)
		fmt.Fprint(w, "some of it") // ignores the error
		return nil
	})
	if !errors.Is(err, ended) || err.Error() != "ended" {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("%d files are left (%v)", len(left), err)
	}
}

// TestNoFolder checks the error of a file whose folder does not exist.
func TestNoFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	err := Write(t.Context(), "missing/out", func(io.Writer) error { return nil })
	if e, ok := errors.AsType[*Error](err); !ok || e.File != "missing/out" || e.Folder != "missing" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
