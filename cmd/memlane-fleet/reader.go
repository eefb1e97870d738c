package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/finding"
)

// readers read captures in processes of their own: a capture that ends or stalls its process is refused by name, and
// the others are read.
type readers struct {
	program string
	args    []string
	workers int
	errors  io.Writer
	by      finding.RankNames
	done    *progress
}

func readersOf(ctx context.Context, c *cli.Command) (r *readers, names []string, err error) {
	r = &readers{args: []string{"read-captures"}, workers: c.Int("workers"), errors: c.Root().ErrWriter}
	for _, flag := range []string{"cache", "max-memory", "rank-from"} {
		if value := c.String(flag); value != "" {
			r.args = append(r.args, "--"+flag+"="+value)
		}
	}
	if r.by, err = rankNames(c); err != nil {
		return nil, nil, err
	}
	if r.program, err = os.Executable(); err != nil {
		return nil, nil, fail(statusFailed, "cannot find this program to start it again: %w", err)
	}
	names, err = namesOf(ctx, c.Args().Slice(), c.Root().Reader, &stores{})
	r.done = progressOf(c, len(names))
	return r, names, err
}

// each calls take with the line of each capture, in any order. It stops at the first error.
func (r *readers) each(ctx context.Context, names []string, take func(line) error) error {
	defer r.done.end()
	for len(names) > 0 {
		left, suspects, _, err := r.read(ctx, names, r.workers, take)
		if err != nil {
			return err
		}
		for _, name := range suspects { // each alone: the others were only beside the one that ended the process
			_, again, why, err := r.read(ctx, []string{name}, 1, take)
			if err == nil && len(again) > 0 {
				r.done.add(fleet.Refused.String())
				err = take(lineOf(refused("", errors.New("tried twice: "+why)).Named(shownName(name), r.by)))
			}
			if err != nil {
				return err
			}
		}
		names = left
	}
	return nil
}

// told is what a process that reads captures tells.
type told struct {
	Number int   `json:"number"` // of the capture
	Line   *line `json:"line"`   // nil: it begins
	End    bool  `json:"end"`    // of the process, with the status and the error that run returns

	Status int    `json:"status"`
	Error  string `json:"error"`
}

// patience is how long a process may take to stop.
const patience = 10 * time.Second

// statusStalled is the status of a process with a capture that takes too long.
const statusStalled = -1

// read reads captures in another process. If that dies, it returns why, the captures that it had begun, and those
// that it had not.
func (r *readers) read(ctx context.Context, names []string, workers int, take func(line) error) (
	left, suspects []string, why string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, r.program, append(r.args, "--workers="+strconv.Itoa(workers))...)
	cmd.Stderr = r.errors
	if dir, err := os.MkdirTemp("", "memlane-fleet-*"); err == nil { // for copies of captures: a killed process leaves them
		defer os.RemoveAll(dir)
		cmd.Env = append(os.Environ(), "TMPDIR="+dir, "TMP="+dir)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, "", fail(statusFailed, "%w", err)
	}
	cmd.Cancel = in.Close // then it ends, and removes its temporary files
	cmd.WaitDelay = patience
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, nil, "", fail(statusFailed, "cannot start %s: %w", r.program, err)
	}
	list := make([][]byte, len(names)) // bytes: not all names are UTF-8
	for i, name := range names {
		list[i] = []byte(name)
	}
	json.NewEncoder(in).Encode(list) // fails only if the process died, which Wait tells
	begun, read := make([]bool, len(names)), make([]bool, len(names))
	var end told
	for lines := json.NewDecoder(out); !end.End && err == nil; {
		var t told
		if lines.Decode(&t) != nil {
			break
		}
		switch {
		case t.End:
			end = t
		case t.Line == nil:
			begun[t.Number] = true
		default:
			read[t.Number] = true
			r.done.add(t.Line.State)
			if err = take(*t.Line); err != nil {
				cancel(err)
			}
		}
	}
	cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, nil, "", context.Cause(ctx)
	case end.Status == statusInterrupted:
		return nil, nil, "", errInterrupted
	case end.Status > 0:
		return nil, nil, "", fail(end.Status, "%s", end.Error)
	case end.Status == statusStalled:
		why = end.Error
	case end.End:
		return nil, nil, "", nil
	case cmd.ProcessState.ExitCode() < 0:
		why = fmt.Sprintf("the process that read it was killed (%s); if memory ran out, read it with memlane on a machine with more",
			cmd.ProcessState)
	default:
		why = fmt.Sprintf("the process that read it crashed (%s); please report this bug", cmd.ProcessState)
	}
	for i, name := range names {
		switch {
		case read[i]:
		case begun[i]:
			suspects = append(suspects, name)
		default:
			left = append(left, name)
		}
	}
	if len(left) == len(names) {
		err = fail(statusFailed, "no capture was begun: %s", why)
	}
	return left, suspects, why, err
}

