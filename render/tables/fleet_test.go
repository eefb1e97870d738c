package tables

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/fleet"
	"github.com/memlane/memlane/lifetime/leak"
)

// fleetOf makes the records of n ranks, of which every seventh was not read, and adds
// them in an order by seed.
func fleetOf(n int, seed uint64) *fleet.Fleet {
	f := &fleet.Fleet{}
	for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(n) {
		r := &fleet.Record{State: fleet.Read, Format: "torch-snapshot", Losses: []fleet.Loss{{Reason: "x", Count: 2, Bytes: int64(i)}, {Reason: "y", Count: 1}}}
		if i%7 == 3 {
			r = &fleet.Record{State: fleet.Refused, Reason: "cut\x1b"}
		} else {
			for device := range int64(2) {
				m := fleet.Memory{Device: fmt.Sprintf("cuda:%d", device), Peak: int64(i) + device, Usage: []int64{1, int64(i)}, Fragmentation: float64(device) - 1}
				for line := range 3 {
					m.Sites = append(m.Sites, fleet.SiteTotals{
						Site:   fleet.Site{Op: "op", Frames: []lifetime.Frame{{Function: "alloc", Kind: lifetime.Framework}, {Function: "step", File: "t.py", Line: line + i%2, Kind: lifetime.User}}},
						AtPeak: lifetime.Amount{Count: 1, Bytes: int64(10*i + line)},
					})
				}
				r.Memories = append(r.Memories, m)
			}
			r.Findings = []fleet.Finding{{Rule: "growing_buffer", Severity: "warning", Place: "step (t.py:1)", Memory: 1, Amount: lifetime.Amount{Count: 3, Bytes: 7}}}
		}
		f.Add(r.Named(fmt.Sprintf("job/rank%05d.pickle", i), leak.RankNames{}))
	}
	return f
}

// TestFleetTables: what is read back is every memory of every capture, in order, in
// groups of shard captures, and the same bytes whatever the order of adding.
func TestFleetTables(t *testing.T) {
	const n = 2*shard + 100
	sizes := map[string]int{}
	for _, table := range FleetNames() {
		var first, second bytes.Buffer
		if err := WriteFleetParquet(&first, fleetOf(n, 1), table); err != nil {
			t.Fatal(err)
		}
		if err := WriteFleetParquet(&second, fleetOf(n, 2), table); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%s: another order gives other bytes, %v", table, err)
		}
		file, err := parquet.OpenFile(bytes.NewReader(first.Bytes()), int64(first.Len()))
		if err != nil {
			t.Fatal(err)
		}
		if groups := len(file.RowGroups()); groups != 3 {
			t.Errorf("%s: %d row groups, want 3", table, groups)
		}
		sizes[table] = int(file.NumRows())
		if table != FleetRanks {
			continue
		}
		rows, err := parquet.Read[rankRow](bytes.NewReader(first.Bytes()), int64(first.Len()))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(rows, func(a, b rankRow) int { return bytes.Compare([]byte(a.Capture), []byte(b.Capture)) }) {
			t.Error("rows are not in the order of their captures")
		}
		captures := map[string]int{}
		for _, r := range rows {
			captures[r.Capture]++
		}
		if len(captures) != n {
			t.Errorf("%d captures, want %d", len(captures), n)
		}
		if r := rows[3]; r.Rank != "rank 1" || r.Device != "cuda:1" || r.Peak != 2 || r.Losses != 3 || r.LostBytes != 1 || *r.Fragmentation != 0 || !slices.Equal(r.Usage, []int64{1, 1}) {
			t.Errorf("row %+v", r)
		}
		if r := rows[6]; r.State != "refused" || r.Reason != "cut\ufffd" || r.Fragmentation != nil {
			t.Errorf("row %+v", r)
		}
	}
	read := n - (n+3)/7
	if sizes[FleetRanks] != n+read || sizes[FleetSites] != 6*read || sizes[FleetFindings] != read {
		t.Errorf("rows %v of %d captures, %d read", sizes, n, read)
	}
	if err := WriteFleetParquet(&bytes.Buffer{}, fleetOf(3, 1), "buffers"); err == nil {
		t.Error("no error for a table that fleets have not")
	}
	var empty bytes.Buffer
	if err := WriteFleetParquet(&empty, &fleet.Fleet{}, FleetSites); err != nil {
		t.Error(err)
	}
}
