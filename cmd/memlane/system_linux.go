package main

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// change returns what differs after any change of a file: its number, and the time of its
// last change, which no program can set.
func change(info fs.FileInfo) any {
	s := info.Sys().(*syscall.Stat_t)
	return [...]any{s.Dev, s.Ino, s.Ctim}
}

// addressSpaceLeft returns how many bytes this program can use under ulimit -v; limited is
// false if there is no such limit. Half of what is left: the heap also has garbage and gaps.
func addressSpaceLeft() (left int64, limited bool) {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &limit) != nil || limit.Cur >= 1<<62 {
		return 0, false
	}
	var pages int64 // the first figure: https://man7.org/linux/man-pages/man5/proc_pid_statm.5.html
	text, _ := os.ReadFile("/proc/self/statm")
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		return 0, false
	}
	return max((int64(limit.Cur)-pages*int64(os.Getpagesize()))/2, 1), true
}
