package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// cost is what a command took: the least of its runs, of memory the most.
type cost struct {
	cpu  time.Duration // user and system, of the process and its children
	wall time.Duration
	rss  int64 // peak of the resident memory of the largest process, bytes
	out  int64 // size of the file that it wrote, bytes
	runs int
	err  error // why there is no cost
}

// command is something to measure.
type command struct {
	name    string   // for people
	args    []string // the program and its arguments; "{out}" is a file to write
	missing string   // what would have to be installed, "" when it is there
}

// equalTime is what each of several commands is run for, so that the least of its
// costs is as sure as that of those which take longer.
const equalTime = 10 * time.Second

// measure runs commands in turns, so that whatever else the machine does falls
// on all of them, and returns the cost of each. What has taken patience in all is
// not repeated; what has not taken equalTime is run up to most times.
func (b *bench) measure(ctx context.Context, commands []command, runs, most int, patience time.Duration) ([]cost, error) {
	costs := make([]cost, len(commands))
	spent := make([]time.Duration, len(commands))
	for i, c := range commands {
		if c.missing != "" {
			costs[i].err = errNotFound
		}
	}
	for run := range most {
		for i, c := range commands {
			if costs[i].err != nil || run > 0 && spent[i] > patience || run >= runs && spent[i] > equalTime {
				continue
			}
			fmt.Fprintf(b.log, "run %d: %s\n", run+1, c.name)
			one := b.once(ctx, c)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			spent[i] += one.wall
			costs[i].add(one)
		}
	}
	return costs, nil
}

var errNotFound = errors.New("not found")

func (c *cost) add(one cost) {
	if c.runs == 0 {
		*c = one
		return
	}
	c.cpu, c.wall = min(c.cpu, one.cpu), min(c.wall, one.wall)
	c.rss, c.out, c.err = max(c.rss, one.rss), one.out, one.err
	c.runs++
}

// once runs a command on one processor.
func (b *bench) once(ctx context.Context, c command) cost {
	args := make([]string, len(c.args))
	for i, a := range c.args {
		args[i] = strings.ReplaceAll(a, "{out}", b.out)
	}
	os.RemoveAll(b.out)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "TMPDIR="+b.tmp) // so that what a peer leaves behind is removed too
	var complaint tail
	cmd.Stderr = &complaint
	begin := time.Now()
	if err := startPinned(cmd); err != nil {
		return cost{err: err}
	}
	err := cmd.Wait()
	one := cost{wall: time.Since(begin), runs: 1}
	if ctx.Err() != nil {
		return cost{err: ctx.Err()}
	}
	if err != nil {
		one.err = fmt.Errorf("%w: %s", err, complaint.lastLine())
		fmt.Fprintf(b.log, "%s: %v\n", c.name, one.err)
		if args[0] == b.peers.memlane {
			b.failed = append(b.failed, strings.Join(args[1:], " "))
		}
		return one
	}
	one.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	one.rss = peakMemory(cmd.ProcessState)
	if info, err := os.Stat(b.out); err == nil {
		one.out = info.Size()
	}
	return one
}

// startPinned starts a command on the processor that the machine has last of
// those it may use: a program inherits it from the thread that starts it.
func startPinned(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unpin := pin()
	defer unpin()
	return cmd.Start()
}

// tail keeps the end of what a command complains about.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - 1000; over > 0 {
		t.text = t.text[over:]
	}
	return len(p), nil
}

func (t *tail) lastLine() string {
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return lines[len(lines)-1]
}
