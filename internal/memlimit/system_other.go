//go:build !linux

package memlimit

// groupMemory returns false: only Linux has control groups.
func groupMemory(string) (int64, bool) { return 0, false }

// addressSpaceLeft returns false: systems other than Linux hardly limit it.
func addressSpaceLeft() (int64, bool) { return 0, false }
