package blocks

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// findBreak breaks the vertical axis if nearly all of it is memory that was there before the recording, without events
// and names.
func (p *picture) findBreak() {
	still, below := p.stillBuffers()
	if below >= p.peak.Bytes || !p.BreakAt(below, p.most(), p.ceiling) {
		return
	}
	p.still, p.ceiling = still, p.Ceiling(p.most())
	for k := range p.floors {
		p.floors[k] += below - p.s.Base
	}
}

// stillBuffers returns the buffers about which only their size is known, with their bytes and Base: they are there in
// all of the visible part.
func (p *picture) stillBuffers() (still map[int]bool, bytes int64) {
	still, bytes = map[int]bool{}, p.s.Base
	named := map[lifetime.Row]bool{}
	for i := range p.s.Buffers {
		b := &p.s.Buffers[i]
		if b.Edge&lifetime.BeginUnseen == 0 || b.Begin > p.From || b.End < p.To && b.Edge&lifetime.EndOpen == 0 {
			continue
		}
		row := rowOf(p.s, i)
		known, ok := named[row]
		if !ok {
			known = NamesCategory(p.c.Category(&p.s.SpaceInfo, row.Kind, row.Site, row.Purpose)) || b.Site != 0 &&
				!p.c.Sites[b.Site].Unseen
			named[row] = known
		}
		if !known {
			still[i] = true
			bytes += b.Size
		}
	}
	return still, bytes
}

// base returns the bytes that were there before the recording and are drawn as one.
func (p *picture) base() int64 {
	if p.Below > 0 {
		return int64(p.Below)
	}
	return p.s.Base
}

// NamesCategory reports whether the name of a category says what memory is for.
func NamesCategory(name string) bool {
	switch name {
	case "", purpose.UnknownCategory.String(), lifetime.Plain.String():
		return false
	}
	return true
}
