package hlo

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/memlane/memlane/formats/internal/wire"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/loss"
)

// maxSpaces bounds the memory spaces of a program. Machines have fewer than ten, and each space needs a pass
// over all values.
const maxSpaces = 64

// builder creates the spaces of one program.
type builder struct {
	p     *program
	b     *build.Builder
	m     Module
	sites []site // by value
	names *sites
}

// addSpaces adds the spaces of a program: one per color of its allocations, or an empty one if it has none.
func addSpaces(p *program, b *build.Builder, m Module) error {
	colors := p.stackAllocations()
	if len(colors) > maxSpaces {
		return fmt.Errorf("%d memory spaces; the limit is %d", len(colors), maxSpaces)
	}
	x := builder{p: p, b: b, m: m, sites: make([]site, len(p.values))}
	if p.ofText != nil {
		x.sites = p.textSites(b)
	}
	sites := &sites{p: p, b: b, made: make(map[origin]site, len(p.values)), parted: map[place]*definition{}, tuples: map[wire.Span][]wire.Span{}, sources: map[int64]source{},
		origins: origins{graph: &p.graph, budget: p.graph.budget, loops: map[part]item{}}}
	x.names = sites
	b.GrowSites(min(len(p.values), len(p.graph.places))) // few values are parts of the results of others
	for i := range p.values[len(p.ofText):] {
		var err error
		if x.sites[i], err = sites.of(&p.values[i]); err != nil {
			return fmt.Errorf("logical buffer %d: %w", p.values[i].id, err)
		}
	}
	traces := p.chooseTraces()
	for _, color := range colors {
		var t trace
		if i, ok := traces[color]; ok {
			t = p.traces[i]
		}
		x.space(color, t)
	}
	if p.sum == math.MaxInt64 {
		b.Lose(loss.Overflow, 1, 0, m.Name)
	}
	if p.skipped > 0 {
		b.Lose(loss.IncompleteRecord, p.skipped, 0, fmt.Sprintf("%s: %s", m.Name, p.firstSkipped))
	}
	return nil
}

// stackAllocations places the allocations of each color one after the other and returns the colors in order.
func (p *program) stackAllocations() []int64 {
	next := map[int64]uint64{}
	var colors []int64
	for i := range p.allocations {
		a := &p.allocations[i]
		p.sum = units.AddSat(p.sum, a.size)
		start, seen := next[a.color]
		if !seen {
			colors = append(colors, a.color)
		}
		a.start = start
		next[a.color] = addTo(start, a.size)
	}
	if len(colors) == 0 {
		return []int64{0}
	}
	slices.Sort(colors)
	return colors
}

// addTo adds a size or an offset in bytes to an address. It saturates.
func addTo(addr uint64, bytes int64) uint64 {
	return addr + min(uint64(bytes), math.MaxUint64-addr)
}

// space adds one memory space.
func (x *builder) space(color int64, t trace) {
	ref := x.b.Space()
	h := x.p.replay(t)
	s := lifetime.SpaceInfo{
		Source: x.m.Source, Host: x.m.Host, Module: x.m.Name, Entry: x.p.entry, Memory: fmt.Sprintf("space%d", color),
		Axis: lifetime.ProgramOrder, Begin: -1, End: int64(len(t.events)), Facts: lifetime.Addresses | lifetime.Regions,
		Target: x.p.target,
	}
	if color == 0 && x.p.ofText == nil {
		s.Remedies = x.p.changes(color, h.blocks, x.names)
	}
	if color == fasterMemory && x.b.Keeps(build.XProf) {
		s.ScopedBytes, s.ScopedInstr = x.p.scoped()
	}
	for i := range x.p.values {
		if v := &x.p.values[i]; x.sites[i].stack && v.allocation >= 0 && x.p.allocations[v.allocation].color == color {
			s.Facts |= lifetime.Stacks
			break
		}
	}
	x.b.Describe(ref, s)
	x.b.InOrder(ref)
	values := 0
	for i := range x.p.allocations {
		if a := &x.p.allocations[i]; a.color == color {
			values += len(a.values)
		}
	}
	x.b.Grow(ref, len(t.events), len(h.blocks), values)
	var last []byte // an instruction has several events in a row: it allocates, shares and frees
	name := ""
	for k, e := range t.events {
		if bytes := x.p.proto[e.instruction.At:e.instruction.End]; string(bytes) != string(last) {
			last, name = bytes, x.p.text(e.instruction)
		}
		x.b.Mark(ref, lifetime.Mark{Begin: int64(k), End: int64(k), Kind: lifetime.Instruction, Text: name})
	}
	moving := x.blocks(ref, s.End, color, h.blocks)
	for i := range x.p.allocations {
		if a := &x.p.allocations[i]; a.color == color {
			x.allocation(ref, s.End, a, !moving[int32(i)], h)
		}
	}
}

