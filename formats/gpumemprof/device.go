package gpumemprof

import (
	"fmt"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

type device struct {
	host, rank string
	kind       string // "cuda" or "mps"
	id         int64  // as the producer numbers it: the host is -1
}

// deviceOf returns the device of an event. It names the rank only if there are several ranks.
func deviceOf(rec *record) device {
	d := device{host: rec.Host, kind: "cuda", id: rec.DeviceID.int}
	if strings.Contains(rec.Collector, "mps") {
		d.kind = "mps"
	}
	if d.host == "unknown" { // the producer's word for none
		d.host = ""
	}
	if rec.Rank.int > 0 || rec.WorldSize.int > 1 {
		d.rank = fmt.Sprintf("rank %d", rec.Rank.int)
	}
	return d
}

// usage is a space with known totals only.
type usage struct {
	device device
	space  build.SpaceRef
	limit  int64
}

// usageOf returns the space of a device, or nil if there are too many.
func (r *reader) usageOf(d device) *usage {
	u := r.devices[d]
	if u == nil && len(r.devices) < build.MaxSpaces {
		u = &usage{device: d, space: r.b.Space()}
		r.devices[d] = u
		r.order = append(r.order, u)
	}
	return u
}

// totals records the allocator's bytes at t (nanoseconds).
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

func (u *usage) describe(b *build.Builder, source int) {
	name := "cpu"
	if u.device.id >= 0 {
		name = fmt.Sprintf("%s:%d", u.device.kind, u.device.id)
	}
	b.Describe(u.space, lifetime.SpaceInfo{
		Source: source, Host: u.device.host, Process: u.device.rank, Device: name, Axis: lifetime.Time,
		Limit: u.limit, Facts: lifetime.Clock,
	})
}
