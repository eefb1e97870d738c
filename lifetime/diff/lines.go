package diff

import "slices"

// maxPairs bounds the pairs of lines that alignLines compares in one function.
const maxPairs = 1 << 20

// alignLines pairs the lines of functions that both sides have. An edit moves all lines below it, so an equal number is
// weak evidence: the line below may have it now. alignLines keeps the order of the lines and takes the pairs that agree
// best in number, operation and mean size.
func alignLines(before, after []*placeSum, pair func(b, a *placeSum)) {
	type function struct {
		lines [2][]*placeSum
		mixed bool // several files have such a function
	}
	functions := map[placeKey]*function{}
	for side, places := range [][]*placeSum{before, after} {
		for _, p := range inLineOrder(places) {
			if p.taken {
				continue
			}
			f := functions[p.key(0)]
			if f == nil {
				f = &function{}
				functions[p.key(0)] = f
			}
			f.mixed = f.mixed || len(f.lines[side]) > 0 && !slices.Equal(f.lines[side][0].path, p.path)
			f.lines[side] = append(f.lines[side], p)
		}
	}
	for key, f := range functions {
		if b, a := f.lines[0], f.lines[1]; key.function != "" && !f.mixed && len(b)*len(a) <= maxPairs {
			align(b, a, pair)
		}
	}
}

// align pairs the lines of one function, in order, so that the sum of agreement is highest.
func align(before, after []*placeSum, pair func(b, a *placeSum)) {
	width := len(after) + 1
	best := make([]int, (len(before)+1)*width) // of the lines from i and k on, at i*width+k
	for i := range slices.Backward(before) {
		for k := range slices.Backward(after) {
			at := i*width + k
			best[at] = max(best[at+width], best[at+1], best[at+width+1]+agreement(before[i], after[k]))
		}
	}
	for i, k := 0, 0; i < len(before) && k < len(after); {
		switch at := i*width + k; best[at] {
		case best[at+width+1] + agreement(before[i], after[k]):
			pair(before[i], after[k])
			i, k = i+1, k+1
		case best[at+width]:
			i++
		default:
			k++
		}
	}
}

// agreement returns how much speaks for b and a being the same line: any two lines in order may be, a size says more
// than a number.
func agreement(b, a *placeSum) int {
	n := 4
	if b.place.Frame.Line == a.place.Frame.Line {
		n += 3
	}
	if b.op == a.op && b.op != "" {
		n += 2
	}
	if b.meanSize() == a.meanSize() {
		n += 4
	}
	return n
}

func (p *placeSum) meanSize() int64 {
	amount := p.Allocated
	if amount.Count == 0 {
		amount = p.End
	}
	return amount.Requested / max(amount.Count, 1)
}
