package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/units"
)

// progress shows on a terminal how many captures were read, and prints the totals at the end.
type progress struct {
	out     io.Writer // nil with --quiet
	live    bool      // out is a terminal
	all     int
	started time.Time

	mu    sync.Mutex
	count map[string]int // by state
	shown time.Time
}

func progressOf(c *cli.Command, all int) *progress {
	p := &progress{all: all, started: time.Now(), count: map[string]int{}}
	if !c.Bool("quiet") {
		p.out = c.Root().ErrWriter
		p.live = terminal(p.out)
	}
	return p
}

func (p *progress) add(state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[state]++
	if now := time.Now(); p.live && now.Sub(p.shown) > 200*time.Millisecond {
		p.shown = now
		done := 0
		for _, n := range p.count {
			done += n
		}
		left := time.Duration(float64(now.Sub(p.started)) / float64(done) * float64(p.all-done))
		fmt.Fprintf(p.out, clearLine+"%s, %s left", p, left.Round(time.Second))
	}
}

// clearLine clears the current line of a terminal.
const clearLine = "\r\033[K"

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		fmt.Fprint(p.out, clearLine)
	}
	if p.out != nil {
		fmt.Fprintf(p.out, "memlane-fleet: %s\n", p)
	}
}

// String returns how many captures were read, refused and missing so far.
func (p *progress) String() string {
	text := fmt.Sprintf("%s of %s captures read", units.Count(int64(p.count[fleet.Read.String()])), units.Count(int64(p.all)))
	for _, state := range []string{fleet.Refused.String(), fleet.Missing.String()} {
		if n := p.count[state]; n > 0 {
			text += fmt.Sprintf(", %s %s", units.Count(int64(n)), state)
		}
	}
	return text
}
