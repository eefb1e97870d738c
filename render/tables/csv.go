package tables

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// WriteCSV writes a table of a capture in the format of RFC 4180, except that lines end in \n: a line of column
// names, then the rows. It fails if there is no such table.
func WriteCSV(w io.Writer, c *lifetime.Capture, table string) error {
	switch table {
	case Buffers, "":
		return writeCSV(w, BufferRows(c))
	case Sites:
		return writeCSV(w, SiteRows(c))
	case Stacks:
		return writeCSV(w, StackRows(c))
	case Usage:
		return writeCSV(w, UsageRows(c))
	}
	return Unknown(table)
}

// Unknown is the error about a table that does not exist.
func Unknown(table string) error {
	return fmt.Errorf("unknown table %q; available: %s", table, strings.Join(Names(), ", "))
}

func writeCSV[R any](w io.Writer, rows iter.Seq[R]) error {
	buf := bufio.NewWriterSize(w, 64<<10)
	out := csv.NewWriter(buf)
	fields := reflect.VisibleFields(reflect.TypeFor[R]())
	var columns [][]int
	var cells []string
	for _, f := range fields {
		if tag := f.Tag.Get("parquet"); tag != "" {
			name, _, _ := strings.Cut(tag, ",")
			columns = append(columns, f.Index)
			cells = append(cells, name)
		}
	}
	if err := out.Write(cells); err != nil {
		return err
	}
	for row := range rows {
		v := reflect.ValueOf(row)
		for i, index := range columns {
			cells[i] = cell(v.FieldByIndex(index))
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return err
	}
	return buf.Flush()
}

// cell returns the text of a value.
func cell(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10)
	case reflect.Float32:
		return strconv.FormatFloat(v.Float(), 'g', -1, 32)
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	}
	return escapeFormula(v.String())
}

// escapeFormula puts an apostrophe before text that spreadsheets run as a formula, because a file name in a
// capture must not fetch anything when the table is opened. Some spreadsheets ignore leading blanks.
func escapeFormula(s string) string {
	if s == "" || 'A' <= s[0] && s[0] <= 'z' || s[0] == '/' { // nearly all
		return s
	}
	if t := strings.TrimLeft(s, " \u00a0"); t != "" && strings.ContainsRune("=+-@\uff1d\uff0b\uff0d\uff20", []rune(t)[0]) {
		return "'" + s
	}
	return s
}
