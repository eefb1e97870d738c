package finding

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/region"
)

const minCached = 0.9

// idle finds reserved memory that other allocators of the process and other processes cannot use: idle memory of private pools, when the
// program needs most or else at the end, and segments without a buffer at the end, which PyTorch keeps. Neither is fragmentation. The
// first is a warning on the same conditions.
func idle(p *Pass) (findings []Finding) {
	s, end := p.Space, p.Space.AtEnd()
	if p.fragmented || p.compiled() || !p.ofPyTorch() || len(s.Regions) == 0 || s.Facts&lifetime.Addresses == 0 {
		return nil
	}
	at, grown := end, int64(0)
	if p.dynamic() {
		at, grown = p.fullest()
	}
	for _, t := range slices.Compact([]int64{at, end}) {
		if f, ok := p.idlePools(t, grown); ok {
			p.fragmented = p.fragmented || t == at // what is free then is in these pools
			findings = append(findings, f)
			break
		}
	}
	cached, reserved := int64(0), region.ReservedAt(s, end)
	for _, use := range region.PoolsAt(s, end) {
		if use.Pool == "" {
			cached += use.Empty
		}
	}
	if cached >= leastGap && shareOf(cached, reserved) >= minCached {
		f := Finding{Amount: lifetime.Amount{Bytes: cached}, Evidence: []Evidence{figure(FigReserved, reserved), figure(FigFree, region.FreeAt(s, end).Total)},
			Suggestions: []string{fmt.Sprintf("torch.cuda.empty_cache() returns %s if something else needs them.", units.Bytes(cached))}}
		f.describe("", fmt.Sprintf("%s of %s reserved are in segments without a buffer at the end: no other allocator or process can use them",
			units.Bytes(cached), units.Bytes(reserved)))
		findings = append(findings, f)
	}
	return findings
}

// idlePools returns the finding for private pools that hold most of the free memory at an instant.
func (p *Pass) idlePools(at, grown int64) (f Finding, ok bool) {
	bytes, kinds, pools := int64(0), []string{}, map[string]bool{}
	for _, use := range region.PoolsAt(p.Space, at) {
		if use.Pool != "" && use.Free.Total > 0 {
			bytes, pools[use.Pool] = units.AddSat(bytes, use.Free.Total), true
			if kind := p.kindOfPool(use.PoolID); !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	reserved, free := region.ReservedAt(p.Space, at), region.FreeAt(p.Space, at).Total
	if bytes < leastGap || shareOf(bytes, reserved) < minGain || 2*bytes < free {
		return f, false
	}
	f = Finding{Amount: lifetime.Amount{Bytes: bytes}, Suggestions: []string{oom.AdvicePools},
		Evidence: []Evidence{figure(FigReserved, reserved), figure(FigFree, free)}}
	replayed := p.replayed(&f, at, true)
	state := p.grewLately(&f, grown, replayed, reserved)
	f.describe("", fmt.Sprintf("%s of %s reserved are idle at %s, %s of it in %s (%s), which others cannot use", units.Bytes(free), units.Bytes(reserved), p.since(at), units.Bytes(bytes),
		units.Plural(int64(len(pools)), "private pool"), strings.Join(kinds, ", ")), slices.Insert(replayed.parts, min(1, len(replayed.parts)), state)...)
	return f, true
}

// kindOfPool returns what a private pool is for, by the frames that reserved its regions, else by its ID.
func (p *Pass) kindOfPool(id region.PoolID) string {
	for i := range p.Space.Regions {
		if r := &p.Space.Regions[i]; region.PoolOf(r) == id {
			for f := range p.FramesOf(p.Sites[r.Site].Stack) {
				if kind := program.PoolKind(f); kind != "" {
					return kind
				}
			}
		}
	}
	if strings.HasPrefix(id.PoolName(), "graph pool") {
		return "CUDA graph"
	}
	return "torch.cuda.MemPool or torch.compile"
}
