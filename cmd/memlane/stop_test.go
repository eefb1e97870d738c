//go:build unix

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memlane/memlane/internal/atomicfile"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/trainingtest"
	"github.com/memlane/memlane/lifetime/native"
)

// interrupting is a capture that sends a signal to this process while it is read.
type interrupting struct {
	rest    io.Reader
	with    syscall.Signal
	pressed bool
}

func (r *interrupting) Read(p []byte) (int, error) {
	n, err := r.rest.Read(p[:min(len(p), 1000)])
	if !r.pressed {
		r.pressed = true
		arrived := make(chan os.Signal, 1)
		signal.Notify(arrived, r.with)
		defer signal.Stop(arrived)
		syscall.Kill(syscall.Getpid(), r.with)
		<-arrived
		time.Sleep(50 * time.Millisecond) // until memlane has taken it, too
	}
	return n, err
}

// TestInterrupted checks that a signal ends a command with one line and the status of
// shells, and leaves no output and no temporary file.
func TestInterrupted(t *testing.T) {
	acceptSignals(t)
	data, err := os.ReadFile(filepath.Join(snapshots, "leak_loss.pickle"))
	if err != nil {
		t.Fatal(err)
	}
	endless := bytes.Repeat(data, 1000) // long enough for the signal
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for signal, message := range map[syscall.Signal]string{syscall.SIGINT: "interrupted", syscall.SIGTERM: "terminated", syscall.SIGHUP: "hung up"} {
		for _, args := range []string{"info -", "leaks -", "svg -o FILE -", "info --input-format xplane -"} {
			var stdout, stderr bytes.Buffer
			status := run(&interrupting{rest: bytes.NewReader(endless), with: signal}, &stdout, &stderr, append([]string{"memlane"}, argsOf(args, filepath.Join(dir, "x.svg"))...))
			if status != 128+int(signal) || stderr.String() != "memlane: -: "+message+"\n" || stdout.Len() > 0 {
				t.Errorf("memlane %s: status %d, stderr %q, stdout %q", args, status, stderr.String(), stdout.String())
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d files are left (%v)", len(left), err)
	}
}

// TestInterruptedWhileWriting checks that an interrupted output does not get its name.
func TestInterruptedWhileWriting(t *testing.T) {
	acceptSignals(t)
	t.Chdir(t.TempDir())
	ctx, done := untilSignal(io.Discard)
	defer done()
	err := atomicfile.Write(ctx, "out", func(w io.Writer) error {
		syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
		<-ctx.Done()
		fmt.Fprint(w, "some of it") // most printing code ignores errors
		return nil
	})
	if statusOf(err) != 143 || err.Error() != "terminated" {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("%d files are left (%v)", len(left), err)
	}
}

// TestStoppedAnywhere sends one or two signals at random instants. The output must be
// complete or missing.
func TestStoppedAnywhere(t *testing.T) {
	t.Parallel()
	acceptSignals(t)
	large := filepath.Join(t.TempDir(), "large.native")
	f, err := os.Create(large)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmp.Or(native.Write(f, trainingtest.Capture(t, 1500)), f.Close()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	for _, args := range []string{"svg -o out.svg", "svg -o out.png", "report -o out.html", "pprof --at 10ms -o out.pb.gz", "export --to parquet -o out"} {
		command := func() *exec.Cmd {
			cmd := exec.Command("memlane", append(strings.Fields(args), large)...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir)
			return cmd
		}
		began := time.Now()
		if out, err := command().CombinedOutput(); err != nil {
			t.Fatalf("memlane %s: %v: %s", args, err, out)
		}
		took := time.Since(began)
		whole := contents(t, dir)
		for range deep.Or(2, 4) {
			cmd := command()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(r.Int64N(int64(took))))
			cmd.Process.Signal(syscall.SIGINT)
			if r.IntN(2) == 0 {
				cmd.Process.Signal(syscall.SIGTERM)
			}
			err := cmd.Wait()
			if got := contents(t, dir); len(got) > 0 && !maps.Equal(got, whole) || err == nil && len(got) == 0 {
				t.Errorf("memlane %s: %v, and leaves %d of %d files, or parts of them", args, err, len(got), len(whole))
			}
		}
	}
}

// contents returns the contents of the files in a folder, and removes them.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		data, err := os.ReadFile(file)
		if err := cmp.Or(err, os.Remove(file)); err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(data)
	}
	return all
}

// TestMaxMemory checks that --max-memory does not change the result for a small capture.
func TestMaxMemory(t *testing.T) {
	file := filepath.Join(snapshots, "leak_loss.pickle")
	if got, want := succeed(t, "leaks", "--json", "--max-memory", "8GiB", file), succeed(t, "leaks", "--json", file); got != want {
		t.Errorf("with --max-memory:\n%s\nwithout:\n%s", got, want)
	}
}
