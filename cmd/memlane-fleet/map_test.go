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

	"golang.org/x/sync/semaphore"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
)

// TestDoesNotFit: a capture that needs more memory than there is at all is refused with the
// reason, and no cache keeps that.
func TestDoesNotFit(t *testing.T) {
	ctx := context.Background()
	const budget = 4 << 10
	m := &mapper{stores: &stores{}, budget: budget, left: semaphore.NewWeighted(budget)}
	var err error
	if m.cache, err = openCache(ctx, m.stores, t.TempDir()); err != nil {
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

// interrupts gives names to read once this process has been interrupted.
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
	}
	return i.names.Read(b)
}

// TestInterrupted: Ctrl-C ends a run without results, and the same command goes on.
func TestInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" || signal.Ignored(os.Interrupt) {
		t.Skip("no process can interrupt itself here")
	}
	names, out := job(t), t.TempDir()
	var said bytes.Buffer
	status := run(&interrupts{t: t, names: strings.NewReader(strings.Repeat(lines(names), 50))}, io.Discard, &said, []string{"memlane-fleet", "run", "-o", out})
	if status != statusInterrupted || !strings.Contains(said.String(), "interrupted; the same command goes on") {
		t.Fatalf("status %d, says %q", status, said.String())
	}
	if _, err := os.Stat(out + "/fleet.json"); err == nil {
		t.Error("there are results")
	}
	call(t, 0, lines(names), "run", "-o", out)
	whole := t.TempDir()
	call(t, 0, lines(names), "run", "-o", whole)
	sameResults(t, "after an interruption", resultsIn(t, out), resultsIn(t, whole))
}
