package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
)

// unfinishedFile is an output while it is written. A file has another name until it is
// complete; a pipe or device is written to as it is.
type unfinishedFile struct {
	file   string // as -o names it
	f      *os.File
	target string // what f will be called; "" for a pipe or device
}

// unfinished are the files that have another name. Who ends the program in the middle
// removes them.
var unfinished struct {
	sync.Mutex
	open map[*unfinishedFile]bool
}

// begin opens the output called file.
func begin(file string) (*unfinishedFile, error) {
	target := behindLinks(file)
	mode, info, err := os.FileMode(0o666), os.FileInfo(nil), error(nil)
	switch info, err = os.Stat(target); {
	case err != nil: // nothing is there
	case info.Mode().IsRegular():
		mode = info.Mode().Perm()
	default:
		f, err := os.OpenFile(target, os.O_WRONLY, 0)
		return &unfinishedFile{file: file, f: f}, err
	}
	// The name is short: that of the target may be as long as names can be.
	dir := filepath.Dir(target)
	name := filepath.Join(dir, fmt.Sprintf(".memlane-%08x", rand.Uint32()))
	unfinished.Lock()
	defer unfinished.Unlock()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, fmt.Errorf("no file can be made in %s: %w; let -o name a file in a folder that is there and that you may write into", dir, reason(err))
	}
	d := &unfinishedFile{file, f, target}
	if unfinished.open == nil {
		unfinished.open = map[*unfinishedFile]bool{}
	}
	unfinished.open[d] = true
	return d, nil
}

// behindLinks returns the file that a name leads to: a link stays one, also
// /dev/stdout, and one to a file that is still to be made.
func behindLinks(file string) string {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		return real
	}
	if _, err := os.Stat(file); err == nil {
		return file // the system knows more links than have names
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

// publish gives complete files their names. Who ends the program waits for that.
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

// discard removes a file that was not published.
func (d *unfinishedFile) discard() {
	d.f.Close()
	unfinished.Lock()
	defer unfinished.Unlock()
	if unfinished.open[d] {
		os.Remove(d.f.Name())
		delete(unfinished.open, d)
	}
}

// discardUnfinished removes all files that are not complete. None can be begun after it.
func discardUnfinished() {
	unfinished.Lock()
	for d := range unfinished.open {
		d.f.Close() // some systems remove no open file
		os.Remove(d.f.Name())
	}
}
