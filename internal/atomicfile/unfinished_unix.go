//go:build unix

package atomicfile

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

// descriptors matches the folders of this program's descriptors. The number is its PID.
var descriptors = regexp.MustCompile(`^(?:/dev|/proc/(\d+)(?:/task/\d+)?)/fd$`)

// openDescriptor opens the descriptor that a name such as /dev/stdout stands for, also
// through links; nil for other names. To open the file behind it instead would lose what
// others write there, such as the shell's >> and earlier commands.
func openDescriptor(name string) (*os.File, error) {
	for range 40 { // as many links as Linux follows
		dir, err := filepath.EvalSymlinks(filepath.Dir(name))
		if err != nil {
			return nil, nil
		}
		base := filepath.Base(name)
		if m := descriptors.FindStringSubmatch(dir); m != nil && (m[1] == "" || m[1] == strconv.Itoa(os.Getpid())) {
			n, err := strconv.Atoi(base)
			if err != nil {
				return nil, nil
			}
			fd, err := syscall.Dup(n)
			if err != nil {
				return nil, err
			}
			syscall.CloseOnExec(fd)
			return os.NewFile(uintptr(fd), name), nil
		}
		to, err := os.Readlink(filepath.Join(dir, base))
		if err != nil {
			return nil, nil
		}
		if name = to; !filepath.IsAbs(to) {
			name = filepath.Join(dir, to)
		}
	}
	return nil, nil
}

// takeIdentity gives a new file the mode and owner of the existing one that it is to
// replace. It returns false if the existing file has more than that: see unfinishedFile.
func takeIdentity(f *os.File, existing string, info os.FileInfo) bool {
	own, err := f.Stat()
	if err != nil {
		return false
	}
	from, to := info.Sys().(*syscall.Stat_t), own.Sys().(*syscall.Stat_t)
	if from.Nlink > 1 || hasAccessList(existing) {
		return false
	}
	if (from.Uid != to.Uid || from.Gid != to.Gid) && f.Chown(int(from.Uid), int(from.Gid)) != nil {
		return false
	}
	return f.Chmod(info.Mode().Perm()) == nil
}
