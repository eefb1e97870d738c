package xprofjson

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/compiled"
)

// Selection names one memory space of one compiled program.
type Selection struct {
	Module      string // "jit_f(5)", or "jit_f" if only one program has that name
	MemorySpace int64
}

// WriteMemoryViewer writes the JSON that XProf 2.24 serves as memory_viewer for one memory space of a compiled
// program: its PreprocessResult. Sizes are MiB, positions count the events of the heap trace. If the program
// has no allocation in that memory space, only its names are written. It fails if the module is missing or
// ambiguous, and the error lists the available modules.
//
// XProf counts two values that use the same memory twice, and shows another part for a value in a tuple inside a tuple. So
// the capture must be read with build.XProf.
func WriteMemoryViewer(w io.Writer, c *lifetime.Capture, module string, memorySpace int64) error {
	spaces, err := Selection{module, memorySpace}.spaces(c)
	if err != nil {
		return err
	}
	result := preprocessed{ModuleName: moduleName(spaces[0]), EntryComputationName: spaces[0].Entry}
	v := &viewer{c: c}
	memory := fmt.Sprintf("space%d", memorySpace)
	if i := slices.IndexFunc(spaces, func(s *lifetime.Space) bool { return s.Memory == memory }); i >= 0 {
		v = newViewer(c, spaces[i])
		if v.s.Begin != -1 || v.s.End != int64(len(v.s.Marks)) || len(v.s.Buffers) != len(v.s.ValueIDs) {
			return fmt.Errorf("%s was not read from a compiled program: its positions are not the events of a heap trace", v.s.ID())
		}
		result.MaxScopedVmemAllocationMib, result.MaxScopedVmemInstructionName = mib(v.s.ScopedBytes), v.s.ScopedInstr
		v.allocations(&result)
		v.curves(&result)
		v.rows(&result, memorySpace == 0)
		v.blocks(&result)
	}
	s := &stream{w: bufio.NewWriterSize(w, 64<<10)}
	v.write(s, &result)
	return cmp.Or(s.err, s.w.Flush())
}

