package tables

import (
	"iter"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
)

// UsageRows yields the rows of [Usage].
func UsageRows(c *lifetime.Capture) iter.Seq[UsageRow] {
	return func(yield func(UsageRow) bool) {
		for _, s := range c.Spaces {
			row := UsageRow{Space: Clean(s.ID()), Unit: s.Axis.Unit()}
			for _, series := range seriesOf(s) {
				row.Measure = series.measure.String()
				for level := range lastLevels(series.levels) {
					row.T, row.Bytes = level.At, level.Bytes
					if !yield(row) {
						return
					}
				}
			}
		}
	}
}

// series holds the levels of a space in one measure, in bytes.
type series struct {
	measure lifetime.Measure
	levels  iter.Seq[lifetime.Level]
}

func seriesOf(s *lifetime.Space) []series {
	all := []series{{lifetime.Occupied, s.Levels(lifetime.Occupied)}}
	if !s.UsageOnly() {
		all = append(all, series{lifetime.Requested, s.Levels(lifetime.Requested)})
	}
	return append(all, series{lifetime.Reserved, slices.Values(region.Levels(s))})
}

// lastLevels yields the last level of each instant. The maximum is among them, because ends precede begins.
func lastLevels(levels iter.Seq[lifetime.Level]) iter.Seq[lifetime.Level] {
	return func(yield func(lifetime.Level) bool) {
		var last lifetime.Level
		any := false
		for level := range levels {
			if any && level.At != last.At && !yield(last) {
				return
			}
			last, any = level, true
		}
		if any {
			yield(last)
		}
	}
}
