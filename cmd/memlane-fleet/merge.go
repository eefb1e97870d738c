package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/urfave/cli/v3"
	"gocloud.dev/blob"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/cmd/memlane-fleet/report"
	"github.com/memlane/memlane/lifetime/finding"
)

func mergeCommand() *cli.Command {
	return &cli.Command{
		Name:      "merge",
		Usage:     "read records and write results",
		ArgsUsage: "[RECORDS...]",
		Description: "RECORDS are files written by map or combine, tables written by an engine\n" +
			"(.parquet), folders of such files, and addresses in object stores. Without\n" +
			"arguments, records are read from standard input. Order, grouping and\n" +
			"repetition of records do not change the results.\n\n" +
			"Examples:\n" +
			"  memlane-fleet merge -o results <records.jsonl\n" +
			"  memlane-fleet merge -o results --captures captures.txt records/",
		Flags: []cli.Flag{
			outputFlag(),
			&cli.StringFlag{Name: "captures", Usage: "fail unless each capture listed in `FILE` has a record",
				HideDefault: true}, rankFlag(), rolesFlag(),
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			by, err := rankNames(c)
			if err != nil {
				return err
			}
			given, err := roles(c)
			if err != nil {
				return err
			}
			in := &stores{}
			all, err := recordsOfArgs(ctx, c, in)
			if err != nil {
				return err
			}
			if err := writeResults(ctx, c.String("output"), all, by, given); err != nil {
				return err
			}
			return allThere(ctx, all, c.String("captures"), in)
		},
	}
}

// recordsOfArgs returns the records of the arguments, or of standard input if there are none.
func recordsOfArgs(ctx context.Context, c *cli.Command, in *stores) (*fleet.Fleet, error) {
	all := &fleet.Fleet{}
	sources := c.Args().Slice()
	if len(sources) == 0 {
		sources = []string{"-"}
	}
	for _, source := range sources {
		if err := addRecords(ctx, all, source, c.Root().Reader, in); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func addRecords(ctx context.Context, all *fleet.Fleet, source string, stdin io.Reader, in *stores) error {
	if source == "-" {
		return addLines(ctx, all, "standard input", stdin)
	}
	if remote(source) {
		return addFromStore(ctx, all, source, in)
	}
	return filepath.WalkDir(localPath(source), func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fail(statusFailed, "%s: %w", file, cause(err))
		}
		if entry.IsDir() || file != source && hidden(entry.Name()) {
			return nil
		}
		f, err := os.Open(file)
		if err != nil {
			return fail(statusFailed, "%s: %w", file, cause(err))
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return fail(statusFailed, "%s: %w", file, cause(err))
		}
		return addContent(ctx, all, file, f, info.Size())
	})
}

// hidden reports whether a name is that of an engine's own file: _SUCCESS, .part-0.crc.
func hidden(name string) bool { return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") }

func addFromStore(ctx context.Context, all *fleet.Fleet, source string, in *stores) error {
	address, prefix, err := splitAddress(source)
	if err != nil {
		return fail(statusUsage, "%w", err)
	}
	bucket, err := in.bucket(ctx, address)
	if err != nil {
		return err
	}
	keys, err := in.list(ctx, address, prefix)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if hidden(key[strings.LastIndexByte(key, '/')+1:]) {
			continue
		}
		var data []byte
		err := retry(ctx, func() (err error) {
			data, err = bucket.ReadAll(ctx, key)
			return err
		})
		if err != nil {
			return storeError(source, err)
		}
		if err := addContent(ctx, all, key, bytes.NewReader(data), int64(len(data))); err != nil {
			return err
		}
	}
	if len(keys) == 0 {
		return fail(statusUsage, "%s: no records found", shownName(source))
	}
	return nil
}

