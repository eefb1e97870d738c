package hlo

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/formats/internal/wire"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/compiled"
)

// What XLA dumps as text: BufferAssignment::ToString and BufferAllocation::ToString, MemoryUsageReport
// (xla/service/buffer_assignment.cc) and HloLiveRange::ToString (xla/hlo/utils/hlo_live_range.cc of
// github.com/openxla/xla).
const (
	assignmentHead = "BufferAssignment:\n"
	liveRangeHead  = "HloLiveRange (max "
	reportTotal    = "Total bytes used: " // up to 2025
	reportSpace    = "Memory Space: "     // since then
)

var (
	allocationText = regexp.MustCompile(`^allocation ([0-9]+): size ([0-9.]+[KMGTPE]?i?B?)(?:, color ([0-9]+))?((?:, .*)?):$`)
	valueText      = regexp.MustCompile(`^<([0-9]+) (.+?)( \(phi\))? @([0-9]+)> \(size=([0-9]+),offset=([0-9]+)\): (.*)$`)
	rangeText      = regexp.MustCompile(`^(.+?)(?:\{([0-9,]*)\})?:([0-9]+)-([0-9]+)$`)
	reportShape    = regexp.MustCompile(`shape (?:is )?\|([^|]*)\|`)
	reportRow      = regexp.MustCompile(`^\S+\( *[0-9]+%\); +(\S+B); +([0-9]+); +([0-9]+); (.*)$`)
	spaceColor     = regexp.MustCompile(`\(color=([0-9]+)\)$`)
	dumpName       = regexp.MustCompile(`^module_0*([0-9]+)\.([^.]+)`)
	arrayText      = regexp.MustCompile(`^([a-z][a-z0-9]*)\[([0-9,<=]*)\]`)
)

// SniffText reports whether head may begin a buffer assignment or a memory usage report as text.
func SniffText(head []byte) bool {
	if bytes.HasPrefix(head, []byte(assignmentHead)) || bytes.HasPrefix(head, []byte(reportTotal)) {
		return true
	}
	line, rest, ok := bytes.Cut(head, []byte("\n"))
	return ok && bytes.HasPrefix(line, []byte(reportSpace)) && bytes.HasPrefix(rest, []byte("Total bytes: "))
}

// ReadText reads a buffer assignment or a memory usage report as text into b. Live ranges may follow the assignment;
// without them each allocation is one buffer for the whole program. It fails if the text has no allocation.
func ReadText(file string, in io.Reader, b *build.Builder) error {
	text, err := readAll(in)
	if err != nil {
		return err
	}
	t := &textReader{p: program{proto: text, assigned: true, byID: map[int64]int32{}}}
	if err := t.read(); err != nil {
		return err
	}
	source := b.Source(lifetime.Source{File: file, Format: "hlo-text", Producer: "XLA"})
	return addSpaces(&t.p, b, Module{Name: moduleOf(file), Source: source})
}

// moduleOf returns the name of the program by the name of its dump: "module_0012.jit_loop.cpu_after_optimizations-...".
// The text does not have it.
func moduleOf(file string) string {
	m := dumpName.FindStringSubmatch(filepath.Base(file))
	switch {
	case m == nil:
		return "program"
	case m[1] == "0":
		return m[2]
	}
	return fmt.Sprintf("%s(%s)", m[2], m[1])
}

// textValue is what a text says about a value besides its place.
type textValue struct {
	name, shape string
	phi         bool // of a loop or a branch: it has the place of the values that it joins
}

// textReader reads the texts of one program.
type textReader struct {
	p       program
	ranges  map[string][2]int64 // live ranges by name of value
	names   map[int64]wire.Span // instructions by position
	color   int64               // of a report
	total   int64               // of a report, exact
	sums    map[int64]int64     // of a report: bytes that are left of the total, by color
	index   map[int64]int32     // allocations by number
	inexact []int32             // allocations of a report whose size is rounded
}

