package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
)

// unfinishedFile is an output while it is written. A file has a temporary name until it
// is complete. Pipes and devices are written directly.
type unfinishedFile struct {
	file   string // name from -o
	f      *os.File
	target string // final name of f; "" for a pipe or device
}

// unfinished are the files with temporary names. They are removed if a signal ends the
// program.
var unfinished = struct {
	sync.Mutex
	open map[*unfinishedFile]bool
}{open: map[*unfinishedFile]bool{}}

// createUnfinished opens the output called file.
func createUnfinished(file string) (*unfinishedFile, error) {
	target := resolveLinks(file)
	mode := os.FileMode(0o666)
	if info, err := os.Stat(target); err == nil && info.Mode().IsRegular() {
		mode = info.Mode().Perm()
	} else if err == nil {
		f, err := os.OpenFile(target, os.O_WRONLY, 0)
		return &unfinishedFile{file: file, f: f}, err
	}
	// A short name: the target may already have the maximum length.
	dir := filepath.Dir(target)
	name := filepath.Join(dir, fmt.Sprintf(".memlane-%08x", rand.Uint32()))
	unfinished.Lock()
	defer unfinished.Unlock()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, fmt.Errorf("cannot create a file in %s: %w; give -o a file in an existing folder with write permission",
			dir, withoutPath(err))
	}
	d := &unfinishedFile{file, f, target}
	unfinished.open[d] = true
	return d, nil
}

// resolveLinks returns the file that a name leads to, so that links are kept. It also
// resolves /dev/stdout, and a link to a file that does not exist yet.
func resolveLinks(file string) string {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		return real
	}
	if _, err := os.Stat(file); err == nil {
		return file // a link without a target name, such as /dev/stdout to a pipe
	}
	to, err := os.Readlink(file)
	switch {
	case err != nil:
		return file
	case filepath.IsAbs(to):
		return to
	}
	return filepath.Join(filepath.Dir(file), to)
}

// publish gives complete files their names. On failure it returns the file as well. A
// signal cannot end the program in between.
func publish(complete []*unfinishedFile) (d *unfinishedFile, err error) {
	unfinished.Lock()
	defer unfinished.Unlock()
	for _, d = range complete {
		if d.target == "" {
			continue
		}
		if err := os.Rename(d.f.Name(), d.target); err != nil {
			return d, err
		}
		delete(unfinished.open, d)
	}
	return nil, nil
}

// discard closes a file, and removes it if it was not published.
func (d *unfinishedFile) discard() {
	unfinished.Lock()
	defer unfinished.Unlock()
	d.f.Close() // before Remove: Windows does not remove open files
	if unfinished.open[d] {
		os.Remove(d.f.Name())
		delete(unfinished.open, d)
	}
}

// discardUnfinished removes all unfinished files. It keeps the lock, so no more can be
// created.
func discardUnfinished() {
	unfinished.Lock()
	for d := range unfinished.open {
		d.f.Close() // before Remove: Windows does not remove open files
		os.Remove(d.f.Name())
	}
}
