package web

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
)

// Columns collects columns of numbers as signed varints. A buffer takes about 12 bytes
// after compression, compared with 56 bytes in memory.
type Columns struct{ Bytes []byte }

// Add appends a column of n numbers.
func (c *Columns) Add(n int, at func(i int) int64) {
	for i := range n {
		c.Bytes = binary.AppendVarint(c.Bytes, at(i))
	}
}

// AddSteps appends a column of n numbers as differences from the previous number.
func (c *Columns) AddSteps(n int, at func(i int) int64) {
	last := int64(0)
	c.Add(n, func(i int) int64 {
		v := at(i)
		step := v - last
		last = v
		return step
	})
}

// spaceColumns returns the columns of a space in the order of decode.js: buffers, levels of reserved memory, reported
// totals. Times are relative to the start of the window, addresses to place.lowest.
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
	if s.Purposes != nil {
		c.Add(n, func(i int) int64 { return int64(s.Purposes[i]) })
	}
	if s.Holders != nil {
		c.Add(n, func(i int) int64 { return int64(s.Holders[i]) })
	}
	if s.ValueIDs != nil {
		c.AddSteps(n, func(i int) int64 { return s.ValueIDs[i] })
	}
	if s.FreeSites != nil {
		c.Add(n, func(i int) int64 { return int64(s.FreeSites[i]) })
	}
	levels := region.Levels(s)
	c.AddSteps(len(levels), func(i int) int64 { return levels[i].At - s.Begin })
	c.AddSteps(len(levels), func(i int) int64 { return levels[i].Bytes })
	totals := shownTotals(s)
	c.AddSteps(len(totals), func(i int) int64 { return totals[i].T - s.Begin })
	c.AddSteps(len(totals), func(i int) int64 { return totals[i].Bytes })
	return c.Bytes
}

// edgeBits is the number of bits for the edges of a buffer; its kind is in the higher bits.
const edgeBits = 6

// shownTotals returns the totals that the page draws: none if more was recorded.
func shownTotals(s *lifetime.Space) []lifetime.Total {
	var shown []lifetime.Total
	for _, t := range s.Totals {
		if t.Measure != lifetime.Reserved && s.UsageOnly() {
			shown = append(shown, t)
		}
	}
	return shown
}

// packers are compressors. A new one takes a megabyte, however little it compresses, and a page may have thousands of
// spaces.
var packers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// pack compresses data and writes it to w in base64.
func pack(w io.Writer, data []byte) error {
	encoder := base64.NewEncoder(base64.StdEncoding, w)
	z := packers.Get().(*gzip.Writer)
	z.Reset(encoder)
	_, err := z.Write(data)
	err = cmp.Or(err, z.Close())
	z.Reset(io.Discard) // not to hold w
	packers.Put(z)
	return cmp.Or(err, encoder.Close())
}
