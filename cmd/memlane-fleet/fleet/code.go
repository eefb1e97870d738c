package fleet

import (
	"cmp"
	"maps"
	"slices"

	"github.com/memlane/memlane/lifetime/frame"
)

// OtherCode is a source file that some ranks have in another version than most.
type OtherCode struct {
	File     string
	Function string // one of its functions that lie elsewhere
	Line     int    // of the call in Function
	Usual    int    // the same on most ranks
	Count    int    // functions that lie elsewhere
	Ranks    []string
}

// leastMoved is the number of functions that an edit must have moved. A single call at another line may be another branch of the
// same code.
const leastMoved = 2

type function struct{ file, name uint32 }

// OtherCode finds ranks that run another version of the program: several functions of a file lie as many lines elsewhere as the
// same functions on most ranks.
func (f *Fleet) OtherCode() (all []OtherCode) {
	of := map[*kept]map[function][]int{}
	counts := map[function]map[int]int{} // records that have a line
	having := map[function]int{}
	for _, k := range f.inOrder() {
		of[k] = f.linesOf(k)
		for fn, lines := range of[k] {
			if counts[fn] == nil {
				counts[fn] = map[int]int{}
			}
			for _, line := range lines {
				counts[fn][line]++
			}
			having[fn]++
		}
	}
	usual := map[function]int{} // of functions with one call at the same line on most ranks
	for fn, lines := range counts {
		for line, n := range lines {
			if 2*n > having[fn] && 2*having[fn] > len(of) {
				if _, ok := usual[fn]; ok {
					usual[fn] = -1 // several calls
				} else {
					usual[fn] = line
				}
			}
		}
	}
	type moved struct {
		file  uint32
		lines int
	}
	ranks, first := map[moved][]string{}, map[moved]map[function]int{}
	for _, k := range f.inOrder() {
		by := map[moved][]function{}
		for fn, lines := range of[k] {
			if at, ok := usual[fn]; ok && at >= 0 && len(lines) == 1 && lines[0] != at {
				m := moved{fn.file, lines[0] - at}
				by[m] = append(by[m], fn)
			}
		}
		for m, functions := range by {
			if len(functions) < leastMoved {
				continue
			}
			if first[m] == nil {
				first[m] = map[function]int{}
			}
			for _, fn := range functions {
				first[m][fn]++
			}
			for i := range k.Memories {
				ranks[m] = append(ranks[m], k.RankOf(i))
			}
		}
	}
	for m, of := range ranks {
		slices.SortFunc(of, CompareRanks)
		functions := slices.SortedFunc(maps.Keys(first[m]), func(a, b function) int {
			return cmp.Or(cmp.Compare(usual[a], usual[b]), cmp.Compare(f.strings.list[a.name], f.strings.list[b.name]))
		})
		fn := functions[0]
		all = append(all, OtherCode{f.strings.list[m.file], f.strings.list[fn.name], usual[fn] + m.lines, usual[fn], len(functions), slices.Compact(of)})
	}
	slices.SortFunc(all, func(a, b OtherCode) int {
		return cmp.Or(cmp.Compare(len(b.Ranks), len(a.Ranks)), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Usual, b.Usual))
	})
	return all
}

// linesOf returns the lines of calls in the functions of the program on a rank.
func (f *Fleet) linesOf(k *kept) map[function][]int {
	lines, seen := map[function][]int{}, map[uint32]bool{}
	for i := range k.Memories {
		for n := range f.totalsOf(k, i) {
			for _, number := range f.framesOf(f.sites.list[n].stack) {
				fr := &f.frames.list[number]
				if seen[number] || fr.kind != frame.User || fr.line <= 0 {
					continue
				}
				seen[number] = true
				fn := function{fr.file, fr.function}
				lines[fn] = append(lines[fn], fr.line)
			}
		}
	}
	return lines
}
