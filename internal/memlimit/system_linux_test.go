package memlimit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/memlane/memlane/internal/race"
)

// printLeft is the variable that makes TestAddressSpace print what is left.
const printLeft = "MEMLANE_LEFT"

// TestAddressSpace checks what ulimit -v leaves. How close a program can come to it without
// a crash depends on Go's runtime.
func TestAddressSpace(t *testing.T) {
	if os.Getenv(printLeft) != "" {
		fmt.Println(addressSpaceLeft())
		os.Exit(0)
	}
	if race.Enabled {
		t.Skip("the race detector reserves terabytes")
	}
	leftOf := func(limit string) string {
		cmd := exec.Command("sh", "-c", "ulimit -v "+limit+"; exec \"$0\" -test.run '^TestAddressSpace$'", os.Args[0])
		cmd.Env = append(os.Environ(), printLeft+"=1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("ulimit -v %s: %v, %s", limit, err, out)
		}
		return string(out)
	}
	if got := leftOf("unlimited"); got != "0 false\n" {
		t.Errorf("without a limit: %q", got)
	}
	const limit = int64(16 << 30)
	var left int64
	got := leftOf(fmt.Sprint(limit >> 10))
	if _, err := fmt.Sscanf(got, "%d true", &left); err != nil || left < limit/8 || left > limit/2 {
		t.Errorf("of %d bytes: %q", limit, got)
	}
}

// TestGroupMemory: limits of both versions of control groups, of groups around the process, and of containers that see
// their group as the root.
func TestGroupMemory(t *testing.T) {
	const v1 = "5:devices:/\n4:cpu,memory:/a/b\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no groups":                {nil, 0},
		"version 2":                {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "536870912\n"}, 512 << 20},
		"version 2, no limit":      {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		"version 2, around it":     {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "1024", "sys/fs/cgroup/a/b/memory.max": "2048"}, 1024},
		"version 2, root":          {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "4096\n"}, 4096},
		"version 1":                {map[string]string{"proc/self/cgroup": v1, "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "4096\n"}, 4096},
		"version 1, in containers": {map[string]string{"proc/self/cgroup": v1, "sys/fs/cgroup/memory/memory.limit_in_bytes": "8192\n"}, 8192},
		"version 1, no limit":      {map[string]string{"proc/self/cgroup": v1, "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"outside of the tree":      {map[string]string{"proc/self/cgroup": "0::/../../x\n", "memory.max": "1"}, 0},
	} {
		root := t.TempDir()
		for file, text := range test.files {
			file = filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, limited := groupMemory(root); got != test.want || limited != (test.want > 0) {
			t.Errorf("%s: %d, %v; want %d", name, got, limited, test.want)
		}
	}
}
