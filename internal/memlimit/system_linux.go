package memlimit

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

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

// groupMemory returns the memory limit of this process's control group or one around it, in bytes, whichever is lowest;
// limited is false if there is none. root is "/". In version 2 of control groups the limit is memory.max, in version 1
// memory.limit_in_bytes (https://docs.kernel.org/admin-guide/cgroup-v2.html,
// https://docs.kernel.org/admin-guide/cgroup-v1/memory.html). A container may see its group as the root of the tree.
func groupMemory(root string) (limit int64, limited bool) {
	groups, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(groups)) { // NUMBER:CONTROLLERS:GROUP
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		tree, file := "sys/fs/cgroup", "memory.max"
		if parts[1] != "" {
			tree, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
			if !slices.Contains(strings.Split(parts[1], ","), "memory") {
				continue
			}
		}
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			text, _ := os.ReadFile(filepath.Join(root, tree, group, file))
			n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && n > 0 && n < 1<<62 && (!limited || n < limit) { // "max", or in version 1 a number near 2^63: none
				limit, limited = n, true
			}
			if group == "/" {
				break
			}
		}
	}
	return limit, limited
}
