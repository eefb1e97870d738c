//go:build !page

package main

import "io/fs"

// localPage is nil: the page that opens captures in the browser has to be built first, and adds
// 3.1 MB to a program of 9.6 MB (compressed). So only programs with the tag page have it.
var localPage fs.FS
