package program

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// Call is a frame of the program, or of a library in Python.
type Call struct {
	User           bool
	Function, File string
	Line           int

	where int32 // function and file: equal for all lines of a function
}

// CallPath is how a site is called.
type CallPath struct {
	Calls []int32 // outermost first, indexes of CallPaths.Calls
	Op    string  // operator, without aten::
	Does  Operator

	paths []int32 // number of the path from the outermost call to each of Calls
	user  int     // of Calls: the innermost one of the program; -1 = none
}

// Stack returns a number that is the same for equal stacks; -1 without one.
func (p *CallPath) Stack() int32 {
	if len(p.paths) == 0 {
		return -1
	}
	return p.paths[len(p.paths)-1]
}

// CallPaths are the calls that lead to all sites of a capture. Calls that PyTorch puts around each call of a module are not among them.
type CallPaths struct {
	Calls []Call
	Sites []CallPath // by SiteID
}

// CallPathsOf reads the stacks of all sites.
func CallPathsOf(t *lifetime.Tables) *CallPaths {
	type edge struct{ from, to int32 }
	all := &CallPaths{Sites: make([]CallPath, len(t.Sites))}
	calls, wheres, paths := map[Call]int32{}, map[[2]string]int32{}, map[edge]int32{}
	for i := range t.Sites {
		p := &all.Sites[i]
		p.Op, p.Does, p.user = strings.TrimPrefix(t.Sites[i].Op, "aten::"), OperatorOf(t.Sites[i].Op), -1
		for f := range t.NearFramesOf(t.Sites[i].Stack) {
			if f.Kind != frame.User && f.Kind != frame.Framework || strings.Contains(f.Function, "_call_impl") {
				continue
			}
			c := Call{f.Kind == frame.User, f.Function, f.File, f.Line, intern(wheres, [2]string{f.Function, f.File})}
			n := intern(calls, c)
			if int(n) == len(all.Calls) {
				all.Calls = append(all.Calls, c)
			}
			p.Calls = append(p.Calls, n)
		}
		slices.Reverse(p.Calls)
		last := int32(-1)
		for k, c := range p.Calls {
			last = intern(paths, edge{last, c})
			p.paths = append(p.paths, last)
			if all.Calls[c].User {
				p.user = k
			}
		}
	}
	return all
}

// intern returns the number of a key, which is new if it is not known.
func intern[K comparable, N ~int32 | ~uint32](known map[K]N, key K) N {
	n, ok := known[key]
	if !ok {
		n = N(len(known))
		known[key] = n
	}
	return n
}

// Innermost returns the innermost call of a site; nil without a stack.
func (all *CallPaths) Innermost(site int32) *Call {
	calls := all.Sites[site].Calls
	if len(calls) == 0 {
		return nil
	}
	return &all.Calls[calls[len(calls)-1]]
}

// UserCall returns the number of the innermost call of the program that a site is in; -1 = none.
func (all *CallPaths) UserCall(site int32) int32 {
	if p := &all.Sites[site]; p.user >= 0 {
		return p.Calls[p.user]
	}
	return -1
}

// IsUser reports whether the innermost call of a site is of the program, not of a library.
func (all *CallPaths) IsUser(site int32) bool {
	c := all.Innermost(site)
	return c != nil && c.User
}

// Again reports whether a function runs again at a site, which is after another one: it makes what it made first, and its line, at a depth, goes back.
func (all *CallPaths) Again(site, after, first int32, depth int) bool {
	p, q := &all.Sites[site], &all.Sites[after]
	return p.Stack() == all.Sites[first].Stack() && all.Calls[p.Calls[depth-1]].Line < all.Calls[q.Calls[depth-1]].Line
}

// Span is a call of a function that a pass makes.
type Span struct {
	Caller int32 // -1 = none
	Depth  int   // how many calls are around it
	End    int   // the number of the first site that is after it
	Holds  bool  // it is of the program, or of a module: it holds its arguments

	first int32 // stack
	then  int32 // that of what it makes after it; -1 = nothing
}

