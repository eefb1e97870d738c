package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/memlane/memlane/cmd/memlane-fleet/report"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/render/text"
)

func pruneCommand() *cli.Command {
	return &cli.Command{
		Name:      "prune",
		Usage:     "remove the results of old runs",
		ArgsUsage: "RUN...",
		Description: "RUNs are folders of results, or folders with many of them, also in object\n" +
			"stores. A run is as old as its records.zst. It removes the files that\n" +
			"memlane-fleet wrote, and the cache in the folder of the run. It keeps other\n" +
			"files, and the newest run, however old it is.\n\n" +
			"Examples:\n" +
			"  memlane-fleet prune --keep 30d --dry-run s3://bucket/runs\n" +
			"  memlane-fleet prune --keep 12w runs",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "keep", Usage: "keep runs of the last `AGE`, for example 36h, 30d or 12w", Required: true, HideDefault: true},
			&cli.BoolFlag{Name: "dry-run", Usage: "print what it would remove, and remove nothing", HideDefault: true},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			keep, err := ageOf(c.String("keep"))
			if err != nil {
				return err
			}
			if c.Args().Len() == 0 {
				return fail(statusUsage, "prune: give folders of results; see memlane-fleet prune --help")
			}
			names, err := runsIn(ctx, c.Args().Slice())
			if err != nil {
				return err
			}
			runs := make([]*storedRun, len(names))
			for i, name := range names {
				if runs[i], err = openRun(ctx, name); err != nil {
					return err
				}
				defer runs[i].bucket.Close()
			}
			newest := slices.MaxFunc(runs, func(a, b *storedRun) int { return a.written.Compare(b.written) })
			removed, now := 0, time.Now()
			for _, r := range runs {
				age := now.Sub(r.written)
				if age <= keep || r == newest {
					continue
				}
				removed++
				kept, err := r.remove(ctx, c.Bool("dry-run"))
				if err != nil {
					return err
				}
				verb := "removed"
				if c.Bool("dry-run") {
					verb = "would remove"
				}
				fmt.Fprintf(c.Root().Writer, "%s %s: %s old\n", verb, text.Printable(withoutSecrets(shownName(r.name))), units.Plural(int(age.Hours()/24), "day"))
				if len(kept) > 0 {
					fmt.Fprintf(c.Root().Writer, "  kept %s that memlane-fleet did not write, first %s\n", units.Plural(len(kept), "file"), text.Printable(kept[0]))
				}
			}
			_, err = fmt.Fprintf(c.Root().Writer, "%s of %s %s %s or less old, or the newest\n", units.Count(int64(len(runs)-removed)), units.Plural(len(runs), "run"), isAre(len(runs)-removed), c.String("keep"))
			if err != nil {
				return fail(statusFailed, "standard output: %w", cause(err))
			}
			return nil
		},
	}
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// ageOf parses --keep.
func ageOf(s string) (time.Duration, error) {
	if s != "" {
		unit, ok := map[byte]time.Duration{'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}[s[len(s)-1]]
		if n, err := strconv.ParseUint(s[:len(s)-1], 10, 16); ok && err == nil && n > 0 {
			return time.Duration(n) * unit, nil
		}
	}
	return 0, fail(statusUsage, "--keep %q: give hours, days or weeks, for example 36h, 30d or 12w", s)
}

// storedRun is a folder of results.
type storedRun struct {
	name    string
	bucket  *blob.Bucket
	written time.Time
}

func openRun(ctx context.Context, name string) (*storedRun, error) {
	bucket, err := results(ctx, name)
	if err != nil {
		return nil, err
	}
	var records *blob.Attributes
	err = retry(ctx, func() (err error) {
		records, err = bucket.Attributes(ctx, report.Records)
		return err
	})
	if err != nil {
		return nil, storeError(shownName(name), err)
	}
	return &storedRun{name, bucket, records.ModTime}, nil
}

// cached matches the keys of entries of a cache in the folder of a run.
var cached = regexp.MustCompile(`^cache/[0-9a-f]{16}/(records|versions)/[0-9a-f]{2}/[0-9a-f]{64}$`)

// remove removes the files of the program, the records last: a run that was removed in part is still found. It returns
// the other files.
func (r *storedRun) remove(ctx context.Context, dry bool) (kept []string, err error) {
	keys, err := keysOf(ctx, r.bucket, "")
	if err != nil {
		return nil, storeError(shownName(r.name), err)
	}
	var own []string
	for _, key := range keys {
		if cached.MatchString(key) || key != report.Records && slices.ContainsFunc(report.Files, func(f report.File) bool { return f.Name == key }) {
			own = append(own, key)
		} else if key != report.Records {
			kept = append(kept, key)
		}
	}
	if dry {
		return kept, nil
	}
	for _, key := range append(own, report.Records) {
		err := retry(ctx, func() error { return r.bucket.Delete(ctx, key) })
		if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return nil, storeError(shownName(r.name), err)
		}
	}
	if !remote(r.name) {
		removeEmpty(localPath(r.name))
	}
	return kept, nil
}

// removeEmpty removes a folder and those in it, if they are empty.
func removeEmpty(dir string) {
	var dirs []string
	filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, name)
		}
		return nil
	})
	for _, name := range slices.Backward(dirs) {
		os.Remove(name) // fails if it is not empty
	}
}
