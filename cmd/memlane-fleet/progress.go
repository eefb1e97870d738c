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

// progress shows on a terminal how many captures were read, and prints the totals at the
// end.
type progress struct {
	out     io.Writer // nil with --quiet
	live    bool      // out is a terminal
	all     int
	started time.Time

	mu    sync.Mutex
	count [fleet.Missing + 1]int
	shown time.Time
}

func progressOf(c *cli.Command, all int) *progress {
	p := &progress{all: all, started: time.Now()}
	if !c.Bool("quiet") {
		p.out = c.Root().ErrWriter
		p.live = terminal(p.out)
	}
	return p
}

func (p *progress) add(r *fleet.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[r.State]++
	if now := time.Now(); p.live && now.Sub(p.shown) > 200*time.Millisecond {
		p.shown = now
		done := p.count[fleet.Read] + p.count[fleet.Refused] + p.count[fleet.Missing]
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
	text := fmt.Sprintf("%s of %s captures read", units.Count(int64(p.count[fleet.Read])), units.Count(int64(p.all)))
	for _, state := range []fleet.State{fleet.Refused, fleet.Missing} {
		if n := p.count[state]; n > 0 {
			text += fmt.Sprintf(", %s %s", units.Count(int64(n)), state)
		}
	}
	return text
}
