// Package parquet writes tables as Parquet files, for DuckDB, pandas and Spark. A program that contains it can write
// them by [tables.WriteParquet]. It is a package of its own because the library of the format takes a quarter of the
// time to build memlane.
package parquet

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/parquet-go/parquet-go"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/tables"
)

func init() { tables.WriteParquet = write }

func write(w io.Writer, c *lifetime.Capture, table string) error {
	switch table {
	case tables.Buffers, "":
		return writeRows(w, tables.BufferRows(c))
	case tables.Sites:
		return writeRows(w, tables.SiteRows(c))
	case tables.Stacks:
		return writeRows(w, tables.StackRows(c))
	case tables.Usage:
		return writeRows(w, tables.UsageRows(c))
	}
	return tables.Unknown(table)
}

const (
	// rowGroup bounds the rows held in memory before they are written. It is DuckDB's default; DuckDB scans a
	// group with one thread.
	rowGroup = 122_880
	// batch is the number of rows passed to the writer at a time.
	batch = 1024
)

func writeRows[R any](w io.Writer, rows iter.Seq[R]) error {
	return WriteGroups(w, func(yield func(iter.Seq[R]) bool) { yield(rows) })
}

// WriteGroups writes each group of rows as a separate row group, or as several if it has more than rowGroup rows.
func WriteGroups[R any](w io.Writer, groups iter.Seq[iter.Seq[R]]) error {
	out := parquet.NewGenericWriter[R](w,
		parquet.CreatedBy("memlane", "", ""), // without the version of this build, so that files are reproducible
		parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(rowGroup))
	pending := make([]R, 0, batch)
	flush := func() error {
		_, err := out.Write(pending)
		pending = pending[:0]
		return err
	}
	for rows := range groups {
		for row := range rows {
			if pending = append(pending, row); len(pending) < batch {
				continue
			}
			if err := flush(); err != nil {
				return fmt.Errorf("writing Parquet: %w", err)
			}
		}
		if err := errors.Join(flush(), out.Flush()); err != nil {
			return fmt.Errorf("writing Parquet: %w", err)
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("writing Parquet: %w", err)
	}
	return nil
}
