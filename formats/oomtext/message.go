package oomtext

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime/failure"
)

// kind of a text about a failure: how far it reaches, and who reads it.
type kind uint8

const (
	sentence   kind = iota // PyTorch, libraries, TensorFlow's errors: a few lines, perhaps wrapped
	xla                    // a sentence, then lists of buffers
	bfc                    // a sentence, then the dump of an allocator
	unnamed                // the same of a program that no table names
	summary                // a table
	stats                  // a dict
	histogram              // sizes and numbers of blocks
	rootCause              // the launcher names the rank that failed first
	terminated             // nothing
)

type opening struct {
	words string
	kind  kind
}

// openers are the words with which a text begins, or that follow in it where its beginning was wrapped. The first that
// a line has decides. There are at most 63: message.words has a bit for each.
var openers = append([]opening{
	{"out of memory trying to allocate", bfc},
	{"memory summary, device", summary},
	{statsKey, stats},
	{histogramHead, histogram},
	{"Root Cause", rootCause},
	{middleOfXLA, xla},
	{"Ran out of memory on ", xla},
	{"memory while trying to allocate", xla},
	{"Out of memory allocating", xla},
	{"ttempting to allocate", xla},
	{"ttempting to reserve", xla},
	{"would exceed memory", xla},
	{"o allocate request for", xla},
	{"TensorCore Hbm usage", xla},
	{"OOM when allocating", sentence},
	{"bytes) from device", sentence},
	{bareWords, sentence},
	{"DefaultCPUAllocator: ", sentence},
	{"exceed allowed memory", sentence},
	{middle, sentence},
	{"Failed to CUDA ", sentence},
	{"_ALLOC_FAILED", sentence},
	{laterInTorch, sentence},
	{lastInTorch, sentence},
}, ofSentences()...)

