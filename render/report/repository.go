package report

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/memlane/memlane/lifetime/frame"
)

// Repository is the checkout that findings are linked with. The zero value has no files.
type Repository struct {
	Root string // its folder
	Here string // the folder below Root that relative paths may begin at; "" for Root
	Web  string // address of the files of the checked-out commit on a code host; "" if unknown
}

const (
	maxSources = 1000 // maximum number of files that are looked for
	maxFolders = 64   // maximum number of folders in a path of the repository
)

// cleaned returns a recorded path with slashes and without empty parts: "//x" would be the name of a host.
func cleaned(file string) string { return path.Clean(strings.ReplaceAll(file, `\`, "/")) }

// files returns the paths in the repository of the files that findings name, by their recorded path. A program may be
// recorded on another machine. Then its files are looked for under the ends of their paths, and must agree on the
// folder there that is the checkout here. It holds if most of the program's files are found.
func (in Repository) files(all []Located) map[string]string {
	files := map[string]string{}
	elsewhere := map[string]bool{}
	root := cleaned(in.Root)
	look := func(file string) {
		if file == "" || files[file] != "" || len(files)+len(elsewhere) >= maxSources {
			return
		}
		if inside, ok := strings.CutPrefix(cleaned(file), strings.TrimSuffix(root, "/")+"/"); ok {
			files[file] = inside
		} else {
			elsewhere[file] = true
		}
	}
	for i := range all {
		look(all[i].Code.File)
		for _, s := range all[i].Stacks {
			for _, f := range s.Frames {
				if f.Kind == frame.User {
					look(f.File)
				}
			}
		}
	}
	for file, name := range in.moved(elsewhere) {
		files[file] = name
	}
	return files
}

// moved returns the paths in the repository of files that were recorded elsewhere.
func (in Repository) moved(files map[string]bool) map[string]string {
	root, err := os.OpenRoot(in.Root)
	if err != nil {
		return nil
	}
	defer root.Close()
	bases := []string{""}
	if here, err := filepath.Rel(in.Root, in.Here); err == nil && here != "." && filepath.IsLocal(here) {
		bases = append(bases, filepath.ToSlash(here))
	}
	type origin struct{ there, here string } // a recorded folder, and the folder of the repository
	found, parts := map[origin]map[string]string{}, map[origin]int{}
	for file := range files {
		names := strings.Split(cleaned(file), "/")
		for i := max(0, len(names)-maxFolders); i < len(names); i++ {
			for _, base := range bases {
				name := path.Join(base, path.Join(names[i:]...))
				if names[i] == "" || !fs.ValidPath(name) { // the beginning of an absolute path; outside
					continue
				}
				if info, err := root.Stat(name); err != nil || !info.Mode().IsRegular() {
					continue
				}
				from := origin{strings.Join(names[:i], "/"), base}
				if found[from] == nil {
					found[from] = map[string]string{}
				}
				found[from][file] = name
				parts[from] += len(names) - i
			}
		}
	}
	var best origin
	for from := range found {
		better := cmp.Or(cmp.Compare(parts[from], parts[best]), strings.Compare(best.there, from.there),
			strings.Compare(best.here, from.here))
		if better > 0 {
			best = from
		}
	}
	if 2*len(found[best]) <= len(files) {
		return nil
	}
	return found[best]
}
