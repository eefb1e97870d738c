package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// platform is what a program is built for.
type platform struct{ os, arch string }

var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

// release is made of one commit.
type release struct {
	ctx      context.Context
	checkout string // the root of the module
	out      string // the folder of what is made

	version string    // as v1.2.3, of the first program that was built
	time    time.Time // of the commit
	files   []string  // in out, so far
}

func newRelease(ctx context.Context, checkout, out string) (*release, error) {
	if err := os.MkdirAll(out, 0o777); err != nil {
		return nil, err
	}
	if there, err := os.ReadDir(out); err != nil {
		return nil, err
	} else if len(there) > 0 {
		return nil, fmt.Errorf("-o %s: holds %s already; want a new or empty folder", out, there[0].Name())
	}
	return &release{ctx: ctx, checkout: checkout, out: out}, nil
}

// make makes all files of the release.
func (r *release) make(platforms []platform) error {
	modules, err := modulesOf(r.ctx, r.checkout, platforms, "./cmd/memlane")
	if err != nil {
		return err
	}
	texts, err := licenceTexts(r.checkout, modules)
	if err != nil {
		return err
	}
	for _, p := range platforms {
		if err := r.archive(p, texts); err != nil {
			return err
		}
	}
	bill, err := billOf(r.version, r.time, modules)
	if err != nil {
		return err
	}
	if err := r.write("memlane_"+r.name()+".cdx.json", bill); err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, file := range r.files {
		data, err := os.ReadFile(filepath.Join(r.out, file))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), file)
	}
	return r.write("SHA256SUMS", sums.Bytes())
}

// name is the version as file names have it.
func (r *release) name() string { return strings.TrimPrefix(r.version, "v") }

func (r *release) write(file string, data []byte) error {
	r.files = append(r.files, file)
	return os.WriteFile(filepath.Join(r.out, file), data, 0o666)
}

// build compiles the program. What the environment says of how Go builds is left
// out: it would be in the bytes.
func (r *release) build(p platform, program string) error {
	cmd := exec.CommandContext(r.ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", program, "./cmd/memlane")
	cmd.Dir = r.checkout
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0",
		"GOOS="+p.os, "GOARCH="+p.arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s/%s: go build: %w\n%s", p.os, p.arch, err, out)
	}
	return nil
}

// stamped takes version and time of the commit from the program itself.
func (r *release) stamped(program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["vcs.revision"] == "" {
		return errors.New("the program does not know its commit: build in a git checkout; a linked worktree is none to go build")
	}
	if settings["vcs.modified"] != "false" {
		return errors.New("the checkout has changes that are not committed: a release is of a commit")
	}
	r.version = info.Main.Version
	r.time, err = time.Parse(time.RFC3339, settings["vcs.time"])
	return err
}

// entry is a file in an archive.
type entry struct {
	name string
	data []byte
	mode int64
}

// archive writes what people of one platform download.
func (r *release) archive(p platform, texts []byte) error {
	tmp, err := os.MkdirTemp("", "memlane-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	name := "memlane"
	if p.os == "windows" {
		name += ".exe"
	}
	program, err := filepath.Abs(filepath.Join(tmp, name))
	if err != nil {
		return err
	}
	if err := r.build(p, program); err != nil {
		return err
	}
	if err := r.stamped(program); err != nil {
		return err
	}
	entries := []entry{{name: "THIRD_PARTY_LICENSES", data: texts, mode: 0o644}}
	for _, file := range []string{program, filepath.Join(r.checkout, "LICENSE"), filepath.Join(r.checkout, "README.md"), filepath.Join(r.checkout, "CHANGELOG.md")} {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		e := entry{name: filepath.Base(file), data: data, mode: 0o644}
		if file == program {
			e.mode = 0o755
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	pack, ending := r.tarball, ".tar.gz"
	if p.os == "windows" {
		pack, ending = r.zip, ".zip"
	}
	var b bytes.Buffer
	if err := pack(&b, entries); err != nil {
		return err
	}
	return r.write(fmt.Sprintf("memlane_%s_%s_%s%s", r.name(), p.os, p.arch, ending), b.Bytes())
}

func (r *release) tarball(to io.Writer, entries []entry) error {
	squeezed, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(squeezed)
	for _, e := range entries {
		err := t.WriteHeader(&tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: r.time, Format: tar.FormatUSTAR})
		if err != nil {
			return err
		}
		if _, err := t.Write(e.data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), squeezed.Close())
}

func (r *release) zip(to io.Writer, entries []entry) error {
	z := zip.NewWriter(to)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.time.UTC()}
		h.SetMode(os.FileMode(e.mode))
		f, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(e.data); err != nil {
			return err
		}
	}
	return z.Close()
}
