package formats

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
)

// runFolders are the patterns of run folders below a given folder, in the layout of
// XProf and TensorBoard: the folder may be the run or any of its parents.
var runFolders = []string{".", "*", "plugins/profile/*", "*/plugins/profile/*"}

// profileFiles are the patterns of a run's files, one file per host.
var profileFiles = []string{"*.xplane.pb", "*.xplane.pb.gz", "*.xplane.pb.zst"}

// profiles returns the profiles of the latest run in a folder; the name of a run is its
// time. It counts the other runs as a loss, and fails if the folder has no profiles.
func profiles(folder string, b *build.Builder) ([]string, error) {
	dir, err := os.Open(folder)
	if err != nil { // filepath.Glob would hide the error
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
		names := slices.SortedFunc(maps.Keys(runs), func(x, y string) int {
			return cmp.Or(cmp.Compare(filepath.Base(x), filepath.Base(y)), cmp.Compare(x, y))
		})
		last := names[len(names)-1]
		if others := len(names) - 1; others > 0 {
			b.Lose(loss.OtherRuns, int64(others), 0, fmt.Sprintf("%s; %s was read", filepath.Base(names[0]), filepath.Base(last)))
		}
		slices.Sort(runs[last])
		return runs[last], nil
	}
	return nil, errors.New("is a folder without captures: it has no XProf profile (*.xplane.pb, also in plugins/profile/RUN) and no " +
		"*.pickle, *.json, *.pb or *.prof, plain or compressed")
}

// liveRanges opens the live ranges that XLA dumped beside a buffer assignment as text, whose values have no times; nil
// if there are none.
func liveRanges(file string, in Input, format string) io.ReadCloser {
	name, ok := strings.CutSuffix(file, assignmentText)
	if !ok || in.File != nil || format != "hlo-text" || !isFile(name+rangesText) {
		return nil
	}
	ranges, err := in.open(name + rangesText)
	if err != nil {
		return nil
	}
	return ranges
}

// The names of XLA's dumps of a program, after its part of the name.
const (
	dumpedProto    = "_after_optimizations.hlo.pb"
	assignmentText = "-buffer-assignment.txt"
	rangesText     = "-live-range.txt"
	reportText     = "-memory-usage-report.txt"
)

// dumps returns the best dump of each program in a folder of XLA (--xla_dump_to): with its buffer assignment, as proto
// or else as text, or else the report, which XLA writes also for programs that it refuses.
func dumps(folder string) (files []string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	best := map[string]int{} // by program: index of its kind
	kinds := []string{dumpedProto, assignmentText, reportText}
	for _, e := range entries {
		for kind, end := range kinds {
			program, ok := strings.CutSuffix(e.Name(), end)
			program = strings.TrimSuffix(program, "_after_optimizations")
			if was, seen := best[program]; ok && (!seen || kind < was) && isFile(filepath.Join(folder, e.Name())) {
				best[program] = kind
			}
		}
	}
	for _, program := range slices.Sorted(maps.Keys(best)) {
		name := program
		if best[program] != 0 && isFile(filepath.Join(folder, program+"_after_optimizations"+kinds[best[program]])) {
			name += "_after_optimizations"
		}
		files = append(files, filepath.Join(folder, name+kinds[best[program]]))
	}
	return files
}

// captureExts are the extensions of captures, without .gz or .zst.
var captureExts = []string{".pickle", ".pkl", ".json", ".pb", ".prof", ".html", ".native"}

// logExts are the extensions of logs.
var logExts = []string{".log", ".txt", ".out", ".err"}

// extension returns that of a file without its compression.
func extension(file string) string {
	return filepath.Ext(strings.TrimSuffix(strings.TrimSuffix(file, ".gz"), ".zst"))
}

// LooksLikeCapture reports whether a file has the name of a capture or of a log. Its content decides, in [Open].
func LooksLikeCapture(file string) bool {
	return slices.Contains(captureExts, extension(file)) || slices.Contains(logExts, extension(file))
}

// Expand replaces folders and patterns with the captures in them, sorted by name. In a folder, these are the files with
// the extension of a capture in All's formats, not of a log, whatever they contain. A folder with XProf profiles or a
// dump of XLA stays: it is one capture, without the other files in it. Expand fails if a pattern matches nothing.
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
			files = append(files, name) // Open reports what is wrong
		}
	}
	return files, nil
}

// expandFolder returns the captures in a folder, or the folder itself if it contains XProf profiles, or no captures.
func expandFolder(folder string) (files []string) {
	if _, err := profiles(folder, build.New(0)); err == nil || len(dumps(folder)) > 0 {
		return []string{folder}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return []string{folder}
	}
	for _, e := range entries {
		file := filepath.Join(folder, e.Name())
		if slices.Contains(captureExts, extension(file)) && isFile(file) {
			files = append(files, file)
		}
	}
	if files == nil {
		return []string{folder}
	}
	return files
}

// isFile reports whether name is a regular file, or a link to one. Reading a pipe or a socket could block forever.
func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// escape returns a filepath.Glob pattern that matches the path itself. On Windows,
// patterns have no escape character, and of the special ones names contain only brackets.
func escape(path string) string {
	if filepath.Separator == '\\' {
		return strings.ReplaceAll(path, "[", "[[]")
	}
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(path)
}

// nameHosts sets the host of all spaces to the name of their file, which is the host in
// XProf's layout, if spaces of different files would otherwise have the same ID.
func nameHosts(sources []lifetime.Source, spaces []*lifetime.SpaceInfo) {
	sourceOf := map[string]int{} // by ID
	ambiguous := false
	for _, s := range spaces {
		source, seen := sourceOf[s.ID()]
		ambiguous = ambiguous || seen && source != s.Source
		sourceOf[s.ID()] = s.Source
	}
	if !ambiguous {
		return
	}
	for _, s := range spaces {
		s.Host, _, _ = strings.Cut(filepath.Base(sources[s.Source].File), ".xplane.pb")
	}
}

// siblingProfile returns the XProf profile in the folder of a trace, the folder if it
// has several, or "" if it has none.
func siblingProfile(trace string) string {
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
