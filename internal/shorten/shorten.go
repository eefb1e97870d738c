// Package shorten makes names fit: of functions, operations, backward nodes and files.
//
// A name loses its middle. Its place stays, "(file.py:123)", and so do the ends of a path. Names that are shown together
// also keep the part in which they differ. The page has the same algorithm (render/web/page/shorten.js).
package shorten

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Measure returns the width of a character.
type Measure func(r rune) int

// Terminal is the Measure of terminals: a mark, such as an accent or U+FE0F, is drawn on the character before it.
func Terminal(r rune) int {
	if mark(r) {
		return 0
	}
	return 1
}

func mark(r rune) bool { return r >= 0x300 && unicode.In(r, unicode.Mn, unicode.Me) }

// Columns returns the width of a text in a terminal, in columns.
func Columns(text string) int { return Measure(Terminal).width([]rune(text)) }

// Clean returns text of a capture that is safe in protocol buffers, whose strings must be UTF-8, and in a terminal: control
// characters would break lines or control it.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// Name returns name in at most n columns.
func Name(name string, n int) string { return Names([]string{name}, n)[0] }

// Names returns names in at most n columns each. Different names stay different if n has room for a number.
func Names(names []string, n int) []string {
	return Measure(Terminal).Names(names, slices.Repeat([]int{n}, len(names)))
}

// Names returns each name in a width of at most room. Different names stay different if there is room for a number.
func (m Measure) Names(names []string, room []int) []string {
	texts, out := make([]string, len(names)), make([]string, len(names))
	for i, name := range names {
		texts[i] = m.drop(valid(name), room[i])
	}
	for _, group := range equals(names, texts) {
		for _, i := range group {
			texts[i] = valid(names[i])
		}
	}
	for i, text := range texts {
		out[i] = m.cut([]rune(text), room[i], nowhere)
	}
	const rounds = 4 // a round splits a group at its first difference
	for range rounds {
		for _, group := range equals(texts, out) {
			all := make([][]rune, len(group))
			for k, i := range group {
				all[k] = []rune(texts[i])
			}
			lo, after := common(all)
			for k, i := range group {
				out[i] = m.cut(all[k], room[i], span{lo, len(all[k]) - after})
			}
		}
	}
	m.number(names, room, out)
	return out
}

// equals returns the groups of texts that became equal, though they differ.
func equals(texts, out []string) (groups [][]int) {
	index := map[string][]int{}
	for i, s := range out {
		index[s] = append(index[s], i)
	}
	for i, s := range out {
		group := index[s]
		if group[0] == i && slices.ContainsFunc(group, func(k int) bool { return texts[k] != texts[i] }) {
			groups = append(groups, group)
		}
	}
	return groups
}

// common returns how many characters texts have in common at their begin, and at their end behind that.
func common(texts [][]rune) (before, after int) {
	first := texts[0]
	for before < len(first) && !slices.ContainsFunc(texts, func(s []rune) bool {
		return before == len(s) || s[before] != first[before]
	}) {
		before++
	}
	for !slices.ContainsFunc(texts, func(s []rune) bool {
		return after == len(s)-before || s[len(s)-1-after] != first[len(first)-1-after]
	}) {
		after++
	}
	return before, after
}

// number adds " #2" to names that became equal to another, if there is room.
func (m Measure) number(names []string, room []int, out []string) {
	owner, last, done := map[string]string{}, map[string]int{}, map[[3]string]string{} // names by result, numbers, results
	for i, name := range names {
		if out[i] == name {
			owner[name] = name
		}
	}
	for i, name := range names {
		short, key := out[i], [3]string{name, out[i], strconv.Itoa(room[i])}
		if _, ok := done[key]; !ok {
			s := short
			for k := max(last[short]+1, 2); owner[s] != "" && owner[s] != name; k++ {
				mark := []rune(" #" + strconv.Itoa(k))
				if s = short; m.width(mark) > room[i] {
					break
				}
				s, last[short] = m.cut([]rune(short), room[i]-m.width(mark), nowhere)+string(mark), k
			}
			done[key], owner[s] = s, name
		}
		out[i] = done[key]
	}
}

// drop leaves out words that people do not miss, one after the other until the name fits: the layout of a shape,
// "backward" after a node, that memory was allocated before it was freed.
func (m Measure) drop(name string, n int) string {
	fits := func() bool { return m.width([]rune(name)) <= n }
	if fits() {
		return name
	}
	if at := strings.LastIndex(name, "]{"); at > 0 && strings.HasSuffix(name, "}") {
		name = name[:at+1]
	}
	if before, after, ok := strings.Cut(name, " (backward)"); ok && strings.Contains(before, "Backward") {
		name = before + after
	}
	for _, words := range [][2]string{{"allocated ", "before the recording"}, {"before the recording, ", freed}} {
		if rest, ok := strings.CutPrefix(name, words[0]); ok && strings.HasPrefix(rest, words[1]) && !fits() {
			name = rest
		}
	}
	return name
}

// valid returns a name as UTF-8, without marks beyond eight on a character: they take no column, and would have no end.
func valid(name string) string {
	n := 0
	return strings.Map(func(r rune) rune {
		if n++; !mark(r) {
			n = 0
		} else if n > 8 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, "\ufffd"))
}

const freed, inferred = "freed in ", ", inferred"

// placeAtEnd matches the end of a name and its place: that of a function, the forward line of a backward node, the line of
// an instruction. A mark and the memory may follow.
var placeAtEnd = regexp.MustCompile(`(?s)^.+?( \([^()]*:[0-9]+\)| of [^ ]+| [^ ]+:[0-9]+)(, inferred|\?)?( on [^ ]+)?$`)

