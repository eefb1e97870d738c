package chart

import (
	"bytes"
	"encoding/xml"
	"math"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/canvas"
)

// TestExtremes draws captures with the limits of every range and with hostile names, as
// in damaged captures.
func TestExtremes(t *testing.T) {
	var before *lifetime.Capture
	nasty := `</title><script>alert(1)</script>` + "\x00\u202e\xff" + strings.Repeat("W", 5000)
	for _, times := range [][2]int64{{math.MinInt64, math.MaxInt64 - 9}, {0, 1}, {math.MaxInt64 - 9, math.MaxInt64}, {-5, 1e18}} {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: nasty})
		ref := b.Space()
		b.Describe(ref, lifetime.SpaceInfo{Device: nasty, Process: nasty, Axis: lifetime.Time, Limit: math.MaxInt64})
		site := b.Site(lifetime.Site{Op: nasty, Instr: nasty, Region: nasty, Shape: nasty})
		for i, addr := range []uint64{0, 1, math.MaxUint64 - 4096, math.MaxUint64, 1 << 63} {
			b.Reserve(ref, times[0], lifetime.Region{Addr: addr, Size: 1 << 62, Site: site})
			b.Alloc(ref, times[0]+int64(i), build.Block{Addr: addr, Requested: 1 << uint(15*i), Occupied: 1 << uint(15*i), Site: site})
			b.Mark(ref, lifetime.Mark{Begin: times[i%2], End: times[i%2], Kind: lifetime.MarkKind(i % 4), Text: nasty, Free: failure.BytesOf(math.MaxInt64), Requested: math.MaxInt64})
			b.Total(ref, lifetime.Total{T: times[i%2], Bytes: math.MaxInt64, Fragmentation: float32(math.NaN()), HasFragmentation: i%2 == 0})
		}
		b.Free(ref, times[1], build.Block{Addr: 1 << 63, Requested: 1 << 40, Occupied: 1 << 40})
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if before == nil {
			before = c
		}
		d := diff.Compare(judge.Of(before), judge.Of(c))
		before = c
		for _, draw := range []func(w *bytes.Buffer, o Options) error{
			func(w *bytes.Buffer, o Options) error { return Usage(w, judge.Of(c), c.Spaces[0], o) },
			func(w *bytes.Buffer, o Options) error { return Peak(w, c, c.Spaces[0], "", o) },
			func(w *bytes.Buffer, o Options) error { return Diff(w, d, d.Main(), o) },
			func(w *bytes.Buffer, o Options) error {
				m, err := NewMiniature(nasty, c.Spaces[0])
				if err != nil {
					return err
				}
				m.Outlier, m.Why = nasty, nasty
				return Multiples(w, "ranks", []*Miniature{m, m, m, m, m}, 1, o)
			},
		} {
			var svg, other bytes.Buffer
			if err := draw(&svg, Options{}); err != nil {
				t.Fatal(err)
			}
			if err := xml.Unmarshal(svg.Bytes(), new(struct{})); err != nil {
				t.Error(err)
			}
			if strings.Contains(svg.String(), "<script") || svg.Len() > 100000 {
				t.Errorf("%d bytes, with a script: %v", svg.Len(), strings.Contains(svg.String(), "<script"))
			}
			for _, format := range []canvas.Format{canvas.PNG, canvas.PDF} {
				if err := draw(&other, Options{Format: format, Width: 480, Height: 240}); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
