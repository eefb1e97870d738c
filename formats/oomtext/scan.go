package oomtext

import (
	"bytes"
	"io"
	"iter"
)

const (
	window   = 2 << 20   // bytes that the scanner holds
	keptTail = 256 << 10 // of them before the next line: a failure looks back there for its traceback
	maxPiece = 64 << 10  // a longer line is read in pieces
	overlap  = 1 << 10   // that is skipped at most once more, so that no token is cut
)

// tokens are parts of words of which every text about a failure has one. The scanner searches for them only, so that
// other lines cost next to nothing.
var tokens = [][]byte{[]byte("memory"), []byte("alloc"), []byte("ALLOC_F"), []byte("Hbm "), []byte("Root Cause"), []byte("Max_MA "), []byte("oom_kill"), []byte("oom-kill"),
	[]byte("Killed proc"), []byte("ALLOC_CONF"), []byte(" total capac"), []byte("expandable_seg"),
	[]byte("_MEMORY"), []byte("Memory"), []byte("llocation "), []byte("OOMKilled"), []byte("paging file"), []byte("mem_fraction"), []byte("reserved"), []byte(" MiB, "), []byte("MiB / "), []byte("paged KV")}

// scanner reads lines and skips those without a token. A line ends with \n or \r; progress bars use the latter.
type scanner struct {
	in   io.Reader
	buf  []byte
	pos  int   // next byte to read
	line int64 // number of the line at pos, from 1
	next []int // offset of the next occurrence of each token; before pos = search again
	err  error // of in
}

func newScanner(in io.Reader) *scanner {
	s := &scanner{in: in, buf: make([]byte, 0, window), line: 1, next: make([]int, len(tokens))}
	for i := range s.next {
		s.next[i] = -1
	}
	return s
}

// fill reads more, and drops what lies more than keptTail before pos. It returns false at the end.
func (s *scanner) fill() bool {
	if s.err != nil {
		return false
	}
	if drop := s.pos - keptTail; drop > 0 && cap(s.buf)-len(s.buf) < maxPiece {
		s.buf = s.buf[:copy(s.buf, s.buf[drop:])]
		s.pos -= drop
	}
	for i := range s.next { // offsets have moved, and "not found" is no longer true
		s.next[i] = -1
	}
	n := 0
	for tries := 0; n == 0 && s.err == nil; tries++ {
		n, s.err = s.in.Read(s.buf[len(s.buf):cap(s.buf)])
		if tries == 100 && s.err == nil {
			s.err = io.ErrNoProgress
		}
	}
	s.buf = s.buf[:len(s.buf)+n]
	return n > 0
}

// skip moves to the next line with a token. It returns false if there is none.
func (s *scanner) skip() bool {
	for {
		at := s.token()
		if at < len(s.buf) {
			s.moveTo(s.lineStart(at))
			return true
		}
		s.moveTo(s.lineStart(len(s.buf)))
		if !s.fill() {
			return false
		}
	}
}

// token returns the offset of the next token, len(s.buf) if none was read yet.
func (s *scanner) token() int {
	first := len(s.buf)
	for i, token := range tokens {
		if s.next[i] < s.pos {
			s.next[i] = len(s.buf)
			if n := bytes.Index(s.buf[s.pos:], token); n >= 0 {
				s.next[i] = s.pos + n
			}
		}
		first = min(first, s.next[i])
	}
	return first
}

// lineStart returns where the line of offset at begins, or a later place if the line is very long.
func (s *scanner) lineStart(at int) int {
	from := max(s.pos, at-overlap)
	if from == s.pos || bytes.LastIndexAny(s.buf[from:at], "\r\n") >= 0 {
		return from + bytes.LastIndexAny(s.buf[from:at], "\r\n") + 1
	}
	from = max(s.pos, at-maxPiece)
	if i := bytes.LastIndexAny(s.buf[from:at], "\r\n"); i >= 0 || from == s.pos {
		return from + i + 1
	}
	return at - overlap
}

func (s *scanner) moveTo(pos int) {
	s.line += int64(bytes.Count(s.buf[s.pos:pos], []byte{'\n'}))
	s.pos = pos
}

// read returns the next line without its end, or a piece of a long one, and the number of the line.
func (s *scanner) read() (piece []byte, line int64, ok bool) {
	n := bytes.IndexAny(s.buf[s.pos:min(len(s.buf), s.pos+maxPiece)], "\r\n")
	for n < 0 && len(s.buf)-s.pos < maxPiece && s.fill() {
		n = bytes.IndexAny(s.buf[s.pos:min(len(s.buf), s.pos+maxPiece)], "\r\n")
	}
	rest := s.buf[s.pos:]
	switch {
	case n >= 0:
		piece = rest[:n]
		n++
	case len(rest) == 0:
		return nil, s.line, false
	default:
		piece = rest[:min(len(rest), maxPiece)]
		if space := bytes.LastIndexByte(piece, ' '); len(piece) == maxPiece && space > maxPiece-overlap {
			piece = piece[:space]
		}
		n = len(piece)
	}
	line = s.line
	s.moveTo(s.pos + n)
	return piece, line, true
}

// before returns the text before the line that read returned last, as far as it is kept.
func (s *scanner) before(piece []byte) []byte {
	end := max(s.pos-len(piece)-1, 0)
	return s.buf[max(0, end-keptTail):end]
}

// backwards returns the last lines of a text, so many at most, without their ends, the last one first. It leaves out empty ones, and ends at
// one that is too long.
func backwards(text []byte, most int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for range most {
			text = bytes.TrimRight(text, "\r\n")
			at := bytes.LastIndexAny(text, "\r\n")
			if len(text) == 0 || len(text)-at > maxPiece || !yield(text[at+1:]) {
				return
			}
			text = text[:max(at, 0)]
		}
	}
}
