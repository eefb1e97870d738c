package chart

import (
	"cmp"
	"io"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// Looks of memory that is not in live buffers, but for what is reserved.
var (
	noneLook    = canvas.Look{Role: canvas.Background}
	outsideLook = canvas.Look{RGB: 0x5d317a}
	othersLook  = canvas.Look{RGB: 0xc39da7}
)

// Account draws who had the memory of the device when the request of d failed: one bar whose parts add up to the capacity, and below it the request, on
// the same scale. A text may lack the capacity: then the parts are all that it gives. The list of the parts determines the least height.
func Account(w io.Writer, c *judge.Capture, d *oom.Diagnosis, title string, o Options) (err error) {
	a, _ := d.Failure.Account(d.Mark.Free.Or(-1))
	parts := accountParts(c.Capture, d, &a)
	o.Width = cmp.Or(o.Width, 600) // a bar fits a phone
	o = o.withDefaults(0, 206+len(parts)*22)
	f := newFigure(d.Space, o.Width)
	f.Left = 160
	text, used, most, requested, request := "", int64(0), int64(1), max(d.Mark.Requested, 0), "size of the request not given"
	if requested > 0 {
		request = units.Bytes(requested) + " requested"
	}
	for _, k := range parts {
		text += k.name + " " + units.Exact(k.bytes) + ". "
		if most = units.AddSat(most, k.bytes); k.look != noneLook {
			used = units.AddSat(used, k.bytes)
		}
	}
	most = max(most, a.Capacity)
	if f.Page, err = o.page(title, text+request+"."); err != nil {
		return err
	}
	capacity, note := "capacity "+units.Bytes(a.Capacity), "The memory of the device when the request failed; the parts add up to its capacity."
	limit := d.Failure.Allowed // of the program, as set_per_process_memory_fraction or XLA_PYTHON_CLIENT_MEM_FRACTION sets it
	if limit >= 0 && d.Failure.Capacity < 0 {
		capacity, note, limit = "limit "+units.Bytes(limit), "What the program may have, when the request failed; the parts add up to it.", -1
	}
	if a.Capacity < 0 {
		capacity, note = "capacity not given", "The memory that the text gives; it does not say how much the device has."
	}
	f.Heading(title, append(f.Source(c.Capture), capacity, request)...)
	const top, bottom, below, list canvas.Length = 760, 1100, 1420, 1640
	scale := plot.Scale{From: uint64(max(most, min(units.AddSat(used, requested), units.AddSat(most, most/2)))), To: uint64(f.Width - 200 - f.Left)}
	x := func(bytes int64) canvas.Length { return f.Left + scale.At(uint64(bytes)) }
	share := func(bytes int64) string {
		if a.Capacity < 0 {
			return units.Bytes(bytes)
		}
		return units.Bytes(bytes) + ", " + shareOf(bytes, a.Capacity)
	}
	f.stacked(parts, top, bottom, scale, share)
	for i, k := range parts {
		y := list + canvas.Length(i)*220
		f.Swatch(f.Left, y, k.look)
		f.Page.Text(canvas.Text{X: f.Left + 180, Y: y + 100, S: k.name, Aside: share(k.bytes)})
	}
	if a.Capacity >= 0 {
		label := canvas.Text{X: x(a.Capacity), Y: top - 130, Anchor: canvas.End, Role: canvas.Bad, S: capacity}
		used = min(used, a.Capacity)
		f.Page.Stroke(canvas.Line(label.X, top-90, label.X, below), canvas.Pen{Role: canvas.Bad, Width: 15}, nil)
		f.Page.Text(label)
		if at := x(max(limit, 0)); limit >= 0 && limit < a.Capacity { // its label ends at its line, or before the other
			f.Page.Stroke(canvas.Line(at, top-90, at, bottom+60), canvas.Pen{Role: canvas.Bad, Width: 15, Dashed: true}, nil)
			at = min(at, label.X-label.Extent()-120)
			label.S = "limit " + units.Bytes(limit)
			label.X = max(at, f.Left+label.Extent())
			f.Page.Text(label)
		}
	}
	if requested > 0 {
		from := x(used)
		block := canvas.Rect(from, bottom+60, max(x(units.AddSat(used, requested)), from+30), below-60)
		f.Page.Fill(block, plot.RefusedLook, nil)
		f.Page.Stroke(block.Closed(), canvas.Pen{Role: canvas.Bad, Width: 15}, nil)
		f.Page.Text(canvas.Text{X: from - 60, Y: (bottom+below)/2 + 40, Anchor: canvas.End, Role: canvas.Bad, Bold: true, S: request})
	}
	f.Footer(o.Height, note)
	return f.Page.Finish(w)
}

// accountParts returns who has the memory, without what has none: first what is live, by category if it is known, and last what is free.
func accountParts(c *lifetime.Capture, d *oom.Diagnosis, a *failure.Account) (parts []*kind) {
	parts, _ = kindsOf(c, d.Space, d.Space.LiveAt(d.Mark.Begin))
	slices.SortFunc(parts, mostBytes)
	parts = parts[:min(len(parts), mostBands)]
	name, rest := "live, others", a.Live
	for _, k := range parts {
		rest -= k.bytes
	}
	if rest < 0 || len(parts) < 2 { // nothing is known but their sum
		name, rest, parts = "live", a.Live, nil
	}
	outside := "not accounted for"
	if a.Free < 0 {
		outside = "free, or not accounted for"
	} else if a.Live >= 0 && a.Outside < 0 {
		outside = "outside of the allocator" // by anyone
	}
	parts = append(parts, &kind{name: name, look: heapLook, bytes: rest}, &kind{name: "reserved but free", look: freeLook, bytes: a.Idle},
		&kind{name: "outside of the allocator", look: outsideLook, bytes: a.Outside}, &kind{name: "other processes", look: othersLook, bytes: a.Others},
		&kind{name: outside, look: plot.BaseLook, bytes: a.Rest}, &kind{name: "free", look: noneLook, bytes: a.Free})
	return slices.DeleteFunc(parts, func(k *kind) bool { return k.bytes <= 0 })
}
