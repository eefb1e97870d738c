package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
)

// TestDoesNotFit: a capture that needs more than the whole budget is refused with the reason,
// and the refusal is not cached.
func TestDoesNotFit(t *testing.T) {
	ctx := context.Background()
	const budget = 4 << 10
	m := &mapper{stores: &stores{}, budget: budget, left: semaphore.NewWeighted(budget)}
	var err error
	if m.cache, err = openCache(ctx, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	name := snapshots + "leak_4mib_20steps.pickle"
	r, err := m.record(ctx, name)
	if err != nil || r.State != fleet.Refused || !strings.Contains(r.Reason, "does not fit in the 4.00 KiB of --max-memory") {
		t.Fatalf("record %+v, %v", r, err)
	}
	m.budget, m.left = leastBudget, semaphore.NewWeighted(leastBudget)
	if r, err = m.record(ctx, name); err != nil || r.State != fleet.Read {
		t.Errorf("with more memory: %+v, %v", r, err)
	}
}

// interrupts is a list of names that interrupts this process when it is read.
type interrupts struct {
	t     *testing.T
	names *strings.Reader
	done  bool
}

func (i *interrupts) Read(b []byte) (int, error) {
	if !i.done {
		i.done = true
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, os.Interrupt)
		defer signal.Stop(heard)
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			i.t.Error(err)
		}
		if err := self.Signal(os.Interrupt); err != nil {
			i.t.Error(err)
		}
		<-heard
		time.Sleep(100 * time.Millisecond) // the program hears it too, but may be scheduled later
	}
	return i.names.Read(b)
}

// TestInterrupted: Ctrl-C ends a run without results, and the same command continues.
func TestInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" || signal.Ignored(os.Interrupt) {
		t.Skip("no process can interrupt itself here")
	}
	names, out := job(t), t.TempDir()
	var stderr bytes.Buffer
	status := run(&interrupts{t: t, names: strings.NewReader(strings.Repeat(lines(names), 50))}, io.Discard, &stderr, []string{"memlane-fleet", "run", "-o", out})
	if status != statusInterrupted || !strings.Contains(stderr.String(), "interrupted; the same command continues") {
		t.Fatalf("status %d, says %q", status, stderr.String())
	}
	if _, err := os.Stat(out + "/fleet.json"); err == nil {
		t.Error("there are results")
	}
	call(t, 0, lines(names), "run", "-o", out)
	whole := t.TempDir()
	call(t, 0, lines(names), "run", "-o", whole)
	sameResults(t, "after an interruption", resultsIn(t, out), resultsIn(t, whole))
}
