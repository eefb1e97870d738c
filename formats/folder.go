package formats

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
)

// runFolders are where the folders of runs lie below a log folder: the layout
// of XProf and TensorBoard, seen from the run itself up to its root.
var runFolders = []string{".", "*", "plugins/profile/*", "*/plugins/profile/*"}

// profileFiles are the files of a run, one per host.
var profileFiles = []string{"*.xplane.pb", "*.xplane.pb.gz", "*.xplane.pb.zst"}

// profiles finds the profiles in a folder: those of one run. Of several runs it
// takes the last one, whose name is its time, and counts the others.
func profiles(folder string, b *build.Builder) ([]string, error) {
	dir, err := os.Open(folder)
	if err != nil { // patterns would match nothing and not say why
		return nil, err
	}
	dir.Close()
	for _, below := range runFolders {
		runs := map[string][]string{}
		for _, files := range profileFiles {
			found, err := filepath.Glob(filepath.Join(escape(folder), below, files))
			if err != nil {
				return nil, err
			}
			for _, f := range found {
				if isFile(f) {
					runs[filepath.Dir(f)] = append(runs[filepath.Dir(f)], f)
				}
			}
		}
		if len(runs) == 0 {
			continue
		}
		var names []string
		for name := range runs {
			names = append(names, name)
		}
		slices.SortFunc(names, func(x, y string) int {
			return cmp.Or(cmp.Compare(filepath.Base(x), filepath.Base(y)), cmp.Compare(x, y))
		})
		last := names[len(names)-1]
		if others := len(names) - 1; others > 0 {
			b.Lose(loss.OtherRuns, int64(others), 0, fmt.Sprintf("%s; %s was read", filepath.Base(names[0]), filepath.Base(last)))
		}
		slices.Sort(runs[last])
		return runs[last], nil
	}
	return nil, errors.New("is a folder without captures: neither profiles of XProf (*.xplane.pb, also in plugins/profile/RUN) nor " +
		"*.pickle, *.json, *.pb, *.prof, plain or compressed")
}

// captureNames end the names of files that are captures, before what compressed
// them.
var captureNames = []string{".pickle", ".pkl", ".json", ".pb", ".prof", ".html", ".native"}

// Expand returns the captures that names of files, folders and patterns stand for,
// each folder's and pattern's in order of their names. A folder that a profiler of
// XProf wrote into is one capture.
func Expand(names []string) (files []string, err error) {
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case name == "-" || err == nil && !info.IsDir():
			files = append(files, name)
		case err == nil:
			files = append(files, expandFolder(name)...)
		case strings.ContainsAny(name, "*?["):
			found, err := filepath.Glob(name)
			if err != nil || len(found) == 0 {
				return nil, fmt.Errorf("%s: no file matches the pattern", name)
			}
			files = append(files, found...)
		default:
			files = append(files, name) // opening it says what is wrong
		}
	}
	return files, nil
}

// expandFolder returns the captures in a folder, or the folder itself where it
// holds profiles of XProf or nothing that is known.
func expandFolder(folder string) (files []string) {
	if _, err := profiles(folder, build.New(0)); err == nil {
		return []string{folder}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return []string{folder}
	}
	for _, e := range entries {
		name := strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".gz"), ".zst")
		file := filepath.Join(folder, e.Name())
		if slices.Contains(captureNames, filepath.Ext(name)) && isFile(file) {
			files = append(files, file)
		}
	}
	if files == nil {
		return []string{folder}
	}
	return files
}

// isFile reports whether a name in a folder is that of a file, or of a link to one: a
// pipe or a socket there would be waited for in vain.
func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// escape makes a path fit for a pattern that is to match it. Windows has names with
// brackets only, and no character that escapes.
func escape(path string) string {
	if filepath.Separator == '\\' {
		return strings.ReplaceAll(path, "[", "[[]")
	}
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(path)
}

// nameHosts tells spaces of several files apart that would have one name: by
// the name of their file, which is the host in XProf's layout.
func nameHosts(sources []lifetime.Source, spaces []*lifetime.SpaceInfo) {
	files := map[string]int{} // source by ID
	same := false
	for _, s := range spaces {
		source, seen := files[s.ID()]
		same = same || seen && source != s.Source
		files[s.ID()] = s.Source
	}
	if !same {
		return
	}
	for _, s := range spaces {
		name, _, _ := strings.Cut(filepath.Base(sources[s.Source].File), ".xplane.pb")
		s.Host = name
	}
}

// xplanesBeside returns the XProf profile in the folder of a trace, or the folder
// where it has several; "" where it has none.
func xplanesBeside(trace string) string {
	if trace == "-" {
		return ""
	}
	dir := filepath.Dir(trace)
	names, err := filepath.Glob(filepath.Join(escape(dir), "*.xplane.pb"))
	switch {
	case err != nil || len(names) == 0:
		return ""
	case len(names) == 1:
		return names[0]
	}
	return "the folder " + dir
}
