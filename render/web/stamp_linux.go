package web

import (
	"io/fs"
	"syscall"
)

// change returns what differs after any change of a file: its number, and the time of its
// last change, which no program can set.
func change(info fs.FileInfo) any {
	s := info.Sys().(*syscall.Stat_t)
	return [...]any{s.Dev, s.Ino, s.Ctim}
}
