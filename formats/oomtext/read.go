package oomtext

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/loss"
)

// ErrNone means that a file has no text about a failed allocation.
var ErrNone = errors.New("no out-of-memory message found")

// maxFailures limits the failures that are kept. A program that fails more often survives them all.
const maxFailures = 10_000

// Read reads the texts about failed allocations in a log into b. It fails with ErrNone if there are none.
func Read(file string, in io.Reader, b *build.Builder) error {
	r := &reader{b: b, in: newScanner(in), writers: map[string]*writer{}, prefixes: prefixes, known: map[said]*printed{}, noticed: map[string]context{}, shares: map[string]share{}}
	r.in.fill()
	if detectSrun(r.in.buf) {
		r.prefixes = append(append([]prefix{}, prefixes...), srun)
	}
	r.all()
	err, grown := r.in.err, r.growing()
	switch cut := errors.Is(err, io.ErrUnexpectedEOF); {
	case err != nil && err != io.EOF && !cut:
		return err
	case len(r.failures)+len(grown) == 0:
		return fmt.Errorf("%w in %d lines", ErrNone, r.in.line)
	case cut:
		b.Lose(loss.Truncated, 1, 0, fmt.Sprintf("line %d", r.in.line))
	}
	if r.dropped > 0 {
		b.Lose(loss.IncompleteRecord, r.dropped, 0, fmt.Sprintf("failures after the first %d", maxFailures))
	}
	source := b.Source(lifetime.Source{File: file, Format: "oom-text", Producer: r.producer()})
	r.model(source, grown)
	return nil
}

type reader struct {
	b        *build.Builder
	in       *scanner
	prefixes []prefix
	shapes   []shape
	writers  map[string]*writer
	open     int // number of writers with an open message
	idle     int // lines since one of them wrote
	watching int // lines in which a failure may still be survived
	looked   int // lines that were searched for tracebacks
	failures []*printed
	dropped  int64
	recent   *writer // of the line before
	first    int64   // the rank that failed first, plus 1; 0 = not named
	known    map[said]*printed
	left     int64 // buffers in the model so far
	jax      bool  // its own files print

	conf allocConf

	noticed map[string]context // the last of each writer
	last    context            // the last of all
	shares  map[string]share   // the same
	share   share

	series []*series
	places int    // of the log, for which a series was made or not
	row    int    // of a table of nvidia-smi
	words  []byte // of a line, to be used again
}

// patience is the number of lines after which open texts are closed if their writers wrote nothing more.
const patience = 4096

// all reads the whole input. While no text is open, lines without a token are skipped.
func (r *reader) all() {
	for r.open > 0 || r.watching > 0 || r.in.skip() {
		piece, line, ok := r.in.read()
		if !ok {
			break
		}
		clean, before := plain(piece), r.in.before(piece)
		text, rank := record(clean)
		if text == nil {
			r.take(clean, before, line)
			continue
		}
		for part := range bytes.SplitSeq(text, []byte{'\n'}) {
			if rank != "" {
				part = fmt.Appendf(nil, "[rank%s]: %s", rank, part)
			}
			r.take(part, before, line)
			before = slices.Concat(before, part, []byte{'\n'})
		}
	}
	r.closeAll()
	slices.SortStableFunc(r.failures, func(x, y *printed) int { return cmp.Compare(x.Line, y.Line) })
}

// take gives a line to the text that its writer has begun, or begins one with it. Before it stands what was read of the log.
func (r *reader) take(line, before []byte, number int64) {
	if r.open == 0 && opener(line).kind == terminated { // most lines with a token open nothing
		r.notice(line, number)
		r.conf.notice(line)
		r.observe(line, number)
		if r.watching == 0 {
			return
		}
	}
	w, rest := r.writerOf(line)
	text := opener(rest)
	if o := r.recent; text.kind == terminated && w.key == "" && w.open == nil && o != nil && o.open != nil && o.open.kind == sentence && !o.open.complete() {
		w = o // a record of several lines has its prefix once
	}
	r.recent = w
	if r.watching = max(r.watching-1, 0); text.kind == terminated {
		if r.watch(w, rest); r.open > 0 {
			r.observe(line, number)
		}
	}
	if text.kind != terminated && r.learn(rest, text.at, before, r.in.buf[r.in.pos:]) {
		w, rest = r.writerOf(line)
		text = opener(rest)
	}
	switch {
	case w.open != nil && r.more(w, rest, text):
		r.idle = 0
	case text.kind <= unnamed && isQuoted(rest, text, line[0] == '#'):
	case text.kind != terminated && (text.word&follow == 0 || r.open == 0): // where terminals wrap lines, prefixes are missing
		r.begin(w, &message{kind: text.kind, line: number, words: text.word}, text.whole, rest, line, before)
		r.idle = 0
	}
	if r.idle++; r.idle > patience {
		r.closeAll()
	}
}

