package oomtext

import (
	"fmt"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/loss"
)

// maxBuffers bounds the buffers of a file, because a line of a few bytes can claim any number of them. A line beyond the
// limit becomes one buffer, with a note of the number.
const maxBuffers = 1 << 18

type owner struct{ process, device, memory, allocator, module, program string }

// producer returns the program whose texts the file has.
func (r *reader) producer() string {
	if len(r.failures) == 0 {
		return ""
	}
	if source := r.failures[0].Source; source != failure.FromTensorFlow || !r.jax {
		return programs[source].name
	}
	return "JAX"
}

// model adds the failures and the series that grow to the model. The failures of one allocator are the instants of its space, in order.
func (r *reader) model(source int, grown []*series) {
	spaces := map[owner][]*printed{}
	var owners []owner
	for _, f := range r.failures {
		for _, s := range grown {
			s.before(f)
		}
		f.First = r.first > 0 && f.writer.rank == r.first-1
		o := owner{f.writer.name, f.device, f.memory, f.allocator, "", ""}
		if f.program {
			o.module = f.module
			if same := spaces[o]; len(same) > 0 && (f.Needed != same[0].Needed || len(f.buffers) != len(same[0].buffers)) {
				o.program = fmt.Sprintf("line %d", f.Line)
			}
		}
		if spaces[o] == nil {
			owners = append(owners, o)
		}
		spaces[o] = append(spaces[o], f)
	}
	for _, o := range owners {
		(&modeller{b: r.b, space: r.b.Space(), failures: spaces[o], left: &r.left}).describe(source, o)
	}
	for _, s := range grown {
		s.describe(r.b, source)
	}
}

type modeller struct {
	b        *build.Builder
	space    build.SpaceRef
	failures []*printed
	left     *int64 // buffers that may still be added
	facts    lifetime.Facts
}

func (m *modeller) describe(source int, o owner) {
	info := lifetime.SpaceInfo{Source: source, Process: o.process, Device: o.device, Memory: o.memory, Allocator: o.allocator,
		Module: strings.TrimSpace(o.module + " " + o.program), Axis: lifetime.Event, End: int64(len(m.failures))}
	if m.failures[0].program {
		info.Axis = lifetime.ProgramOrder
	} else {
		info.OnlyOccupied = true // dumps have the sizes of chunks
	}
	allowed := int64(0)
	for i, f := range m.failures {
		info.Limit, info.LifetimePeak = max(info.Limit, f.Capacity), max(info.LifetimePeak, f.peak)
		allowed = max(allowed, f.Allowed)
		m.levels(i, f)
	}
	if info.Limit == 0 {
		info.Limit = allowed
	}
	m.chunks()
	for i, f := range m.failures {
		m.mark(i, f)
	}
	info.Facts = m.facts
	m.b.Describe(m.space, info)
}

// levels adds the totals of a failure, the buffers that have no address, and the segments of a dump.
func (m *modeller) levels(i int, f *printed) {
	for k, bytes := range []int64{f.Live, f.Reserved} {
		if bytes >= 0 && !f.program {
			m.b.Total(m.space, lifetime.Total{T: int64(i), Bytes: bytes, Measure: []lifetime.Measure{lifetime.Occupied, lifetime.Reserved}[k]})
			m.facts |= lifetime.Totals
		}
	}
	until, edge := m.until(i)
	for k := range f.buffers {
		m.buffer(&f.buffers[k], lifetime.Buffer{Begin: int64(i), End: int64(until), Edge: edge})
		m.facts |= lifetime.EndState
	}
	for _, s := range f.segments {
		m.b.Region(m.space, lifetime.Region{Begin: int64(i), End: int64(until), Addr: s.addr, Size: s.size, Edge: edge})
		m.facts |= lifetime.Regions
	}
}

// until returns the instant of the next failure after i that has a list of buffers of any kind.
func (m *modeller) until(i int) (next int, edge lifetime.Edge) {
	for next = i + 1; next < len(m.failures); next++ {
		if f := m.failures[next]; len(f.buffers)+len(f.chunks) > 0 {
			return next, lifetime.BeginUnseen | lifetime.EndInferred
		}
	}
	return next, lifetime.BeginUnseen | lifetime.EndOpen
}

// chunks adds the chunks of all dumps. A chunk that the next dump has too is the same buffer.
func (m *modeller) chunks() {
	type place struct {
		addr uint64
		size int64
	}
	began := map[place]int64{} // chunks of the dump before
	for i, f := range m.failures {
		if len(f.buffers)+len(f.chunks) == 0 {
			continue
		}
		m.facts |= lifetime.EndState
		until, edge := m.until(i)
		next := map[place]bool{}
		if until < len(m.failures) {
			for _, c := range m.failures[until].chunks {
				next[place{c.addr, c.size}] = true
			}
		}
		now, seen := map[place]int64{}, make(map[uint64]bool, len(f.chunks))
		for _, c := range f.chunks {
			at := place{c.addr, c.size}
			if seen[c.addr] {
				m.b.Lose(loss.IncompleteRecord, 1, c.size, fmt.Sprintf("two chunks at %#x", c.addr))
				continue
			}
			seen[c.addr] = true
			begin, ok := began[at]
			if !ok {
				begin = int64(i)
			}
			if next[at] {
				now[at] = begin
				continue
			}
			m.facts |= lifetime.Addresses
			m.buffer(&buffer{size: c.size, unpadded: c.size, count: 1, op: c.op}, lifetime.Buffer{Begin: begin, End: int64(until), Edge: edge, Addr: c.addr})
		}
		began = now
	}
}

// buffer adds x, with the times and the address of at.
func (m *modeller) buffer(x *buffer, at lifetime.Buffer) {
	out := build.Interval{Buffer: at}
	out.Size, out.Requested, out.Kind, out.Site, out.Note = x.size, x.unpadded, x.kind, m.site(x), m.b.Note(x.note)
	count := x.count
	if count > 1 && count > maxBuffers-*m.left {
		out.Note = m.b.Note(fmt.Sprintf("%d allocations", count))
		out.Size, out.Requested = saturated(x.size, count), saturated(x.unpadded, count)
		count = 1
	}
	*m.left += count
	for range count {
		m.b.Interval(m.space, out)
	}
}

// saturated returns a product, at most 2^62.
func saturated(a, b int64) int64 {
	if b > 0 && a > (1<<62)/b {
		return 1 << 62
	}
	return a * b
}

// site returns the origin of a buffer: the operation, and of a program's buffer its line and instruction.
func (m *modeller) site(x *buffer) lifetime.SiteID {
	s := lifetime.Site{Op: x.op, Shape: x.shape}
	s.Instr, _, _ = strings.Cut(strings.TrimPrefix(x.label, "%"), " ")
	if x.file != "" {
		s.Source = stack(m.b, []level{{x.file, "", x.line}})
	}
	return m.b.Site(s)
}

func (m *modeller) mark(i int, f *printed) {
	mark := lifetime.Mark{Begin: int64(i), End: int64(i), Kind: lifetime.OOM, Requested: f.requested, Free: failure.BytesOf(f.free), Failure: &f.Failure, Text: f.context}
	if f.state {
		mark.Kind = lifetime.Snapshot
	}
	mark.Site = m.b.Site(lifetime.Site{Stack: stack(m.b, f.frames), Op: f.op, Shape: f.shape, DType: f.dtype})
	m.b.Mark(m.space, mark)
}
