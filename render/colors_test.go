package render_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// TestPageColors checks that the page gives categories and sites the colours of the pictures.
func TestPageColors(t *testing.T) {
	source, err := os.ReadFile("web/page/colors.js")
	if err != nil {
		t.Fatal(err)
	}
	page := map[string]string{}
	for _, m := range regexp.MustCompile(`'?([a-z_-]+)'?: '(#[0-9a-f]{6})'`).FindAllStringSubmatch(string(source), -1) {
		page[m[1]] = m[2]
	}
	for name, rgb := range plot.Categories {
		if page[name] != rgb.String() {
			t.Errorf("category %s is %s on the page, %v in pictures", name, page[name], rgb)
		}
	}
	list := regexp.MustCompile(`const palette = \[(.*)\]`).FindStringSubmatch(string(source))
	if list == nil {
		t.Fatal("the page has no palette")
	}
	fills := regexp.MustCompile(`#[0-9a-f]{6}`).FindAllString(list[1], -1)
	for i, rgb := range plot.Palette {
		if i >= len(fills) || canvas.RGB(rgb).String() != fills[i] {
			t.Errorf("colour %d is %v in pictures, on the page the palette is %v", i, rgb, fills)
		}
	}
}