// scoped returns the instruction whose backend configuration has most faster memory for itself, the first of equals.
func (p *program) scoped() (most int64, instruction string) {
	first := 0
	for _, at := range p.graph.places {
		in := at.operation()
		var name, backend wire.Span
		var config struct {
			Used []struct {
				Space json.Number `json:"memory_space"`
				Size  json.Number `json:"size"`
			} `json:"used_scoped_memory_configs"`
		}
		if wire.Read(p.proto, in.at, wire.Into{{instructionName, &name}, {instructionBackend, &backend}}) != nil ||
			json.Unmarshal(p.proto[backend.At:backend.End], &config) != nil {
			continue
		}
		for _, u := range config.Used {
			n, _ := u.Size.Int64()
			if u.Space == "1" && n > 0 && (n > most || n == most && in.at.At < first) {
				most, instruction, first = n, p.text(name), in.at.At
			}
		}
	}
	return most, instruction
}

// span is bytes that are in use from a position to another; fewer than 0 are not.
type span struct{ begin, end, bytes int64 }

// heapPeak returns the highest level of a memory space if its values had other sizes, and more bytes were in use for a while.
func (p *program) heapPeak(color int64, blocks []block, other map[int32]int64, more ...span) int64 {
	moving := map[int32]bool{}
	for i := range blocks {
		k := &blocks[i]
		root := &p.values[k.root]
		if a := &p.allocations[root.allocation]; a.color == color && !a.uses.Whole() {
			moving[root.allocation] = true
			size, ok := other[k.root]
			if !ok {
				size = root.size
			}
			more = append(more, span{k.begin, k.end, size})
		}
	}
	level := int64(0)
	for i := range p.allocations {
		if a := &p.allocations[i]; a.color == color && a.uses&compiled.ForThreadLocal == 0 && !moving[int32(i)] {
			level = units.AddSat(level, a.size)
		}
	}
	return units.AddSat(level, highest(more))
}

// highest returns the most bytes that are in use at a position.
func highest(spans []span) (most int64) {
	changes := map[int64]int64{}
	for _, s := range spans {
		changes[s.begin] = units.AddSat(changes[s.begin], s.bytes)
		changes[s.end] = units.AddSat(changes[s.end], -s.bytes)
	}
	level := int64(0)
	for _, at := range slices.Sorted(maps.Keys(changes)) {
		level = units.AddSat(level, changes[at])
		most = max(most, level)
	}
	return most
}

// blocks adds the buffers that the heap trace allocates in the memory space. It returns the allocations that contain
// them. An allocation that is reserved for the whole program is a buffer already, so blocks in it are skipped.
func (x *builder) blocks(ref build.SpaceRef, end, color int64, blocks []block) map[int32]bool {
	moving := map[int32]bool{}
	for i := range blocks {
		k := &blocks[i]
		root := &x.p.values[k.root]
		a := &x.p.allocations[root.allocation]
		if a.color != color || a.uses.Whole() {
			continue
		}
		moving[root.allocation], k.placed = true, true
		buf := lifetime.Buffer{
			Begin: k.begin, End: k.end, Addr: addTo(a.start, root.offset), Size: root.size,
			Requested: min(x.sites[k.root].unpadded, root.size), Site: x.origin(k.value).id, Kind: kindOf(a.uses),
		}
		if k.end == math.MaxInt64 {
			buf.End, buf.Edge = end, lifetime.EndOpen
		}
		x.b.Interval(ref, build.Interval{Buffer: buf, ValueID: &x.p.values[k.value].id})
	}
	return moving
}

