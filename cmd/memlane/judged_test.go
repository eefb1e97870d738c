package main

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/judge"
)

// TestJudgedOnce checks that a command makes each part of the judgement of a memory ID at most once, whatever it prints of it.
func TestJudgedOnce(t *testing.T) {
	type part struct {
		name string
		of   *lifetime.Space
	}
	var all map[part]int
	var mu sync.Mutex // commands read several captures at once
	made := judge.Made
	judge.Made = func(c *judge.Capture, name string, of *lifetime.Space) {
		mu.Lock()
		defer mu.Unlock()
		spaces := []*lifetime.Space{of}
		if of == nil {
			spaces = c.Spaces
		}
		for _, s := range spaces {
			if name == "leaks" || name == "findings" && c.Settings.Function == nil { // those of a function are another question
				name = "rules"
			}
			all[part{name, s}]++
		}
	}
	defer func() { judge.Made = made }()
	page, picture, profile := filepath.Join(t.TempDir(), "a.html"), filepath.Join(t.TempDir(), "a.svg"), filepath.Join(t.TempDir(), "a.pb.gz")
	sum := map[string]int{}
	for _, file := range []string{"torchsnap/frag_oom.pickle", "whatif/leak.pickle.zst", "torchsnap/twodev.pickle", "chrome/cuprof_leak.json.gz", "xplane/seed_oom.hlo.pb"} {
		for _, command := range []string{"brief", "info", "leaks", "peak", "peak --at end", "oom", "tune", "whatif", "report", "report --json", "report -o " + page,
			"svg -o " + picture, "svg --view usage -o " + picture, "svg --by function -o " + picture, "tune -o " + picture, "whatif --set batch=2 -o " + picture, "export --to json",
			"leaks --fail-on critical", "leaks --threshold min_leak_bytes=1", "leaks --function forward", "leaks --rules stormlog", "peak --by category", "oom --capacity 1GiB", "pprof -o " + profile, "diff ../../testdata/torchsnap/healthy.pickle"} {
			all = map[part]int{}
			memlane("", append(strings.Fields(command), "--quiet", "../../testdata/"+file)...)
			for p, n := range all {
				if sum[p.name]++; n > 1 {
					t.Errorf("memlane %s %s: %s is made %d times", command, file, p.name, n)
				}
			}
		}
	}
	t.Log(sum)
	for _, name := range []string{"program", "rules", "failures", "replay", "whatif", "remedies", "outline"} {
		if sum[name] == 0 {
			t.Errorf("no command asks for %s", name)
		}
	}
}
