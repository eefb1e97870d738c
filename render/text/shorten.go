package text

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Shorten makes a name fit n columns. It gives up the middle: the place of a function
// stays, "(file.py:123)", and so do the ends of a path and its numbered parts, such as
// "layer_7". What does not fit even so loses characters.
func Shorten(name string, n int) string {
	if utf8.RuneCountInString(name) <= n {
		return name
	}
	if function, place, ok := cutPlace(name); ok {
		if room := n - utf8.RuneCountInString(place) - 1; room >= leastName {
			return shortenPath(function, room) + " " + place
		}
		return cutMiddle(name, n)
	}
	return shortenPath(name, n)
}

// leastName is the room that a name must have before its place.
const leastName = 4

// placeAtEnd matches the place of a frame, and an operator's caller behind it.
var placeAtEnd = regexp.MustCompile(`^(.+) (\([^()]*:[0-9]+\)( on [^ ]+)?)$`)

// cutPlace splits "function (file.py:12)".
func cutPlace(name string) (function, place string, ok bool) {
	m := placeAtEnd.FindStringSubmatch(name)
	if m == nil {
		return name, "", false
	}
	return m[1], m[2], true
}

// shortenPath leaves parts of a path out: those without a number first, from the middle
// outwards, and the first one last.
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

// middle returns the part nearest to the middle that may go, -1 where there is none.
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

// join puts a path together; parts that are left out are one "…".
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

// cutMiddle shortens text to n characters: names tell most at their ends.
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
