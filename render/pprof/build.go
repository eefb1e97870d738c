package pprof

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/memlane/memlane/internal/shorten"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// Names of frames that do not come from a capture. The brackets distinguish them from functions.
const (
	beforeWindow = "[before the recording]"
	besideHeap   = "[stack]"
	noStack      = "[no stack recorded]"
	noName       = "[unknown function]"
)

// docURL is the documentation that pprof's web interface links to.
const docURL = "https://github.com/memlane/memlane/blob/main/docs/manual/pprof.md"

// builder builds one profile of several spaces. Functions and locations are numbered in the order in which the
// samples first use them.
type builder struct {
	profile   *profile.Profile // without samples, if they are encoded at once
	emit      func(*sample)
	options   Options
	functions map[functionKey]*profile.Function
	locations map[locationKey]uint64 // IDs
	mapping   *profile.Mapping
	shared    map[string]int // spaces of the profile by memory ID

	// Tables of one capture, by its IDs.
	capture *lifetime.Capture
	frames  []uint64           // IDs of locations; 0 where not used yet
	index   []uint32           // scratch of merge
	stacked []uint64           // scratch: the stack of a site
	numbers []number           // scratch
	shown   []lifetime.FrameID // scratch

	inuse []int64 // bytes, by part
}

type functionKey struct{ name, file string }

type locationKey struct {
	function uint64
	line     int64
}

func newBuilder(o Options) *builder {
	// The frames have no binary. This mapping declares that its symbols are present; without one, pprof reports
	// missing symbols on every run. It names no file, so that stacks of several profiles merge.
	mapping := &profile.Mapping{ID: 1, HasFunctions: true, HasFilenames: true, HasLineNumbers: true}
	b := &builder{
		mapping: mapping,
		profile: &profile.Profile{
			SampleType: []*profile.ValueType{
				allocObjects: {Type: "alloc_objects", Unit: "count"},
				allocSpace:   {Type: "alloc_space", Unit: "bytes"},
				inuseObjects: {Type: "inuse_objects", Unit: "count"},
				inuseSpace:   {Type: "inuse_space", Unit: "bytes"},
				leakedSpace:  {Type: "leaked_space", Unit: "bytes"},
			},
			DefaultSampleType: "inuse_space",
			DocURL:            docURL,
			Mapping:           []*profile.Mapping{mapping},
		},
		options:   o,
		functions: map[functionKey]*profile.Function{},
		locations: map[locationKey]uint64{},
		shared:    map[string]int{},
	}
	b.emit = b.keep
	return b
}

// keep adds a sample to the profile.
func (b *builder) keep(s *sample) {
	kept := &profile.Sample{Value: slices.Clone(s.values[:]), NumUnit: map[string][]string{}}
	for _, id := range s.stack {
		kept.Location = append(kept.Location, b.profile.Location[id-1])
	}
	if s.labels != nil {
		kept.Label = map[string][]string{}
	}
	for _, l := range s.labels {
		kept.Label[l.key] = []string{l.value}
	}
	if s.numbers != nil {
		kept.NumLabel = map[string][]int64{}
	}
	for _, n := range s.numbers {
		kept.NumLabel[n.key], kept.NumUnit[n.key] = []int64{n.value}, []string{n.unit}
	}
	b.profile.Sample = append(b.profile.Sample, kept)
}

// addSpace adds the samples of one space: the bytes from before the window, the bytes outside the heap, then
// its sites in order.
func (b *builder) addSpace(p part) {
	b.enter(p.capture)
	labels, root := b.labels(p), b.root(p)
	inuse := int64(0)
	for _, extra := range []struct {
		name  string
		bytes int64
	}{{beforeWindow, p.space.Base}, {besideHeap, p.space.StackAt(p.at)}} {
		if extra.bytes == 0 || !p.inside {
			continue
		}
		inuse = units.AddSat(inuse, extra.bytes)
		b.extra([]uint64{b.location(extra.name, "", 0), root}, extra.bytes, labels)
	}
	known := map[siteLabels][]label{} // sites with equal labels share them
	for _, site := range merge(&p, b.index) {
		own := b.siteLabels(p.space, &site)
		if known[own] == nil {
			known[own] = own.on(labels)
		}
		b.stacked = append(b.stack(b.stacked[:0], site.site), root)
		for i := range site.cells {
			c := &site.cells[i]
			inuse = units.AddSat(inuse, c.values[inuseSpace])
			b.cell(c, known[own], p.space.Axis)
		}
	}
	b.inuse = append(b.inuse, inuse)
}