// cut makes text fit. It keeps the place, and if possible a part of where the text differs from its neighbours.
func (m Measure) cut(text []rune, n int, differ span) string {
	if m.width(text) <= n {
		return string(text)
	}
	least := m.width([]rune("name")) // of a name before its place
	if rest := n - m.width([]rune(freed)); rest >= 4*least && strings.HasPrefix(string(text), freed) {
		return freed + m.cut(text[len(freed):], rest, span{max(differ.lo-len(freed), 0), max(differ.hi-len(freed), 0)})
	}
	const longest = 1000 // characters up to which a place is found
	at := placeAtEnd.FindStringSubmatch(string(text[max(len(text)-longest, 0):]))
	if at == nil {
		return m.path(text, n, differ)
	}
	place := []rune(at[1] + at[2] + at[3])
	head := text[:len(text)-len(place)]
	if at[2] == inferred && n-m.width(place) < min(m.width(head), 3*least) {
		place = []rune(at[1] + "?" + at[3])
	}
	if room := n - m.width(place); room >= least {
		return m.path(head, room, differ) + string(place)
	}
	return m.middle(text, n, differ)
}

// span is a range of characters of a text.
type span struct{ lo, hi int }

// nowhere is the span of a text that no other resembles.
var nowhere = span{math.MaxInt, math.MaxInt}

// part is a part of a path: characters [lo, hi), with its separator [lo, end).
type part struct {
	lo, hi, end int
	omitted     bool
}

// partsOf splits a path at "/" and "::".
func partsOf(text []rune) (parts []part) {
	lo := 0
	for i, r := range text {
		switch {
		case r == '/':
			parts, lo = append(parts, part{lo: lo, hi: i, end: i + 1}), i+1
		case r == ':' && i > lo && text[i-1] == ':':
			parts, lo = append(parts, part{lo: lo, hi: i - 1, end: i + 1}), i+1
		}
	}
	return append(parts, part{lo: lo, hi: len(text), end: len(text)})
}

// path omits parts of a path, from the middle outwards: first those without a number, last the first part. The last part
// and those in which the path differs from its neighbours stay. Of those it omits characters if they do not fit.
func (m Measure) path(text []rune, n int, differ span) string {
	parts := partsOf(text)
	const most = 200
	if len(parts) > most || m.width(text) <= n {
		return m.middle(text, n, differ)
	}
	rank := func(i int) int { // by what a part says, then by its distance from the middle
		distance := max(2*i-len(parts)+1, len(parts)-1-2*i)
		switch {
		case i == 0:
			return 2*most + distance
		case strings.ContainsAny(string(text[parts[i].lo:parts[i].hi]), "0123456789"):
			return most + distance
		}
		return distance
	}
	var order []int
	for i, p := range parts[:len(parts)-1] {
		if differ.lo > p.hi || differ.hi < p.lo {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, k int) int { return cmp.Compare(rank(i), rank(k)) })
	kept, moved := text, differ
	for _, i := range order {
		if m.width(kept) <= n {
			break
		}
		parts[i].omitted = true
		if next, there := join(text, parts, differ); i > 0 || m.width(next) <= n {
			kept, moved = next, there
		}
	}
	return m.middle(kept, n, moved)
}

// join returns a path with one "…" for parts that follow each other and are omitted, and where differ is in it.
func join(text []rune, parts []part, differ span) (kept []rune, moved span) {
	moved = nowhere
	for i, p := range parts {
		switch {
		case p.omitted && !parts[i+1].omitted:
			kept = append(append(kept, '…'), text[p.hi:p.end]...)
		case !p.omitted:
			if differ.lo <= p.end && differ.hi >= p.lo {
				moved = span{min(moved.lo, len(kept)+max(differ.lo-p.lo, 0)), len(kept) + min(differ.hi, p.end) - p.lo}
			}
			kept = append(kept, text[p.lo:p.end]...)
		}
	}
	return kept, moved
}

// middle omits characters in the middle. It keeps the ends, which identify most names, and the begin of differ.
func (m Measure) middle(text []rune, n int, differ span) string {
	dots := m('…')
	switch {
	case m.width(text) <= n:
		return string(text)
	case n < dots:
		return ""
	}
	head, tail := m.ends(text, n-dots)
	lo, hi := differ.lo, min(differ.hi, len(text))
	if differ.hi <= head || lo >= tail || n-2*dots < m.width([]rune("name")) {
		return string(text[:head]) + "…" + string(text[tail:])
	}
	hi = lo + m.fitting(text[lo:max(hi, lo+1)], (n-2*dots)/2)
	head, tail = m.ends(text, n-2*dots-m.width(text[lo:hi]))
	begin := string(text[:lo])
	if head < lo {
		begin = string(text[:head]) + "…"
	}
	if tail > hi {
		return begin + string(text[lo:hi]) + "…" + string(text[tail:])
	}
	return begin + string(text[lo:])
}

// ends returns where the begin of a text ends and its end begins, in a width of at most n together.
func (m Measure) ends(text []rune, n int) (head, tail int) {
	head = m.fitting(text, n/3)
	rest := slices.Clone(text[head:])
	slices.Reverse(rest)
	tail = len(text) - m.fitting(rest, n-m.width(text[:head]))
	for tail < len(text) && mark(text[tail]) { // its character is omitted
		tail++
	}
	return head, tail
}

// fitting returns how many characters of a text fit a width.
func (m Measure) fitting(text []rune, n int) int {
	for i, r := range text {
		if n -= m(r); n < 0 {
			return i
		}
	}
	return len(text)
}

func (m Measure) width(text []rune) (n int) {
	for _, r := range text {
		n += m(r)
	}
	return n
}
