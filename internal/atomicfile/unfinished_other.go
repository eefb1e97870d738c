//go:build !linux

package atomicfile

import (
	"errors"
	"os"
)

// createTemp creates a file with a temporary name.
func createTemp(dir string, mode os.FileMode) (*os.File, string, error) {
	return createNamed(dir, mode)
}

func giveName(*os.File, string) error { return errors.ErrUnsupported } // not called: every file has a name

func hasAccessList(string) bool { return false }
