package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

const root = "../.."

var here = []platform{{runtime.GOOS, runtime.GOARCH}}

// TestLicences looks at all that the tree uses. Tests may use what asks for more, as
// it is not passed on.
func TestLicences(t *testing.T) {
	program, err := modulesOf(t.Context(), root, platforms, "./cmd/memlane")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := licenceTexts(root, program); err != nil {
		t.Error(err)
	}
	all, err := modulesOf(t.Context(), root, here, "-test", "./...", "tool")
	if err != nil {
		t.Fatal(err)
	}
	inTests := append([]string{"MPL-2.0"}, allowed...)
	for _, m := range all {
		if id := refused(m, inTests); id != "" {
			t.Errorf("%s@%s: is under %s, which is not one of %v", m.Path, m.Version, id, inTests)
		}
	}
	if len(program) < 10 || len(all) < len(program)+5 {
		t.Errorf("%d modules in the program and %d in all: some are missing", len(program), len(all))
	}
	for _, m := range program {
		m.licence.ids = []string{"MIT", "GPL-3.0"}
		if _, err := licenceTexts(root, []module{m}); err == nil {
			t.Error("a licence that is not allowed is accepted")
		}
	}
	for _, text := range []string{"", "All rights reserved.", strings.Repeat("Call me if you want to use it. ", 30)} {
		if ids := idsOf([]byte(text)); len(ids) > 0 {
			t.Errorf("%q is taken for %v", text, ids)
		}
	}
}

// clone makes a checkout of the commit at hand, without what was changed since.
func clone(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("not in a git checkout")
	}
	source, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "checkout")
	git(t, "clone", "--quiet", "--no-tags", source, dir)
	git(t, "-C", dir, "-c", "user.name=x", "-c", "user.email=x@example.com", "tag", "v1.2.3")
	return dir
}

func git(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// made makes a release and returns its files by name.
func made(t *testing.T, checkout string) map[string][]byte {
	t.Helper()
	out := t.TempDir()
	r, err := newRelease(t.Context(), checkout, out)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.make(here); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	there, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range there {
		if files[f.Name()], err = os.ReadFile(filepath.Join(out, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestRelease: the same commit gives the same bytes in another folder and another
// environment, the program runs and knows its version, and what is said of it holds.
func TestRelease(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("looks into a tar file")
	}
	if os.Getenv("MEMLANE_RELEASE") == "" {
		t.Skip("builds the program from nothing, twice: only where MEMLANE_RELEASE is set")
	}
	checkout := clone(t)
	files := made(t, checkout)
	t.Setenv("GOFLAGS", "-buildvcs=false -tags=other")
	again := made(t, clone(t))
	archive := fmt.Sprintf("memlane_1.2.3_%s_%s.tar.gz", runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{archive, "memlane_1.2.3.cdx.json", "SHA256SUMS"} {
		if len(files[name]) == 0 || !bytes.Equal(files[name], again[name]) {
			t.Errorf("%s: %d bytes here, %d in another folder, or not the same", name, len(files[name]), len(again[name]))
		}
		if line := fmt.Sprintf("%x  %s\n", sha256.Sum256(files[name]), name); name != "SHA256SUMS" && !bytes.Contains(files["SHA256SUMS"], []byte(line)) {
			t.Errorf("SHA256SUMS lacks %s", line)
		}
	}
	if t.Failed() {
		return
	}

	inside := unpacked(t, files[archive])
	program := filepath.Join(t.TempDir(), "memlane")
	if err := os.WriteFile(program, inside["memlane"], 0o777); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(program, "version").CombinedOutput()
	if err != nil || !bytes.HasPrefix(said, []byte("memlane v1.2.3 (commit ")) {
		t.Errorf("memlane version says %q, %v", said, err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var bill cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(files["memlane_1.2.3.cdx.json"]), cyclonedx.BOMFileFormatJSON).Decode(&bill); err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, c := range *bill.Components {
		listed[c.Name+" "+c.Version] = true
	}
	for _, m := range info.Deps {
		name := m.Path + " " + m.Version
		if !listed[name] {
			t.Errorf("the SBOM lacks %s", name)
		}
		if !bytes.Contains(inside["THIRD_PARTY_LICENSES"], []byte("\n"+name+"\n")) {
			t.Errorf("there is no licence of %s", name)
		}
	}
	if len(listed) != len(info.Deps) {
		t.Errorf("the SBOM has %d modules, the program %d", len(listed), len(info.Deps))
	}

	if err := os.WriteFile(filepath.Join(checkout, "cmd/memlane/more.go"), []byte("package main\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	git(t, "-C", checkout, "add", ".")
	r, err := newRelease(t.Context(), checkout, t.TempDir())
	if err == nil {
		err = r.make(here)
	}
	if err == nil || !strings.Contains(err.Error(), "not committed") {
		t.Errorf("of a checkout with changes: %v", err)
	}
	if _, err := newRelease(t.Context(), checkout, checkout); err == nil {
		t.Error("a folder with files is written to")
	}
}

func unpacked(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
