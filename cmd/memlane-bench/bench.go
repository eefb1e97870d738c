package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// bench is one run of the command.
type bench struct {
	scale float64
	runs  int
	only  *regexp.Regexp
	flags string // that affect the measurements, as on the command line
	peers peers
	log   io.Writer

	self         string // this program
	tmp          string // folder, removed at the end
	inputs       string // folder of inputs: in tmp, or --dir
	out, profile string // files that commands write

	lasts []beside // all rows of memlane, beside the last release

	start, floor cost     // of memlane and of this program when they do nothing
	failed       []string // commands of memlane
}

// write measures everything and writes the sections.
func (b *bench) write(ctx context.Context, w io.Writer) error {
	idle, err := b.measure(ctx, []command{b.memlane("memlane --help", "--help"), {name: "nothing", args: []string{b.self, "limit", "read", os.DevNull}}}, b.runs, shortRuns*b.runs, patience)
	if err != nil {
		return err
	}
	for _, c := range idle {
		if c.err != nil {
			return c.err
		}
	}
	b.start, b.floor = idle[0], idle[1]
	if err := b.sideBySide(ctx, w); err != nil {
		return err
	}
	return b.growth(ctx, w)
}

// patience is how long the runs of a command may take in total; after that it is not repeated.
const patience = time.Minute

// shortRuns is how many times as often a short command runs.
const shortRuns = 5

func (b *bench) sideBySide(ctx context.Context, w io.Writer) error {
	head := sync.OnceFunc(func() { b.sideBySideHead(w) })
	for _, work := range b.works() {
		if !b.only.MatchString(work.name) {
			continue
		}
		file, err := b.makeInput(ctx, work.input)
		if err != nil {
			return err
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		rows := work.rows(file)
		lasts := b.ofLast(rows)
		costs, err := b.measureRows(ctx, slices.Concat(rows, lasts))
		if err != nil {
			return err
		}
		for i, r := range lasts {
			now := slices.IndexFunc(rows, func(of row) bool { return of.name == r.name })
			b.lasts = append(b.lasts, beside{work.name, r.name, costs[now], costs[len(rows)+i]})
		}
		head()
		b.workRow(w, fmt.Sprintf("**%s**: %s, %s MB", work.name, work.title, megabytes(info.Size())), rows, costs)
		if strings.HasPrefix(work.name, hugeWorks) {
			b.drop([]string{file})
		}
	}
	b.besideLast(w)
	return nil
}

// ofLast returns the rows of memlane with the program of the last release.
func (b *bench) ofLast(rows []row) (lasts []row) {
	if b.peers.last == "" {
		return nil
	}
	for _, r := range rows {
		if r.less == nil && r.args[0] == b.peers.memlane {
			r.targets, r.args = nil, append([]string{b.peers.last}, r.args[1:]...)
			lasts = append(lasts, r)
		}
	}
	return lasts
}

// measureRows returns the cost of each row; see row.less for differences.
func (b *bench) measureRows(ctx context.Context, rows []row) ([]cost, error) {
	var commands []command
	for _, r := range rows {
		if r.less == nil {
			commands = append(commands, r.command)
		}
	}
	costs, err := b.measure(ctx, commands, b.runs, shortRuns*b.runs, patience)
	if err != nil {
		return nil, err
	}
	for i, r := range rows {
		if r.less == nil {
			continue
		}
		of, without := costs[r.less[0]], costs[r.less[1]]
		difference := cost{cpu: max(0, of.cpu-without.cpu), err: errors.Join(of.err, without.err)}
		costs = append(costs[:i:i], append([]cost{difference}, costs[i:]...)...)
	}
	return costs, nil
}

func (b *bench) growth(ctx context.Context, w io.Writer) error {
	var columns []column
	for _, s := range b.allSeries() {
		if !b.only.MatchString(s.name) {
			continue
		}
		all, err := b.grow(ctx, s)
		if err != nil {
			return err
		}
		columns = append(columns, column{s.title, all})
	}
	if columns != nil {
		b.growthTable(w, columns)
	}
	return nil
}

// drop removes inputs, unless --dir keeps them: the largest would fill a disk.
func (b *bench) drop(files []string) {
	if filepath.Dir(b.inputs) != b.tmp {
		return
	}
	for _, file := range files {
		os.Remove(file)
	}
}