// extra adds a sample of bytes in use that no buffer represents.
func (b *builder) extra(stack []uint64, bytes int64, labels []label) {
	b.emit(&sample{stack: stack, values: values{inuseSpace: bytes}, labels: labels})
}

// cell adds the sample of a cell of the site whose stack is at hand.
func (b *builder) cell(c *cell, labels []label, axis lifetime.Axis) {
	numbers := append(b.numbers[:0], number{"bytes", "bytes", c.sizes.mean(c.count)})
	if axis == lifetime.Time {
		numbers = append(numbers, number{"lifetime", "nanoseconds", c.lifes.mean(c.count)})
	}
	b.numbers = numbers
	b.emit(&sample{stack: b.stacked, values: c.values, labels: labels, numbers: numbers})
}

// siteLabels are the labels of a site's samples, in addition to those of its space.
type siteLabels struct{ kind, leak, op, region, shape, dtype, category, phase, module, name, holder string }

func (b *builder) siteLabels(s *lifetime.Space, c *siteCells) siteLabels {
	site := b.capture.Sites[c.site]
	kind := "buffer" // JAX's words
	switch {
	case c.kind != lifetime.Plain:
		kind = c.kind.String()
	case site.Region == "executable":
		kind, site.Region = site.Region, ""
	}
	op := site.Op
	if site.Stack == 0 || s.Axis == lifetime.ProgramOrder {
		op = "" // its frames already contain it
	}
	labels := siteLabels{kind: kind, leak: b.options.Marks.At(s, c.site).Label, op: op, region: site.Region,
		shape: site.Shape, dtype: site.DType}
	if p := b.capture.Purpose(c.purpose); c.purpose > 0 {
		labels.category, labels.phase, labels.module = p.Name(), p.Phase.String(), p.Module
	}
	if c.holder != 0 {
		held := holderLabels(&b.capture.Holders[c.holder])
		labels.name, labels.holder = held[0], held[1]
	}
	return labels
}

// on returns labels with those of a site.
func (l siteLabels) on(labels []label) []label {
	return with(labels, []label{{"kind", l.kind}, {"leak", l.leak}, {"op", l.op}, {"region", l.region},
		{"shape", l.shape}, {"dtype", l.dtype},
		{"category", l.category}, {"phase", l.phase}, {"module", l.module}, {"name", l.name}, {"holder", l.holder}}...)
}

// labels returns the labels common to all samples of a space.
func (b *builder) labels(p part) []label {
	labels := []label{{"device", p.space.Device}, {"memory_id", p.space.ID()}, {"rank", strings.TrimPrefix(b.rank(p), "rank ")}}
	// Ranks that write one file each often use the same device name.
	if b.shared[p.space.ID()] > 1 {
		labels = append(labels, label{"file", p.capture.Sources[p.space.Source].File})
	}
	return with(nil, labels...)
}

// rank returns the rank of a space: of its process, else of the name of its file.
func (b *builder) rank(p part) string {
	return b.options.Ranks.Of(p.space.Process, p.capture.Sources[p.space.Source].File)
}

// root returns the outermost frame of all stacks of a space: its memory ID, with the rank or file where several spaces
// have this ID. The peaks of several spaces are at different instants, so their sum is no level of any memory.
func (b *builder) root(p part) uint64 {
	name := p.space.ID()
	switch rank := b.rank(p); {
	case b.shared[name] < 2:
	case rank != "" && !strings.HasPrefix(name, rank):
		name = rank + "/" + name
	case rank == "":
		name = path.Base(p.capture.Sources[p.space.Source].File) + "/" + name
	}
	return b.location(cmp.Or(name, noName), "", 0)
}

