package main

import (
	"bytes"
	"io"
	"sync"
)

// notices is where warnings and remarks go. A line is shown once: a capture may be
// named twice, or be read again.
type notices struct {
	to io.Writer

	mu   sync.Mutex // memlane serve reads while it serves
	seen map[string]bool
}

func (n *notices) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if line := string(b); bytes.HasSuffix(b, []byte("\n")) { // else it is how far the reading got
		if n.seen[line] {
			return len(b), nil
		}
		n.seen[line] = true
	}
	return n.to.Write(b)
}
