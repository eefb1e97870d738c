package xplane

import (
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// modulesLine is the name of the TPU line that holds the runs of compiled programs.
const modulesLine = "XLA Modules"

// runs records the runs of compiled programs on a TPU. Their numbers count over all devices, in file order.
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
	return h.eachLine(func(l *line) error {
		name, err := r.lineName(l.body)
		if err != nil || name != modulesLine {
			return err
		}
		l.window(windowBytes)
		device, e := strings.TrimPrefix(p.name, "/device:"), &l.event
		return l.each(l.decodeNext, func() {
			r.b.Run(lifetime.Run{Name: names[e.meta], Plane: device, ID: r.ran, Begin: e.offset, End: units.AddSat(e.offset, e.duration)})
			r.ran++
		})
	})
}

// lineName returns the name of a line. It precedes the events.
func (r *reader) lineName(body span) (string, error) {
	w := &r.look2
	w.open(body)
	_, name := readName(w, lineEvents)
	return string(name), r.settle(w, &r.truncated)
}
