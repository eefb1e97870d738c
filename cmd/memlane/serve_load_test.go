package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memlane/memlane/internal/atomicfile"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/trainingtest"
	"github.com/memlane/memlane/lifetime/native"
)

// TestServeLoad runs 64 clients that request everything while the capture changes. Half of
// them sometimes hang up midway. No request may fail, and memory must not grow with their
// number. It ends when the capture was read again, or after the duration in MEMLANE_LOAD with a larger capture. Without MEMLANE_DEEP=1
// clients pause.
func TestServeLoad(t *testing.T) {
	t.Parallel()
	lasts, buffers := time.Second, 1000
	pause := time.Duration(deep.Or(300, 0)) * time.Millisecond
	if text := os.Getenv("MEMLANE_LOAD"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		buffers = 20_000
	}
	file := filepath.Join(t.TempDir(), "capture.native")
	states := [2]func(){replacing(t, file, buffers), replacing(t, file, buffers*4/5)}
	states[0]()
	s := startServe(t, "--no-token", file)
	s.ready("1")
	process := watchProcess(t, s.command.Process.Pid, lasts)
	done := make(chan bool)
	var answers, hungUp atomic.Int64
	var clients sync.WaitGroup
	for i := range 64 {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			client := http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for {
				select {
				case <-done:
					return
				default:
				}
				path := []string{"", "api/status", "api/info", "api/leaks", "api/peak", "api/peak?at=end", "api/model"}[rng.IntN(7)]
				leaves := i%2 == 0 && rng.IntN(3) == 0
				if err := ask(&client, s.address+path, leaves); err != nil {
					t.Errorf("/%s: %v", path, err)
					return
				}
				if answers.Add(1); leaves {
					hungUp.Add(1)
				}
				time.Sleep(pause)
			}
		})
	}
	changes := max(1, int(lasts/(10*time.Second))) // serve waits until a file is unchanged for a second
	for i := 1; i <= changes; i++ {
		states[i%2]()
		time.Sleep(lasts / time.Duration(changes))
	}
	status := s.shows(`"state":"(?:ready|reading)","version":"(?:[2-9]|\d\d)`)
	close(done)
	clients.Wait()
	process.report()
	t.Logf("64 clients, %v: %d answers, %.0f a second; %d hung up midway", lasts, answers.Load(), float64(answers.Load())/lasts.Seconds(), hungUp.Load())
	t.Logf("at the end: %s", status)
}

// ask sends a request. It reads the response, or hangs up after ten bytes.
func ask(client *http.Client, address string, leaves bool) error {
	answer, err := client.Get(address)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	if leaves {
		_, err = io.ReadFull(answer.Body, make([]byte, 10))
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// replacing returns a function that replaces a file by a capture with n buffers.
func replacing(t *testing.T, file string, n int) func() {
	t.Helper()
	c := trainingtest.Capture(t, n)
	return func() {
		if err := atomicfile.Write(t.Context(), file, func(w io.Writer) error { return native.Write(w, c) }); err != nil {
			t.Error(err)
		}
	}
}

// observed has the memory in bytes and the open files of a process over time. It is empty
// on systems without /proc.
type observed struct {
	t      *testing.T
	done   chan bool
	ended  chan bool
	memory []int64
	files  []int
}

// watchProcess samples a process about 200 times during a test.
func watchProcess(t *testing.T, pid int, lasts time.Duration) *observed {
	o := &observed{t: t, done: make(chan bool), ended: make(chan bool)}
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	go func() {
		defer close(o.ended)
		for {
			text, err := os.ReadFile(filepath.Join(folder, "status"))
			resident := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(text)
			if err != nil || resident == nil {
				return
			}
			kib, _ := strconv.ParseInt(string(resident[1]), 10, 64)
			files, _ := os.ReadDir(filepath.Join(folder, "fd"))
			o.memory, o.files = append(o.memory, kib<<10), append(o.files, len(files))
			select {
			case <-o.done:
				return
			case <-time.After(lasts / 200):
			}
		}
	}()
	return o
}

// report logs the samples. It fails if the memory of the second half is much higher than
// that of the first.
func (o *observed) report() {
	o.t.Helper()
	close(o.done)
	<-o.ended
	if len(o.memory) < 10 {
		o.t.Log("this system does not report the memory of a process")
		return
	}
	n := len(o.memory)
	first, second := slices.Max(o.memory[:n/2]), slices.Max(o.memory[n/2:])
	mb := func(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(bytes)/1e6) }
	o.t.Logf("memory: %s at the start, %s in the middle, %s at the end; at most %s in the first half, %s in the second", mb(o.memory[0]),
		mb(o.memory[n/2]), mb(o.memory[n-1]), mb(first), mb(second))
	o.t.Logf("open files: %d at the start, at most %d, %d at the end", o.files[0], slices.Max(o.files), o.files[n-1])
	if second > first+first/2+32<<20 {
		o.t.Errorf("memory grows from %d to %d", first, second)
	}
}
