package main

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/render/tables"
)

// TestWithoutParquet: a program that was built without Parquet says how to get it, before it reads a capture.
func TestWithoutParquet(t *testing.T) {
	write := tables.WriteParquet
	tables.WriteParquet = nil
	defer func() { tables.WriteParquet = write }()
	_, stderr, status := memlane("", "export", "--to", "parquet", "-o", "x.parquet", "no such file")
	if status != statusUsage || !strings.Contains(stderr, "built without Parquet") || !strings.Contains(stderr, "-tags parquet") {
		t.Errorf("status %d: %s", status, stderr)
	}
}
