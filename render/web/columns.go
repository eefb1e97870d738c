package web

import (
	"encoding/base64"
	"encoding/binary"
	"io"
	"math"

	"github.com/klauspost/compress/gzip"

	"github.com/memlane/memlane/lifetime"
)

// Columns collects numbers one column after another, each as a signed varint.
// Compressed, a buffer takes about 12 bytes this way, of the 56 it has in memory.
type Columns struct{ Bytes []byte }

// Add appends a column of n numbers.
func (c *Columns) Add(n int, at func(i int) int64) {
	for i := range n {
		c.Bytes = binary.AppendVarint(c.Bytes, at(i))
	}
}

// AddSteps appends a column as the differences of neighbours.
func (c *Columns) AddSteps(n int, at func(i int) int64) {
	last := int64(0)
	c.Add(n, func(i int) int64 {
		v := at(i)
		step := v - last
		last = v
		return step
	})
}

// spaceColumns returns the columns of a space, in the order in which decode.js reads
// them: buffers, levels of reserved memory, reported totals. Times count from the
// beginning of the window, addresses from lowest.
func spaceColumns(s *lifetime.Space, place places) []byte {
	c := &Columns{Bytes: make([]byte, 0, 16*len(s.Buffers))}
	n := len(s.Buffers)
	c.AddSteps(n, func(i int) int64 { return s.Buffers[i].Begin - s.Begin })
	c.Add(n, func(i int) int64 { return s.Buffers[i].End - s.Buffers[i].Begin })
	c.AddSteps(n, func(i int) int64 { return int64(place.of(s.Buffers[i].Addr) - place.lowest) })
	c.Add(n, func(i int) int64 { return s.Buffers[i].Size })
	c.Add(n, func(i int) int64 { return s.Buffers[i].Size - s.Buffers[i].Requested })
	c.Add(n, func(i int) int64 { return int64(s.Buffers[i].Site) })
	c.Add(n, func(i int) int64 { return int64(s.Buffers[i].Edge) | int64(s.Buffers[i].Kind)<<edgeBits })
	if s.ValueIDs != nil {
		c.AddSteps(n, func(i int) int64 { return s.ValueIDs[i] })
	}
	levels := s.ReservedLevels()
	c.AddSteps(len(levels), func(i int) int64 { return levels[i].At - s.Begin })
	c.AddSteps(len(levels), func(i int) int64 { return levels[i].Bytes })
	totals := shownTotals(s)
	c.AddSteps(len(totals), func(i int) int64 { return totals[i].T - s.Begin })
	c.AddSteps(len(totals), func(i int) int64 { return totals[i].Bytes })
	c.Add(len(totals), func(i int) int64 { return perMillion(totals[i]) })
	return c.Bytes
}

// edgeBits is how many bits of a column the edges of a buffer take, before its kind.
const edgeBits = 6

// shownTotals returns the totals that the page draws: those with a fragmentation,
// and all where nothing else is known.
func shownTotals(s *lifetime.Space) []lifetime.Total {
	var shown []lifetime.Total
	for _, t := range s.Totals {
		if t.Measure != lifetime.Reserved && (s.UsageOnly() || t.HasFragmentation) {
			shown = append(shown, t)
		}
	}
	return shown
}

// perMillion returns the fragmentation of a total in millionths, -1 for none.
func perMillion(t lifetime.Total) int64 {
	share := float64(t.Fragmentation)
	if !t.HasFragmentation || math.IsNaN(share) || share < 0 || share > 1 {
		return -1
	}
	return int64(math.Round(share * 1e6))
}

// pack writes data to w, compressed and in base64.
func pack(w io.Writer, data []byte) error {
	encoder := base64.NewEncoder(base64.StdEncoding, w)
	z, err := gzip.NewWriterLevel(encoder, gzip.DefaultCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(data); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return encoder.Close()
}
