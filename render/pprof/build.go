package pprof

import (
	"cmp"
	"maps"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/pprof/profile"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// Names of frames that do not come from a capture. The brackets distinguish them from functions.
const (
	beforeWindow = "[before the window]"
	besideHeap   = "[stack]"
	noStack      = "[no stack recorded]"
	noName       = "[unknown function]"
)

// docURL is the documentation that pprof's web interface links to.
const docURL = "https://github.com/memlane/memlane/blob/main/docs/manual/pprof.md"

// builder builds one profile of several spaces. Functions and locations are numbered in the order in which the
// samples first use them.
type builder struct {
	profile   *profile.Profile
	options   Options
	functions map[functionKey]*profile.Function
	locations map[locationKey]*profile.Location
	numUnits  map[string][]string
	mapping   *profile.Mapping
	shared    map[string]int // spaces of the profile by memory ID

	// Tables of one capture, by its IDs.
	capture *lifetime.Capture
	frames  []*profile.Location // nil where not used yet
	index   []uint32            // scratch of merge

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
	return &builder{
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
		locations: map[locationKey]*profile.Location{},
		numUnits:  map[string][]string{"bytes": {"bytes"}, "lifetime": {"nanoseconds"}},
		shared:    map[string]int{},
	}
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
		b.profile.Sample = append(b.profile.Sample, b.extra([]*profile.Location{b.location(extra.name, "", 0), root}, extra.bytes, labels))
	}
	known := map[siteLabels]map[string][]string{} // sites with equal labels share one map
	for _, site := range merge(&p, b.index) {
		own := b.siteLabels(p.space, &site)
		if known[own] == nil {
			known[own] = own.on(labels)
		}
		stack := append(b.stack(site.site), root)
		for i := range site.cells {
			c := &site.cells[i]
			inuse = units.AddSat(inuse, c.values[inuseSpace])
			b.profile.Sample = append(b.profile.Sample, b.sample(c, stack, known[own], p.space.Axis))
		}
	}
	b.inuse = append(b.inuse, inuse)
}

// extra returns a sample of bytes in use that no buffer represents.
func (b *builder) extra(stack []*profile.Location, bytes int64, labels map[string][]string) *profile.Sample {
	return &profile.Sample{Location: stack, Value: []int64{inuseSpace: bytes, leakedSpace: 0}, Label: labels}
}

// sample returns the sample of a cell. Its numbers share one array, because a profile has tens of thousands of
// samples.
func (b *builder) sample(c *cell, stack []*profile.Location, labels map[string][]string, axis lifetime.Axis) *profile.Sample {
	n := len(c.values)
	figures := append(make([]int64, 0, n+2), c.values[:]...)
	figures = append(figures, c.sizes.mean(c.count), c.lifes.mean(c.count))
	numbers := map[string][]int64{"bytes": figures[n : n+1 : n+1]}
	if axis == lifetime.Time {
		numbers["lifetime"] = figures[n+1:]
	}
	return &profile.Sample{Location: stack, Value: figures[:n:n], Label: labels, NumLabel: numbers, NumUnit: b.numUnits}
}

// siteLabels are the labels of a site's samples, in addition to those of its space.
type siteLabels struct{ kind, leak, op, region, shape, dtype, category, phase, module string }

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
	labels := siteLabels{kind: kind, leak: b.options.Marks.At(s, c.site).Label, op: op, region: site.Region, shape: site.Shape, dtype: site.DType}
	if p := b.capture.Purpose(c.purpose); c.purpose > 0 {
		labels.category, labels.phase, labels.module = p.Name(), p.Phase.String(), p.Module
	}
	return labels
}

// on returns labels with those of a site.
func (l siteLabels) on(labels map[string][]string) map[string][]string {
	labels = with(labels, "kind", l.kind)
	for _, more := range []struct{ key, value string }{{"leak", l.leak}, {"op", l.op}, {"region", l.region}, {"shape", l.shape}, {"dtype", l.dtype},
		{"category", l.category}, {"phase", l.phase}, {"module", l.module}} {
		if more.value != "" {
			labels[more.key] = []string{clean(more.value)}
		}
	}
	return labels
}

