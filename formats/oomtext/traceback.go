package oomtext

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
)

type level struct {
	file, function string
	line           int
}

// Frames as Python, IPython and rich print them. IPython gives the line by an arrow below.
var (
	pythonFrame = lazily(`^\s*File "([^"]+)", line ([0-9]+)(?:, in (.+))?$`)
	cellFrame   = lazily(`^(?:Input In|Cell In) ?\[[0-9 ]*\](?:, line ([0-9]+))?(?:, in (.+))?$`)
	newFrame    = lazily(`^File (\S+):([0-9]+)(?:, in (.+))?$`)
	oldFrame    = lazily(`^(\S+) in ([^ ].*)$`)
	richFrame   = lazily(`^│ ([^ │]+\.py):([0-9]+) in (\S+) +│?$`)
	arrow       = lazily(`^-+> ([0-9]+)`)
	began       = []byte("Traceback (most recent call last)")
	caught      = []byte("Exception has occurred") // by VS Code: the frames follow, innermost first
)

const (
	maxFrames   = 256
	maxBackward = 8192    // lines of all writers
	maxLooked   = 1 << 20 // the same, of all failures
	maxCaught   = 128     // bytes between the words of VS Code and the text
)

// traceback reads the traceback of a writer that ends a text, innermost frame first. Other writers' lines are skipped. It
// returns nothing if other lines stand where the traceback should begin.
func (r *reader) traceback(before []byte, w *writer) (frames []level) {
	arrowLine, loose := 0, 0
	for line := range backwards(before, maxBackward) {
		if r.looked++; r.looked > maxLooked {
			break
		}
		if !bytes.Contains(line, w.prefix) {
			continue
		}
		rest, _, what, number := r.stripped(plain(line))
		if what+number != w.key {
			continue
		}
		rest = bytes.TrimRight(rest, " \r")
		if bytes.Contains(rest, began) {
			return frames
		}
		if f, ok := frameOf(rest, arrowLine); ok {
			if f.line > 0 && len(frames) < maxFrames {
				frames = append(frames, f)
			}
			arrowLine, loose = 0, 0
			continue
		}
		if m := arrow().FindSubmatch(rest); m != nil {
			arrowLine, _ = strconv.Atoi(string(m[1]))
			continue
		}
		if len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t' || bytes.HasPrefix(rest, []byte("│")) || bytes.HasPrefix(rest, []byte("╰─")) {
			continue // source code
		}
		if loose++; loose > 3 || len(frames) > 0 && loose > 1 { // one may be source code whose blanks were lost
			return nil
		}
	}
	return frames
}

// frameOf reads a line as a frame; arrow is the line number of the arrow below it.
func frameOf(line []byte, arrow int) (f level, ok bool) {
	atoi := func(b []byte) int { n, _ := strconv.Atoi(string(b)); return n }
	for _, re := range []pattern{pythonFrame, richFrame} {
		if m := re().FindSubmatch(line); m != nil {
			return level{string(m[1]), string(m[3]), atoi(m[2])}, true
		}
	}
	if m := newFrame().FindSubmatch(line); m != nil {
		return level{string(m[1]), function(m[3]), atoi(m[2])}, true
	}
	if m := cellFrame().FindSubmatch(line); m != nil {
		cell, _, _ := bytes.Cut(line, []byte("]"))
		f = level{string(cell) + "]", function(m[2]), atoi(m[1])}
		if f.line == 0 {
			f.line = arrow
		}
		return f, true
	}
	if m := oldFrame().FindSubmatch(line); m != nil && arrow > 0 && bytes.ContainsAny(m[1], "/\\<") {
		return level{string(m[1]), function(m[2]), arrow}, true
	}
	return level{}, false
}

// function returns the name of a function that IPython prints with its arguments.
func function(text []byte) string {
	name, _, _ := bytes.Cut(text, []byte("("))
	if len(name) == 0 || name[0] == '<' {
		return "<module>"
	}
	return string(name)
}

func stack(b *build.Builder, frames []level) lifetime.StackID {
	id := lifetime.StackID(0)
	for _, f := range slices.Backward(frames) {
		id = b.Call(b.Frame(frame.Frame{Function: f.function, File: f.file, Line: f.line, Kind: frame.KindOf(f.function, f.file)}), id)
	}
	return id
}
