package render_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/hostile"
	"github.com/memlane/memlane/render/blocks"
)

// TestHostilePictureInBrowser checks that a picture without a policy runs nothing.
func TestHostilePictureInBrowser(t *testing.T) {
	chromium := browser.Start(t)
	file := filepath.Join(t.TempDir(), "picture.svg")
	for i, text := range hostile.Texts {
		if !strings.Contains(text, hostile.Pwned) {
			continue
		}
		c := hostile.Capture(text)
		var out bytes.Buffer
		if err := blocks.Write(&out, c, c.Spaces[0], blocks.Options{Title: text}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, out.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		p := browser.OpenPicture(t, chromium, fmt.Sprintf("file://%s?%d", file, i))
		if !browser.Eval[bool](p, "window.pwned === undefined && document.querySelectorAll('script, foreignObject, a, image, iframe').length === 0") {
			t.Errorf("%q runs or adds elements", text)
		}
	}
}