// Spans returns the calls of functions that lead to n sites, in the order in which a pass calls them, and in which each site is. A call of a function ends where its
// caller goes on, or where it begins again with what it made first: its line goes back, or it is of the program, has one line, and calls what it called first after something else,
// and then what it called after that.
func (all *CallPaths) Spans(n int, site func(i int) int32) (spans []Span, within []int32) {
	var open []int32
	var before *CallPath
	then := make([]int32, n) // the next stack that is another one
	for i := n - 1; i >= 0; i-- {
		if then[i] = -1; i+1 < n {
			then[i] = all.Sites[site(i+1)].Stack()
			if then[i] == all.Sites[site(i)].Stack() {
				then[i] = then[i+1]
			}
		}
	}
	for i := range n {
		p, k, goesBack := &all.Sites[site(i)], 0, false
		for k < min(len(open), len(p.Calls)) && (k == 0 || before.paths[k-1] == p.paths[k-1]) {
			was, c := &all.Calls[before.Calls[k]], &all.Calls[p.Calls[k]]
			goesBack = c.Line < was.Line && spans[open[k]].first == p.Stack()
			if c.where != was.where || goesBack {
				break
			}
			k++
		}
		begins := func(k int) bool { return k >= 0 && spans[open[k]].first == p.Stack() }
		isUser := func(k int) bool { return all.Calls[p.Calls[k]].User }
		if !goesBack && k > 0 && k < len(p.Calls) && before.paths[k-1] == p.paths[k-1] && begins(k-1) && isUser(k-1) && (then[i] < 0 || then[i] == spans[open[k-1]].then) {
			k-- // it has one line
		}
		for k < len(open) && begins(k) && begins(k-1) && !isUser(k-1) { // what only calls it
			k--
		}
		for _, over := range open[k:] {
			spans[over].End = i
		}
		open = open[:k]
		last := int32(-1)
		if k > 0 {
			last = open[k-1]
		}
		for ; k < len(p.Calls); k++ {
			c := &all.Calls[p.Calls[k]]
			spans = append(spans, Span{Caller: last, Depth: k, End: n, Holds: c.User || c.Function == "forward", first: p.Stack(), then: then[i]})
			last = int32(len(spans) - 1)
			open = append(open, last)
		}
		within, before = append(within, last), p
	}
	return spans, within
}

// Line returns a number of the line of the call at a depth that a site is in, which is the same for equal callers; -1 if it has fewer.
func (all *CallPaths) Line(site int32, depth int) int32 {
	if p := &all.Sites[site]; depth < len(p.paths) {
		return p.paths[depth]
	}
	return -1
}

// Piece is a buffer of a pass, without when it lived: equal calls of a block make equal ones.
type Piece struct {
	stack int32
	op    string
	size  int64
}

// PieceOf returns the piece that a buffer of a site and a size is.
func (all *CallPaths) PieceOf(site int32, size int64) Piece {
	return Piece{all.Sites[site].Stack(), all.Sites[site].Op, size}
}

// enough is the share of the bytes that the best function has with which a deeper one is still preferred.
const enough = 0.85

// CallerOf returns the number of the line of the program that calls the function in which n sites are: the last that their stacks share, but that
// of the function itself. It is -1 if none is known.
func (all *CallPaths) CallerOf(n int, site func(i int) int32) int32 {
	calls, isOwn := all.Sites[site(0)].Calls, false
	for i := range n {
		of, k := all.Sites[site(i)].Calls, 0
		for k < min(len(calls), len(of)) && calls[k] == of[k] {
			k++
		}
		calls = calls[:k]
	}
	for i := range n {
		isOwn = isOwn || all.Sites[site(i)].user == len(calls)-1
	}
	if isOwn && len(calls) > 0 {
		calls = calls[:len(calls)-1]
	}
	if len(calls) == 0 {
		return -1
	}
	return calls[len(calls)-1]
}

// looped is a function that may be called in a loop, with what a pass makes below it.
type looped struct {
	depth   int
	where   int32
	made    []int // indexes of the pass
	bytes   int64
	ends    []int // of its blocks, in made; none = it does not repeat
	isWhole bool  // it makes nothing but equal ones
}

