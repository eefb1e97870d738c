package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime"
)

// asProgram is the variable that makes memlane-fleet of the binary of the tests, which starts itself to read captures.
const asProgram = "MEMLANE_FLEET_AS_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "":
		os.Setenv(asProgram, "poison")
		os.Exit(m.Run())
	case "ends":
		os.Exit(3)
	case "poison":
		debug.SetMaxStack(1 << 20)
		openCapture = openPoison
	}
	if limit, err := time.ParseDuration(os.Getenv("MEMLANE_FLEET_LONGEST")); err == nil {
		longest = limit
	}
	os.Exit(run(os.Stdin, os.Stdout, os.Stderr, os.Args))
}

// openPoison does to the process what a file says, or opens the file.
func openPoison(file string, in formats.Input) (*lifetime.Capture, error) {
	data, _ := os.ReadFile(file)
	poison, rest, _ := bytes.Cut(data, []byte("\n"))
	kill := func() {
		os.CreateTemp("", "left-*")
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			self.Kill()
		}
		select {}
	}
	switch string(poison) {
	case "poison: kill":
		kill()
	case "poison: kill once":
		if os.WriteFile(file, rest, 0o666) == nil {
			kill()
		}
	case "poison: overflow":
		panic(overflow(0))
	case "poison: wait":
		select {}
	case "poison: loop":
		for time.Now().Unix() > 0 {
		}
	}
	return formats.Open(file, in)
}

func overflow(n int) int {
	if n < 0 {
		return 0
	}
	return overflow(n+1) + n
}

// TestPoison: a capture that ends or stalls the process that reads it is refused by name, those beside it are read, and the next run
// reads it again.
func TestPoison(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signals here")
	}
	t.Setenv("MEMLANE_FLEET_LONGEST", "3s")
	names := job(t)
	healthy, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	want := map[string]string{}
	poison := func(i int, what, reason string) {
		name := filepath.Join(filepath.Dir(names[0]), fmt.Sprintf("rank%d-\xff.pickle", i)) // not UTF-8
		if err := os.WriteFile(name, append([]byte("poison: "+what+"\n"), healthy...), 0o666); err != nil {
			t.Skip(err)
		}
		names, want[name] = append(names, name), reason
	}
	poison(10, "kill", "tried twice: the process that read it was killed (signal: killed); ")
	poison(11, "overflow", "tried twice: the process that read it crashed (exit status 2); ")
	poison(12, "wait", "tried twice: it was not read within 3s")
	refused := 5
	if deep.Is() {
		poison(13, "loop", "tried twice: it was not read within 3s")
		refused++
	}
	cache := t.TempDir()
	out, stderr := call(t, 0, lines(names), "map", "--workers", "3", "--cache", cache)
	if !strings.HasSuffix(stderr, fmt.Sprintf("memlane-fleet: 5 of %d captures read, %d refused, 1 missing\n", refused+6, refused)) {
		t.Errorf("prints %s", stderr)
	}
	for name, reason := range want {
		if r := recordIn(t, out, name); r == nil || (r.State == fleet.Read) != (reason == "") || !strings.HasPrefix(r.Reason, reason) {
			t.Errorf("%q: %+v, want %q", name, r, reason)
		}
	}
	beside, _ := call(t, 0, lines(names[:8]), "map", "--quiet")
	for _, name := range names[:8] {
		if !bytes.Equal(pack(recordIn(t, out, name)), pack(recordIn(t, beside, name))) {
			t.Errorf("%s has another record beside poison", name)
		}
	}
	poison(14, "kill once", "") // read beside others it would be tried twice, if one of them ends the process first
	once := names[len(names)-1]
	out, _ = call(t, 0, lines([]string{names[0], once, names[1]}), "map", "--quiet", "--workers", "3")
	if r := recordIn(t, out, once); r == nil || r.State != fleet.Read {
		t.Errorf("a capture whose process was killed once is %+v", r)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("processes that were killed left %v, %v", left, err)
	}
	t.Setenv(asProgram, "without poison")
	out, _ = call(t, 0, lines(names), "map", "--quiet", "--cache", cache)
	for name := range want {
		if r := recordIn(t, out, name); strings.HasPrefix(r.Reason, "tried twice") {
			t.Errorf("%q: %s, from the cache", name, r.Reason)
		}
	}
}

// recordIn returns the record of a capture in the output of map.
func recordIn(t *testing.T, out, name string) *fleet.Record {
	t.Helper()
	var all fleet.Fleet
	if err := addLines(t.Context(), &all, "map", strings.NewReader(out)); err != nil {
		t.Fatal(err)
	}
	return all.Record(name)
}

// TestNoProcess: that no process can read captures is an error of the machine.
func TestNoProcess(t *testing.T) {
	t.Setenv(asProgram, "ends")
	if _, stderr := call(t, statusFailed, "", "map", "--quiet", job(t)[0]); !strings.Contains(stderr, "no capture was begun") {
		t.Errorf("prints %s", stderr)
	}
}
