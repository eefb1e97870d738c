package render_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/hostile"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/blocks"
)

// TestHostilePictureInBrowser checks that a picture without a policy runs nothing.
func TestHostilePictureInBrowser(t *testing.T) {
	chromium := browser.Start(t)
	var p *browser.Tab
	file := filepath.Join(t.TempDir(), "picture.svg")
	for _, text := range hostile.Texts {
		if !strings.Contains(text, hostile.Pwned) {
			continue
		}
		c := hostile.Capture(text)
		var out bytes.Buffer
		if err := blocks.Write(&out, judge.Of(c), c.Spaces[0], blocks.Options{Title: text}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, out.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		if p == nil {
			p = browser.OpenPicture(t, chromium, "file://"+file)
		} else {
			p.GoPicture("file://" + file)
		}
		if !browser.Eval[bool](p, "window.pwned === undefined && document.querySelectorAll('script, foreignObject, a, image, iframe').length === 0") {
			t.Errorf("%q runs or adds elements", text)
		}
	}
}
