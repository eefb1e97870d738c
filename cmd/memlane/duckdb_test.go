package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/memlane/memlane/lifetime/answer"
)

// duckdbCommand returns the command that runs queries, without the query; nil if neither the program nor the Python package is there.
var duckdbCommand = sync.OnceValue(func() []string {
	if _, err := exec.LookPath("duckdb"); err == nil {
		return []string{"duckdb", "-csv", "-c"}
	}
	if exec.Command("python3", "-c", "import duckdb").Run() != nil {
		return nil
	}
	return []string{"python3", "-c", `import sys, duckdb
result = duckdb.sql(sys.argv[1])
print(*result.columns, sep=",")
for row in result.fetchall(): print(*("" if v is None else v for v in row), sep=",")`}
})

// needDuckDB skips a test without DuckDB.
func needDuckDB(t *testing.T) {
	t.Helper()
	if duckdbCommand() == nil {
		t.Skip("no DuckDB here: neither the program nor the Python package")
	}
}

// duckdb runs a query in the current folder and returns the names of the columns and the rows, joined by commas.
func duckdb(t *testing.T, query string) []string {
	t.Helper()
	needDuckDB(t)
	args := append(slices.Clone(duckdbCommand()), query)
	command := exec.Command(args[0], args[1:]...)
	var errors strings.Builder
	command.Stderr = &errors
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", query, err, errors.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// TestDuckDB checks that sums of DuckDB over Parquet files equal the figures of info.
func TestDuckDB(t *testing.T) {
	needDuckDB(t)
	dir := t.TempDir()
	var want []string
	for _, glob := range []string{"torchsnap/*.pickle", "chrome/*_leak.json.gz", "xplane/tf_*.pb", "jaxprof/*.prof"} {
		files, err := filepath.Glob("../../testdata/" + glob)
		if err != nil || len(files) == 0 {
			t.Fatal(len(files), err)
		}
		for _, file := range files {
			name := filepath.Base(file)
			for _, table := range []string{"buffers", "sites", "usage"} {
				succeed(t, "export", "--quiet", "--to", "parquet", "--table", table, "-o", filepath.Join(dir, name+"."+table+".parquet"), file)
			}
			for _, s := range decode[answer.Info](t, succeed(t, "info", "--json", "--quiet", file)).Captures[0].Spaces {
				if s.Allocations == 0 && s.Live.Count == 0 {
					continue // no row
				}
				reserved := int64(0)
				if s.ReservedPeakBytes != nil {
					reserved = *s.ReservedPeakBytes
				}
				want = append(want, fmt.Sprint(name, ",", s.ID, ",", s.Live.Bytes, ",", s.Live.RequestedBytes, ",", s.Live.Count, ",", s.Allocations,
					",", s.Live.Bytes, ",", s.Allocations, ",", s.Peak.Bytes, ",", s.Peak.RequestedBytes, ",", reserved))
			}
		}
	}
	t.Chdir(dir)
	have := duckdb(t, `WITH
		b AS (SELECT replace(filename, '.buffers.parquet', '') AS file, space, coalesce(sum(size) FILTER (live), 0) AS live, coalesce(sum(requested) FILTER (live), 0) AS requested,
			count(*) FILTER (live) AS count, count(*) FILTER (NOT begin_unseen) AS allocations FROM read_parquet('*.buffers.parquet', filename = true) GROUP BY ALL),
		s AS (SELECT replace(filename, '.sites.parquet', '') AS file, space, sum(live_bytes) AS site_live, sum(allocated_count) AS site_allocations
			FROM read_parquet('*.sites.parquet', filename = true) GROUP BY ALL),
		u AS (SELECT replace(filename, '.usage.parquet', '') AS file, space, max(bytes) FILTER (measure = 'occupied') AS peak, max(bytes) FILTER (measure = 'requested') AS peak_requested,
			coalesce(max(bytes) FILTER (measure = 'reserved'), 0) AS reserved FROM read_parquet('*.usage.parquet', filename = true) GROUP BY ALL)
		SELECT file, space, live, requested, count, allocations, site_live, site_allocations, peak, peak_requested, reserved
		FROM b JOIN s USING (file, space) JOIN u USING (file, space)`)[1:]
	slices.Sort(have)
	slices.Sort(want)
	for i := range max(len(have), len(want)) {
		if i >= len(have) || i >= len(want) || have[i] != want[i] {
			t.Fatalf("row %d:\n%q, want\n%q", i, have[i:min(i+1, len(have))], want[i:min(i+1, len(want))])
		}
	}
	t.Logf("%d memory IDs", len(want))
}
