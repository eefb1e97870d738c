//go:build !js

package web

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// StillFiles returns an error if a capture was replaced by something that a second read would wait for, such as a pipe.
func StillFiles(captures []string) error {
	for _, file := range captures {
		if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			return fmt.Errorf("%s: is not a file any more", file)
		}
	}
	return nil
}

// Stamp returns what the system knows of files, and of all files in folders, for [Server]. It changes
// when a file does, also if size and time of the new content are the old ones.
func Stamp(files []string) string {
	var all strings.Builder
	for _, file := range files {
		err := filepath.WalkDir(file, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := os.Stat(path)
			if err == nil && !d.IsDir() {
				fmt.Fprintf(&all, "%s %v %d %d %v\n", path, info.Mode().Type(), info.Size(), info.ModTime().UnixNano(), change(info))
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(&all, "%s %v\n", file, err)
		}
	}
	return all.String()
}
