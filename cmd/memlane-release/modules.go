package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// module is code of others that is built in.
type module struct {
	Path, Version string
	Dir           string // where its files are
	Sum           string // of all its files, as in go.sum
	licence       licence
}

// licence is what a module may be used under.
type licence struct {
	ids  []string // of SPDX; all of them hold, for one part or another
	text []byte
}

// allowed are the licences under which code may be part of the program: they ask
// for no more than that they are named.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "FTL", "ISC", "MIT"}

// chosen are the files of the licence that was chosen of several.
var chosen = map[string]string{"github.com/golang/freetype": "licenses/ftl.txt"}

// modulesOf returns the modules that packages of the checkout need, on any of the
// platforms, in order of their paths.
func modulesOf(ctx context.Context, checkout string, platforms []platform, arguments ...string) ([]module, error) {
	byPath := map[string]module{}
	for _, p := range platforms {
		cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-json=Module"}, arguments...)...)
		cmd.Dir = checkout
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+p.os, "GOARCH="+p.arch)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w\n%s", err, said.Bytes())
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var pkg struct {
				Module *struct {
					module
					Main bool
				}
			}
			if err := d.Decode(&pkg); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("go list: %w", err)
			}
			if m := pkg.Module; m != nil && !m.Main {
				byPath[m.Path] = m.module
			}
		}
	}
	modules := make([]module, 0, len(byPath))
	for _, m := range byPath {
		var err error
		if m.licence, err = licenceOf(m); err != nil {
			return nil, err
		}
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b module) int { return cmp.Compare(a.Path, b.Path) })
	return modules, nil
}

// licenceOf finds the licence in a module's files.
func licenceOf(m module) (licence, error) {
	names := []string{chosen[m.Path]}
	if names[0] == "" {
		names = []string{"LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "COPYING", "License"}
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(m.Dir, filepath.FromSlash(name)))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return licence{}, err
		}
		ids := idsOf(text)
		if len(ids) == 0 {
			return licence{}, fmt.Errorf("%s@%s: %s is no licence that is known", m.Path, m.Version, name)
		}
		return licence{ids, text}, nil
	}
	return licence{}, fmt.Errorf("%s@%s: has no licence", m.Path, m.Version)
}

// idsOf returns what SPDX calls the licences in a text, none for one that says much
// else.
func idsOf(text []byte) (ids []string) {
	found := licensecheck.Scan(text)
	if found.Percent < 75 {
		return nil
	}
	for _, match := range found.Match {
		if !match.IsURL {
			ids = append(ids, match.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// refused returns a licence of the module that is not among those given, "" for none.
func refused(m module, allowed []string) string {
	for _, id := range m.licence.ids {
		if !slices.Contains(allowed, id) {
			return id
		}
	}
	return ""
}

// licenceTexts are the licences of all that is in the program: those of the
// modules, of Go, and of what the page has of others.
func licenceTexts(checkout string, modules []module) ([]byte, error) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	var all bytes.Buffer
	all.WriteString("memlane contains the following works, each under the licence that stands below its name.\n")
	add := func(name string, text []byte) {
		fmt.Fprintf(&all, "\n%s\n%s\n%s\n\n%s\n", strings.Repeat("=", 100), name, strings.Repeat("=", 100), bytes.TrimSpace(text))
	}
	for _, other := range []struct{ name, file string }{
		{"Go", filepath.Join(strings.TrimSpace(string(goroot)), "LICENSE")},
		{"uPlot", filepath.Join(checkout, "render/web/page/uplot/LICENSE")},
	} {
		text, err := os.ReadFile(other.file)
		if err != nil {
			return nil, err
		}
		add(other.name, text)
	}
	for _, m := range modules {
		if id := refused(m, allowed); id != "" {
			return nil, fmt.Errorf("%s@%s: is under %s, which is not one of %s", m.Path, m.Version, id, strings.Join(allowed, ", "))
		}
		add(m.Path+" "+m.Version, m.licence.text)
	}
	return all.Bytes(), nil
}