// labels returns the labels common to all samples of a space.
func (b *builder) labels(p part) map[string][]string {
	labels := with(nil, "device", p.space.Device)
	labels = with(labels, "memory_id", p.space.ID())
	labels = with(labels, "rank", strings.TrimPrefix(b.rank(p), "rank "))
	// Ranks that write one file each often use the same device name.
	if b.shared[p.space.ID()] > 1 {
		labels = with(labels, "file", p.capture.Sources[p.space.Source].File)
	}
	return labels
}

// rank returns the rank of a space: of its process, else of the name of its file.
func (b *builder) rank(p part) string {
	return b.options.Ranks.Of(p.space.Process, p.capture.Sources[p.space.Source].File)
}

// root returns the outermost frame of all stacks of a space: its memory ID, with the rank or file where several spaces
// have this ID. The peaks of several spaces are at different instants, so their sum is no level of any memory.
func (b *builder) root(p part) *profile.Location {
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

// with returns a copy of labels with one more, or an equal copy if the value is empty.
func with(labels map[string][]string, key, value string) map[string][]string {
	more := make(map[string][]string, len(labels)+1)
	maps.Copy(more, labels)
	if value != "" {
		more[key] = []string{clean(value)}
	}
	return more
}

// enter prepares the tables of a capture.
func (b *builder) enter(c *lifetime.Capture) {
	if b.capture == c {
		return
	}
	b.capture = c
	b.frames = make([]*profile.Location, len(c.Frames))
	b.index = make([]uint32, len(c.Sites)*kinds)
}

// stack returns the frames of a site, leaf first. It never returns none, because pprof drops samples without
// frames from its reports by function.
func (b *builder) stack(id lifetime.SiteID) []*profile.Location {
	site := b.capture.Sites[id]
	if site.Stack == 0 {
		name := cmp.Or(site.Op, site.Instr, noStack)
		if site.Unseen {
			name = lifetime.BeforeWindow
		}
		return []*profile.Location{b.location(name, "", 0)}
	}
	if b.options.UserFrames {
		return b.byPlace(id)
	}
	var stack []*profile.Location
	for at := site.Stack; at != 0; at = b.capture.Stacks[at].Caller {
		stack = append(stack, b.frame(b.capture.Stacks[at].Frame))
	}
	return stack
}

// byPlace returns a folded stack that begins with the place of the site, so that flat values are sums by place.
func (b *builder) byPlace(id lifetime.SiteID) (stack []*profile.Location) {
	frames, named := b.capture.Shown(id)
	for i := range frames {
		if i > 0 || !named {
			stack = append(stack, b.locationOf(&frames[i]))
			continue
		}
		p := b.capture.PlaceOf(id)
		name := frames[0].Function
		if b.options.byFunction {
			name, _ = p.Parts()
		}
		stack = append(stack, b.location(name, p.Frame.File, int64(p.Frame.Line)))
	}
	return stack
}

func (b *builder) frame(id lifetime.FrameID) *profile.Location {
	if b.frames[id] == nil {
		b.frames[id] = b.locationOf(&b.capture.Frames[id])
	}
	return b.frames[id]
}

// locationOf returns the location of a frame. Its function is named with the line, because go tool pprof adds up
// functions of one name, and two lines of a function are two call sites.
func (b *builder) locationOf(f *lifetime.Frame) *profile.Location {
	name := cmp.Or(f.Function, f.File, noName)
	if f.Function != "" && f.Line > 0 && !b.options.byFunction {
		name += " (" + f.Place() + ")"
	}
	return b.location(name, f.File, int64(f.Line))
}

// location interns a line of a function. SystemName stays empty: if it equals Name, pprof treats the name as a
// mangled C++ name and prints Python's "<module>" as "<unknown>".
func (b *builder) location(function, file string, line int64) *profile.Location {
	key := functionKey{clean(function), clean(file)}
	f := b.functions[key]
	if f == nil {
		f = &profile.Function{ID: uint64(len(b.profile.Function) + 1), Name: key.name, Filename: key.file}
		b.functions[key] = f
		b.profile.Function = append(b.profile.Function, f)
	}
	at := locationKey{f.ID, line}
	l := b.locations[at]
	if l == nil {
		l = &profile.Location{ID: uint64(len(b.profile.Location) + 1), Mapping: b.mapping, Line: []profile.Line{{Function: f, Line: line}}}
		b.locations[at] = l
		b.profile.Location = append(b.profile.Location, l)
	}
	return l
}

// clean returns capture text that is safe in a profile and on the terminal that pprof prints to. proto3 strings
// must be UTF-8, and control characters would break lines or control the terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}
