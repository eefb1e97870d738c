package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/internal/mutants"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/render"
)

// mutantsOf returns captures to change, and the commands that read them. Large captures take long, and change little.
func mutantsOf(t testing.TB) (captures [][]byte, commands []string) {
	t.Helper()
	commands = []string{"info", "info --json", "leaks --json", "leaks --rules gpumemprof", "peak --by category", "peak --by layer --json", "report", "report --format html",
		"report --format sarif", "svg", "svg --view usage --color category", "svg --view peak", "pprof", "oom", "oom --json", "tune", "tune --json", "whatif", "whatif --json --set batch=2,checkpoint=blocks", "ops --json", "diff FILE", "diff --json FILE"}
	for _, e := range render.Exports {
		commands = append(commands, "export --to "+e.Name)
	}
	for _, data := range nativetest.Contents(t, "../../testdata/torchsnap/*.pickle", "../../testdata/xplane/*.pb", "../../testdata/chrome/*.json.gz", "../../testdata/gpumemprof/*.json",
		"../../testdata/jaxprof/*.prof", "../../testdata/oomtext/*", "../../testdata/native/*.native", "../../testdata/hlotext/text/*", "../../testdata/replay/*oom.pickle.zst") {
		if len(data) < 256<<10 {
			captures = append(captures, data)
		}
	}
	return captures, commands
}

// runMutant runs a command over a mutant, which it writes to file: it must end with an answer or one line.
func runMutant(t *testing.T, file string, capture []byte, command string, seed uint64) {
	t.Helper()
	data := mutants.Of(capture, rand.New(rand.NewPCG(seed, 0)))
	if err := os.WriteFile(file, data, 0o666); err != nil {
		t.Fatal(err)
	}
	nativetest.Bounded(t, len(data), 256<<20, 40000, func() {
		stdout, stderr, status := memlane("", argsOf(command+" --quiet FILE", file)...)
		switch {
		case !slices.Contains([]int{statusOK, statusFound, statusInput, statusNothing, statusUsage}, status):
			t.Errorf("memlane %s, seed %d: status %d: %.500s", command, seed, status, stderr)
		case strings.Count(stderr, "\n") > 1:
			t.Errorf("memlane %s, seed %d: %.500s", command, seed, stderr)
		case strings.Contains(command, "json") && stdout != "" && !json.Valid([]byte(stdout)):
			t.Errorf("memlane %s, seed %d: no JSON: %.200s", command, seed, stdout)
		}
	})
}

// TestMutants runs commands over mutants of the captures of each reader: one of each capture, three if MEMLANE_DEEP=1, or as many as fit in the
// time that MEMLANE_MUTANTS gives each reader. FuzzMutants looks for new paths, which is much slower for each.
func TestMutants(t *testing.T) {
	captures, commands := mutantsOf(t)
	var each time.Duration
	if s := os.Getenv("MEMLANE_MUTANTS"); s != "" {
		var err error
		if each, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	readers := map[string][][]byte{}
	for _, data := range captures {
		reader := readerOf(data)
		readers[reader] = append(readers[reader], data)
	}
	for _, f := range formats.All() {
		if len(readers[f.Name]) == 0 {
			t.Errorf("no mutants of %s", f.Name)
		}
	}
	for _, reader := range slices.Sorted(maps.Keys(readers)) {
		t.Run(reader, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(each), 0))
			file := filepath.Join(t.TempDir(), "mutant")
			n, begin := 0, time.Now()
			for ; n < deep.Or(1, 3)*len(readers[reader]) || time.Since(begin) < each; n++ {
				runMutant(t, file, readers[reader][n%len(readers[reader])], commands[r.IntN(len(commands))], r.Uint64())
			}
			t.Logf("%d mutants of %d captures", n, len(readers[reader]))
		})
	}
}

// readerOf returns the format of a capture, "none" if it cannot be read.
func readerOf(data []byte) string {
	c, err := judged.Open("-", formats.Input{Stdin: bytes.NewReader(data)})
	if err != nil || len(c.Sources) == 0 {
		return "none"
	}
	return c.Sources[0].Format
}

// FuzzMutants runs commands over mutants of captures.
func FuzzMutants(f *testing.F) {
	captures, commands := mutantsOf(f)
	for n, capture := range captures {
		f.Add(capture, uint16(n*7), uint64(n))
	}
	f.Fuzz(func(t *testing.T, capture []byte, command uint16, seed uint64) {
		runMutant(t, filepath.Join(t.TempDir(), "mutant"), capture, commands[int(command)%len(commands)], seed)
	})
}
