package answer

import (
	"fmt"
	"hash/fnv"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/replay"
	"github.com/memlane/memlane/lifetime/selection"
)

// siteKeys returns a hash of the call stack of each buffer. It is the same in other captures of a program.
func siteKeys(t *lifetime.Tables, s *lifetime.Space) []uint64 {
	bySite := map[lifetime.SiteID]uint64{}
	keys := make([]uint64, len(s.Buffers))
	for i := range s.Buffers {
		site := s.Buffers[i].Site
		key, ok := bySite[site]
		if !ok {
			h := fnv.New64a()
			fmt.Fprintf(h, "%q", t.Sites[site].Op)
			for f := range t.FramesOf(t.Sites[site].Stack) {
				fmt.Fprintf(h, "%q %q %d", f.Function, f.File, f.Line)
			}
			key = h.Sum64()
			bySite[site] = key
		}
		keys[i] = key
	}
	return keys
}

// scale adds the largest batches that fit: under the recorded settings, and under the recommended or given ones.
func (t *Tuning) scale(out *Tune, given bool) error {
	if len(t.histories) != 2 {
		return &selection.NothingError{Why: fmt.Sprintf("two batch sizes need two recordings of one device each (there are %d)", len(t.histories))}
	}
	small, large := 0, 1
	if t.Batches[0] > t.Batches[1] {
		small, large = 1, 0
	}
	scaled := replay.Scale(t.histories[small], t.histories[large], t.Batches[small], t.Batches[large], t.keys[small], t.keys[large])
	if scaled == nil {
		return &selection.NothingError{File: t.captures[large].File,
			Why: "fewer than 80 % of its requests are also in the other capture: record the same " +
				"steps of the same program at two batch sizes that are less different"}
	}
	for i := range t.trials {
		if i > 0 && (!given && i != t.best || sameSettings(&t.trials[0], &t.trials[i])) {
			continue
		}
		settings := t.trials[i].Outcomes[large].Settings
		batch, most, o := scaled.Largest(settings, t.devices[large])
		out.Batches = append(out.Batches, TuneBatch{
			Conf: t.names[i], CapacityBytes: t.devices[large].Capacity, Batch: batch, AtMost: most, PeakReservedBytes: o.PeakReserved,
			PeakLiveBytes: o.PeakLive, LowBytes: o.Low, HighBytes: o.High, Retries: o.Retries, Recorded: i == 0,
		})
	}
	return nil
}

// Text returns the batch and what it needs as text.
func (b *TuneBatch) Text() string {
	text := fmt.Sprintf("batch %s reserves %s to %s", units.Count(b.Batch), units.Bytes(b.LowBytes), units.Bytes(b.HighBytes))
	if b.Batch == 0 {
		text = "no batch fits for sure"
	}
	if b.Retries > 0 {
		text += " and releases its cache in " + units.Plural(b.Retries, "allocation")
	}
	return text + fmt.Sprintf("; more than %s does not fit", units.Count(b.AtMost))
}