// closeAll closes the open texts in the order in which they began.
func (r *reader) closeAll() {
	open := slices.Collect(maps.Values(r.writers))
	open = slices.DeleteFunc(open, func(w *writer) bool { return w.open == nil })
	slices.SortFunc(open, func(x, y *writer) int { return cmp.Compare(x.open.line, y.open.line) })
	for _, w := range open {
		r.close(w)
	}
}

// more gives a line to the open text of its writer. It returns false if the line does not belong to it, and closes the
// text. The opener that the line has, a second time or after a whole failure, begins another text.
func (r *reader) more(w *writer, rest []byte, s start) bool {
	m := w.open
	if s.word&follow != 0 && m.words&s.word == 0 && m.kind == sentence || s.kind == unnamed && m.kind <= unnamed {
		s.kind = terminated // they follow in the open text
	}
	if s.kind != terminated && m.kind != stats && (s.kind != sentence || m.kind == bfc || m.words&s.word != 0 || m.complete()) || !m.accepts(rest) {
		r.close(w)
		return false
	}
	m.words |= s.word
	return true
}

// complete reports whether the text so far is a whole failure. Errors of PyTorch and NCCL without figures may go on.
func (m *message) complete() bool {
	f := m.failure()
	return f != nil && (f.requested > 0 || f.Needed > 0 || f.Absurd || f.op != "" && f.op != nccl)
}

// wordsOfJAX are what only jaxlib prints: files of TensorFlow's own copy of XLA lie in local_xla.
var wordsOfJAX = [][]byte{[]byte("jaxlib"), []byte("external/xla/"), []byte("XlaRuntimeError"), []byte("JaxRuntimeError")}

const maxJAX = 4 << 10 // bytes before a text in which its writer names itself

// names reports whether the end of a text has one of some words.
func names(text []byte, words [][]byte) bool { return hasAny(text[max(0, len(text)-maxJAX):], words) }

// hasAny reports whether a text has one of some words.
func hasAny(text []byte, words [][]byte) bool {
	return slices.ContainsFunc(words, func(word []byte) bool { return bytes.Contains(text, word) })
}

// begin opens a text with its first line, of which rest is what follows the prefixes.
func (r *reader) begin(w *writer, m *message, whole bool, rest, line, before []byte) {
	if len(r.failures) >= maxFailures {
		r.dropped++
		return
	}
	r.conf.locate(before)
	r.conf.locate(line)
	r.jax = r.jax || names(line, wordsOfJAX) || names(before, wordsOfJAX)
	if !whole {
		r.prepend(m, before, w)
	}
	m.add(rest)
	if m.begin(); m.kind == summary && m.f == nil {
		return
	}
	m.step = stepBefore(before)
	m.survived = goesOn(rest, m.step)
	if len(r.failures) < maxPlans && (bytes.Contains(rest, []byte("cudaMalloc failed")) || bytes.Contains(rest, []byte("mem-fraction"))) {
		after := r.in.buf[r.in.pos:]
		m.before, m.after = bytes.Clone(before[max(0, len(before)-maxPlan):]), bytes.Clone(after[:min(len(after), maxAfter)])
	}
	m.frames = r.traceback(before, w)
	m.above = m.frames == nil && bytes.Contains(before[max(0, len(before)-maxCaught):], caught)
	w.open = m
	r.open++
}

// nearLines is how many lines of all writers before a text are searched for one of its writer.
const nearLines = 64

// prepend adds the writer's line before a text whose beginning was wrapped.
func (r *reader) prepend(m *message, before []byte, w *writer) {
	lines := int64(0)
	for line := range backwards(before, nearLines) {
		lines++
		rest, _, what, number := r.stripped(plain(line))
		if what+number == w.key {
			m.add(rest)
			m.line -= lines
			return
		}
	}
}

// close ends the open text of a writer and takes what it says.
func (r *reader) close(w *writer) {
	m := w.open
	w.open = nil
	r.open--
	if m.kind == rootCause {
		if found := firstRank().FindSubmatch(m.text); found != nil && r.first == 0 {
			rank, _ := size(string(found[1]))
			r.first = rank + 1
		}
		return
	}
	f := m.failure()
	defer func() {
		if m.survived {
			r.survived(w)
		}
	}()
	if f == nil {
		return
	}
	f.writer, f.frames, f.lastRequested, f.step = w, m.frames, f.requested, m.step
	c, ok := r.noticed[w.key]
	if !ok {
		c = r.last
	}
	if f.Filled = r.lessCache(w, f, c.setting); c.line > 0 {
		f.context = fmt.Sprintf("line %d says: %s", c.line, c.text)
	}
	if m.after != nil {
		f.Help = cmp.Or(startHelp(m.before, m.after, f), f.Help)
	}
	f.Setting = r.conf.settingOf(f)
	if r.repeats(f) {
		return
	}
	if f.state && f.Live >= 0 {
		states := w.series[f.device]
		if states == nil {
			states = r.place(w, f.device, &series{name: "state of " + f.device, least: leastStates})
		}
		states.lines, states.bytes = append(states.lines, f.Line), append(states.bytes, f.Live)
	}
	r.failures = append(r.failures, f)
	if f.counted > 0 && w.knows(f) {
		f.state = true
		return
	}
	if !f.state {
		w.failed[f.device] += max(f.counted, 1)
	}
	r.known[f.figures()] = f
	if w.last = f; !f.Survived {
		r.watching = watched
	}
}

