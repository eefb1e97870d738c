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

	"github.com/urfave/cli/v3"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/cmd/memlane-fleet/report"
	"github.com/memlane/memlane/internal/atomicfile"
)

func compareCommand() *cli.Command {
	return &cli.Command{
		Name:      "compare",
		Usage:     "print what differs between the results of two runs",
		ArgsUsage: "BEFORE AFTER",
		Description: "BEFORE and AFTER are folders of results, also in object stores. Ranks are\n" +
			"matched by number. It prints what grew, on which ranks, and which places and\n" +
			"findings are new.\n\n" +
			"Examples:\n" +
			"  memlane-fleet compare monday tuesday\n" +
			"  memlane-fleet compare s3://bucket/monday s3://bucket/tuesday",
		Flags: []cli.Flag{rolesFlag()},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() != 2 {
				return fail(statusUsage, "compare: give two folders of results; see memlane-fleet compare --help")
			}
			given, err := roles(c)
			if err != nil {
				return err
			}
			var runs [2]*fleet.Fleet
			for i := range runs {
				if runs[i], err = recordsIn(ctx, c.Args().Get(i)); err != nil {
					return err
				}
			}
			return printed(report.WriteComparison(c.Root().Writer, fleet.Compare(runs[0], runs[1], given)))
		},
	}
}

func trendCommand() *cli.Command {
	return &cli.Command{
		Name:      "trend",
		Usage:     "print how the results of runs change over time",
		ArgsUsage: "RUN...",
		Description: "RUNs are folders of results in order of time, or folders with many of them,\n" +
			"also in object stores. A change counts if it lasts to the last run and is\n" +
			"more than the noise of at least three runs before it. Each has its ranks and\n" +
			"its first capture. Parts of a path such as model=llama are labels of a run;\n" +
			"runs whose labels of --by are equal are one series.\n\n" +
			"Examples:\n" +
			"  memlane-fleet trend results/day*\n" +
			"  memlane-fleet trend --page trend.html results/day*\n" +
			"  memlane-fleet trend --by model s3://bucket/runs",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "by", Usage: "group runs by `LABELS`", Value: "model,job"},
			&cli.StringFlag{Name: "page", Usage: "write all ranks by run to page `FILE`", HideDefault: true},
			rolesFlag(),
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			given, err := roles(c)
			if err != nil {
				return err
			}
			names, err := runsIn(ctx, c.Args().Slice())
			if err != nil {
				return err
			}
			if len(names) < 2 {
				return fail(statusUsage, "trend: give two or more folders of results; see memlane-fleet trend --help")
			}
			groups, by := map[string]*fleet.Trend{}, strings.Split(c.String("by"), ",")
			for _, name := range names {
				f, err := recordsIn(ctx, name)
				if err != nil {
					return err
				}
				group, rest := splitLabels(name, by)
				if groups[group] == nil {
					groups[group] = &fleet.Trend{}
				}
				groups[group].Add(rest, f, given)
			}
			if page := c.String("page"); page != "" {
				err := atomicfile.Write(ctx, page, func(w io.Writer) error { return report.WriteTrendPage(w, groups) })
				if err != nil {
					return fail(statusFailed, "--page: %w", err)
				}
			}
			return printed(report.WriteTrends(c.Root().Writer, groups))
		},
	}
}

func recordsIn(ctx context.Context, name string) (*fleet.Fleet, error) {
	bucket, err := results(ctx, name)
	if err != nil {
		return nil, err
	}
	var data []byte
	err = retry(ctx, func() (err error) {
		data, err = bucket.ReadAll(ctx, report.Records)
		return err
	})
	switch {
	case gcerrors.Code(err) == gcerrors.NotFound:
		return nil, fail(statusUsage, "%s: it has no %s, which run and merge write", shownName(name), report.Records)
	case err != nil:
		return nil, storeError(shownName(name), err)
	}
	all := &fleet.Fleet{}
	if err := addPacked(all, data); err != nil {
		return nil, fail(statusUsage, "%s: %s: %w", shownName(name), report.Records, err)
	}
	return all, nil
}

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
	return digits.ReplaceAllStringFunc(path.Base(filepath.ToSlash(shownName(name))), func(n string) string {
		return strings.Repeat("0", max(0, 20-len(n))) + n
	})
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
		objects, err := objectsOf(ctx, bucket, &blob.ListOptions{Prefix: folder, Delimiter: "/"})
		switch {
		case err != nil:
			return nil, storeError(shownName(name), err)
		case slices.ContainsFunc(objects, func(o *blob.ListObject) bool { return o.Key == folder+report.Records }):
			runs = append(runs, below(name, strings.TrimSuffix(folder, "/")))
		default:
			for _, object := range objects {
				if object.IsDir {
					folders = append(folders, object.Key)
				}
			}
		}
	}
	return runs, nil
}

// label matches a part of a path that is a label, as DuckDB and Spark read it: model=llama.
var label = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)=(.+)$`)

// splitLabels divides the name of a run into the labels that it is grouped by, and the rest: its labels of other
// names, and its own name.
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