// read reads all lines.
func (t *textReader) read() error {
	t.ranges, t.names, t.sums, t.index = map[string][2]int64{}, map[int64]wire.Span{}, map[int64]int64{}, map[int64]int32{}
	part, at := "", 0
	for raw := range bytes.Lines(t.p.proto) {
		line := string(bytes.TrimSpace(raw))
		begin := at + len(raw) - len(bytes.TrimLeft(raw, " \t"))
		at += len(raw)
		switch {
		case line == "":
		case strings.HasPrefix(line, liveRangeHead):
			part = "ranges"
		case strings.HasPrefix(line, reportTotal), strings.HasPrefix(line, "Total bytes: "):
			_, after, _ := strings.Cut(line, ": ") // "Total bytes used: 32212254720 (30.00GiB)"
			digits, _, _ := strings.Cut(after, " ")
			t.total = naturalOf(digits)
			t.sums[t.color] = units.AddSat(t.sums[t.color], t.total)
			part = cmp.Or(part, "report")
		case strings.HasPrefix(line, reportSpace):
			part = "report"
			if m := spaceColor.FindStringSubmatch(line); m != nil {
				t.color = naturalOf(m[1])
			}
		case line == "InstructionSequence:", line == "BufferLiveRange:":
			part = line
		case strings.HasPrefix(line, "Live ranges at "), line == "Used values:", strings.HasPrefix(line, "Allocations sorted by size with"):
			part = "rest"
		case part == "InstructionSequence:":
			if n, name, ok := strings.Cut(line, ":"); ok {
				t.names[naturalOf(n)] = wire.Span{At: begin + len(n) + 1, End: begin + len(n) + 1 + len(name)}
			}
		case part == "BufferLiveRange:":
			t.liveRange(line)
		case part == "rest":
		case strings.HasPrefix(line, "cumulative_size; ") && strings.HasSuffix(line, "; shapes_list"):
			t.table()
		default:
			if err := t.line(line, part == "report"); err != nil {
				return err
			}
		}
	}
	if len(t.p.allocations) == 0 {
		return errors.New("the text has no allocation")
	}
	t.settle()
	t.trace()
	return nil
}

func naturalOf(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return max(n, 0)
}

// line takes an allocation, a value, or a row of a report.
func (t *textReader) line(line string, report bool) error {
	if _, after, ok := strings.Cut(line, "; allocation "); ok && report {
		line = "allocation " + after
	}
	if m := allocationText.FindStringSubmatch(line); m != nil {
		return t.allocation(m, report)
	}
	if value, ok := strings.CutPrefix(line, "value: "); ok {
		if m := valueText.FindStringSubmatch(value); m != nil && len(t.p.allocations) > 0 {
			t.value(m)
		}
		return nil
	}
	if m := reportRow.FindStringSubmatch(line); m != nil && report && len(t.p.allocations) > 0 {
		t.row(m)
	}
	return nil
}

const maxAllocations = 1 << 26

// allocation adds an allocation: its number, size, color and kind.
func (t *textReader) allocation(m []string, report bool) error {
	if len(t.p.allocations) >= maxAllocations {
		return errors.New("too many allocations")
	}
	a := allocation{index: naturalOf(m[1]), color: naturalOf(m[3]), trace: -1}
	if _, twice := t.index[a.index]; twice {
		t.p.skip("allocation %d: listed twice", a.index)
		return nil
	}
	for _, use := range []struct {
		word string
		use  compiled.Uses
	}{{", parameter ", compiled.ForParameter}, {", maybe-live-out", compiled.ForOutput}, {", constant", compiled.ForConstant}, {", thread-local", compiled.ForThreadLocal}} {
		if strings.Contains(m[4], use.word) {
			a.uses |= use.use
		}
	}
	t.index[a.index] = int32(len(t.p.allocations))
	a.size = naturalOf(m[2])
	if t.p.allocations = append(t.p.allocations, a); report {
		t.sized(m[2], m[4])
	}
	return nil
}

// value adds a value to the last allocation.
func (t *textReader) value(m []string) {
	v := value{id: naturalOf(m[1]), size: naturalOf(m[5]), color: naturalOf(m[4]), offset: naturalOf(m[6])}
	a := &t.p.allocations[len(t.p.allocations)-1]
	if _, twice := t.p.byID[v.id]; twice || v.size > a.size || v.offset > a.size-v.size {
		t.p.skip("value %d: it does not fit its allocation, or is listed twice", v.id)
		return
	}
	t.add(v, textValue{strings.TrimSuffix(m[2], "{}"), m[7], m[3] != ""})
}

func (t *textReader) add(v value, text textValue) {
	i, last := int32(len(t.p.values)), len(t.p.allocations)-1
	a := &t.p.allocations[last]
	v.allocation = int32(last)
	t.p.byID[v.id], a.values = i, append(a.values, i)
	t.p.values, t.p.ofText = append(t.p.values, v), append(t.p.ofText, text)
}

// liveRange takes "arg_tuple.5{0}:5-9".
func (t *textReader) liveRange(line string) {
	m := rangeText.FindStringSubmatch(line)
	if m == nil {
		return
	}
	name := m[1]
	if m[2] != "" {
		name += "{" + m[2] + "}"
	}
	if begin, end := naturalOf(m[3]), naturalOf(m[4]); begin <= end {
		t.ranges[name] = [2]int64{begin, end}
	}
}

type edge uint8

const begins, ends edge = 0, 1

// change is the begin or the end of a value's live range.
type change struct {
	at    int64
	edge  edge
	value int32
}

