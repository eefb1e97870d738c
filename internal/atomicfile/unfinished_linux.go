package atomicfile

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// createTemp creates a file that has no name yet, so that even SIGKILL leaves none. Where
// the file system cannot do this, the file has a temporary name.
func createTemp(dir string, mode os.FileMode) (f *os.File, name string, err error) {
	fd, err := unix.Open(dir, unix.O_RDWR|unix.O_TMPFILE|unix.O_CLOEXEC, uint32(mode))
	if err != nil {
		return createNamed(dir, mode)
	}
	f = os.NewFile(uintptr(fd), dir)
	if _, err := os.Stat(descriptorPath(f)); err != nil { // no /proc, which giveName needs
		f.Close()
		return createNamed(dir, mode)
	}
	return f, "", nil
}

func descriptorPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// giveName gives a file of createTemp a name. It fails if the name exists.
func giveName(f *os.File, name string) error {
	return unix.Linkat(unix.AT_FDCWD, descriptorPath(f), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
}

// hasAccessList reports whether more than the mode decides who may use a file.
func hasAccessList(file string) bool {
	n, err := unix.Getxattr(file, "system.posix_acl_access", nil)
	return err == nil && n > 0
}
