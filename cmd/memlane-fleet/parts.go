package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
	"gocloud.dev/blob"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/units"
)

func partsCommand() *cli.Command {
	return &cli.Command{
		Name:      "parts",
		Usage:     "divide captures into parts of equal size, one per line",
		ArgsUsage: "[CAPTURE...]",
		Description: "For engines: reads names of captures and writes parts as JSON lists of names,\n" +
			"one per line, each for a task that calls map. A capture that is larger than a\n" +
			"part is a part alone. Sizes come from disks and lists of object stores.\n\n" +
			"Examples:\n" +
			"  memlane-fleet parts --size 4GiB <captures.txt",
		Flags: []cli.Flag{&cli.StringFlag{Name: "size", Usage: "divide into parts of `SIZE`", Value: "4GiB"}},
		Action: func(ctx context.Context, c *cli.Command) error {
			most, err := units.ParseBytes(c.String("size"))
			if err != nil || most < 1 {
				return fail(statusUsage, "--size %q: give a size, for example 4GiB", c.String("size"))
			}
			in := &stores{}
			names, err := namesOf(ctx, c.Args().Slice(), c.Root().Reader, in)
			if err != nil {
				return err
			}
			sizes := &sizes{stores: in, listed: map[string]map[string]int64{}}
			out := bufio.NewWriter(c.Root().Writer)
			lines := json.NewEncoder(out)
			lines.SetEscapeHTML(false)
			var part []string
			sum := int64(0)
			for i, name := range names {
				size, err := sizes.size(ctx, name)
				if err != nil {
					return err
				}
				if len(part) > 0 && (sum+size > most || len(part) == mostInPart) {
					lines.Encode(part) // Flush has its error
					part, sum = nil, 0
				}
				part, sum = append(part, name), sum+size
				if i == len(names)-1 {
					lines.Encode(part)
				}
			}
			return printed(out.Flush())
		},
	}
}

// mostInPart is how many captures a task reads at most: it is what a lost machine repeats.
const mostInPart = 200

// sizes finds the sizes of captures in bytes. It lists the folder of a store once.
type sizes struct {
	stores *stores
	listed map[string]map[string]int64 // by folder and key
}

// size returns 0 for a capture that does not exist or cannot be looked at: map tells why.
func (s *sizes) size(ctx context.Context, name string) (int64, error) {
	if !remote(name) {
		return sizeOf(name), nil
	}
	address, key, err := splitAddress(name)
	if err != nil {
		return 0, nil
	}
	prefix := key[:strings.LastIndexByte(key, '/')+1]
	folder := address + " " + prefix
	if s.listed[folder] == nil {
		bucket, err := s.stores.bucket(ctx, address)
		if err != nil {
			return 0, err
		}
		objects, err := objectsOf(ctx, bucket, &blob.ListOptions{Prefix: prefix, Delimiter: "/"})
		if err != nil {
			return 0, storeError(shownName(name), err)
		}
		s.listed[folder] = map[string]int64{}
		for _, object := range objects {
			s.listed[folder][object.Key] = object.Size
		}
	}
	return s.listed[folder][key], nil
}

// sizeOf returns the size of a file, or of all files in a folder of a profiler.
func sizeOf(name string) (sum int64) {
	filepath.WalkDir(name, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() { // also behind a link
		return info.Size()
	}
	return sum
}

func combineCommand() *cli.Command {
	return &cli.Command{
		Name:      "combine",
		Usage:     "read records and write them in fewer lines",
		ArgsUsage: "[RECORDS...]",
		Description: "For engines: what many records have in common is written once, so that the\n" +
			"machine that merges them needs less memory. merge and combine read its output\n" +
			"like that of map.\n\n" +
			"Examples:\n" +
			"  memlane-fleet combine <records.jsonl >combined.jsonl",
		Action: func(ctx context.Context, c *cli.Command) error {
			all, err := recordsOfArgs(ctx, c, &stores{})
			if err != nil {
				return err
			}
			out := bufio.NewWriter(c.Root().Writer)
			lines := json.NewEncoder(out)
			var names []string
			for r := range all.Records() {
				names = append(names, r.Name)
			}
			for some := range slices.Chunk(names, mostCombined) {
				encodeTogether(lines, all, some) // Flush has its error
			}
			return printed(out.Flush())
		},
	}
}

// encodeTogether writes records as one line, or as several if merge would refuse its size.
func encodeTogether(lines *json.Encoder, all *fleet.Fleet, names []string) {
	some := &fleet.Fleet{}
	for _, name := range names {
		some.Add(all.Record(name))
	}
	plain := some.AppendBinary(nil)
	if half := len(names) / 2; half > 0 && len(plain) > maxRecord {
		encodeTogether(lines, all, names[:half])
		encodeTogether(lines, all, names[half:])
		return
	}
	lines.Encode(line{Record: packer.EncodeAll(plain, nil)})
}

// mostCombined is how many records a line of combine has at most.
const mostCombined = 1000
