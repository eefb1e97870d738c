package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/units"
)

// TestSpeed logs how long each of the captures $MEMLANE_CAPTURES, separated by spaces, takes
// in a new browser: to load the page, and from the choice to the first view. It asserts no
// time.
func TestSpeed(t *testing.T) {
	files := strings.Fields(os.Getenv("MEMLANE_CAPTURES"))
	if len(files) == 0 {
		t.Skip("set MEMLANE_CAPTURES to measure captures")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			h, chromium := startHost(t), browser.Start(t)
			started := time.Now()
			p := h.open(t, chromium)
			loaded := time.Since(started)
			idle := renderers(t)
			p.Set("window.picked = performance.now()")
			pick(p, file)
			var most int64
			for !browser.Eval[bool](p, "!!globalThis.memlane || !!document.querySelector('[role=alert]')") {
				most = max(most, renderers(t))
				time.Sleep(200 * time.Millisecond)
			}
			if alert := browser.Eval[string](p, "globalThis.memlane ? '' : document.querySelector('[role=alert]').textContent"); alert != "" {
				t.Log(alert)
			} else if fromAPI(p, "/api/info") != serverAnswer(t, "/api/info", file) {
				t.Error("the answer of info is not that of memlane")
			}
			t.Logf("%s: page loaded in %.2f s, first view %.2f s after the choice; renderers %s idle, %s at most, %s at the end",
				units.Bytes(sizeOf(t, file)), loaded.Seconds(), browser.Eval[float64](p, "((globalThis.memlane?.ready ?? performance.now()) - picked) / 1000"),
				units.Bytes(idle), units.Bytes(most), units.Bytes(renderers(t)))
		})
	}
}

func sizeOf(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
