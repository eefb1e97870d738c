package gpumemprof

import (
	"fmt"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// device is what a space is made for.
type device struct {
	host, rank string
	mps        bool
	id         int64
}

// deviceOf returns the device of an event. Ranks are named where there are
// several.
func deviceOf(rec *record) device {
	d := device{host: rec.Host, mps: strings.Contains(rec.Collector, "mps"), id: rec.DeviceID.int}
	if d.host == "unknown" { // the producer's word for none
		d.host = ""
	}
	if rec.Rank.int > 0 || rec.WorldSize.int > 1 {
		d.rank = fmt.Sprintf("rank %d", rec.Rank.int)
	}
	return d
}

// name returns the name that PyTorch has for the device. The producer numbers
// the host itself -1.
func (d device) name() string {
	switch {
	case d.id < 0:
		return "cpu"
	case d.mps:
		return fmt.Sprintf("mps:%d", d.id)
	}
	return fmt.Sprintf("cuda:%d", d.id)
}

// usage is a space of which only totals are known.
type usage struct {
	device device
	space  build.SpaceRef
	limit  int64
}

// usageOf returns the space of a device, nil when there are too many.
func (r *reader) usageOf(d device) *usage {
	u := r.devices[d]
	if u == nil && len(r.devices) < build.MaxSpaces {
		u = &usage{device: d, space: r.b.Space()}
		r.devices[d] = u
		r.order = append(r.order, u)
	}
	return u
}

// totals records what the allocator had at t.
func (u *usage) totals(b *build.Builder, t int64, allocated, reserved number) {
	for _, total := range []struct {
		bytes   number
		measure lifetime.Measure
	}{{allocated, lifetime.Occupied}, {reserved, lifetime.Reserved}} {
		if total.bytes.known {
			b.Total(u.space, lifetime.Total{T: t, Bytes: max(total.bytes.int, 0), Measure: total.measure})
		}
	}
}

// describe says what the space is.
func (u *usage) describe(b *build.Builder, source int) {
	b.Describe(u.space, lifetime.SpaceInfo{
		Source: source, Host: u.device.host, Process: u.device.rank, Device: u.device.name(), Axis: lifetime.Time,
		Limit: u.limit, Facts: lifetime.Clock,
	})
}
