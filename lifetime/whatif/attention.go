package whatif

import (
	"maps"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// attention is what a pass does of it.
type attention struct {
	m     *model
	pass  *pass
	nodes []*buffer // of the backward pass
	saved []*buffer // by end
	dead  []int
	sums  []int64 // sizes of what backward sums up: 32 bits for each row
	drop  map[*buffer]bool
}

// attend gives attention the kernels that PyTorch chooses in 16 bits, in sizes that are halved after it. One that needs no scores runs without a mask, whatever
// the heads; it pads them to 8 elements, and keeps sums in 32 bits (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp). Where operators are
// not recorded, what a line makes tells.
func (m *model) attend() {
	drop := map[*buffer]bool{}
	isOf := func(b *buffer) bool { return m.does(b, program.OpAttention) && b.size > smallest }
	sums := m.sizes(func(b *buffer) bool { return b.phase == purpose.Backward && isOf(b) && m.runs(b, "sum_dim") })
	for k := range m.passes {
		saved := filter(m.ofPass(k), func(b *buffer) bool { return b.saved && b.size > smallest })
		slices.SortStableFunc(saved, func(x, y *buffer) int { return x.end.compare(y.end) })
		a, all := attention{m, &m.passes[k], m.backward(k), saved, m.deaths(k), slices.Sorted(maps.Keys(sums)), drop}, m.computed(k)
		for begin, end, before := 0, 0, 0; begin < len(all); begin = end {
			for end = begin + 1; end < len(all) && m.sameOperation(all[end], all[begin]); {
				end++
			}
			if m.op(all[begin]) == "scaled_dot_product_attention" {
				a.call(all[begin:end], all[before:begin])
				before = end
			} else if u, saved := scoresOf(all[begin:end]); m.op(all[begin]) == "" && saved > 0 {
				a.fuse(u, all[before:begin], saved)
				before = end
			}
		}
	}
	m.drop(func(b *buffer) bool { return drop[b] })
	m.settle()
}

// scoresOf returns the part of what a line makes that is attention with scores, and which buffer of it the softmax of the scores saves; 0 if none does. Before
// it are copies of queries and keys, which are saved, and the scores, which are not; last is a result of the size of the queries.
func scoresOf(u unit) (part unit, saved int) {
	const mask = 4 // buffers to find rows without keys, before the copy of the values and the result
	for i := 3; i < len(u); i++ {
		q, scores := u[i-3], u[i-1]
		if !q.saved || !u[i-2].saved || scores.saved || !u[i].saved || u[i].size != scores.size || scores.size <= smallest || scores.size == q.size {
			continue
		}
		for j := min(len(u)-1, i+mask+2); j > i; j-- {
			if u[j].size == q.size && scores.end.compare(u[j].begin) < 0 {
				return u[:j+1], i
			}
		}
	}
	return nil, 0
}

// runs reports whether a function of a library in C++ made a buffer.
func (m *model) runs(b *buffer, function string) bool {
	for f := range m.t.NearFramesOf(m.t.Sites[b.site].Stack) {
		if strings.Contains(f.Function, function) {
			return true
		}
	}
	return false
}

// call changes one call, before which a pass made something since the last one.
func (a *attention) call(u, before unit) {
	isEfficient := func(b *buffer) bool { return a.m.runs(b, "efficient_attention_forward") }
	switch i := slices.IndexFunc(u, isEfficient); {
	case i >= 0 && i+1 < len(u):
		out, sums, size := u[i], u[i+1], u[i].size // as many sums as rows, or up to 31 more for each head
		var operands []*buffer
		for _, b := range freedWith(a.saved, sums.end.event) {
			if b.begin.compare(out.begin) < 0 {
				operands = append(operands, b)
			}
		}
		if j, _ := slices.BinarySearch(a.sums, sums.size+1); j > 0 && padHeads(size/a.sums[j-1], append(operands, out)) {
			a.m.repeat(out, after.at(sums.begin.event), out.end).size = size // it is put together after it
		}
		sums.size *= 2
	case a.m.runs(u[0], "attention_math"):
		a.fuse(u, before, 0)
	}
}

// padHeads pads operands and results, whose heads have so many elements, to multiples of 8, and reports whether they have others.
func padHeads(heads int64, all []*buffer) bool {
	padded := (heads + 7) / 8 * 8
	for _, b := range all {
		b.size = b.size / max(heads, 1) * max(padded, 1)
	}
	return padded > heads
}

// fuse changes a call with scores to one without, if it had scores for its heads alone: keys for several queries, or a number of elements for
// which no other kernel is. Any other computes in 32 bits. saved is what its softmax saves; 0 = functions of the library tell.
func (a *attention) fuse(u, before unit, saved int) {
	made := func(function string) (size int64) {
		for _, b := range slices.Backward(u) {
			if b.size > smallest && a.m.runs(b, function) {
				size = b.size
			}
		}
		return size
	}
	out, p, scores, rows := u.last(), a.pass, made("softmax"), 4*made("all_dim")
	isGrouped, isMasked := made("repeat_interleave") > 0, made("::where") > 0 && made("tril") == 0
	if saved > 0 { // the copies of its keys; then whether all are masked, by element and by row
		scores, isGrouped = u[saved].size, saved > 3 && u[saved-4].saved && u[saved-4].size == out.size
		if saved+2 < len(u) && 4*u[saved+1].size == scores {
			rows = 4 * u[saved+2].size
		}
	}
	done, first := out.end, at(p.end)
	for _, b := range u {
		if b.saved {
			done, first = done.later(b.end), first.earlier(b.end)
		}
	}
	begin := nodeOf(a.nodes, a.dead, p.backward, first.event)
	back := filter(a.m.between(begin, max(begin, min(done.event, p.end))), func(b *buffer) bool { return b.phase == purpose.Backward && b.size == scores })
	if hasReason := isGrouped || rows > 0 && out.size/rows%4 > 0; !hasReason || isMasked {
		for _, b := range append(back, u...) {
			if b.size >= min(scores, out.size) {
				b.size *= 2
			}
		}
		return
	}
	for _, b := range append(back, u[:len(u)-1]...) {
		a.drop[b] = true
	}
	kept, rest := []*buffer{}, map[bool]int64{false: 3, true: 1}[isGrouped]*out.size // of operands: queries, keys and values
	for _, b := range slices.Backward(before) {
		if b.end.compare(u[0].begin) > 0 && b.size > smallest && b.category != purpose.Input && rest > 0 {
			if rest -= b.size; b.end.compare(done) < 0 {
				kept = append(kept, b)
			}
		}
	}
	if rows > 0 {
		heads := out.size / rows
		if a.m.repeat(out, out.begin, done).size = 2 * rows; heads%8 > 0 { // the program copies what it takes of it
			kept = append(kept, out)
		}
		padHeads(heads, kept)
	}
	for _, b := range kept {
		a.m.until(b, done)
		b.saved = done.event > p.backward
	}
}