// origin returns the site of the buffer of a value: what the value is.
func (x *builder) origin(value int32) site {
	if x.p.ofText != nil {
		return x.sites[value]
	}
	return x.names.origin(&x.p.values[value], x.sites[value])
}

// whole returns the site of an allocation that holder represents. If the compiler made that value, and nothing tells what it is, it is the
// last one as large in the same memory: of an output, the result of the program.
func (x *builder) whole(a *allocation, holder int32) lifetime.SiteID {
	of := x.origin(holder)
	for k := len(a.values) - 1; k >= 0 && !of.stack && x.p.ofText == nil; k-- {
		if i := a.values[k]; x.p.values[i].size == x.p.values[holder].size {
			of = x.origin(i)
		}
	}
	if !of.stack {
		of = x.origin(holder)
	}
	return of.id
}

// noValue is the value ID of a buffer without a value.
var noValue int64 = -1

// allocation adds a buffer allocation with its values. static means that the heap trace does not allocate in it.
func (x *builder) allocation(ref build.SpaceRef, end int64, a *allocation, static bool, h *heap) {
	x.b.Region(ref, lifetime.Region{
		Begin: -1, End: end, Addr: a.start, Size: a.size, Edge: lifetime.EndOpen, Index: a.index, Uses: a.uses,
	})
	holder := int32(-1) // the value that represents the whole allocation
	if whole := a.uses.Whole(); whole || static && a.size > 0 && a.uses&compiled.ForThreadLocal == 0 {
		holder = x.largest(a)
		buf := lifetime.Buffer{Begin: -1, End: end, Addr: a.start, Size: a.size, Edge: lifetime.EndOpen, Kind: kindOf(a.uses)}
		if x.p.plain {
			buf.Kind = lifetime.Plain
		}
		value := &noValue
		if holder >= 0 { // values share it over time: only what the layout adds to that one is padding
			v := &x.p.values[holder]
			buf.Requested, buf.Site, value = max(a.size-max(min(v.size, a.size)-x.sites[holder].unpadded, 0), 0), x.whole(a, holder), &v.id
		}
		x.b.Interval(ref, build.Interval{Buffer: buf, ValueID: value})
	}
	for _, i := range a.values {
		v, l := &x.p.values[i], &h.lives[i]
		root := i
		switch {
		case holder >= 0:
			root = holder
		case l.root != i && h.blocks[l.block].placed:
			root = h.blocks[l.block].value
		}
		x.b.Value(ref, lifetime.Value{
			ID: v.id, Root: x.p.values[root].id, Begin: l.begin, End: l.end, Allocation: a.index, Offset: v.offset,
			Size: v.size, Requested: x.sites[i].unpadded, Site: x.sites[i].id,
		})
	}
}

// largest returns the value that represents an allocation, or -1: the largest one, preferring values with a
// known instruction. The first of equal values wins.
func (x *builder) largest(a *allocation) int32 {
	best := int32(-1)
	for _, i := range a.values {
		switch size, known := x.p.values[i].size, x.sites[i].id != 0; {
		case size == 0:
		case best < 0,
			known && x.sites[best].id == 0,
			known == (x.sites[best].id != 0) && size > x.p.values[best].size:
			best = i
		}
	}
	return best
}

// kindOf returns the kind of the buffers of an allocation, checked in XProf's order.
func kindOf(u compiled.Uses) lifetime.Kind {
	switch {
	case u&compiled.ForParameter != 0:
		return lifetime.Parameter
	case u&compiled.ForOutput != 0:
		return lifetime.Output
	case u&compiled.ForThreadLocal != 0:
		return lifetime.ThreadLocal
	case u&compiled.ForConstant != 0:
		return lifetime.Constant
	}
	return lifetime.Temporary
}
