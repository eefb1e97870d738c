package whatif

import (
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// attend gives attention the kernels that PyTorch chooses in 16 bits, in sizes that are halved after it. One that needs no scores runs without a mask, whatever
// the heads; it pads them to 8 elements, and keeps sums in 32 bits (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp). The range is wider where
// the recording does not say which kernel ran.
func (m *model) attend() {
	isOf := func(b *buffer) bool { return m.does(b, program.OpAttention) && b.size > smallest }
	sums := m.sizes(func(b *buffer) bool { return b.phase == purpose.Backward && isOf(b) && m.runs(b, "sum_dim") })
	drop, isOpen := map[*buffer]bool{}, false
	for k := range m.passes {
		for all := m.computed(k); len(all) > 0; {
			n := 1
			for n < len(all) && m.sameOperation(all[n], all[0]) {
				n++
			}
			u, isEfficient := unit(all[:n]), func(b *buffer) bool { return m.runs(b, "efficient_attention_forward") }
			switch i := slices.IndexFunc(u, isEfficient); {
			case m.op(u[0]) != "scaled_dot_product_attention":
			case i >= 0 && i+1 < n:
				u = u[i:]
				rows := int64(0) // u[1] has as many sums, or up to 31 more for each head
				for size := range sums {
					if size <= u[1].size {
						rows = max(rows, size)
					}
				}
				if size := m.padHeads(k, u[0], rows, u[1].end); size > 0 { // and put together after it
					m.repeat(u[0], after.at(u[1].begin.event), u[0].end).size = size
				}
				u[1].size *= 2
			case m.runs(u[0], "attention_math"):
				m.fuse(k, u, drop)
			default:
				isOpen = true
			}
			all = all[n:]
		}
		back := m.backward(k)
		for i, b := range back { // what adds up the gradient of queries: 32 bits, whole blocks of rows
			if isOf(b) && (i+1 == len(back) || m.op(back[i+1]) != m.op(b)) {
				b.size = b.size * 8 / 3
			}
		}
	}
	if m.drop(func(b *buffer) bool { return drop[b] }); isOpen {
		m.doubt(offAttention)
	}
	m.settle()
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

// padHeads pads what the node of a call of attention frees at a moment, its result and operands, to heads of 8 elements; sums are those of 32 bits, one for
// each row. It returns the bytes of the result without, or 0 if nothing is padded.
func (m *model) padHeads(k int, out *buffer, sums int64, done moment) int64 {
	const together = 6
	size, heads := out.size, out.size/max(sums, 1)
	if sums == 0 || heads%8 == 0 {
		return 0
	}
	for _, b := range m.ofPass(k) {
		if b.saved && b.begin.compare(out.begin) <= 0 && b.size > smallest && b.end.event >= done.event-together && b.end.event <= done.event+together {
			b.size = b.size / heads * ((heads + 7) / 8 * 8)
		}
	}
	return size
}

// fuse changes attention with scores to attention without, if it had scores for its heads alone: keys for several queries, or a number of elements for
// which no other kernel is. Any other computes in 32 bits.
func (m *model) fuse(k int, u unit, drop map[*buffer]bool) {
	made := func(function string) (size int64) {
		for _, b := range slices.Backward(u) {
			if b.size > smallest && m.runs(b, function) {
				size = b.size
			}
		}
		return size
	}
	out, p, scores, rows := u.last(), &m.passes[k], made("softmax"), 4*made("all_dim")
	done, first := out.end, at(p.end)
	for _, b := range u {
		if b.saved {
			done, first = done.later(b.end), first.earlier(b.end)
		}
	}
	begin := nodeOf(m.backward(k), m.deaths(k), p.backward, first.event)
	back := filter(m.between(begin, max(begin, min(done.event, p.end))), func(b *buffer) bool { return b.phase == purpose.Backward && b.size == scores })
	hasReason := made("repeat_interleave") > 0 || rows > 0 && out.size/rows%4 > 0
	if isMasked := made("::where") > 0 && made("tril") == 0; !hasReason || isMasked {
		for _, b := range append(back, u...) {
			if b.size >= min(scores, out.size) {
				b.size *= 2
			}
		}
		return
	}
	for _, b := range append(back, u[:len(u)-1]...) {
		drop[b] = true
	}
	rest := 3 * out.size // of operands: queries, keys and values
	if made("repeat_interleave") > 0 {
		rest = out.size
	}
	for _, b := range slices.Backward(m.computed(k)) {
		if b.begin.compare(u[0].begin) < 0 && b.end.compare(u[0].begin) > 0 && b.size > smallest && b.category != purpose.Input && rest > 0 {
			if rest -= b.size; b.end.compare(done) < 0 {
				m.until(b, done)
				b.saved = done.event > p.backward
			}
		}
	}
	if rows > 0 {
		m.repeat(out, out.begin, done).size = 2 * rows
	}
	if rows > 0 && out.size/rows%8 > 0 {
		m.until(out, done)
		out.saved = done.event > p.backward
		m.padHeads(k, out, rows, done)
	}
}