// spaces returns the memory spaces of the selected program.
func (sel Selection) spaces(c *lifetime.Capture) ([]*lifetime.Space, error) {
	found := map[string][]*lifetime.Space{} // by host and module
	var exact, short, all []string
	for _, s := range c.Spaces {
		if s.Axis != lifetime.ProgramOrder {
			continue
		}
		key := fmt.Sprintf("%d\x00%s\x00%s", s.Source, s.Host, s.Module)
		if found[key] = append(found[key], s); len(found[key]) > 1 {
			continue
		}
		all = append(all, s.Module)
		switch sel.Module {
		case s.Module:
			exact = append(exact, key)
		case moduleName(s):
			short = append(short, key)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	switch {
	case len(exact) > 0:
		return found[exact[0]], nil
	case len(short) == 1:
		return found[short[0]], nil
	case len(all) == 0:
		return nil, fmt.Errorf("no compiled program %q: the capture has no compiled programs", sel.Module)
	case len(short) > 1:
		return nil, fmt.Errorf("several compiled programs are called %q; available: %s", sel.Module, strings.Join(all, ", "))
	}
	return nil, fmt.Errorf("no compiled program is called %q; available: %s", sel.Module, strings.Join(all, ", "))
}

// moduleName returns the name of a program without its number.
func moduleName(s *lifetime.Space) string {
	name, number, ok := strings.Cut(s.Module, "(")
	if _, err := strconv.ParseUint(strings.TrimSuffix(number, ")"), 10, 64); !ok || err != nil {
		return s.Module
	}
	return name
}

// viewer computes the result for one memory space.
type viewer struct {
	c      *lifetime.Capture
	s      *lifetime.Space
	values map[int64]*lifetime.Value

	regions map[int64]*lifetime.Region  // buffer allocations by index
	members map[int64][]*lifetime.Value // of an allocation, by its index
	whole   int64                       // bytes reserved for the whole program
	peak    int64                       // position of the highest level of temporary buffers
	calls   []byte                      // scratch
}

func newViewer(c *lifetime.Capture, s *lifetime.Space) *viewer {
	v := &viewer{c: c, s: s, values: map[int64]*lifetime.Value{}, regions: map[int64]*lifetime.Region{}, members: map[int64][]*lifetime.Value{}}
	for i := range s.Regions {
		v.regions[s.Regions[i].Index] = &s.Regions[i]
	}
	for i := range s.Values {
		value := &s.Values[i]
		v.values[value.ID] = value
		v.members[value.Allocation] = append(v.members[value.Allocation], value)
	}
	return v
}

// indefinite reports whether XProf treats an allocation as alive through the whole program.
func indefinite(r *lifetime.Region) bool {
	return r.Uses&(compiled.ForParameter|compiled.ForOutput|compiled.ForConstant) != 0
}

// category returns the group of an allocation.
func category(r *lifetime.Region) string {
	if r == nil { // possible in a hand-written model
		return ""
	}
	switch u := r.Uses; {
	case u&compiled.ForParameter != 0:
		return "Parameter"
	case u&compiled.ForOutput != 0:
		return "Output"
	case u&compiled.ForThreadLocal != 0:
		return "Thread-local"
	case u&compiled.ForConstant != 0:
		return "Constant"
	}
	return "Temporary"
}

// largest returns the value that represents an allocation, or nil: the largest one, the first of equals.
func (v *viewer) largest(r *lifetime.Region) *lifetime.Value {
	var best *lifetime.Value
	for _, m := range v.members[r.Index] {
		if m.Size > 0 && (best == nil || m.Size > best.Size) {
			best = m
		}
	}
	return best
}

// allocations fills in the sums over buffer allocations, and the allocations that live through the whole program.
func (v *viewer) allocations(out *preprocessed) {
	sum := func(of func(u compiled.Uses) bool) (bytes int64) {
		for i := range v.s.Regions {
			if r := &v.s.Regions[i]; of(r.Uses) {
				bytes = units.AddSat(bytes, r.Size)
			}
		}
		return bytes
	}
	out.EntryComputationParametersMib = mib(sum(func(u compiled.Uses) bool { return u&compiled.ForParameter != 0 }))
	out.NonReusableMib = mib(sum(func(u compiled.Uses) bool { return u&(compiled.ForThreadLocal|compiled.ForTuple) != 0 }))
	out.MaybeLiveOutMib = mib(sum(func(u compiled.Uses) bool { return u&compiled.ForOutput != 0 }))
	out.TotalBufferAllocationMib = mib(sum(func(u compiled.Uses) bool { return u&compiled.ForThreadLocal == 0 }))
	out.IndefiniteBufferAllocationMib = mib(sum(compiled.Uses.Whole))
	for i := range v.s.Regions {
		r := &v.s.Regions[i]
		if indefinite(r) {
			out.IndefiniteLifetimes = append(out.IndefiniteLifetimes, v.wholeAllocation(r))
			if v.largest(r) != nil {
				v.whole = units.AddSat(v.whole, r.Size)
			}
		}
	}
}

func (v *viewer) wholeAllocation(r *lifetime.Region) wholeAllocation {
	a := wholeAllocation{ID: r.Index, SizeMib: mib(r.Size)}
	for _, k := range []struct {
		is   bool
		name string
	}{
		{r.Uses&compiled.ForParameter != 0, "entry computation parameter"},
		{r.Uses&compiled.ForOutput != 0, "may-be live out"},
		{r.Uses&(compiled.ForThreadLocal|compiled.ForTuple) == 0, "reusable"},
	} {
		if k.is {
			a.Attributes = append(a.Attributes, k.name)
		}
	}
	for i, m := range v.members[r.Index] {
		name, path := instruction(&v.c.Sites[m.Site])
		shape := v.c.Sites[m.Site].Shape
		b := logicalBuffer{ID: m.ID, Shape: shape, SizeMib: mib(m.Size), HloName: name}
		if path != "" {
			b.ShapeIndex = strings.Split(path, ",")
		}
		a.LogicalBuffers = append(a.LogicalBuffers, b)
		if i == 0 {
			a.CommonShape = shape
		} else if a.CommonShape != shape {
			a.CommonShape = ""
		}
	}
	return a
}

// instruction splits a site's instruction into its name and the path in its result: "sort.6{0}" becomes
// "sort.6" and "0".
func instruction(s *lifetime.Site) (name, path string) {
	name, path, _ = strings.Cut(s.Instr, "{")
	return name, strings.TrimSuffix(path, "}")
}

// curves fills in the levels before each event and after the last one, and the highest of them. Allocations
// that live through the whole program count with their padded size in both curves.
func (v *viewer) curves(out *preprocessed) {
	n := v.s.End
	if n == 0 {
		out.PeakHeapMib, out.PeakUnpaddedHeapMib = mib(v.whole), mib(v.whole)
		return
	}
	type change struct{ padded, unpadded int64 }
	changes := make([]change, n+1)
	add := func(at, padded, unpadded int64) {
		k := &changes[at]
		k.padded, k.unpadded = units.AddSat(k.padded, padded), units.AddSat(k.unpadded, unpadded)
	}
	for i := range v.s.Buffers {
		b := &v.s.Buffers[i]
		if b.Begin < 0 {
			continue
		}
		unpadded := b.Requested
		if value := v.values[v.s.ValueIDs[i]]; value != nil && unpadded == b.Size { // XProf takes tables of pointers for larger than they are on TPU
			unpadded = max(unpadded, value.Requested)
		}
		add(b.Begin, b.Size, unpadded)
		if b.Edge&lifetime.EndOpen == 0 {
			add(b.End, -b.Size, -unpadded)
		}
	}
	whole := mib(v.whole)
	var level, peak change
	for k := range changes {
		out.HeapSizes = append(out.HeapSizes, mib(level.padded)+whole)
		out.UnpaddedHeapSizes = append(out.UnpaddedHeapSizes, mib(level.unpadded)+whole)
		level.padded = units.AddSat(level.padded, changes[k].padded)
		level.unpadded = units.AddSat(level.unpadded, changes[k].unpadded)
		if level.padded > peak.padded {
			peak, v.peak = level, int64(k)
		}
	}
	out.PeakHeapMib, out.PeakUnpaddedHeapMib, out.PeakHeapSizePosition = mib(peak.padded)+whole, mib(peak.unpadded)+whole, v.peak
	for i := range v.s.Marks {
		out.HloInstructionNames = append(out.HloInstructionNames, v.s.Marks[i].Text)
	}
	out.HloInstructionNames = append(out.HloInstructionNames, "")
	out.LogicalBufferSpans = map[string]steps{}
	for i := range v.s.Values {
		if value := &v.s.Values[i]; value.End >= value.Begin {
			out.LogicalBufferSpans[strconv.FormatInt(value.ID, 10)] = steps{value.Begin, value.End}
		}
	}
}

// small is the size in bytes below which buffers share one row.
const small = 16 << 10

// rows fills in the buffers alive at the peak, in order of birth and by size.
func (v *viewer) rows(out *preprocessed, withWhole bool) {
	var live []*lifetime.Value
	for i := range v.s.Regions {
		if r := &v.s.Regions[i]; withWhole && indefinite(r) {
			if m := v.largest(r); m != nil {
				live = append(live, m)
			}
		}
	}
	for _, i := range v.s.LiveAt(v.peak) {
		if value := v.values[v.s.ValueIDs[i]]; v.s.Buffers[i].Begin >= 0 && value != nil {
			live = append(live, value)
		}
	}
	tiny := int64(0)
	for _, value := range live {
		if value.Size < small {
			tiny = units.AddSat(tiny, value.Size)
			continue
		}
		out.MaxHeap = append(out.MaxHeap, heapRow{len(out.MaxHeap), value, value.Size})
	}
	if tiny > 0 {
		out.MaxHeap = append(out.MaxHeap, heapRow{len(out.MaxHeap), nil, tiny})
	}
	for i := range out.MaxHeap {
		out.BySizeToMaxHeap = append(out.BySizeToMaxHeap, i)
	}
	slices.SortStableFunc(out.BySizeToMaxHeap, func(x, y int) int {
		return cmp.Compare(mib(out.MaxHeap[y].bytes), mib(out.MaxHeap[x].bytes))
	})
	out.MaxHeapToBySize = make([]int, len(out.MaxHeap))
	for place, i := range out.BySizeToMaxHeap {
		out.MaxHeapToBySize[i] = place
		out.MaxHeapBySize = append(out.MaxHeapBySize, out.MaxHeap[i])
	}
}

func (v *viewer) heapObject(r heapRow) heapObject {
	value := r.value
	if value == nil {
		return heapObject{Numbered: r.number, Label: fmt.Sprintf("small (<%d bytes)", small), LogicalBufferID: -1, LogicalBufferSizeMib: mib(r.bytes)}
	}
	s := &v.c.Sites[value.Site]
	name, _ := instruction(s)
	return heapObject{
		Numbered: r.number, Label: name + ": " + s.Shape + " # " + s.Op, LogicalBufferID: value.ID,
		LogicalBufferSizeMib: mib(value.Size), UnpaddedShapeMib: mib(value.Requested), InstructionName: s.Instr, ShapeString: s.Shape,
		TfOpName: s.Op, GroupName: category(v.regions[value.Allocation]), OpCode: s.Opcode, SourceInfo: v.sourceInfo(s),
	}
}

// sourceInfo returns the source location of a site, or nil if it is not known.
func (v *viewer) sourceInfo(s *lifetime.Site) *sourceInfo {
	leaf := &v.c.Frames[v.c.Stacks[s.Stack].Frame]
	if leaf.File == "" {
		return nil
	}
	calls := v.calls[:0]
	for f := range v.c.FramesOf(s.Source) {
		calls = append(append(calls, f.File...), ':')
		calls = append(strconv.AppendInt(calls, int64(f.Line), 10), ':')
		calls = append(strconv.AppendInt(calls, int64(f.Column), 10), '\n')
	}
	v.calls = calls
	return &sourceInfo{FileName: leaf.File, LineNumber: leaf.Line, StackFrame: string(bytes.TrimSuffix(calls, []byte("\n")))}
}

// white is the color of the block of an allocation.
const white = "#ffffff"

// palette has XProf's colors of buffers, used in turn: by a buffer of the peak with the number of its row, else with
// the number of rectangles before it.
var palette = strings.Fields(`
	e91e63 2196f3 81c784 4dd0e1 3f51b5 e53935 ff9100 b39ddb 90a4ae 26c6da ad1457 03a9f4 2196f3 c2185b 795548 f9a825 00bfa5 880e4f d500f9
	ce93d8 ec407a 4caf50 ff8f00 ffca28 ab47bc 00e5ff ff9800 40c4ff 1e88e5 9fa8da bf360c 00b8d4 f57f17 64b5f6 e040fb ffab91 4caf50 01579b
	66bb6a ef9a9a 558b2f fb8c00 ff4081 00e676 388e3c 424242 6d4c41 c62828 616161 00897b 448aff 0d47a1 607d8b 673ab7 00c853 2e7d32 ffa726
	5e35b1 ba68c8 8d6e63 00bcd4 ff6f00 f4511e ff1744 9e9e9e d81b60 4a148c 26a69a 689f38 7b1fa2 b0bec5 304ffe f48fb1 ffd600 ffb74d 8bc34a
	303f9f 5d4037 80cbc4 ffcc80 00acc1 3e2723 ff5252 ff7043 e91e63 ea80fc e65100 d84315 212121 ff5722 1976d2 2962ff bdbdbd 3949ab 69f0ae
	d50000 ffd740 c0ca33 ff6e40 00b0ff 2979ff e64a19 7c4dff 607d8b 009688 ffb300 c51162 ffc400 29b6f6 3d5afe 76ff03 cddc39 b388ff 5c6bc0
	9e9d24 7cb342 ef5350 fdd835 ef6c00 4fc3f7 6200ea 004d40 ff8a65 ffab00 80deea 0097a7 7e57c2 ff6d00 1565c0 455a64 ffc107 4527a0 ff5722
	f44336 f57c00 827717 a5d6a7 82b1ff 9c27b0 ff80ab e1bee7 78909c 311b92 00695c 4e342e 3f51b5 651fff 9e9e9e 81d4fa f8bbd0 b71c1c 0091ea
	673ab7 a1887f 4db6ac ffa000 6a1b9a 43a047 bcaaa4 546e7a aeea00 e57373 ffccbc 006064 fbc02d ffeb3b 8bc34a 039be5 8e24aa 80d8ff 009688
	9ccc65 512da8 ffc107 757575 0277bd ff3d00 33691e 03a9f4 00838f ff8a80 283593 f50057 1a237e 90caf9 9c27b0 aa00ff aed581 afb42b 9575cd
	d32f2f 64dd17 f44336 795548 cddc39 ff9e80 7986cb dd2c00 0288d1 ff9800 263238 00796b 42a5f5 8c9eff 1b5e20 ffab40 536dfe 00bcd4 f06292`)

// blocks fills in the rectangles of temporary values, on top of their allocations, one allocation after the other.
func (v *viewer) blocks(out *preprocessed) {
	type drawn struct {
		region  *lifetime.Region
		members []*lifetime.Value
	}
	var all []drawn
	total := uint64(0)
	for i := range v.s.Regions {
		r := &v.s.Regions[i]
		members := slices.DeleteFunc(slices.Clone(v.members[r.Index]), func(m *lifetime.Value) bool { return m.End < m.Begin })
		if !indefinite(r) && len(members) > 0 {
			all = append(all, drawn{r, members})
			total += uint64(r.Size)
		}
	}
	if total == 0 { // nothing to draw
		return
	}
	rows := map[int64]int{} // of the peak, by value
	for _, r := range out.MaxHeap {
		if r.value != nil {
			rows[r.value.ID] = r.number
		}
	}
	const side = 4096 // of XProf's picture, in points: smaller rectangles are left out
	x, y, rectangles := side/float64(v.s.End), side/float64(total), 0
	offset := uint64(0)
	for _, d := range all {
		out.BufferBlocks = append(out.BufferBlocks, blockRow{d.region, nil, offset, white})
		if float64(d.region.Size)*y >= 1 {
			rectangles++
		}
		for _, m := range d.members {
			n, ok := rows[m.ID]
			if !ok {
				n = rectangles
			}
			out.BufferBlocks = append(out.BufferBlocks, blockRow{d.region, m, offset, "#" + palette[n%len(palette)]})
			if float64(m.End-m.Begin)*x >= 1 && float64(m.Size)*y >= 1 {
				rectangles++
			}
		}
		offset += uint64(d.region.Size)
	}
}

// block returns the rectangle of a row.
func (v *viewer) block(row blockRow) bufferBlock {
	r, m := row.region, row.value
	if m == nil {
		return bufferBlock{LogicalBufferID: -1, Name: category(r), Offset: row.offset, Size: r.Size, EndStep: v.s.End, Category: category(r), Color: row.color}
	}
	s := &v.c.Sites[m.Site]
	return bufferBlock{
		LogicalBufferID: m.ID, Name: s.Instr, Offset: row.offset + uint64(m.Offset), Size: m.Size, StartStep: m.Begin, EndStep: m.End,
		TfOpName: s.Op, Category: category(r), SourceInfo: v.sourceInfo(s), ShapeString: s.Shape, UnpaddedSize: m.Requested, Color: row.color,
	}
}
