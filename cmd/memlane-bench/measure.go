package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// cost is the cost of a command: the least time of its runs, and the most memory.
type cost struct {
	cpu  time.Duration // user and system, of the process and its children
	wall time.Duration
	rss  int64 // peak of the resident memory of the largest process, bytes
	out  int64 // size of the file that it wrote, bytes
	runs int
	err  error // why the cost is unknown
}

// command is something to measure.
type command struct {
	name    string   // in the table
	args    []string // the program and its arguments; "{out}" is a file to write
	missing string   // the program or module to install, "" if the command can run
	all     bool     // runs on all processors
}

// equalTime is how long each of several commands runs in total, so that the least of its costs is as reliable as that of slower ones.
const equalTime = 10 * time.Second

// measure returns the cost of each command. It runs them in turns, so that other load on the machine affects all of them. A command
// that has taken patience in total is not repeated; one that has not taken equalTime runs up to most times.
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

// once runs a command, on one processor if not command.all.
func (b *bench) once(ctx context.Context, c command) cost {
	args := make([]string, len(c.args))
	for i, a := range c.args {
		args[i] = strings.ReplaceAll(a, "{out}", b.out)
	}
	os.RemoveAll(b.out)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "TMPDIR="+b.tmp) // removed at the end, with the files that peers leave behind
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	begin := time.Now()
	start := startPinned
	if c.all {
		start = (*exec.Cmd).Start
	}
	if err := start(cmd); err != nil {
		return cost{err: err}
	}
	err := cmd.Wait()
	one := cost{wall: time.Since(begin), runs: 1}
	if ctx.Err() != nil {
		return cost{err: ctx.Err()}
	}
	if err != nil {
		one.err = fmt.Errorf("%w: %s", err, lastLine(stderr.Bytes()))
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

// startPinned starts a command on one processor: a program inherits it from the thread that starts it.
func startPinned(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unpin := pin()
	defer unpin()
	return cmd.Start()
}

func lastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}

// machine describes the machine, one fact per line.
func machine() []string {
	cpu := field("/proc/cpuinfo", "model name")
	if cpu == "" {
		cpu = "unknown processor"
	}
	facts := []string{fmt.Sprintf("%s, %d processors, %s/%s", cpu, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)}
	if kib, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		facts = append(facts, fmt.Sprintf("%.1f GB of memory", float64(kib<<10)/1e9))
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		facts = append(facts, "load in the minute before the first run: "+strings.Fields(string(load))[0])
	}
	return facts
}

// field returns the value of a name in a /proc file, "" if it has none.
func field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `\s*:\s*(.*)$`).FindSubmatch(text)
	if m == nil {
		return ""
	}
	return string(m[1])
}
