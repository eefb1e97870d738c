package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/race"
)

// mostResident is the most memory for each byte by which a capture grows, as the system sees it: half of it is garbage.
const mostResident = 700

// TestResident checks by how much the memory of the program, as the system sees it, grows with captures of all shapes: from n to
// 16n records. With -v it prints the figures.
func TestResident(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes a multiple of the memory")
	}
	const n = 200
	file := filepath.Join(t.TempDir(), "capture")
	for i, name := range slices.Sorted(maps.Keys(shapes)) {
		if i%deep.Or(10, 1) != 0 {
			continue
		}
		commands := []string{"report --format html"}
		if slices.Contains(deepShapes, name) {
			commands = append(commands, "peak --json") // which lists the stacks
		}
		for _, command := range commands {
			var in, resident [2]int
			for i := range in {
				content := shapes[name](n << (4 * i))
				if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
					t.Fatal(err)
				}
				in[i], resident[i] = len(content), residentOf(t, command, file)
			}
			per := float64(resident[1]-resident[0]) / float64(in[1]-in[0])
			t.Logf("%-60s %-22s KiB in %5d, resident %6d %6d: %4.0f bytes for each byte", name, command, in[1]>>10, resident[0]>>10, resident[1]>>10, per)
			if per > mostResident {
				t.Errorf("%s: memlane %s: %.0f bytes of memory for each byte of the capture", name, command, per)
			}
		}
	}
}

func init() { programs["memlane-resident"] = memlaneResident }

// memlaneResident is the program. After its end it prints the most memory that it had at a time (VmHWM,
// https://man7.org/linux/man-pages/man5/proc_pid_status.5.html): getrusage also counts that of the process that started it.
func memlaneResident() {
	status := run(os.Stdin, io.Discard, os.Stderr, append([]string{"memlane"}, os.Args[1:]...))
	text, _ := os.ReadFile("/proc/self/status")
	_, most, _ := strings.Cut(string(text), "VmHWM:")
	most, _, _ = strings.Cut(most, "\n")
	fmt.Println(most)
	os.Exit(status)
}

// residentOf returns the most memory in bytes that a command had at a time.
func residentOf(t *testing.T, command, file string) (bytes int) {
	t.Helper()
	cmd := exec.Command("memlane-resident", argsOf(command+" --quiet FILE", file)...)
	out, err := cmd.Output()
	if status := cmd.ProcessState.ExitCode(); status != 0 && status != statusNothing {
		t.Fatalf("memlane %s: %v", command, err)
	}
	if _, err := fmt.Sscanf(string(out), "%d kB", &bytes); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return bytes << 10
}
