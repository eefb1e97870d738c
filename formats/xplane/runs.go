package xplane

import (
	"fmt"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// modulesLine is the line of a TPU on which the runs of compiled programs are.
const modulesLine = "XLA Modules"

// runs records the runs of compiled programs on a TPU. Their numbers count
// over all devices, in the order of the file.
func (r *reader) runs(p *plane) error {
	names := map[int64]string{}
	err := r.entries(p, planeEventMeta, func(e entry, name []byte) error {
		if len(names) < maxInline {
			names[e.id] = string(name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	h := &host{r: r, p: p}
	h.decoder.stats = &h.stats
	for i, l := range h.lines() {
		name, err := r.lineName(l.body)
		if err == nil && name == modulesLine {
			err = r.lineRuns(l, strings.TrimPrefix(p.name, "/device:"), names)
		}
		if err != nil {
			return fmt.Errorf("lines[%d]: %w", i, err)
		}
	}
	return nil
}

func (r *reader) lineRuns(l *line, device string, names map[int64]string) error {
	l.window(windowBytes)
	if err := l.open(); err != nil {
		return err
	}
	for {
		at := l.w.at()
		b, ok := l.nextBody()
		if !ok {
			return r.settle(&l.w, &l.cut)
		}
		e := &l.event
		if !l.h.decoder.decode(b, e) {
			return &damage{at, "an event cannot be read"}
		}
		r.b.Run(lifetime.Run{Name: names[e.meta], Plane: device, ID: r.ran, Begin: e.offset, End: lifetime.AddSat(e.offset, e.duration)})
		r.ran++
	}
}

// lineName returns the name of a line, which stands before its events.
func (r *reader) lineName(body span) (string, error) {
	w := &r.look2
	w.open(body)
	for f, ok := w.next(); ok && f.number != lineEvents; f, ok = w.next() {
		if f.wire != bytesType {
			continue
		}
		if f.number == lineName {
			name, _ := w.take(f, maxText)
			return string(name), w.err
		}
		if s, ok := w.body(f); ok {
			w.skip(s.end)
		}
	}
	return "", r.settle(w, &r.truncated)
}
