package tables

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"testing/quick"
)

// TestCSV: a CSV table has the values of its rows, whatever their type.
func TestCSV(t *testing.T) {
	testCSV[BufferRow](t)
	testCSV[SiteRow](t)
	testCSV[StackRow](t)
	testCSV[UsageRow](t)
}

func testCSV[R any](t *testing.T) {
	t.Helper()
	r := rand.New(rand.NewSource(1))
	fields := slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[R]()), func(f reflect.StructField) bool { return f.Tag.Get("parquet") == "" })
	for range 100 {
		var row R
		for _, f := range fields {
			if f.Type.Kind() != reflect.String { // text is tested with hostile names
				value, _ := quick.Value(f.Type, r)
				reflect.ValueOf(&row).Elem().FieldByIndex(f.Index).Set(value)
			}
		}
		var out bytes.Buffer
		if err := writeCSV(&out, slices.Values([]R{row})); err != nil {
			t.Fatal(err)
		}
		written, err := csv.NewReader(&out).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range fields {
			got, want := reflect.New(f.Type), reflect.ValueOf(row).FieldByIndex(f.Index)
			if f.Type.Kind() == reflect.String {
				continue
			}
			if _, err := fmt.Sscan(written[1][i], got.Interface()); err != nil || !got.Elem().Equal(want) {
				t.Errorf("%T: %s is %q, want %v", row, f.Name, written[1][i], want)
			}
		}
	}
}
