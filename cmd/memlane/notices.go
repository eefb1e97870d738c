package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/render/text"
)

// notices writes each warning once, although a capture may be named twice or be read again.
type notices struct {
	to io.Writer

	mu   sync.Mutex // memlane serve reads captures while it serves
	seen map[string]bool
}

func (n *notices) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if line := string(b); bytes.HasSuffix(b, []byte("\n")) { // otherwise it is progress
		if n.seen[line] {
			return len(b), nil
		}
		n.seen[line] = true
	}
	return n.to.Write(b)
}

// clearLine erases the terminal line of the cursor.
const clearLine = "\r\033[K"

// progress shows how much of a file was read, after the first second.
type progress struct {
	out     io.Writer
	file    string
	size    int64 // 0 = unknown
	started time.Time

	read  int64
	shown time.Time
}

func (p *progress) add(n int) {
	p.read += int64(n)
	p.show(func() string {
		done := units.Bytes(p.read)
		if 0 < p.read && p.read <= p.size {
			left := time.Duration(float64(time.Since(p.started)) * float64(p.size-p.read) / float64(p.read))
			done = fmt.Sprintf("%.0f %% of %s, %s left", 100*float64(p.read)/float64(p.size), units.Bytes(p.size),
				left.Round(time.Second))
		}
		// A line that wraps cannot be cleared again.
		name := []rune(text.Printable(filepath.Base(p.file)))
		return fmt.Sprintf("reading %s: %s", string(name[:min(len(name), 32)]), done)
	})
}

// show shows a line, five times a second.
func (p *progress) show(line func() string) {
	if now := time.Now(); now.Sub(p.started) > time.Second && now.Sub(p.shown) > 200*time.Millisecond {
		p.shown = now
		fmt.Fprint(p.out, clearLine, line())
	}
}

// clear erases the line, if there is one.
func (p *progress) clear() {
	if !p.shown.IsZero() {
		fmt.Fprint(p.out, clearLine)
	}
}