// readCommand is the process. It reads the names as JSON, and ends when its standard input does: then the process
// that started it has died, or wants it to stop.
func readCommand() *cli.Command {
	return &cli.Command{
		Name:   "read-captures",
		Hidden: true,
		Flags:  mapFlags(),
		Action: func(ctx context.Context, c *cli.Command) error {
			var mu sync.Mutex
			lines := json.NewEncoder(c.Root().Writer)
			lines.SetEscapeHTML(false)
			tell := func(t told) error {
				mu.Lock()
				defer mu.Unlock()
				return lines.Encode(t)
			}
			end := told{End: true}
			if err := tellAll(ctx, c, tell); err != nil {
				err = stopped(ctx, err)
				end.Status, end.Error = statusUsage, err.Error()
				if status, ok := errors.AsType[*statusError](err); ok {
					end.Status = status.status
				}
			}
			return tell(end)
		},
	}
}

func tellAll(ctx context.Context, c *cli.Command, tell func(told) error) error {
	m, err := mapperOf(ctx, c)
	if err != nil {
		return err
	}
	m.stalled = func(limit time.Duration) {
		tell(told{End: true, Status: statusStalled, Error: fmt.Sprintf("it was not read within %v", limit)})
		os.Exit(1)
	}
	var list [][]byte
	in := json.NewDecoder(c.Root().Reader)
	if err := in.Decode(&list); err != nil {
		return fail(statusUsage, "standard input: %w", err)
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = string(list[i])
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		in.Decode(&list) // until it ends
		cancel(errInterrupted)
		time.Sleep(patience)
		os.Exit(statusInterrupted)
	}()
	return m.each(ctx, names, func(i int) error { return tell(told{Number: i}) }, func(i int, r *fleet.Record) error {
		l := lineOf(r)
		return tell(told{Number: i, Line: &l})
	})
}

// progress shows on a terminal how many captures were read, and prints the totals at the
// end.
type progress struct {
	out     io.Writer // nil with --quiet
	live    bool      // out is a terminal
	all     int
	started time.Time

	count map[string]int // by state
	shown time.Time
}

func progressOf(c *cli.Command, all int) *progress {
	p := &progress{all: all, started: time.Now(), count: map[string]int{}}
	if !c.Bool("quiet") {
		p.out = c.Root().ErrWriter
		f, ok := p.out.(*os.File)
		p.live = ok && term.IsTerminal(int(f.Fd()))
	}
	return p
}

func (p *progress) add(state string) {
	p.count[state]++
	if now := time.Now(); p.live && now.Sub(p.shown) > 200*time.Millisecond {
		p.shown = now
		done := 0
		for _, n := range p.count {
			done += n
		}
		left := time.Duration(float64(now.Sub(p.started)) / float64(done) * float64(p.all-done))
		fmt.Fprintf(p.out, clearLine+"%s, %s left", p, left.Round(time.Second))
	}
}

// clearLine clears the current line of a terminal.
const clearLine = "\r\033[K"

func (p *progress) end() {
	if p.live {
		fmt.Fprint(p.out, clearLine)
	}
	if p.out != nil {
		fmt.Fprintf(p.out, "memlane-fleet: %s\n", p)
	}
}

// String returns how many captures were read, refused and missing so far.
func (p *progress) String() string {
	text := fmt.Sprintf("%s of %s captures read", units.Count(int64(p.count[fleet.Read.String()])), units.Count(int64(p.all)))
	for _, state := range []string{fleet.Refused.String(), fleet.Missing.String()} {
		if n := p.count[state]; n > 0 {
			text += fmt.Sprintf(", %s %s", units.Count(int64(n)), state)
		}
	}
	return text
}
