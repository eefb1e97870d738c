package oomtext

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/failure"
)

// Programs print the memory in use in each step, or nvidia-smi does in a loop. Lines with the same words stand at equal places of the program:
// what grows from each to the next stays.
var (
	// used are the figures of the memory in use. Highest levels only rise, and programs grow while they load.
	used = []struct {
		name  string
		least int // figures that show growth
		text  pattern
	}{
		{"memory still in use", 3, lazily(`([0-9.]+ ?[KMG]i?B) memory is still in use`)}, // after a server was asked to give its memory back
		{"nvidia-smi", 5, lazily(`\| +([0-9]+MiB) / +[0-9]+MiB \||^[0-9]+, ([0-9]+ MiB), [0-9]+ MiB`)},
		{"memory in use", 5, lazily(`(?i)\b(?:(?:memory|mem|vram)[ _])?(?:allocated|reserved|used|usage|in[ _]use)` +
			`(?: ?\([gmk]i?b\))?["' ]?[:=] ?([0-9.]+ ?[KMG]i?B?\b|[0-9]+)`)},
	}
	partsOfUsed = [][]byte{[]byte("still in use"), []byte("llocated"), []byte("eserved"), []byte("used"), []byte("sage"), []byte("in_use"), []byte("MiB")}
	notSteps    = lazily(`(?i)\b(?:load(?:ed|ing)?|shards?|layers?|init\w*|compil\w*|captur\w*|warm\w*|tokens?|cpu|host|ram|disk|rss|swap)\b`)
	notLevel    = lazily(`(?i)\b(?:max\w*|peak|high\w*|free|total|limit)[ _]*$`)
	unitBefore  = lazily(`(?i)\(([gmk]i?b)\)`)
	tableOfSMI  = []byte("Memory-Usage")
)

const (
	leastStates = 4 // printed states of an allocator that show growth
	bytesFrom   = 8 // digits of a figure without a unit; of fewer it is MiB, and with a point GiB

	maxPlaces = 1024 // of a log: lines with other words
	maxPoints = 4096 // of a series
)

type series struct {
	name, process string
	least         int
	nth           int    // of the numbers of a line
	unit          string // of it
	lines, bytes  []int64
}

// numbers yields where the numbers of a line begin and end.
func numbers(line []byte) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for i := 0; i < len(line); i++ {
			from := i
			for i < len(line) && (isDigit(line[i]) || i > from && line[i] == '.') {
				i++
			}
			if i > from && !yield(from, i) {
				return
			}
		}
	}
}

// observe takes the memory in use that a line without a failure has.
func (r *reader) observe(line []byte, number int64) {
	switch {
	case !hasAny(line, partsOfUsed):
		return
	case bytes.Contains(line, tableOfSMI):
		r.row = 0
		return
	}
	w, rest := r.writerOf(line)
	words, last := r.words[:0], 0
	for from, to := range numbers(rest) {
		if words = append(words, rest[last:from]...); from == 0 && to < len(rest) && rest[to] == ',' { // the device
			words = append(words, rest[:to]...)
		}
		last = to
	}
	if words = append(words, rest[last:]...); bytes.HasPrefix(rest, []byte("|")) {
		r.row++
		words = strconv.AppendInt(words, int64(r.row), 10)
	}
	r.words = words
	s, known := w.series[string(words)]
	if !known && r.places < maxPlaces {
		s = r.place(w, string(words), seriesOf(rest))
	}
	if s == nil || len(s.lines) >= maxPoints {
		return
	}
	n := 0
	for from, to := range numbers(rest) {
		if n++; n > s.nth {
			bytes, _ := size(string(rest[from:to]) + s.unit)
			s.lines, s.bytes = append(s.lines, number), append(s.bytes, max(bytes, 0))
			return
		}
	}
}

// seriesOf returns a series for lines like one; nil if it has no memory in use.
func seriesOf(line []byte) *series {
	for _, u := range used {
		m := u.text().FindSubmatchIndex(line)
		if m == nil || notSteps().Match(line) || notLevel().Match(line[:m[0]]) {
			continue
		}
		from, to := max(m[2], m[len(m)-2]), max(m[3], m[len(m)-1])
		s := &series{name: u.name, least: u.least, unit: string(bytes.TrimLeft(line[from:to], "0123456789."))}
		switch of := unitBefore().FindSubmatch(line[m[0]:from]); {
		case s.unit != "":
		case of != nil:
			s.unit = strings.ToUpper(string(of[1]))
		case bytes.IndexByte(line[from:to], '.') >= 0:
			s.unit = "GiB"
		case to-from < bytesFrom:
			s.unit = "MiB"
		}
		for at := range numbers(line) {
			if at < from {
				s.nth++
			}
		}
		return s
	}
	return nil
}

// place keeps the series of a place, nil for one without.
func (r *reader) place(w *writer, words string, s *series) *series {
	w.series[words] = s
	if r.places++; s != nil {
		s.process = w.name
		r.series = append(r.series, s)
	}
	return s
}

// growing returns the series that grow, in order of their lines.
func (r *reader) growing() []*series {
	all := slices.DeleteFunc(r.series, func(s *series) bool { return len(s.bytes) < s.least || !failure.Grows(s.bytes) })
	slices.SortFunc(all, func(x, y *series) int { return cmp.Compare(x.lines[0], y.lines[0]) })
	return all
}

// describe adds a series to the model: the instants are lines.
func (s *series) describe(b *build.Builder, source int) {
	space := b.Space()
	b.Describe(space, lifetime.SpaceInfo{Source: source, Process: s.process, Device: "gpu", Allocator: fmt.Sprintf("%s, from line %d", s.name, s.lines[0]),
		Axis: lifetime.Event, Facts: lifetime.Totals, Begin: s.lines[0], End: s.lines[len(s.lines)-1] + 1})
	for i, bytes := range s.bytes {
		b.Total(space, lifetime.Total{T: s.lines[i], Bytes: bytes, Measure: lifetime.Occupied})
	}
}

// before adds to a failure that a series grew before it, and the advice that follows.
func (s *series) before(f *printed) {
	n, _ := slices.BinarySearch(s.lines, f.Line)
	if n < s.least || s.process != "" && s.process != f.writer.name || !failure.Grows(s.bytes[:n]) {
		return
	}
	f.context = fmt.Sprintf("%s lines say that memory grows, from %s (line %d) to %s (line %d)", units.Count(int64(n)), units.Bytes(s.bytes[0]), s.lines[0], units.Bytes(s.bytes[n-1]), s.lines[n-1])
	f.Filled = fmt.Sprintf("Find what grows between lines %d and %d: a smaller batch only delays it.", s.lines[n-2], s.lines[n-1])
}