// trace makes the trace of each memory space from the live ranges of the values that are not in use for the whole
// program. XLA's own trace does not have tables of pointers.
func (t *textReader) trace() {
	changes := map[int64][]change{}
	for i := range t.p.values {
		a, v := &t.p.allocations[t.p.values[i].allocation], &t.p.ofText[i]
		life, ok := t.ranges[v.name]
		if ok && !a.uses.Whole() && a.uses&compiled.ForThreadLocal == 0 && !strings.HasPrefix(v.shape, "(") {
			changes[a.color] = append(changes[a.color], change{life[0], begins, int32(i)}, change{life[1], ends, int32(i)})
		}
	}
	for _, color := range slices.Sorted(maps.Keys(changes)) {
		for i := range t.p.allocations {
			if a := &t.p.allocations[i]; a.color == color && !a.uses.Whole() {
				a.trace = int32(len(t.p.traces))
			}
		}
		t.p.traces = append(t.p.traces, t.events(changes[color]))
	}
}

// maxSharers bounds the values that use the same memory at a time.
const maxSharers = 256

// events returns the events of a memory space. In each position, results are allocated before operands are freed, but a
// result that takes the place of an operand replaces it, and a value of a loop or branch shares it.
func (t *textReader) events(all []change) (out trace) {
	slices.SortStableFunc(all, func(x, y change) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.edge, y.edge), cmp.Compare(x.value, y.value))
	})
	type place struct {
		allocation int32
		offset     int64
	}
	live := map[place][]int32{} // values, in order of allocation
	add := func(kind uint64, at int64, value int32, with int64) {
		out.events = append(out.events, event{kind: kind, buffer: t.p.values[value].id, canonical: with, instruction: t.names[at]})
	}
	for _, c := range all {
		v := &t.p.values[c.value]
		where := place{v.allocation, v.offset}
		if c.edge == ends {
			if i := slices.Index(live[where], c.value); i >= 0 {
				add(eventFree, c.at, c.value, 0)
				live[where] = slices.Delete(live[where], i, i+1)
			}
			continue
		}
		if !t.p.ofText[c.value].phi {
			live[where] = slices.DeleteFunc(live[where], func(i int32) bool {
				last := t.ranges[t.p.ofText[i].name][1] == c.at
				if last {
					add(eventFree, c.at, i, 0)
				}
				return last
			})
		}
		if len(live[where]) >= maxSharers {
			t.p.skip("value %d: too many share its memory", v.id)
			continue
		}
		if users := live[where]; len(users) > 0 {
			add(eventShareWith, c.at, c.value, t.p.values[users[len(users)-1]].id)
		} else {
			add(eventAlloc, c.at, c.value, 0)
		}
		live[where] = append(live[where], c.value)
	}
	return out
}

// textSites creates the sites of the values of a text.
func (p *program) textSites(b *build.Builder) []site {
	all := make([]site, len(p.values))
	for i, v := range p.ofText {
		dtype, unpadded, known := arrayOf(v.shape)
		all[i] = site{id: b.Site(lifetime.Site{Instr: v.name, Shape: v.shape, DType: dtype}), unpadded: p.values[i].size, known: true}
		if known {
			all[i].unpadded = min(unpadded, p.values[i].size)
		}
	}
	return all
}

// elementBits are the sizes of elementTypes by name.
var elementBits = func() map[string]uint64 {
	all := map[string]uint64{}
	for _, e := range elementTypes {
		if e.bits > 0 {
			all[e.name] = e.bits
		}
	}
	return all
}()

// arrayOf returns the type and the bytes of a shape as XLA writes it: "f32[64,64]{1,0}"; the bytes of a tuple are its
// pointers.
func arrayOf(text string) (dtype string, unpadded int64, known bool) {
	if parts, ok := strings.CutPrefix(text, "("); ok {
		n := len(shapesOf(strings.TrimSuffix(parts, ")")))
		if text == "()" {
			n = 0
		}
		return "", int64(n) * pointerBytes, true
	}
	m := arrayText.FindStringSubmatch(text)
	if m == nil {
		return "", 0, false
	}
	bits, known := elementBits[m[1]]
	n := int64(1)
	for _, dimension := range strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == '<' || r == '=' }) {
		d := naturalOf(dimension)
		if d != 0 && n > math.MaxInt64/64/d {
			return m[1], 0, false
		}
		n *= d
	}
	return m[1], (n*int64(bits) + 7) / 8, known
}

// Reports.