// figures identify a failure that is printed several times.
func (f *printed) figures() said {
	same := f.said
	same.Line, same.Times, same.Setting, same.Help, same.Filled = 0, 0, "", "", ""
	return same
}

// repeats reports whether a failure was printed before: by the same process just before, perhaps in other words, or
// by a process that is not told apart, such as the launcher. It adds what f says to the earlier one.
func (r *reader) repeats(f *printed) bool {
	last, same := f.writer.last, r.known[f.figures()]
	if same != nil && (!slices.Equal(same.chunks, f.chunks) || same.Survived && !f.Survived) {
		same = nil
	}
	switch {
	case same != nil && same == last:
	case same != nil && same.writer != f.writer && (same.writer.relays || f.writer.relays):
		last = same
	case last != nil && f.follows(last):
		last.complete(f)
		if !f.Growth {
			f.Times = 0 // it says more about it
		}
	default:
		return false
	}
	last.Times += f.Times
	if len(last.frames) == 0 {
		last.frames = f.frames
	}
	return true
}

// follows reports whether f is about the same failure as the text before it: a table after the error, TensorFlow's
// error after the allocator's dump, or another attempt to enlarge a pool, with 90 % of the size.
func (f *printed) follows(last *printed) bool {
	const rounding = 256 // of the BFC allocator
	gap := last.requested - f.requested
	switch {
	case last.state || last.Survived != f.Survived:
		return false
	case f.Live < 0 && f.Needed < 0 && f.requested > 0 && (last.Live >= 0 || last.Capacity >= 0) && f.onDeviceOf(last) && (f.Cut || f.Line-last.Line < nearby):
		return max(gap, -gap) <= last.requested/200+rounding // the same in fewer words and digits
	case f.bare() && f.Source == failure.FromOther && (f.onDeviceOf(last) || f.device == "gpu"):
		return f.Line-last.Line < nearby // who calls a library says it in words of its own
	case last.bare() && f.onDeviceOf(last):
		return last.Source == f.Source && (f.requested == 0 && f.Reserved >= 0 || f.Line-last.Line < nearby) // the state or the figures follow the error
	case f.bare() && f.onDeviceOf(last):
		// another error because of the first, or the blocks of the allocator
		return last.Source == f.Source && (f.Source == failure.FromTorch || len(f.buffers) > len(last.buffers) || f.shape != "" && f.shape == last.shape) && f.Line-last.Line < nearby
	case programs[f.Source].twice:
		return last.Source == f.Source && max(gap, -gap) <= last.Rounding
	case f.Growth:
		ratio := float64(f.requested) / float64(last.lastRequested+1)
		return last.Growth && ratio > 0.85 && ratio < 0.95
	}
	return last.allocator != "" && f.allocator != "" && last.allocator == f.allocator && f.Live < 0 && max(gap, -gap) <= max(rounding, 2*last.Rounding) ||
		last.Source == failure.FromTensorFlow && f.Source == failure.FromXLA && gap >= 0 && gap <= rounding
}

// nearby is the number of lines in which an error with figures and one without are of one failure: two tracebacks.
const nearby = 256

// bare reports whether a text has no figure.
func (f *printed) bare() bool { return f.requested == 0 && f.Live < 0 && f.Needed < 0 && !f.Absurd }

// onDeviceOf reports whether two texts may be of one device: "cuda" may be "cuda:1".
func (f *printed) onDeviceOf(o *printed) bool { return onDevice(f.device, o.device) }

func onDevice(x, y string) bool { return strings.HasPrefix(x, y) || strings.HasPrefix(y, x) }

// complete adds the figures of a later text about the same failure.
func (f *printed) complete(later *printed) {
	f.lastRequested = later.requested
	if f.requested == 0 && !later.bare() {
		figures := later.Failure
		figures.Line, figures.Times = f.Line, f.Times
		f.Failure, f.requested, f.free, f.peak, f.device = figures, later.requested, later.free, later.peak, later.device
	}
	if !f.program && len(f.buffers)+len(f.chunks) == 0 && !later.program {
		f.buffers = later.buffers
	}
	if later.program && len(f.buffers)+len(f.chunks) == 0 {
		f.program, f.buffers, f.Needed, f.module, f.Source = true, later.buffers, later.Needed, later.module, later.Source
		f.Scratch = later.Scratch
		f.requested = later.requested
	}
	if programs[f.Source].twice && later.requested > 0 {
		f.requested, f.Rounding, f.device = later.requested, later.Rounding, later.device
	}
	if f.op == "" {
		f.op = later.op
	}
	if f.shape == "" {
		f.shape, f.dtype = later.shape, later.dtype
	}
}