// covers reports whether all that another function makes is made while f runs.
func (f *looped) covers(g *looped) bool {
	return f.made[0] <= g.made[0] && f.made[len(f.made)-1] >= g.made[len(g.made)-1]
}

// Blocks returns the blocks of a forward pass that repeat, as indexes of what it makes, in order: below one function that is called in a loop,
// the sequence of stacks, operators and sizes has a period, perhaps after a first block that does a little more or less, or after blocks that have
// another period, such as frozen ones. One operation is not a block. Loops over the same function are of the same blocks, such as those of an encoder and
// a decoder. site and size tell of an index; the blocks with the most bytes by weight count, and each is the whole call around them, if that
// calls other functions too: one that calls nothing else may be that of the loop. calls are all calls of the function, with no lines
// but those of the blocks, each by itself: it begins where its lines go back to the first stack.
func (all *CallPaths) Blocks(n int, site func(i int) int32, size, weight func(i int) int64) (blocks, calls [][]int) {
	type loops struct { // over a function, at a depth
		bytes int64 // of those one after the other; lines that a loop calls in turns are parts of a block
		until int
	}
	functions, most, together := all.functions(n, site), int64(0), map[[2]int]loops{}
	for k := range functions {
		f := &functions[k]
		pieces := make([]Piece, len(f.made))
		for i, of := range f.made {
			pieces[i] = all.PieceOf(site(of), size(of))
		}
		if f.ends, f.isWhole = endsOf(pieces); len(f.ends) > 0 && all.isOneOperation(pieces[:f.ends[0]], site(f.made[0])) {
			f.ends = nil
		}
		for _, of := range f.made {
			f.bytes += weight(of)
		}
		if f.bytes == 0 { // another function makes what the blocks keep
			f.ends = nil
		}
		of := together[[2]int{f.depth, int(f.where)}]
		if f.made[0] > of.until {
			of.bytes += f.bytes
		} else {
			of.bytes = max(of.bytes, f.bytes)
		}
		together[[2]int{f.depth, int(f.where)}] = loops{of.bytes, max(of.until, f.made[len(f.made)-1])}
	}
	best := looped{depth: -1}
	for k := range functions {
		if f := &functions[k]; len(f.ends) > 0 {
			f.bytes = together[[2]int{f.depth, int(f.where)}].bytes
			most = max(most, f.bytes)
		}
	}
	for _, f := range functions {
		if len(f.ends) > 0 && float64(f.bytes) >= enough*float64(most) &&
			cmp.Or(cmp.Compare(f.depth, best.depth), cmp.Compare(f.bytes, best.bytes)) > 0 {
			best = f
		}
	}
	inner := best
	for _, f := range functions {
		if f.isWhole && f.depth < inner.depth && len(f.ends) == len(inner.ends) && f.covers(&inner) && cmp.Or(cmp.Compare(f.bytes, best.bytes), cmp.Compare(f.depth, best.depth)) > 0 &&
			slices.ContainsFunc(functions, func(g looped) bool { return g.depth == f.depth+1 && f.covers(&g) && !g.covers(&inner) }) {
			best = f
		}
	}
	var spans [][2]int // of what is around or within blocks
	lines := map[int32]bool{}
	for _, step := range [...]int{0, 1, 2} { // the best one, then the same lines with other callers, then other lines
		for _, f := range functions {
			span := [2]int{f.made[0], f.made[len(f.made)-1]}
			overlaps := func(of [2]int) bool { return span[0] <= of[1] && of[0] <= span[1] }
			isOther := func(k int) bool { return !lines[all.Sites[site(k)].Calls[f.depth-1]] }
			if f.where != best.where || step == 0 && (len(f.ends) == 0 || f.depth != best.depth) || step > 0 && slices.ContainsFunc(spans, overlaps) ||
				step == 1 && slices.ContainsFunc(f.made, isOther) || step == 2 && len(f.ends) == 0 {
				continue
			}
			spans = append(spans, span)
			from, call, ends := 0, 0, f.ends
			for i, k := range f.made {
				isEnd := len(ends) > 0 && ends[0] == i
				if isEnd {
					ends = ends[1:]
				}
				lines[all.Sites[site(k)].Calls[f.depth-1]] = true
				if isEnd || i > call && all.Again(site(k), site(f.made[i-1]), site(f.made[call]), f.depth) {
					calls, call = append(calls, f.made[call:i]), i
				}
				if len(ends) > 0 && ends[0] == i+1 {
					blocks, from = append(blocks, f.made[from:i+1]), i+1
				}
			}
			calls = append(calls, f.made[call:])
		}
	}
	for _, of := range [...][][]int{blocks, calls} {
		slices.SortFunc(of, func(x, y []int) int { return x[0] - y[0] })
	}
	return blocks, calls
}