// sized sets the size of an allocation of a report: exact if it is that of its shape, else as rounded as it is printed.
func (t *textReader) sized(printed, rest string) {
	a := &t.p.allocations[len(t.p.allocations)-1]
	a.size = bytesOfText(printed)
	if m := reportShape.FindStringSubmatch(rest); m != nil {
		if _, n, known := arrayOf(m[1]); known && humanBytes(n) == printed {
			a.size = n
			t.add(value{id: int64(len(t.p.values)), size: n, color: a.color}, textValue{shape: m[1]})
			return
		}
	}
	if !strings.HasSuffix(printed, "iB") {
		return // exact
	}
	t.inexact = append(t.inexact, int32(len(t.p.allocations)-1))
}

// table begins an allocation of a newer report, which does not number them.
func (t *textReader) table() {
	if len(t.p.allocations) >= maxAllocations {
		return
	}
	t.p.plain = true
	n := int64(len(t.p.allocations))
	t.index[n] = int32(n)
	t.p.allocations = append(t.p.allocations, allocation{index: n, color: t.color, trace: -1})
}

// row takes a place in the last allocation of a newer report: its size, offset and shapes.
func (t *textReader) row(m []string) {
	last := int32(len(t.p.allocations) - 1)
	a := &t.p.allocations[last]
	size, exact, shape := bytesOfText(m[1]), !strings.HasSuffix(m[1], "iB"), ""
	for _, one := range shapesOf(m[4]) {
		if _, n, known := arrayOf(one); known && humanBytes(n) == m[1] {
			size, exact, shape = n, true, one
			break
		} else if shape == "" {
			shape = one
		}
	}
	offset := naturalOf(m[2])
	a.size = max(a.size, units.AddSat(offset, size))
	if n := len(t.inexact); !exact && (n == 0 || t.inexact[n-1] != last) {
		t.inexact = append(t.inexact, last)
	}
	t.add(value{id: int64(len(t.p.values)), size: size, color: a.color, offset: offset}, textValue{shape: shape})
}

// shapesOf splits "bf16[8,16], 2×s32[8]" at the commas between shapes.
func shapesOf(list string) (all []string) {
	depth, from := 0, 0
	for i, c := range list + "," {
		switch {
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' || c == ']' || c == '}':
			depth--
		case c == ',' && depth <= 0:
			one := strings.TrimSpace(list[from:i])
			if _, after, ok := strings.Cut(one, "×"); ok {
				one = after
			}
			all, from = append(all, one), i+1
		}
	}
	return all
}

// settle gives the rounding error of a report to its largest allocation whose size is rounded, so that the sum is the
// printed total. What the report does not list becomes an allocation of its own.
func (t *textReader) settle() {
	if t.total == 0 {
		return
	}
	left, rounded := map[int64]int64{}, map[int64]int32{}
	colors := t.sums
	if !t.p.plain { // one total for all memory spaces
		colors = map[int64]int64{0: t.total}
	}
	for color, total := range colors {
		left[color], rounded[color] = total, -1
	}
	for i := range t.p.allocations {
		a := &t.p.allocations[i]
		color := a.color
		if !t.p.plain {
			color = 0
		}
		left[color] -= a.size
		_, inexact := slices.BinarySearch(t.inexact, int32(i)) // they are in order
		if best, ok := rounded[color]; ok && inexact && (best < 0 || a.size > t.p.allocations[best].size) {
			rounded[color] = int32(i)
		}
	}
	for _, color := range slices.Sorted(maps.Keys(colors)) {
		rest, i := left[color], rounded[color]
		switch {
		case i >= 0 && math.Abs(float64(rest)) <= roundingShare*float64(t.p.allocations[i].size)*float64(len(t.inexact)):
			t.p.allocations[i].size += rest
		case rest > 0:
			t.p.allocations = append(t.p.allocations,
				allocation{index: int64(len(t.p.allocations)), color: color, size: rest, trace: -1})
		}
	}
}

// roundingShare is the largest rounding error of a size that is printed with three digits.
const roundingShare = 0.05

// bytesOfText reads a size as XLA prints it: "4.3KiB", "512B", "64.50GiB".
func bytesOfText(text string) int64 {
	digits := strings.TrimRight(text, "KMGTPEiB")
	x, _ := strconv.ParseFloat(digits, 64)
	unit := strings.Index("BKMGTPE", strings.TrimRight(text[len(digits):], "iB"))
	if bytes := math.Round(math.Ldexp(max(x, 0), 10*max(unit, 0))); bytes < math.MaxInt64 {
		return int64(bytes)
	}
	return math.MaxInt64
}

// humanBytes prints a size as XLA does (HumanReadableNumBytes in xla/tsl/platform/numbers.cc).
func humanBytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	x, unit := float64(n), -1
	for x >= 1024 && unit < 5 {
		x, unit = x/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%.1fKiB", x)
	}
	return fmt.Sprintf("%.2f%ciB", x, "KMGTPE"[unit])
}
