package text

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Shorten makes a name fit n columns. It keeps the place of a function, "(file.py:123)",
// the ends of a path and its numbered parts, such as "layer_7". Names that still do not
// fit lose characters in the middle.
func Shorten(name string, n int) string {
	if utf8.RuneCountInString(name) <= n {
		return name
	}
	m := placeAtEnd.FindStringSubmatch(name)
	if m == nil {
		return shortenPath(name, n)
	}
	if room := n - utf8.RuneCountInString(m[2]) - 1; room >= leastName {
		return shortenPath(m[1], room) + " " + m[2]
	}
	return cutMiddle(name, n)
}

// leastName is the minimum width of a name before its place.
const leastName = 4

// placeAtEnd matches the place of a frame, and an operator's caller after it.
var placeAtEnd = regexp.MustCompile(`^(.+) (\([^()]*:[0-9]+\)( on [^ ]+)?)$`)

// shortenPath omits parts of a path, from the middle outwards: first those without a
// number, last the first part.
func shortenPath(name string, n int) string {
	parts := strings.Split(name, "/")
	numbered := func(part string) bool { return strings.ContainsAny(part, "0123456789") }
	for _, keep := range []func(string) bool{numbered, func(string) bool { return false }} {
		for utf8.RuneCountInString(join(parts)) > n {
			i := middle(parts, keep)
			if i < 0 {
				break
			}
			parts[i] = ""
		}
	}
	text := join(parts)
	if end := "…/" + parts[len(parts)-1]; len(parts) > 1 && utf8.RuneCountInString(text) > n && utf8.RuneCountInString(end) <= n {
		return end
	}
	return cutMiddle(text, n)
}

// middle returns the part nearest to the middle that keep does not protect, or -1.
func middle(parts []string, keep func(string) bool) int {
	best := -1
	distance := func(i int) int { return max(2*i-len(parts)+1, len(parts)-1-2*i) }
	for i := 1; i < len(parts)-1; i++ {
		if parts[i] != "" && !keep(parts[i]) && (best < 0 || distance(i) < distance(best)) {
			best = i
		}
	}
	return best
}

// join joins the parts of a path. Adjacent omitted parts are one "…".
func join(parts []string) string {
	var kept []string
	for i, part := range parts {
		if part == "" && i > 0 && i < len(parts)-1 {
			part = "…"
		}
		kept = append(kept, part)
	}
	kept = slices.CompactFunc(kept, func(x, y string) bool { return x == "…" && y == "…" })
	return strings.Join(kept, "/")
}

// cutMiddle shortens text to n characters. It keeps the ends, which identify most names.
func cutMiddle(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	if n <= 1 {
		return "…"[:min(n, 1)*len("…")]
	}
	head := (n - 1) / 3
	return string(r[:head]) + "…" + string(r[len(r)-(n-1-head):])
}
