// Package manual holds the manual of memlane: Markdown pages, which people read on the web and memlane man prints.
package manual

import (
	"embed"
	"io/fs"
	"strings"
)

// Pages are the pages, NAME.md each.
//
//go:embed *.md
var Pages embed.FS

// Front is the name of the first page.
const Front = "README"

// Names returns the names of all pages except the first one.
func Names() (names []string) {
	files, _ := fs.Glob(Pages, "*.md") // fails only for a wrong pattern
	for _, file := range files {
		if name := strings.TrimSuffix(file, ".md"); name != Front {
			names = append(names, name)
		}
	}
	return names
}

// Text returns a page in Markdown. It panics if there is none of that name.
func Text(name string) string {
	text, err := Pages.ReadFile(name + ".md")
	if err != nil {
		panic(err)
	}
	return string(text)
}
