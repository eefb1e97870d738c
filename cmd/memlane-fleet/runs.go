package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gocloud.dev/blob"

	"github.com/memlane/memlane/cmd/memlane-fleet/report"
)

// runsIn returns the folders of results that names mean: a folder with records itself, and for any other folder all
// runs below it in the order of their own names, in which numbers count as numbers.
func runsIn(ctx context.Context, names []string) (all []string, err error) {
	for _, name := range names {
		some, err := runsBelow(ctx, name)
		if err != nil {
			return nil, err
		}
		if len(some) == 0 {
			return nil, fail(statusUsage, "%s: it has no %s, which run and merge write, and neither has a folder in it", shownName(name), report.Records)
		}
		slices.SortStableFunc(some, func(a, b string) int { return strings.Compare(inTime(a), inTime(b)) })
		all = append(all, some...)
	}
	return all, nil
}

var digits = regexp.MustCompile(`\d+`)

// inTime returns the last part of the name of a run, such that its order as text is that of its numbers.
func inTime(name string) string {
	return digits.ReplaceAllStringFunc(path.Base(filepath.ToSlash(shownName(name))), func(n string) string { return strings.Repeat("0", max(0, 20-len(n))) + n })
}

func runsBelow(ctx context.Context, name string) (runs []string, err error) {
	if remote(name) {
		return storedRuns(ctx, name)
	}
	name = localPath(name)
	err = filepath.WalkDir(name, func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() && dir != name {
			return err
		}
		if _, err := os.Stat(filepath.Join(dir, report.Records)); err != nil {
			return nil
		}
		runs = append(runs, dir)
		return filepath.SkipDir
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fail(statusUsage, "%s: %w", name, cause(err))
	case err != nil:
		return nil, fail(statusFailed, "%s: %w", name, cause(err))
	}
	return runs, nil
}

// storedRuns does not list the folders of a run, such as its cache.
func storedRuns(ctx context.Context, name string) (runs []string, err error) {
	bucket, err := results(ctx, name)
	if err != nil {
		return nil, err
	}
	defer bucket.Close()
	for folders := []string{""}; len(folders) > 0; {
		folder := folders[0]
		folders = folders[1:]
		var found []string
		is := false
		err := retry(ctx, func() error {
			found, is = nil, false
			for each := bucket.List(&blob.ListOptions{Prefix: folder, Delimiter: "/"}); ; {
				switch object, err := each.Next(ctx); {
				case errors.Is(err, io.EOF):
					return nil
				case err != nil:
					return err
				case object.IsDir:
					found = append(found, object.Key)
				case object.Key == folder+report.Records:
					is = true
				}
			}
		})
		switch {
		case err != nil:
			return nil, storeError(shownName(name), err)
		case is:
			runs = append(runs, below(name, strings.TrimSuffix(folder, "/")))
		default:
			folders = append(folders, found...)
		}
	}
	return runs, nil
}

// label matches a part of a path that is a label, as DuckDB and Spark read it: model=llama.
var label = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)=(.+)$`)

// splitLabels divides the name of a run into the labels that it is grouped by, and the rest: its labels of other names,
// and its own name.
func splitLabels(name string, by []string) (group, rest string) {
	var labels, others []string
	parts := strings.Split(filepath.ToSlash(withoutSecrets(shownName(name))), "/")
	first := slices.IndexFunc(parts, label.MatchString)
	for i, part := range parts {
		if l := label.FindStringSubmatch(part); l != nil && slices.Contains(by, l[1]) {
			labels = append(labels, part)
		} else if first < 0 || i >= first {
			others = append(others, part)
		}
	}
	slices.Sort(labels)
	return strings.Join(labels, ", "), strings.Join(others, "/")
}
