// Package manual holds the manual of memlane: Markdown pages, which people read
// on the web and memlane man prints.
package manual

import "embed"

// Pages are the pages, NAME.md each; README.md is the first of them.
//
//go:embed *.md
var Pages embed.FS
