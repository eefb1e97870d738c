package parquet

import (
	"bytes"
	"iter"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/render/tables"
)

// made returns a capture of n buffers.
func made(t *testing.T, n int64) *lifetime.Capture {
	t.Helper()
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "x"})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0"})
	stack := b.Stack([]lifetime.FrameID{b.Frame(frame.Frame{Function: "f\xff", File: "a.py", Line: 3})})
	site := b.Site(lifetime.Site{Stack: stack, Op: "op\x00", Shape: "[1]"})
	for i := range n {
		b.Alloc(s, 2*i, build.Block{Addr: uint64(i%7+1) << 40, Requested: i, Occupied: i, Site: site})
		b.Free(s, 2*i+1, build.Block{Addr: uint64(i%7+1) << 40, Requested: i, Occupied: i, Site: site})
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestParquet: parquet-go reads back every row as written, and the bytes are the same every time.
func TestParquet(t *testing.T) {
	c := made(t, rowGroup+10) // more than are held in memory
	readBack(t, c, tables.Buffers, tables.BufferRows(c))
	c = made(t, batch+10)
	readBack(t, c, tables.Sites, tables.SiteRows(c))
	readBack(t, c, tables.Stacks, tables.StackRows(c))
	readBack(t, c, tables.Usage, tables.UsageRows(c))
	empty := &lifetime.Capture{}
	readBack(t, empty, tables.Buffers, tables.BufferRows(empty))
}

func readBack[R comparable](t *testing.T, c *lifetime.Capture, table string, rows iter.Seq[R]) {
	t.Helper()
	var first, second bytes.Buffer
	if err := tables.WriteParquet(&first, c, table); err != nil {
		t.Fatal(err)
	}
	if err := tables.WriteParquet(&second, c, table); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("%s: two runs wrote different bytes, %v", table, err)
	}
	have, err := parquet.Read[R](bytes.NewReader(first.Bytes()), int64(first.Len()))
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Collect(rows)
	if len(have) != len(want) {
		t.Fatalf("%s: %d rows, want %d", table, len(have), len(want))
	}
	for i := range want {
		if have[i] != want[i] {
			t.Fatalf("%s: row %d is %+v, want %+v", table, i, have[i], want[i])
		}
	}
}

// TestNoTable: an unknown table gives one clear error.
func TestNoTable(t *testing.T) {
	want := `unknown table "rows"; available: buffers, sites, stacks, usage`
	for _, err := range []error{tables.WriteCSV(&bytes.Buffer{}, made(t, 1), "rows"), tables.WriteParquet(&bytes.Buffer{}, made(t, 1), "rows")} {
		if err == nil || err.Error() != want {
			t.Errorf("%v", err)
		}
	}
}
