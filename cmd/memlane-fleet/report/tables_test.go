package report

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
)

// ranksOnly makes the records of n ranks in a random order. Every seventh was not read.
func ranksOnly(n int, seed uint64) *fleet.Fleet {
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
						Site:   fleet.Site{Op: "op", Frames: []frame.Frame{{Function: "alloc", Kind: frame.Framework}, {Function: "step", File: "t.py", Line: line + i%2, Kind: frame.User}}},
						AtPeak: lifetime.Amount{Count: 1, Bytes: int64(10*i + line)},
					})
				}
				r.Memories = append(r.Memories, m)
			}
			r.Findings = []fleet.Finding{{Rule: "growing_buffer", Severity: "warning", Place: "step (t.py:1)", Memory: 1, Amount: lifetime.Amount{Count: 3, Bytes: 7}}}
		}
		f.Add(r.Named(fmt.Sprintf("job/rank%05d.pickle", i), finding.RankNames{}))
	}
	return f
}

// TestTables: the tables have every memory of every capture, in order, in groups of shard
// captures. The order of adding does not change the bytes.
func TestTables(t *testing.T) {
	const n = 2*shard + 100
	write := func(f *fleet.Fleet, to func(io.Writer, *Data) error) []byte {
		var b bytes.Buffer
		if err := to(&b, Of(f, finding.RankNames{}, nil, nil)); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	sizes := map[string]int{}
	for name, to := range map[string]func(io.Writer, *Data) error{"ranks": writeRanks, "sites": writeSites, "findings": writeFindings} {
		data := write(ranksOnly(n, 1), to)
		if !bytes.Equal(data, write(ranksOnly(n, 2), to)) {
			t.Errorf("%s: another order gives other bytes", name)
		}
		file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		if groups := len(file.RowGroups()); groups != 3 {
			t.Errorf("%s: %d row groups, want 3", name, groups)
		}
		sizes[name] = int(file.NumRows())
	}
	read := n - (n+3)/7
	if sizes["ranks"] != n+read || sizes["sites"] != 6*read || sizes["findings"] != read {
		t.Errorf("rows %v of %d captures, %d read", sizes, n, read)
	}
	checkRanks(t, n, write(ranksOnly(n, 1), writeRanks))
	write(&fleet.Fleet{}, writeSites)
}

func checkRanks(t *testing.T, n int, data []byte) {
	t.Helper()
	rows, err := parquet.Read[rankRow](bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(rows, func(a, b rankRow) int { return strings.Compare(a.Capture, b.Capture) }) {
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
