package oomtext

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
)

// Programs print the memory in use in each step, or nvidia-smi does in a loop. Lines with the same words stand at equal places of the program:
// what grows from each to the next stays.
var (
	// used are the figures of the memory in use. Highest levels only rise, and programs grow while they load.
	used = []struct {
		least int // figures that show growth
		text  pattern
	}{
		{3, lazily(`([0-9.]+ ?[KMG]i?B) memory is still in use`)}, // after a server was told to give its memory back
		{5, lazily(`\| +([0-9]+MiB) / +[0-9]+MiB \||^[0-9]+, ([0-9]+ MiB), [0-9]+ MiB`)},
		{5, lazily(`(?i)(?:^|[^a-z_ ] ?|\b(?:gpu|cuda|device|torch)[ .]?)(?:(?:memory|mem|vram)[ _])?(?:allocated|reserved|used|usage|in[ _]use)(?: ?\([gmk]i?b\))?["' ]?[:=] ?([0-9.]+ ?[KMG]i?B?\b|[0-9]+)`)},
	}
	partsOfUsed = [][]byte{[]byte("still in use"), []byte("llocated"), []byte("eserved"), []byte("used"), []byte("sage"), []byte("in_use"), []byte("MiB")}
	notSteps    = lazily(`(?i)\b(?:load(?:ed|ing)?|shards?|layers?|init\w*|compil\w*|captur\w*|warm\w*|tokens?|cpu|host|ram|disk|rss|swap)\b`)
	figuresIn   = lazily(`[0-9][0-9.,:]*`)
	tableOfSMI  = []byte("Memory-Usage")
)

const (
	leastStates = 4 // printed states of an allocator that show growth

	maxSeries = 1024
	maxPoints = 4096 // of a series
)

// series are figures of one place.
type series struct {
	words, process string
	least          int
	lines, bytes   []int64
}

// observe takes the memory in use that a line without a failure has.
func (r *reader) observe(line []byte, number int64) {
	if bytes.Contains(line, tableOfSMI) {
		r.row = 0
	}
	if !hasAny(line, partsOfUsed) || notSteps().Match(line) {
		return
	}
	for _, u := range used {
		m := u.text().FindSubmatch(line)
		if m == nil {
			continue
		}
		w, rest := r.writerOf(line)
		words := figuresIn().ReplaceAllLiteral(rest, []byte("#"))
		if first := digits(rest); first > 0 && first < len(rest) && rest[first] == ',' { // the device
			words = slices.Concat(rest[:first], words[1:])
		}
		if bytes.HasPrefix(rest, []byte("|")) {
			r.row++
			words = fmt.Appendf(words, " %d", r.row)
		}
		if bytes, _ := size(string(slices.Concat(m[1:]...))); bytes >= 0 {
			r.sample(w, string(words), u.least, number, bytes)
		}
		return
	}
}

// sample adds a figure to its series.
func (r *reader) sample(w *writer, words string, least int, line, bytes int64) {
	key := w.key + "\x00" + words
	s := r.series[key]
	if s == nil {
		if len(r.series) >= maxSeries {
			return
		}
		s = &series{words: words, process: w.name, least: least}
		r.series[key] = s
	}
	if len(s.lines) < maxPoints {
		s.lines, s.bytes = append(s.lines, line), append(s.bytes, bytes)
	}
}

// growing returns the series that grow, in order of their lines.
func (r *reader) growing() (all []*series) {
	for _, s := range r.series {
		if len(s.bytes) >= s.least && failure.Grows(s.bytes) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(x, y *series) int {
		return cmp.Or(cmp.Compare(x.lines[0], y.lines[0]), strings.Compare(x.words, y.words))
	})
	return all
}

// describe adds a series to the model: the instants are lines.
func (s *series) describe(m *modeller, source int) {
	name := strings.Join(strings.Fields(s.words), " ")
	m.b.Describe(m.space, lifetime.SpaceInfo{Source: source, Process: s.process, Device: "gpu", Allocator: name[:min(len(name), maxName)], Axis: lifetime.Event, Facts: lifetime.Totals,
		Begin: s.lines[0], End: s.lines[len(s.lines)-1] + 1})
	for i, bytes := range s.bytes {
		m.b.Total(m.space, lifetime.Total{T: s.lines[i], Bytes: bytes, Measure: lifetime.Occupied})
	}
}

const maxName = 40 // bytes of a series

// before sets what a failure is told about a series that grew before it.
func (s *series) before(f *printed) {
	n, _ := slices.BinarySearch(s.lines, f.Line)
	if n < s.least || !failure.Grows(s.bytes[:n]) || s.process != "" && s.process != f.writer.name {
		return
	}
	f.context = fmt.Sprintf("%s lines say that memory grows, from %s (line %d) to %s (line %d)", units.Count(int64(n)), units.Bytes(s.bytes[0]), s.lines[0], units.Bytes(s.bytes[n-1]), s.lines[n-1])
	f.Filled = fmt.Sprintf("Find what grows between lines %d and %d; less at once only delays it.", s.lines[n-2], s.lines[n-1])
}
