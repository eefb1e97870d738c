//go:build page

package main

import (
	"embed"
	"io/fs"
)

// localFiles were written by: go run ./cmd/memlane-web cmd/memlane/page
//
//go:embed page
var localFiles embed.FS

var localPage = func() fs.FS {
	page, err := fs.Sub(localFiles, "page")
	if err != nil {
		panic(err) // only for a malformed name
	}
	return page
}()