func addLines(ctx context.Context, all *fleet.Fleet, name string, in io.Reader) error {
	lines := bufio.NewScanner(untilDone{ctx, in})
	lines.Buffer(nil, 2*maxRecord) // a record that cannot be packed, as base64
	n := 0
	for lines.Scan() {
		n++
		if len(lines.Bytes()) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil || l.Record == nil {
			return fail(statusUsage, "%s, line %d: not a line of memlane-fleet map", name, n)
		}
		if err := addPacked(all, l.Record); err != nil {
			return fail(statusUsage, "%s, line %d: %w", name, n, err)
		}
	}
	switch err := lines.Err(); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fail(statusFailed, "%s: %w", name, cause(err))
	}
	return nil
}

// addContent adds the records of a table, or of lines.
func addContent(ctx context.Context, all *fleet.Fleet, name string, in interface {
	io.Reader
	io.ReaderAt
}, size int64) error {
	if strings.HasSuffix(name, ".parquet") {
		return addRows(all, name, in, size)
	}
	return addLines(ctx, all, name, in)
}

// addRows adds the records in a Parquet table, such as spark_job.py writes.
func addRows(all *fleet.Fleet, name string, in io.ReaderAt, size int64) (err error) {
	defer func() {
		if fault := recover(); fault != nil { // parquet-go, of a damaged file
			err = fail(statusUsage, "%s: not a Parquet file: %v", name, fault)
		}
	}()
	rows, err := parquet.Read[line](in, size)
	if err != nil {
		return fail(statusUsage, "%s: not a Parquet file: %w", name, err)
	}
	for i := range rows {
		if err := addPacked(all, rows[i].Record); err != nil {
			return fail(statusUsage, "%s, row %d: %w", name, i+1, err)
		}
	}
	return nil
}

// allThere checks that each capture of a list has a record.
func allThere(ctx context.Context, all *fleet.Fleet, list string, in *stores) error {
	if list == "" {
		return nil
	}
	f, err := os.Open(list)
	if err != nil {
		return fail(statusUsage, "--captures %s: %w", list, cause(err))
	}
	defer f.Close()
	names, err := namesOf(ctx, nil, f, in)
	if err != nil {
		return err
	}
	var without []string
	for _, name := range names {
		if all.Record(shownName(name)) == nil {
			without = append(without, name)
		}
	}
	if len(without) == 0 {
		return nil
	}
	const most = 3
	text := strings.Join(without[:min(most, len(without))], ", ")
	if len(without) > most {
		text += fmt.Sprintf(" and %d more", len(without)-most)
	}
	return fail(statusIncomplete, "%d of %d captures have no record: %s; run map on them and merge again",
		len(without), len(names), text)
}

// pages is the folder in the results with the pages of single captures, by the names of
// their files, as from memlane report -o pages/rank7.pickle.html.
const pages = "pages/"

// writeResults writes all results of a fleet to a folder. If it fails, it writes none.
func writeResults(ctx context.Context, output string, all *fleet.Fleet, by finding.RankNames, given *fleet.Roles) (err error) {
	bucket, err := folder(ctx, output)
	if err != nil {
		return err
	}
	keys, err := keysOf(ctx, bucket, pages)
	if err != nil {
		return storeError(output, err)
	}
	there := map[string]bool{}
	for _, key := range keys {
		there[key] = true
	}
	d := report.Of(all, by, given, func(capture string) string {
		page := pages + capture[strings.LastIndexByte(capture, '/')+1:] + ".html"
		if !there[page] {
			return ""
		}
		return (&url.URL{Path: page}).String()
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // discards writers that are not closed
	var open []*blob.Writer
	for _, r := range report.Files {
		w, err := bucket.NewWriter(ctx, r.Name, nil)
		if err == nil {
			open = append(open, w)
			err = r.Write(w, d)
		}
		if err != nil {
			return fail(statusFailed, "-o %s: %s: %w", output, r.Name, cause(err))
		}
	}
	for i, w := range open {
		if err := w.Close(); err != nil {
			return fail(statusFailed, "-o %s: %s: %w", output, report.Files[i].Name, cause(err))
		}
	}
	return nil
}
