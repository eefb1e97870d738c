package chrometrace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
)

// TestOperations holds the table of operations against the one that PyTorch
// printed of the same run (key_averages().table()): calls, memory and self
// memory of every row that it shows.
func TestOperations(t *testing.T) {
	tables, _ := filepath.Glob(captures + "/*.key_averages.txt")
	if dir := os.Getenv("MEMLANE_CAPTURES"); dir != "" {
		more, _ := filepath.Glob(filepath.Join(dir, "torch", "*.key_averages.txt"))
		tables = append(tables, more...)
	}
	rows := 0
	for _, table := range tables {
		text, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		c := open(t, traceOf(t, strings.TrimSuffix(table, ".key_averages.txt")))
		ours := map[string]lifetime.Operation{}
		for _, o := range c.Operations {
			if o.Kind == lifetime.Function {
				continue
			}
			name := o.Name
			if len(name) >= 55 { // the width of PyTorch's column
				name = name[:52] + "..."
			}
			ours[name] = o
		}
		for _, row := range printedRows(string(text)) {
			rows++
			o, ok := ours[row.name]
			got := printedRow{row.name, memoryText(o.Host.Bytes()), memoryText(o.Host.SelfBytes), fmt.Sprint(o.Calls)}
			if strings.Contains(table, "t212") { // whose times are in microseconds, which hides what lies in what
				got.selfBytes = row.selfBytes
			}
			if !ok || got != row {
				t.Errorf("%s: got %q, want %q", table, got, row)
			}
		}
	}
	if rows < 20 {
		t.Errorf("only %d rows were compared", rows)
	}
}

type printedRow struct{ name, bytes, selfBytes, calls string }

// printedRows reads the rows of a printed table by the names of its columns.
func printedRows(text string) []printedRow {
	var header []string
	var rows []printedRow
	text = strings.NewReplacer("Mb", "MB", "Kb", "KB", " b ", " B ").Replace(text) // PyTorch 2.1
	for _, line := range strings.Split(text, "\n") {
		var cells []string
		for _, cell := range strings.Split(strings.TrimSpace(line), "  ") {
			if cell = strings.TrimSpace(cell); cell != "" {
				cells = append(cells, cell)
			}
		}
		switch {
		case len(cells) > 3 && cells[0] == "Name":
			header = cells
		case header == nil || len(cells) != len(header) || strings.HasPrefix(cells[0], "---"):
		default:
			at := map[string]string{}
			for i, h := range header {
				at[h] = cells[i]
			}
			if _, ok := at["CPU Mem"]; ok {
				rows = append(rows, printedRow{at["Name"], at["CPU Mem"], at["Self CPU Mem"], at["# of Calls"]})
			}
		}
	}
	return rows
}

// memoryText formats bytes as PyTorch's tables do.
func memoryText(n int64) string {
	size := float64(max(n, -n))
	switch {
	case size >= 1<<30:
		return fmt.Sprintf("%.2f GB", float64(n)/(1<<30))
	case size >= 1<<20:
		return fmt.Sprintf("%.2f MB", float64(n)/(1<<20))
	case size >= 1<<10:
		return fmt.Sprintf("%.2f KB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
