package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/units"
)

// rankPeak is the highest peak of a rank.
type rankPeak struct {
	rank  string
	bytes int64
}

// printRanks says which rank of several has the highest peak and which the
// lowest; nothing where a capture does not tell its rank.
func printRanks(w io.Writer, captures []*lifetime.Capture) {
	peaks := rankPeaks(captures)
	if len(peaks) < 2 {
		return
	}
	most, least := peaks[0], peaks[0]
	for _, p := range peaks {
		if p.bytes > most.bytes {
			most = p
		}
		if p.bytes < least.bytes {
			least = p
		}
	}
	where := fmt.Sprintf("on %s, least %s on %s", most.rank, units.Bytes(least.bytes), least.rank)
	if most.bytes == least.bytes {
		where = "on each"
	}
	fmt.Fprintf(w, "\n%d ranks: peak %s %s\n", len(peaks), units.Bytes(most.bytes), printable(where))
}

// rankPeaks returns the peak of every rank in order of the captures, nil where
// one of them is of no rank.
func rankPeaks(captures []*lifetime.Capture) []rankPeak {
	var peaks []rankPeak
	index := map[string]int{}
	for _, capture := range captures {
		for _, s := range capture.Spaces {
			rank, _, _ := strings.Cut(s.Process, ",") // the rank may have several processes
			if !strings.HasPrefix(rank, "rank ") {
				return nil
			}
			i, ok := index[rank]
			if !ok {
				i = len(peaks)
				index[rank] = i
				peaks = append(peaks, rankPeak{rank: rank})
			}
			peaks[i].bytes = max(peaks[i].bytes, s.Peak(lifetime.Occupied).Bytes)
		}
	}
	return peaks
}
