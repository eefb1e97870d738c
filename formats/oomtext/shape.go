package oomtext

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// shape is a prefix that a launcher or a logger puts before each line, as the log itself teaches it: the text of one line up to its end.
// Other lines differ from it in numbers and levels only.
type shape []byte

const (
	maxShapes  = 16  // of a log
	maxShape   = 256 // bytes of one
	wordOfText = 8   // bytes that tell that another line has the text again
	neighbors  = 4   // lines before and after a text that are compared with it
	leastLike  = 2   // of them must begin like it

	ends = " \t|>]:" // one of these ends a prefix
)

var (
	levelName = lazily(`^(?i:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRITICAL|FATAL|EXCEPTION|TRACE)\b *`)
	// messageHead matches where a message begins at the latest: the class or the kind of an error, or its quotation.
	messageHead = lazily("[\\w.]*(?:Error|Exception|Failure)\\b|(?i:error): |RESOURCE_EXHAUSTED|\\[[0-9]+\\] \\S+ NCCL WARN|Traceback \\(most|[\"'`]")
)

// beginAlike returns how much of two lines is alike: the same but for numbers and levels.
func beginAlike(x, y []byte) (nx, ny int) {
	for nx < len(x) && ny < len(y) {
		switch dx, dy := digits(x[nx:]), digits(y[ny:]); {
		case dx > 0 && dy > 0:
			nx, ny = nx+dx, ny+dy
			continue
		case nx == 0 || !isWord(x[nx-1]):
			if lx, ly := levelName().Find(x[nx:]), levelName().Find(y[ny:]); lx != nil && ly != nil {
				nx, ny = nx+len(lx), ny+len(ly)
				continue
			}
		}
		if x[nx] != y[ny] {
			break
		}
		nx, ny = nx+1, ny+1
	}
	return nx, ny
}

// digits returns how many digits a text begins with.
func digits(text []byte) (n int) {
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return n
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWord(c byte) bool {
	return isDigit(c) || c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// learn takes the prefix that a line with a text, whose first words are at head, shares with lines before or after it. It returns false if
// there is none that is not known.
func (r *reader) learn(line []byte, head int, before, after []byte) bool {
	words := line[head:min(head+wordOfText, len(line))]
	if m := messageHead().FindIndex(line); m != nil {
		head = min(head, m[0])
	}
	if head <= 0 || len(r.shapes) >= maxShapes {
		return false
	}
	var like []int
	compare := func(other []byte) {
		rest, _, _, _ := r.stripped(plain(other))
		n, _ := beginAlike(line[:min(head, maxShape)], rest)
		if bytes.Contains(rest, words) {
			n = 0 // the text again: all of it is alike
		}
		like = append(like, n)
	}
	for other := range backwards(before, neighbors) {
		compare(other)
	}
	for range neighbors {
		after = bytes.TrimLeft(after, "\r\n")
		at := bytes.IndexAny(after, "\r\n")
		if at < 0 {
			break
		}
		compare(after[:at])
		after = after[at:]
	}
	if len(like) < leastLike {
		return false
	}
	slices.Sort(like)
	learned := line[:like[len(like)-leastLike]]
	learned = learned[:bytes.LastIndexAny(learned, ends)+1]
	for at := range learned { // a known one may follow
		if at > 0 && strings.IndexByte(ends, learned[at-1]) >= 0 && slices.ContainsFunc(r.prefixes, func(p prefix) bool { return p.in(line[at:]) != nil }) {
			learned = learned[:at]
			break
		}
	}
	if !bytes.ContainsFunc(learned, func(c rune) bool { return c < utf8.RuneSelf && isWord(byte(c)) }) { // the edge of a table
		return false
	}
	r.shapes = append(r.shapes, shape(bytes.Clone(learned)))
	return true
}

// match returns the length of the prefix of a line that has the shape; 0 if it has not.
func (s shape) match(line []byte) int {
	if n, of := beginAlike(s, line); n == len(s) {
		return of
	}
	return 0
}

var (
	rankIn = lazily(`(?i)(?:^|[^a-z])(?:local_?rank|rank|task|worker|tp|dp|pp)[ _:=#-]?([0-9]{1,5})\b`)
	// nameIn matches the name of a host, a pod or a process, which has a letter and a number, and places in source code and instants, which
	// look alike.
	nameIn = lazily(`[\w.]+:[0-9]+\b|[0-9-]{8,}T[0-9:.,Z+-]+|[A-Za-z][\w.-]*[0-9][\w.-]*`)
)

// writerIn returns the writer that a learned prefix names: the rank, or the name of a host, a pod or a process.
func writerIn(prefix []byte) (named []byte, what, number string) {
	if m := rankIn().FindSubmatchIndex(prefix); m != nil {
		return prefix[m[2]:m[3]], "rank", string(prefix[m[2]:m[3]])
	}
	for _, name := range nameIn().FindAll(prefix, -1) {
		if c := name[0]; !isDigit(c) && !bytes.ContainsRune(name, ':') {
			return name, "", string(name)
		}
	}
	return nil, "", ""
}
