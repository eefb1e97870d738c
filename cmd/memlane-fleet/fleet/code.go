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

// leastMoved is the number of functions that an edit must have moved. A single function with calls at other lines may
// have taken another branch of the same code.
const leastMoved = 2

type function struct{ file, name uint32 }

// edit is lines of a file that an edit moved.
type edit struct {
	file  uint32
	lines int
}

// OtherCode finds ranks that run another version of the program: several functions of a file lie as many lines
// elsewhere as the same functions on most ranks, and nothing between them lies where it lies there.
func (f *Fleet) OtherCode() (all []OtherCode) {
	linesIn := map[*kept]map[function][]int{}
	counts := map[function]map[int]int{} // records that have a line
	having := map[function]int{}
	for _, k := range f.inOrder() {
		linesIn[k] = f.linesOf(k)
		for fn, lines := range linesIn[k] {
			if counts[fn] == nil {
				counts[fn] = map[int]int{}
			}
			for _, line := range lines {
				counts[fn][line]++
			}
			having[fn]++
		}
	}
	usual := map[function][]int{} // lines on most ranks, of functions that most have
	for fn, lines := range counts {
		for line, n := range lines {
			if 2*n > having[fn] && 2*having[fn] > len(linesIn) {
				usual[fn] = append(usual[fn], line)
			}
		}
	}
	ranks, first := map[edit][]string{}, map[edit]map[function]int{}
	for _, k := range f.inOrder() {
		for e, moved := range editsOf(linesIn[k], usual) {
			if first[e] == nil {
				first[e] = map[function]int{}
			}
			maps.Copy(first[e], moved)
			for i := range k.Memories {
				ranks[e] = append(ranks[e], k.RankOf(i))
			}
		}
	}
	for e, having := range ranks {
		slices.SortFunc(having, CompareRanks)
		functions := slices.SortedFunc(maps.Keys(first[e]), func(a, b function) int {
			return cmp.Or(cmp.Compare(first[e][a], first[e][b]), cmp.Compare(f.strings.list[a.name], f.strings.list[b.name]))
		})
		fn := functions[0]
		line := first[e][fn]
		file, name := f.strings.list[e.file], f.strings.list[fn.name]
		all = append(all, OtherCode{file, name, line + e.lines, line, len(functions), slices.Compact(having)})
	}
	slices.SortFunc(all, func(a, b OtherCode) int {
		return cmp.Or(cmp.Compare(len(b.Ranks), len(a.Ranks)), cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Usual, b.Usual))
	})
	return all
}

// editsOf returns the edits that tell the lines of a rank from the usual ones: the functions that each moved, with
// the first usual line of each that moved.
func editsOf(have, usual map[function][]int) map[edit]map[function]int {
	edits, last := map[edit]map[function]int{}, map[edit]int{}
	for fn, lines := range have {
		if len(usual[fn]) == 0 {
			continue
		}
		e := edit{fn.file, slices.Max(lines) - slices.Max(usual[fn])}
		if from, ok := movedFrom(usual[fn], lines, e.lines); ok {
			if edits[e] == nil {
				edits[e] = map[function]int{}
			}
			edits[e][fn] = from
			last[e] = max(last[e], slices.Max(usual[fn]))
		}
	}
	maps.DeleteFunc(edits, func(e edit, moved map[function]int) bool {
		if len(moved) < leastMoved {
			return true
		}
		first := slices.Min(slices.Collect(maps.Values(moved)))
		for fn, lines := range have {
			from, ok := moved[fn]
			for _, line := range usual[fn] { // an edit moves all that follows
				stays := slices.Contains(lines, line) && !slices.Contains(usual[fn], line-e.lines)
				if fn.file == e.file && stays && line >= first && line <= last[e] && !(ok && line >= from) {
					return true
				}
			}
		}
		return false
	})
	return edits
}

// movedFrom returns the first usual line of a function that moved by some lines; ok is false unless all from there on
// did, and all before stayed.
func movedFrom(usual, lines []int, by int) (from int, ok bool) {
	gone, new := less(usual, lines), less(lines, usual)
	if by == 0 || len(gone) == 0 || len(new) == 0 {
		return 0, false
	}
	from = slices.Min(gone)
	if by < 0 {
		from = slices.Min(new) - by
	}
	var want []int
	for _, line := range usual {
		if line >= from {
			line += by
		}
		want = append(want, line)
	}
	return from, len(less(want, lines))+len(less(lines, want)) == 0
}

// less returns the lines that others does not have.
func less(lines, others []int) (out []int) {
	for _, line := range lines {
		if !slices.Contains(others, line) {
			out = append(out, line)
		}
	}
	return out
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
