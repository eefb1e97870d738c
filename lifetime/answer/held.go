package answer

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/purpose"
)

// heldBy sums up the buffers that are alive at an instant by what holds them at the end, largest first. It is empty if
// no holder was recorded. "unknown" are those without a recorded holder; if the recorder did not name all, those that are alive at the end are "not named".
func heldBy(t *lifetime.Tables, s *lifetime.Space, at int64) []Part {
	var all sums
	if s == nil || s.Holders == nil {
		return all.parts()
	}
	why := loss.Unnamed(t.Losses)
	for _, i := range s.LiveAt(at) {
		name := ""
		if h := t.HolderOf(s, i); h != nil {
			name = holder.FoldIndexes(h.Whole())
		} else if why != "" && s.Buffers[i].Edge&lifetime.EndOpen != 0 {
			name = "not named: " + why
		}
		all.add(name, purpose.Recorded, lifetime.Amount{Count: 1, Bytes: s.Buffers[i].Size, Requested: s.Buffers[i].Requested})
	}
	return all.parts()
}

// olderOf sums up what was allocated before the recording and is alive at an instant by size and category, largest first. What the recording
// frees has the place of the free instead. If outlines have no whole history, there is none: an answer does not depend on what was read.
func olderOf(t *lifetime.Tables, s *lifetime.Space, at int64) []Part {
	all, total, of := []Part{}, int64(0), map[int64]*sums{}
	if s == nil || t.Sources[s.Source].Traits.Folded {
		return all
	}
	for _, i := range s.LiveAt(at) {
		b, id := &s.Buffers[i], s.PurposeOf(i)
		if site := &t.Sites[b.Site]; !site.Unseen || site.Stack != 0 || site.Op != "" {
			continue
		}
		if of[b.Size] == nil {
			of[b.Size] = &sums{}
		}
		of[b.Size].add(t.Category(&s.SpaceInfo, b.Kind, b.Site, id), t.Purpose(id).HowNamed(), lifetime.Amount{Count: 1, Bytes: b.Size, Requested: b.Requested})
		total = units.AddSat(total, b.Size)
	}
	for _, size := range slices.Sorted(maps.Keys(of)) {
		all = append(all, of[size].parts()...)
	}
	for i := range all {
		all[i].Share = share(all[i].Bytes, total)
	}
	slices.SortStableFunc(all, func(x, y Part) int { return cmp.Compare(y.Bytes, x.Bytes) })
	return all
}

// sums adds up memory by name. "" is unknown.
type sums struct {
	index map[string]int
	of    []Part
	total int64
}

func (s *sums) add(name string, how purpose.How, more lifetime.Amount) {
	name = cmp.Or(name, purpose.UnknownCategory.String())
	if s.index == nil {
		s.index = map[string]int{}
	}
	p := keyed.At(s.index, &s.of, name, Part{Name: name, how: how})
	p.Count, p.how = p.Count+more.Count, min(p.how, how)
	p.Bytes, p.RequestedBytes = units.AddSat(p.Bytes, more.Bytes), units.AddSat(p.RequestedBytes, more.Requested)
	s.total = units.AddSat(s.total, more.Bytes)
}

// parts returns the sums, largest first.
func (s *sums) parts() []Part {
	for i := range s.of {
		s.of[i].Share, s.of[i].How = share(s.of[i].Bytes, s.total), howOf(s.of[i].Name, s.of[i].how)
	}
	slices.SortFunc(s.of, func(x, y Part) int { return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), byName(x.Name, y.Name)) })
	return append([]Part{}, s.of...)
}

// byName orders names: layers[2] comes before layers[10].
func byName(x, y string) int {
	letters := func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}
	return cmp.Or(cmp.Compare(strings.Map(letters, x), strings.Map(letters, y)), cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
}
