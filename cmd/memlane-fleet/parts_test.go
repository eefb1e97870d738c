package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// TestParts: parts hold as many bytes as they may, in a store too, and every capture is in one of them.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	var names []string
	for i, size := range []int{100, 100, 900, 100, 100, 100} {
		name := filepath.Join(dir, "rank"+string(rune('0'+i)))
		if err := os.WriteFile(name, make([]byte, size), 0o666); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	s := newStore(t)
	s.upload(t, names)
	var stored []string
	for _, name := range names {
		stored = append(stored, s.address(filepath.Base(name)))
	}
	for _, of := range [][]string{append(names, filepath.Join(dir, "rank9")), stored} { // one is missing
		out, _ := call(t, 0, lines(of), "parts", "--size", "300B")
		var sizes []int
		var all []string
		for l := range strings.Lines(out) {
			var part []string
			if err := json.Unmarshal([]byte(l), &part); err != nil {
				t.Fatal(err)
			}
			sizes, all = append(sizes, len(part)), append(all, part...)
		}
		if want := []int{2, 1, len(of) - 3}; !slices.Equal(sizes, want) || !slices.Equal(all, of) {
			t.Errorf("parts of %d captures, want %d: %s", sizes, want, out)
		}
	}
}

// TestCombine: merge gives the same results of lines, of combined lines and of a table.
func TestCombine(t *testing.T) {
	names := job(t)
	records, _ := call(t, 0, lines(names), "map", "--quiet")
	want := t.TempDir()
	call(t, 0, records, "merge", "-o", want)

	combined, _ := call(t, 0, records, "combine")
	if again, _ := call(t, 0, combined, "combine"); again != combined || strings.Count(combined, "\n") != 1 || len(combined) > len(records) {
		t.Errorf("combined:\n%s", combined)
	}
	have := t.TempDir()
	call(t, 0, combined, "merge", "-o", have)
	sameResults(t, "combined", resultsIn(t, have), resultsIn(t, want))

	var rows []line
	for text := range strings.Lines(records) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, l)
	}
	table := filepath.Join(t.TempDir(), "part-0.snappy.parquet")
	if err := parquet.WriteFile(table, rows); err != nil {
		t.Fatal(err)
	}
	have = t.TempDir()
	call(t, 0, "", "merge", "-o", have, filepath.Dir(table))
	sameResults(t, "of a table", resultsIn(t, have), resultsIn(t, want))
	if err := os.WriteFile(table, []byte("PAR1 cut"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, stderr := call(t, statusUsage, "", "merge", "-o", have, table); !strings.Contains(stderr, "not a Parquet file") {
		t.Error(stderr)
	}
}
