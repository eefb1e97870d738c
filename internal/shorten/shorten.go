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
	"unicode/utf8"
)

// Measure returns the width of a character.
type Measure func(r rune) int

// columns is the Measure of terminals: a mark, such as an accent or U+FE0F, is drawn on the character before it.
func columns(r rune) int {
	if mark(r) {
		return 0
	}
	return 1
}

func mark(r rune) bool { return r >= 0x300 && unicode.In(r, unicode.Mn, unicode.Me) }

// Columns returns the width of a text in a terminal, in columns.
func Columns(text string) int { return Measure(columns).width(text) }

// Name returns name in at most n columns.
func Name(name string, n int) string { return Measure(columns).Name(name, n) }

// Names returns names in at most n columns each. Different names stay different if n has room for a number.
func Names(names []string, n int) []string {
	return Measure(columns).Names(names, slices.Repeat([]int{n}, len(names)))
}

// Name returns name in a width of at most n.
func (m Measure) Name(name string, n int) string { return m.cut(m.drop(name, n), n, nowhere) }

// Names returns each name in a width of at most room. Different names stay different if there is room for a number.
func (m Measure) Names(names []string, room []int) []string {
	texts, out := make([]string, len(names)), make([]string, len(names))
	for i, name := range names {
		texts[i] = m.drop(name, room[i])
	}
	for _, group := range equals(names, texts) {
		for _, i := range group {
			texts[i] = valid(names[i])
		}
	}
	for i, text := range texts {
		out[i] = m.cut(text, room[i], nowhere)
	}
	const rounds = 4 // a round splits a group at its first difference
	for range rounds {
		for _, group := range equals(texts, out) {
			lo, after := common(texts, group)
			for _, i := range group {
				out[i] = m.cut(texts[i], room[i], span{lo, len(texts[i]) - after})
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

// common returns the bytes that the texts of a group have in common at their begin and end.
func common(texts []string, group []int) (before, after int) {
	first := texts[group[0]]
	before, after = len(first), len(first)
	for _, i := range group[1:] {
		s := texts[i]
		before = min(before, len(s))
		for k := range before {
			if s[k] != first[k] {
				before = k
				break
			}
		}
		after = min(after, len(s))
		for k := range after {
			if s[len(s)-1-k] != first[len(first)-1-k] {
				after = k
				break
			}
		}
	}
	for before > 0 && before < len(first) && !utf8.RuneStart(first[before]) {
		before--
	}
	for after > 0 && !utf8.RuneStart(first[len(first)-after]) {
		after--
	}
	for _, i := range group { // "aa" and "aaa" have two characters in common, not four
		after = min(after, len(texts[i])-before)
	}
	return before, after
}

// number adds " #2" to names that became equal to another.
func (m Measure) number(names []string, room []int, out []string) {
	owner := map[string]string{} // of each result: its name
	for i, name := range names {
		if out[i] == name {
			owner[name] = name
		}
	}
	type row struct {
		name, short string
		room        int
	}
	done, last := map[row]string{}, map[string]int{}
	for i, name := range names {
		key := row{name, out[i], room[i]}
		if _, ok := done[key]; !ok {
			done[key] = m.numbered(key.short, room[i], last, func(s string) bool {
				of, taken := owner[s]
				return !taken || of == name
			})
			owner[done[key]] = name
		}
		out[i] = done[key]
	}
}

// numbered returns the first of "name", "name #2", "name #3" that is free, or name if numbers do not fit.
func (m Measure) numbered(name string, room int, last map[string]int, free func(string) bool) string {
	if free(name) {
		return name
	}
	for k := max(last[name]+1, 2); ; k++ {
		mark := " #" + strconv.Itoa(k)
		if m.width(mark) > room {
			return name
		}
		if s := m.cut(name, room-m.width(mark), nowhere) + mark; free(s) {
			last[name] = k
			return s
		}
	}
}

// drop leaves out words that people do not miss, one after the other until the name fits: the layout of a shape,
// "backward" after a node, that memory was allocated before it was freed.
func (m Measure) drop(name string, n int) string {
	name = valid(name)
	if m.width(name) <= n {
		return name
	}
	if at := strings.LastIndex(name, "]{"); at > 0 && strings.HasSuffix(name, "}") {
		name = name[:at+1]
	}
	if before, after, ok := strings.Cut(name, " (backward)"); ok && strings.Contains(before, "Backward") {
		name = before + after
	}
	for _, words := range [][2]string{{"allocated ", "before the recording"}, {"before the recording, ", freed}} {
		if rest, ok := strings.CutPrefix(name, words[0]); ok && strings.HasPrefix(rest, words[1]) && m.width(name) > n {
			name = rest
		}
	}
	return name
}

// maxMarks is the maximum number of marks on a character.
const maxMarks = 8

// valid returns a name as UTF-8, without marks beyond maxMarks: they take no column, and would have no end.
func valid(name string) string {
	n := 0
	return strings.Map(func(r rune) rune {
		if !mark(r) {
			n = 0
		} else if n++; n > maxMarks {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, "\ufffd"))
}

const (
	freed    = "freed in "
	inferred = ", inferred"
)

// cut makes text fit. It keeps the place, and if possible a part of where the text differs from its neighbours.
func (m Measure) cut(text string, n int, differ span) string {
	if m.width(text) <= n {
		return text
	}
	least := m.width("name") // of a name before its place
	if rest, ok := strings.CutPrefix(text, freed); ok && n-m.width(freed) >= 4*least {
		return freed + m.cut(rest, n-m.width(freed), differ.from(len(freed)))
	}
	head, place, mark, memory := split(text)
	if mark == inferred && n-m.width(place+mark+memory) < min(m.width(head), 3*least) {
		mark = "?"
	}
	place += mark + memory
	switch room := n - m.width(place); {
	case place == "":
		return m.path(text, n, differ)
	case room >= least:
		return m.path(head, room, differ) + place
	}
	return m.middle(text, n, differ)
}

// placeAtEnd matches the end of a name and its place: that of a function, the forward line of a backward node, the line of
// an instruction. A mark and the memory may follow.
var placeAtEnd = regexp.MustCompile(`(?s)^.+?( \([^()]*:[0-9]+\)| of [^ ]+| [^ ]+:[0-9]+)(, inferred|\?)?( on [^ ]+)?$`)

// longest is the length in bytes up to which split finds a place.
const longest = 1000

// split splits a name before its place. Without a place, head is the whole name.
func split(text string) (head, place, mark, memory string) {
	from := max(len(text)-longest, 0)
	at := placeAtEnd.FindStringSubmatch(text[from:])
	if at == nil {
		return text, "", "", ""
	}
	return text[:len(text)-len(at[1]+at[2]+at[3])], at[1], at[2], at[3]
}

// span is a range of bytes of a text.
type span struct{ lo, hi int }

// nowhere is the span of a text that no other resembles.
var nowhere = span{math.MaxInt, math.MaxInt}

// from returns the span in the text after its first n bytes.
func (s span) from(n int) span {
	if s == nowhere {
		return s
	}
	return span{max(s.lo-n, 0), max(s.hi-n, 0)}
}

// part is a part of a path: bytes [lo, hi), with its separator [lo, end).
type part struct {
	lo, hi, end int
	omitted     bool
}

// partsOf splits a path at "/" and "::".
func partsOf(text string) (parts []part) {
	lo := 0
	for i := 0; i < len(text); i++ {
		end := i + 1
		if strings.HasPrefix(text[i:], "::") {
			end++
		} else if text[i] != '/' {
			continue
		}
		parts = append(parts, part{lo: lo, hi: i, end: end})
		lo, i = end, end-1
	}
	return append(parts, part{lo: lo, hi: len(text), end: len(text)})
}

// path omits parts of a path, from the middle outwards: first those without a number, last the first part. The last part
// and those in which the path differs from its neighbours stay. Of those it omits characters if they do not fit.
func (m Measure) path(text string, n int, differ span) string {
	total := m.width(text)
	if total <= n {
		return text
	}
	parts := partsOf(text)
	for _, i := range inOrder(text, parts, differ) {
		if total <= n {
			break
		}
		if change := m.omit(text, parts, i); i > 0 || total+change <= n {
			parts[i].omitted = true
			total += change
		}
	}
	var b strings.Builder
	moved := nowhere
	for i, p := range parts {
		if !p.omitted && differ.lo <= p.end && differ.hi >= p.lo {
			if moved == nowhere {
				moved.lo = b.Len() + max(differ.lo-p.lo, 0)
			}
			moved.hi = b.Len() + min(differ.hi, p.end) - p.lo
		}
		switch {
		case !p.omitted:
			b.WriteString(text[p.lo:p.end])
		case !parts[i+1].omitted:
			b.WriteString("…" + text[p.hi:p.end])
		}
	}
	return m.middle(b.String(), n, moved)
}

// inOrder returns the parts that path may omit, in this order.
func inOrder(text string, parts []part, differ span) (all []int) {
	rank := func(i int) int {
		switch {
		case i == 0:
			return 2
		case strings.ContainsAny(text[parts[i].lo:parts[i].hi], "0123456789"):
			return 1
		}
		return 0
	}
	distance := func(i int) int { return max(2*i-len(parts)+1, len(parts)-1-2*i) }
	for i, p := range parts[:len(parts)-1] {
		if differ.lo > p.hi || differ.hi < p.lo {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(i, k int) int {
		return cmp.Or(cmp.Compare(rank(i), rank(k)), cmp.Compare(distance(i), distance(k)))
	})
	return all
}

// omit returns how the width changes without part i. Adjacent omitted parts are one "…".
func (m Measure) omit(text string, parts []part, i int) int {
	p := parts[i]
	change := m('…') - m.width(text[p.lo:p.hi])
	if i > 0 && parts[i-1].omitted {
		change -= m('…') + m.width(text[parts[i-1].hi:p.lo])
	}
	if parts[i+1].omitted {
		change -= m('…') + m.width(text[p.hi:p.end])
	}
	return change
}

// middle omits characters in the middle. It keeps the ends, which identify most names, and the begin of differ.
func (m Measure) middle(text string, n int, differ span) string {
	dots := m('…')
	switch {
	case m.width(text) <= n:
		return text
	case n < dots:
		return ""
	}
	head, tail := m.ends(text, n-dots)
	lo, hi := differ.lo, min(differ.hi, len(text))
	if differ.hi <= len(head) || lo >= len(text)-len(tail) || n-2*dots < m.width("name") {
		return head + "…" + tail
	}
	_, size := utf8.DecodeRuneInString(text[lo:])
	part := m.prefix(text[lo:max(hi, lo+size)], (n-2*dots)/2)
	hi = lo + len(part)
	head, tail = m.ends(text, n-2*dots-m.width(part))
	if len(head) < lo {
		head += "…"
	} else {
		head = text[:lo]
	}
	if len(text)-len(tail) > hi {
		return head + part + "…" + tail
	}
	return head + text[lo:]
}

// ends returns the begin and the end of a text, in a width of at most n together.
func (m Measure) ends(text string, n int) (head, tail string) {
	head = m.prefix(text, n/3)
	n -= m.width(head)
	i := len(text)
	for i > len(head) {
		r, size := utf8.DecodeLastRuneInString(text[:i])
		if n -= m(r); n < 0 {
			break
		}
		i -= size
	}
	return head, strings.TrimLeftFunc(text[i:], mark) // their character is omitted
}

// prefix returns the begin of a text in a width of at most n.
func (m Measure) prefix(text string, n int) string {
	for i, r := range text {
		if n -= m(r); n < 0 {
			return text[:i]
		}
	}
	return text
}

func (m Measure) width(text string) (n int) {
	for _, r := range text {
		n += m(r)
	}
	return n
}
