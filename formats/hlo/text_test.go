package hlo_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
)

var (
	allocationLine = regexp.MustCompile(`^allocation (\d+): size (\d+)(?:, color (\d+))?((?:, .*)?):$`)
	valueLine      = regexp.MustCompile(`^ value: <(\d+) (\S+) @(\d+)> \(size=(\d+),offset=(\d+)\): (.*)$`)
)

// TestAssignmentText compares with XLA's own text of a buffer assignment: allocations, their uses, and the
// place of every value.
func TestAssignmentText(t *testing.T) {
	compared := 0
	for _, file := range programs(t) {
		text := strings.TrimSuffix(file, ".hlo.pb") + ".buffer-assignment.txt"
		if _, err := os.Stat(text); err != nil {
			continue
		}
		c, err := readProgram(t, contentOf(t, file))
		if err != nil {
			t.Fatal(err)
		}
		want, got := assignmentText(t, contentOf(t, text)), assignment(c)
		compared += len(want)
		slices.Sort(want)
		slices.Sort(got)
		if len(want) == 0 || !slices.Equal(got, want) {
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || got[i] != want[i] {
					t.Errorf("%s:\n%.5q\nwant\n%.5q", filepath.Base(file), got[min(i, len(got)):], want[min(i, len(want)):])
					break
				}
			}
		}
	}
	if compared < 200 {
		t.Errorf("only %d lines were compared", compared)
	}
}

// assignmentText reads XLA's text, one line for each allocation and value.
func assignmentText(t *testing.T, text []byte) (lines []string) {
	t.Helper()
	index, color := "", ""
	in := bufio.NewScanner(bytes.NewReader(text))
	for in.Scan() {
		if m := allocationLine.FindStringSubmatch(in.Text()); m != nil {
			index, color = m[1], m[3]
			if color == "" {
				color = "0"
			}
			var uses []string
			for _, use := range []struct{ word, name string }{
				{", parameter ", "parameter"}, {", maybe-live-out", "output"}, {", constant", "constant"}, {", thread-local", "thread-local"},
			} {
				if strings.Contains(m[4], use.word) {
					uses = append(uses, use.name)
				}
			}
			lines = append(lines, fmt.Sprintf("allocation %s space%s %s %s", index, color, m[2], uses))
		} else if m := valueLine.FindStringSubmatch(in.Text()); m != nil && index != "" {
			if m[3] != color {
				t.Fatalf("value %s in memory %s of an allocation in memory %s", m[1], m[3], color)
			}
			lines = append(lines, fmt.Sprintf("value %s in %s: %s %s +%s %s", m[1], index, strings.TrimSuffix(m[2], "{}"), m[4], m[5], m[6]))
		}
	}
	return lines
}

// assignment formats the model in the same form.
func assignment(c *lifetime.Capture) (lines []string) {
	for _, s := range c.Spaces {
		for i := range s.Regions {
			r := &s.Regions[i]
			uses := slices.DeleteFunc(r.Uses.Names(), func(name string) bool { return name == "tuple" }) // missing in the text
			lines = append(lines, fmt.Sprintf("allocation %d %s %d %s", r.Index, s.Memory, r.Size, uses))
		}
		for i := range s.Values {
			v := &s.Values[i]
			site := c.Sites[v.Site]
			lines = append(lines, fmt.Sprintf("value %d in %d: %s %d +%d %s", v.ID, v.Allocation, site.Instr, v.Size, v.Offset, site.Shape))
		}
	}
	return lines
}