// with returns labels and those of more that are not empty, by key.
func with(labels []label, more ...label) []label {
	all := slices.Clone(labels)
	for _, l := range more {
		if l.value != "" {
			all = append(all, label{l.key, shorten.Clean(l.value)})
		}
	}
	slices.SortFunc(all, func(x, y label) int { return cmp.Compare(x.key, y.key) })
	return all
}

// enter prepares the tables of a capture.
func (b *builder) enter(c *lifetime.Capture) {
	if b.capture == c {
		return
	}
	b.capture = c
	b.frames = make([]uint64, len(c.Frames))
	b.index = make([]uint32, len(c.Sites)*kinds)
}

// stack appends the frames of a site, leaf first. It never appends none, because pprof drops samples without
// frames from its reports by function.
func (b *builder) stack(to []uint64, id lifetime.SiteID) []uint64 {
	site := b.capture.Sites[id]
	if site.Stack == 0 {
		name := cmp.Or(site.Op, site.Instr, noStack)
		if site.Unseen {
			name = lifetime.BeforeWindow
		}
		return append(to, b.location(name, "", 0))
	}
	if b.options.UserFrames {
		return b.byPlace(to, id)
	}
	frames, cut := b.capture.Innermost(b.shown[:0], site.Stack)
	b.shown = frames
	return b.calls(to, frames, cut)
}

// byPlace appends a folded stack that begins with the place of the site, so that flat values are sums by place.
func (b *builder) byPlace(to []uint64, id lifetime.SiteID) []uint64 {
	frames, named, cut := b.capture.ShownFrames(b.shown[:0], id)
	b.shown = frames
	if named {
		p := b.capture.PlaceOf(id)
		name := p.String()
		if b.options.byFunction {
			name, _ = p.Parts()
		}
		to = append(to, b.location(name, p.Frame.File, int64(p.Frame.Line)))
	}
	return b.calls(to, frames, cut)
}

// calls appends the locations of frames, and one for the calls that were cut off.
func (b *builder) calls(to []uint64, frames []lifetime.FrameID, cut bool) []uint64 {
	for _, frame := range frames {
		to = append(to, b.frame(frame))
	}
	if cut {
		to = append(to, b.location(frame.OuterCalls, "", 0))
	}
	return to
}

func (b *builder) frame(id lifetime.FrameID) uint64 {
	if b.frames[id] == 0 {
		b.frames[id] = b.locationOf(&b.capture.Frames[id])
	}
	return b.frames[id]
}

// locationOf returns the ID of the location of a frame. Its function is named with the line, because go tool pprof adds
// up functions of one name, and two lines of a function are two call sites.
func (b *builder) locationOf(f *frame.Frame) uint64 {
	name := cmp.Or(f.Function, f.File, noName)
	if f.Function != "" && f.Line > 0 && !b.options.byFunction {
		name += " (" + f.Place() + ")"
	}
	return b.location(name, f.File, int64(f.Line))
}

// location interns a line of a function and returns its ID. SystemName stays empty: if it equals Name, pprof treats the
// name as a mangled C++ name and prints Python's "<module>" as "<unknown>".
func (b *builder) location(function, file string, line int64) uint64 {
	key := functionKey{shorten.Clean(function), shorten.Clean(file)}
	f := b.functions[key]
	if f == nil {
		f = &profile.Function{ID: uint64(len(b.profile.Function) + 1), Name: key.name, Filename: key.file}
		b.functions[key] = f
		b.profile.Function = append(b.profile.Function, f)
	}
	at := locationKey{f.ID, line}
	id := b.locations[at]
	if id == 0 {
		id = uint64(len(b.profile.Location) + 1)
		b.locations[at] = id
		b.profile.Location = append(b.profile.Location,
			&profile.Location{ID: id, Mapping: b.mapping, Line: []profile.Line{{Function: f, Line: line}}})
	}
	return id
}
