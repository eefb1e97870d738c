package main

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/render/text"
)

// clearLine takes the line away that the cursor of a terminal is in.
const clearLine = "\r\033[K"

// progress shows how far the reading of a file got, once it takes long.
type progress struct {
	out     io.Writer
	file    string
	size    int64 // 0 = not known
	started time.Time

	read  int64
	shown time.Time
}

// add counts bytes that were read.
func (p *progress) add(n int) {
	p.read += int64(n)
	now := time.Now()
	if now.Sub(p.started) > time.Second && now.Sub(p.shown) > 200*time.Millisecond {
		p.shown = now
		done := units.Bytes(p.read)
		if 0 < p.read && p.read <= p.size {
			left := time.Duration(float64(now.Sub(p.started)) * float64(p.size-p.read) / float64(p.read))
			done = fmt.Sprintf("%.0f %% of %s, %s left", 100*float64(p.read)/float64(p.size), units.Bytes(p.size), left.Round(time.Second))
		}
		// A line that wraps cannot be cleared again.
		name := []rune(text.Printable(filepath.Base(p.file)))
		fmt.Fprintf(p.out, clearLine+"reading %s: %s", string(name[:min(len(name), 32)]), done)
	}
}

// clear takes the line away, if there is one.
func (p *progress) clear() {
	if !p.shown.IsZero() {
		fmt.Fprint(p.out, clearLine)
	}
}