// functions returns the functions on the stacks of what a pass makes, each below each of its callers.
func (all *CallPaths) functions(n int, site func(i int) int32) (found []looped) {
	type prefix struct{ caller, where int32 }
	number := map[prefix]int32{}
	for i := range n {
		p := &all.Sites[site(i)]
		caller := int32(-1)
		for depth, c := range p.Calls {
			key := prefix{caller, all.Calls[c].where}
			k := int(intern(number, key))
			if k == len(found) {
				found = append(found, looped{depth: depth + 1, where: key.where})
			}
			found[k].made = append(found[k].made, i)
			caller = p.paths[depth]
		}
	}
	return found
}

// leastRepeated is the least number of buffers in which a period is looked for.
const leastRepeated = 4

// isOneOperation reports whether a block of pieces is what one call of an operator makes: one line of a library, or with one operator.
func (all *CallPaths) isOneOperation(block []Piece, site int32) bool {
	return (block[0].op != "" || !all.Innermost(site).User) &&
		!slices.ContainsFunc(block, func(p Piece) bool { return p.stack != block[0].stack || p.op != block[0].op })
}

// endsOf returns where the blocks of pieces end; none if they do not repeat. All are equal, or those before the last equal ones are, too, and begin alike,
// or only the first one differs: it may have half to twice as many pieces. isWhole: none differs but in length.
func endsOf(pieces []Piece) (ends []int, isWhole bool) {
	n := len(pieces)
	if n < leastRepeated || slices.Equal(pieces[:n-1], pieces[1:]) { // calls of one operator, such as all activations of a network
		return nil, false
	}
	every := func(first, period, n int) {
		for to := first; to <= n; to += period {
			ends = append(ends, to)
		}
	}
	periods := periodsOf(pieces)
	if p := periods[n]; p > 0 {
		every(p, p, n)
		return ends, true
	}
	for p := leastRepeated; p <= n/3; p++ {
		from := n - p // of the equal ones at the end
		for from >= p && slices.Equal(pieces[from-p:from], pieces[n-p:]) {
			from -= p
		}
		before := 0
		if from < n-p && pieces[from] == pieces[0] {
			before = periods[from]
		}
		switch {
		case before > 0:
			every(before, before, from)
			every(from+p, p, n)
		case 2*from < p:
			every(from+p, p, n)
		case from < 2*p:
			every(from, p, n)
		default:
			continue
		}
		return ends, before > 0
	}
	return nil, false
}

// periodsOf returns for each number of first pieces the smallest number of them, of at least two, of which all are repeats; 0 = there is none. It takes
// O(pieces), by what begins and ends alike (Knuth, Morris, Pratt).
func periodsOf(pieces []Piece) []int {
	periods, alike := make([]int, len(pieces)+1), make([]int, len(pieces)+1)
	for n := 2; n <= len(pieces); n++ {
		k := alike[n-1]
		for k > 0 && pieces[k] != pieces[n-1] {
			k = alike[k]
		}
		if pieces[k] == pieces[n-1] {
			k++
		}
		if alike[n] = k; n-k >= 2 && k > 0 && n%(n-k) == 0 {
			periods[n] = n - k
		}
	}
	return periods
}
