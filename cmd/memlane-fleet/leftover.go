package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"gocloud.dev/blob"
)

// Temporary files have names that these patterns match. The program locks them while it uses
// them, because a killed program leaves them behind, and the next one must know that.
const (
	copies      = "memlane-fleet-*" // of captures from a store, in the folder for temporary files
	halfResults = "*.tmp"           // of gocloud.dev/blob/fileblob, beside the file
	halfEntries = "*/*/??/*.tmp"    // in a cache
)

// halfFile matches the end of the names that fileblob gives.
var halfFile = regexp.MustCompile(`\.[0-9a-f]{12,20}\.tmp$`)

// errSwept is the error of a temporary file that another program took for a leftover, between
// its creation and its lock.
var errSwept = errors.New("another memlane-fleet removed a new temporary file; try again")

// own locks a new temporary file.
func own(f *os.File) error {
	if lock(f) != nil {
		return nil // the disk has no locks, so sweep removes nothing there either
	}
	here, err := f.Stat()
	if err != nil {
		return err
	}
	if named, err := os.Stat(f.Name()); err != nil || !os.SameFile(here, named) {
		return errSwept
	}
	return nil
}

// createCopy creates a temporary file for a capture.
func createCopy() (*os.File, error) {
	for {
		f, err := os.CreateTemp("", copies)
		if err != nil {
			return nil, err
		}
		if err = own(f); err == nil {
			return f, nil
		}
		f.Close()
		os.Remove(f.Name())
		if !errors.Is(err, errSwept) {
			return nil, err
		}
	}
}

// owned are the options of writers: a writer to this machine locks its temporary file.
var owned = &blob.WriterOptions{BeforeWrite: func(as func(any) bool) error {
	var f *os.File
	if as(&f) {
		return own(f)
	}
	return nil
}}

// sweep removes the temporary files in a folder that match a pattern and that no program uses.
func sweep(dir, pattern string) {
	names, _ := fs.Glob(os.DirFS(dir), pattern) // a folder that cannot be read has its error later
	for _, name := range names {
		if pattern != copies && !halfFile.MatchString(name) {
			continue
		}
		file := filepath.Join(dir, filepath.FromSlash(name))
		if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
			continue
		}
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if lock(f) == nil {
			os.Remove(file)
		}
		f.Close()
	}
}
