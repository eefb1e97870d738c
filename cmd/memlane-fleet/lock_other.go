//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package main

import (
	"errors"
	"os"
)

// lock fails: temporary files of a killed program stay.
func lock(*os.File) error { return errors.ErrUnsupported }