// ofSentences returns the openers of the table of sentences.
func ofSentences() (all []opening) {
	for _, s := range sentences {
		if o := (opening{s.word, sentence}); !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	return all
}

// parts of the openers. A line without them is searched for few.
var parts = [...]string{"memory", "alloc"}

// partOf has the part of each opener, -1 for none, and follow the bits of the words that follow in a text of PyTorch.
var partOf, follow = func() (of []int, bits uint64) {
	for i, o := range openers {
		of = append(of, slices.IndexFunc(parts[:], func(part string) bool { return strings.Contains(o.words, part) }))
		if o.words == laterInTorch || o.words == lastInTorch {
			bits |= 1 << i
		}
	}
	return of, bits
}()

// Words within a text, whose beginning may be on the line before.
const (
	middle      = "ried to allocate"
	middleOfXLA = "in memory space "
)

// bareWords are all that some texts have, and what people write.
const bareWords = "ut of memory"

// Words that follow in a text of PyTorch. They begin one if what stands before them was cut off.
const (
	laterInTorch = " has a total capac"
	lastInTorch  = " is allocated by PyTorch"
)

// maxCut is the length of what may stand before the opener on a line that begins within a sentence: "of memory while ...".
const maxCut = 4

type start struct {
	kind  kind
	word  uint64 // the opener, as a bit
	at    int    // its first byte
	whole bool   // false: the text may begin on the line before
}

// unnamedWord is the bit of the phrases of unnamed programs.
const unnamedWord = 1 << 63

// opener returns the text that a line begins, of kind terminated if none.
func opener(line []byte) start {
	var has [len(parts)]bool
	for i, part := range parts {
		has[i] = bytes.Contains(line, []byte(part))
	}
	for i, o := range openers {
		if needed := partOf[i]; needed >= 0 && !has[needed] {
			continue
		}
		at := bytes.Index(line, []byte(o.words))
		if at < 0 {
			continue
		}
		whole := o.words != middle && o.words != middleOfXLA || bytes.Contains(line, []byte("ut of memory"))
		cut := line[0] >= 'a' && line[0] <= 'z' && at <= maxCut
		return start{o.kind, 1 << i, at, whole && !cut}
	}
	if at := phrase(line); at >= 0 {
		return start{unnamed, unnamedWord, at, true}
	}
	return start{kind: terminated}
}

const (
	maxText    = 256 << 10 // bytes of a text that are matched
	sentenceOf = 16        // lines that a wrapped sentence has at most
	maxLines   = 4096      // lines of a text with lists of buffers
	maxOther   = 8         // lines of others within a dump
)

// message is a text that a writer has begun.
type message struct {
	kind   kind
	line   int64
	words  uint64 // openers that it has, as bits
	lines  int
	others int    // lines in succession that are not of a dump
	text   []byte // white space collapsed; of a dump only the beginning
	frames []level
	above  bool // its frames follow, innermost first

	step     int64 // the last one before it, -1 = unknown
	survived bool  // its writer goes on

	before, after []byte // of a server that could not start, else nil

	f    *printed // of a dump or table
	dump dump
}

// add appends a line to the text.
func (m *message) add(line []byte) {
	m.lines++
	if len(m.text) > maxText {
		return
	}
	for field := range bytes.FieldsSeq(line) {
		if len(m.text) > 0 {
			m.text = append(m.text, ' ')
		}
		m.text = append(m.text, field...)
	}
}

// continues match lines that continue the lists of XLA.
var continues = lazily(`^(\s|$|Total |Output size|Program |Largest |BufferAssignment|Peak buffers|See https|[0-9]+\. Size)`)

// accepts takes a line if it belongs to the text.
func (m *message) accepts(line []byte) bool {
	switch m.kind {
	case xla:
		if m.lines >= sentenceOf && (m.lines >= maxLines || !continues().Match(line)) {
			return false
		}
	case stats:
		if m.lines >= maxLines || !bytes.ContainsAny(line, `'"`) {
			return false
		}
	case bfc:
		if m.lines < sentenceOf { // the sentence may be wrapped
			m.add(line)
			if m.f == nil {
				m.f = parseBFC(string(m.text))
			}
		}
		if m.f == nil {
			return m.lines < sentenceOf
		}
		m.f.Survived = m.f.Survived || bytes.Contains(m.text, []byte(survived))
		return m.ofDump(m.dump.line(line, m.f))
	case summary:
		return m.ofDump(m.f.summaryLine(line))
	case histogram:
		return m.ofDump(m.f.histogramLine(line))
	default:
		if m.lines >= sentenceOf {
			return false
		}
		if f, ok := frameOf(line, 0); ok && m.above {
			m.frames = append(m.frames, f)
		}
		if m.lines == 1 { // the words may have been wrapped
			m.add(line)
			if s := opener(m.text); s.kind == xla || s.kind == bfc {
				m.kind, m.words = s.kind, m.words|s.word
			}
			return true
		}
	}
	m.add(line)
	return true
}

// ofDump counts a line of a dump or of something else. A dump ends where others write only.
func (m *message) ofDump(is bool) bool {
	if m.others++; is {
		m.others = 0
	}
	return m.others < maxOther
}

// begin prepares a message for its first line.
func (m *message) begin() {
	switch text := string(m.text); m.kind {
	case bfc:
		m.f = parseBFC(text)
	case summary:
		m.f = parseSummary(text)
	case histogram:
		m.f = newFailure(failure.FromTensorFlow)
		m.f.device = "gpu"
	}
}

// failure returns what the text says, nil if nothing.
func (m *message) failure() *printed {
	text := string(m.text)
	var f *printed
	switch m.kind {
	case bfc, summary, histogram:
		if f = m.f; f != nil && m.kind == bfc {
			m.dump.finish(f)
		}
	case stats:
		f = parseStats(text)
	case xla:
		if f = read(sentences, text); f == nil {
			f = cmp.Or(parseXLA(text), parseUnnamed(text))
		}
	case sentence:
		f = cmp.Or(read(sentences, text), read(torchSentences[:1], text), parseTorchLast(text), read(torchSentences[1:], text), parseTensor(text), read(driverSentences, text), parseUnnamed(text))
	case unnamed:
		f = parseUnnamed(text)
	}
	if f != nil {
		if f.Source == failure.FromTorch {
			f.dialect(text)
		}
		f.Line = m.line
		if found := rayRepeated().FindSubmatch(m.text); found != nil { // by so many more writers
			n, _ := strconv.ParseInt(string(found[1]), 10, 32)
			f.Times += n
		}
	}
	return f
}

var (
	rayRepeated = lazily(`\[repeated ([0-9]+)x across cluster\]`)
	firstRank   = lazily(`Root Cause \(first observed failure\):.*?\brank +: ([0-9]+)`)
)
