package blocks

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

var update = flag.Bool("update", false, "rewrite the pictures in testdata")

// scene is a space and the options of its picture.
type scene struct {
	name string
	c    *lifetime.Capture
	s    *lifetime.Space
	o    Options
}

func scenes(t testing.TB) []scene {
	var list []scene
	add := func(name string, p *program, o Options) {
		c, s := p.finish(t)
		o.Marks = p.marks(s)
		list = append(list, scene{name, c, s, o})
	}
	p := training(2, 2, false)
	add("stacked", p, Options{})
	p = training(6, 2, true)
	add("leaks", p, Options{})
	p = training(3, 2, true)
	add("by-leak", p, Options{Color: ByLeak, Title: "what stays"})
	p = training(3, 2, false)
	add("by-size", p, Options{Color: BySize, Width: 700, Height: 300})
	p = training(3, 2, true)
	add("dark", p, Options{Color: ByCategory, Theme: canvas.Dark})
	p = training(4, 3, false)
	add("merged", p, Options{MaxBlocks: 4})
	p = training(4, 3, false)
	add("merged-address", p, Options{MaxBlocks: 4, Layout: Address, Width: 600, Height: 260})
	add("address", fragmented(), Options{Layout: Address})
	add("oom", fragmented(), Options{})
	add("events", events(), Options{})
	add("before", before(), Options{})
	add("program", compiledOne(), Options{})
	add("program-address", compiledOne(), Options{Layout: Address})
	add("program-category", compiledOne(), Options{Color: ByCategory, Theme: canvas.Light})
	add("limit", limited(), Options{})
	add("limit-address", limited(), Options{Layout: Address})
	add("stack", tpu(), Options{})
	return list
}

// fragmented frees every other buffer of two regions that are far apart, and then
// requests more than the largest hole.
func fragmented() *program {
	p := newProgram("frag.pickle", cuda)
	site := p.at("fill", "frag.py", 9)
	far := uint64(firstAddress + 1<<40)
	for i := range uint64(2) {
		p.Reserve(p.space, p.now, lifetime.Region{Addr: firstAddress + i<<40, Size: 20 * mib, Site: site})
		p.now += 100
	}
	for i := range uint64(4) {
		p.Alloc(p.space, p.now, build.Block{Addr: firstAddress + i*uint64(5*mib), Requested: 5 * mib, Occupied: 5 * mib, Site: site})
		p.Alloc(p.space, p.now+300, build.Block{Addr: far + i*uint64(5*mib), Requested: 4 * mib, Occupied: 4 * mib, Site: site})
		p.now += 1000
	}
	for i := range uint64(2) {
		p.Free(p.space, p.now, build.Block{Addr: firstAddress + i*uint64(10*mib), Requested: 5 * mib, Occupied: 5 * mib})
		p.Annotate(p.space, p.now+50, far+i*uint64(10*mib), p.Note("kept <on> purpose & forever"))
		p.now += 700
	}
	p.Mark(p.space, lifetime.Mark{Begin: p.now, End: p.now, Kind: lifetime.OOM, Requested: 8 * mib, Free: failure.BytesOf(mib)})
	p.now += 2500
	p.Free(p.space, p.now, build.Block{Addr: far, Requested: 4 * mib, Occupied: 4 * mib})
	return p
}

// events is a history without a clock and stacks.
func events() *program {
	p := newProgram("old.pickle", lifetime.SpaceInfo{Device: "cuda:1", Process: "rank 3", Axis: lifetime.Event})
	sites := []lifetime.SiteID{p.Site(lifetime.Site{Op: "aten::mm"}), p.Site(lifetime.Site{Op: "aten::empty", Module: "net"}), 0}
	var live []uint64
	for i := range 14 {
		live = append(live, p.alloc(1, int64(i%4+1)*700*kib, sites[i%3]))
		if i%2 == 1 {
			p.free(1, live[0])
			live = live[1:]
		}
	}
	return p
}

// before has buffers from before the window and bytes without events.
func before() *program {
	p := newProgram("late.json", lifetime.SpaceInfo{Device: "cpu", Axis: lifetime.Time, Facts: lifetime.Clock})
	site := p.at("late", "late.py", 3)
	p.Total(p.space, lifetime.Total{T: 1000, Bytes: 5 * mib})
	p.Alloc(p.space, 2000, build.Block{Addr: 1 << 20, Requested: mib, Occupied: mib, Site: site})
	p.Free(p.space, 5000, build.Block{Addr: 1 << 30, Requested: 2 * mib, Occupied: 2 * mib})
	p.FreeRequested(p.space, 8000, build.Block{Addr: 1 << 20, Requested: mib, Occupied: mib})
	p.Alloc(p.space, 9000, build.Block{Addr: 1 << 21, Requested: 3 * mib, Occupied: 3 * mib, Site: site})
	return p
}

// compiledOne is a compiled program: an input, an output in the same allocation,
// temporaries in one allocation, and scopes as stacks.
func compiledOne() *program {
	const n = 40
	p := newProgram("host.xplane.pb", lifetime.SpaceInfo{Host: "node7", Module: "jit_step(5)", Memory: "space0", Axis: lifetime.ProgramOrder, Begin: -1, End: n, Facts: lifetime.Addresses | lifetime.Regions | lifetime.Stacks})
	site := func(op, instr, shape string, line int) lifetime.SiteID {
		leaf := p.Frame(frame.Frame{Function: op, File: "/home/me/train.py", Line: line, Kind: frame.Scope})
		return p.Site(lifetime.Site{
			Op: "jit(step)/mlp/" + op, Instr: instr, Opcode: "fusion", Shape: shape, DType: "f32",
			Stack: p.Stack([]lifetime.FrameID{leaf, p.Frame(frame.Frame{Function: "mlp", Kind: frame.Scope})}),
		})
	}
	at := uint64(0)
	for i, r := range []lifetime.Region{
		{Size: 6 * mib, Uses: compiled.ForParameter | compiled.ForOutput}, {Size: mib, Uses: compiled.ForConstant}, {Size: 16 * mib},
		{Size: 2 * mib, Uses: compiled.ForThreadLocal},
	} {
		r.Begin, r.End, r.Edge, r.Addr, r.Index = -1, n, lifetime.EndOpen, at, int64(i)
		p.Region(p.space, r)
		at += uint64(r.Size)
	}
	add := func(begin, end int64, addr, size, requested int64, kind lifetime.Kind, site lifetime.SiteID) {
		edge := lifetime.Edge(0)
		if end == n {
			edge = lifetime.EndOpen
		}
		p.Interval(p.space, build.Interval{Buffer: lifetime.Buffer{
			Begin: begin, End: end, Addr: uint64(addr), Size: size, Requested: requested, Site: site, Edge: edge, Kind: kind,
		}})

	}
	input := p.Site(lifetime.Site{Instr: "p0.1", Shape: "f32[1536,1024]{1,0:T(8,128)}", DType: "f32", Opcode: "parameter"})
	add(-1, n, 0, 6*mib, 6*mib, lifetime.Parameter, input)
	add(-1, n, 6*mib, mib, mib-100, lifetime.Constant, site("tri", "constant.4", "f32[512,512]{1,0}", 9))
	for i := range int64(3) {
		add(2+10*i, 20+8*i, (7+5*i)*mib, 4*mib, 100*kib, lifetime.Temporary, site("dot_general", fmt.Sprint("fusion.", i), "f32[8192,3]{1,0:T(8,128)}", 42))
	}
	add(12, n, 22*mib, mib, mib, lifetime.Temporary, site("exp", "exp.1", "f32[512,512]{1,0}", 43))
	p.Mark(p.space, lifetime.Mark{Begin: 12, End: 12, Kind: lifetime.Instruction, Text: "fusion.1"})
	return p
}

// limited is a device that is nearly full.
func limited() *program {
	desc := cuda
	desc.Limit = 24 * mib
	p := newProgram("full.pickle", desc)
	site := p.at("fill", "full.py", 9)
	for range 9 {
		p.alloc(100, 2*mib, site)
	}
	p.Mark(p.space, lifetime.Mark{Begin: p.now + 50, End: p.now + 50, Kind: lifetime.OOM, Requested: 8 * mib, Free: failure.BytesOf(6 * mib)})
	p.now += 200
	return p
}

// tpu is a capture of a TPU's allocator: operations without stacks, bytes from before
// the window, and a growing stack outside the heap.
func tpu() *program {
	p := newProgram("tpu.xplane.pb", lifetime.SpaceInfo{Host: "node7", Device: "tpu:3", Axis: lifetime.Time, Facts: lifetime.Clock, Limit: 64 * mib})
	relu := p.Site(lifetime.Site{Op: "Relu", Shape: "[64,256]", DType: "float", Region: "output"})
	temp := p.Site(lifetime.Site{Op: "jit(step)/dot_general", Shape: "[8,4096]", DType: "bfloat16", Region: "temp"})
	used := 9 * mib
	for i := range 12 {
		site, size := relu, mib
		if i%3 == 1 {
			site, size = temp, 4*mib
		}
		used += size
		p.now += 1000
		addr := uint64(i+1) << 24
		p.Report(p.space, p.now, &lifetime.AllocatorEvent{
			Addr: addr, Requested: size - 7, Occupied: size, Site: site, Allocated: used, Stack: mib * int64(1+i/5), Peak: 60 * mib,
		})
		if site == temp {
			p.now += 500
			used -= size
			p.Report(p.space, p.now, &lifetime.AllocatorEvent{
				Free: true, Addr: addr, Requested: -1, Occupied: -1, Allocated: used, Stack: -1, Peak: 60 * mib,
			})
		}
	}
	return p
}

func TestGoldens(t *testing.T) {
	for _, sc := range scenes(t) {
		t.Run(sc.name, func(t *testing.T) {
			got := render(t, sc.c, sc.s, sc.o)
			read(t, got).checkTexts(t)
			path := filepath.Join("testdata", sc.name+".svg")
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs; look at it, then run go test -update", path)
			}
		})
	}
}

// nasty are names of hostile captures.
var nasty = []string{
	`</title><script>alert(1)</script>`, `" onload="alert(1)`, `<![CDATA[`, `]]>`, `<!-- --`, `&lt;&#x0;&amp`, `<lambda>`, "a\x00b\x1b[31m\x7f\u0085c",
	"\xff\xfe\xc3", "line\nbreak\ttab\rreturn", "\ufffe\uffff", "\u202egnp.exe\u2066", "javascript:alert(1)", strings.Repeat("長", 500),
	strings.Repeat("W", 100000), "", " ", "\xed\xa0\x80", "e\u0301\u200d",
}

func TestHostileNames(t *testing.T) {
	for _, l := range []Layout{Stacked, Address} {
		for i, name := range nasty {
			p := newProgram("/tmp/"+name, lifetime.SpaceInfo{Device: name, Process: name, Axis: lifetime.Time})
			site := p.at(name, name, 7)
			p.leaks = append(p.leaks, site)
			other := p.Site(lifetime.Site{Op: name, Module: name})
			p.alloc(100, mib, site)
			a := p.alloc(100, mib, other)
			p.Annotate(p.space, p.now+1, a, p.Note(name))
			p.Mark(p.space, lifetime.Mark{Begin: p.now + 2, End: p.now + 2, Kind: lifetime.OOM, Text: name})
			p.LiveRegion(p.space, lifetime.Region{Addr: a, Size: mib, Kind: name})
			p.free(100, a)
			c, s := p.finish(t)
			svg := render(t, c, s, Options{Layout: l, Title: name, Marks: p.marks(s)})
			if !utf8.Valid(svg) {
				t.Errorf("name %d: invalid UTF-8", i)
			}
			if len(svg) > 30000 {
				t.Errorf("name %d: %d bytes", i, len(svg))
			}
			d := read(t, svg)
			d.checkTexts(t)
			for _, title := range d.titles {
				for _, r := range title {
					if r < 0x20 && r != '\n' || r == 0x7F || r == 0x202E {
						t.Errorf("name %d: %q in %q", i, r, title)
					}
				}
			}
		}
	}
}

// TestTextsFit checks that texts do not overlap in pictures of all sizes.
func TestTextsFit(t *testing.T) {
	p := training(12, 5, true)
	c, s := p.finish(t)
	for _, l := range []Layout{Stacked, Address} {
		for _, size := range [][2]int{{1, 1}, {640, 300}, {960, 420}, {1800, 1000}} {
			read(t, render(t, c, s, Options{Layout: l, Width: size[0], Height: size[1], Marks: p.marks(s), MaxBlocks: 50})).checkTexts(t)
		}
	}
}

func TestHoverTexts(t *testing.T) {
	c, s := before().finish(t)
	d := read(t, render(t, c, s, Options{}))
	for _, want := range []string{
		"late (late.py:3)\n1.00 MiB (1,048,576 B)\naddress 0x100000\nfrom 1.00 µs, alive at the end (free pending)",
		"late (late.py:3)\n3.00 MiB (3,145,728 B)\naddress 0x200000\nfrom 8.00 µs, alive at the end",
		"unknown site\n2.00 MiB (2,097,152 B)\naddress 0x40000000\nallocated before the recording, for 4.00 µs",
		"older buffers (only a sum)\n3.00 MiB (3,145,728 B), without events",
	} {
		if !slices.Contains(d.titles, want) {
			t.Errorf("no tooltip is %q; the tooltips are %q", want, d.titles)
		}
	}
	for _, c := range []struct {
		p     *program
		o     Options
		wants []string
	}{
		{compiledOne(), Options{Layout: Address}, []string{
			"p0.1 (f32[1536,1024]{1,0:T(8,128)})\nparameter\n6.00 MiB (6,291,456 B)\noffset 0 (0x0)\nthrough the whole program",
			"dot_general (train.py:42)\njit(step)/mlp/dot_general\nfusion.1 f32[8192,3]{1,0:T(8,128)}\ntemporary\n4.00 MiB (4,194,304 B)\n" +
				"unpadded 100 KiB (102,400 B), overhead 3996.0 %\noffset 12582912 (0xc00000)\ninstruction 12 to 28",
			"exp (train.py:43)\njit(step)/mlp/exp\nexp.1 f32[512,512]{1,0}\ntemporary\n1.00 MiB (1,048,576 B)\noffset 23068672 (0x1600000)\ninstruction 12 to the end",
			"allocation 0, parameter, output\n6.00 MiB (6,291,456 B) at 0x0", "allocation 3, thread-local\n2.00 MiB (2,097,152 B) at 0x1700000",
		}},
		{tpu(), Options{}, []string{
			"stack of compiled programs\n3.00 MiB (3,145,728 B) at the peak, outside the heap",
			"older buffers (only a sum)\n9.00 MiB (9,437,184 B), without events",
			"Relu ([64,256])\nfloat output\n1.00 MiB (1,048,576 B)\nrequested 1.00 MiB (1,048,569 B), overhead 0.0 %\naddress 0x1000000\nfrom 1 ns, alive at the end",
		}},
	} {
		capture, space := c.p.finish(t)
		d := read(t, render(t, capture, space, c.o))
		for _, want := range c.wants {
			if !slices.Contains(d.titles, want) {
				t.Errorf("no tooltip is %q; the tooltips are %q", want, d.titles)
			}
		}
	}
	c, s = fragmented().finish(t)
	d = read(t, render(t, c, s, Options{}))
	if !slices.ContainsFunc(d.titles, func(s string) bool { return strings.HasSuffix(s, "\nkept <on> purpose & forever") }) {
		t.Errorf("no note in %q", d.titles)
	}
}

func TestManyLeaks(t *testing.T) {
	p := newProgram("many.bin", cuda)
	for i := range 12 {
		site := p.at(fmt.Sprintf("leak%d", i), "many.py", i)
		p.alloc(10, int64(20-i)*mib, site)
		p.leaks = append(p.leaks, site)
	}
	p.alloc(10, 500*mib, p.at("fine", "many.py", 99))
	c, s := p.finish(t)
	svg := string(render(t, c, s, Options{Marks: p.marks(s)}))
	for _, want := range []string{"leak0 ", "leak3 ", "other leaks (8)", "fine "} {
		if !strings.Contains(svg, ">"+want+"<") && !strings.Contains(svg, ">"+want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(svg, "leak4 <") {
		t.Error("leak4 has a separate row")
	}
}

// TestLeakBesideOthers draws a site that holds a workspace and leaks: only what leaks is hatched, and has the leak's words.
func TestLeakBesideOthers(t *testing.T) {
	p := newProgram("beside.bin", cuda)
	site := p.at("step", "train.py", 7)
	p.alloc(10, 8*mib, site)
	f := finding.Finding{Rule: "leak", Kind: finding.KindLeak, Severity: finding.Warning, Sites: []lifetime.SiteID{site}}
	for i := range 6 {
		p.alloc(10, mib/2, site)
		f.Kept = append(f.Kept, 1+i)
		f.Amount.Add(lifetime.Amount{Count: 1, Bytes: mib / 2, Requested: mib / 2})
	}
	c, s := p.finish(t)
	f.Space = s
	for _, color := range []Color{BySite, ByCategory, ByLeak, BySize} {
		d := read(t, render(t, c, s, Options{Color: color, Marks: finding.MarksOf([]finding.Finding{f})}))
		leaks := slices.DeleteFunc(d.titles, func(s string) bool { return !strings.Contains(s, "leak: 3.00 MiB in 6 buffers") })
		if len(leaks) != 6 || strings.Contains(strings.Join(leaks, ""), "8.00 MiB") {
			t.Errorf("colours %d: of a leak of 6 buffers, %d are drawn: %q", color, len(leaks), leaks)
		}
	}
}

// TestNarrowKeys: on a phone, the legend has the largest groups, also one whose figure is on its area, with whole names.
func TestNarrowKeys(t *testing.T) {
	p := newProgram("keys.bin", cuda)
	p.alloc(10, 500*mib, p.at("load_pretrained_checkpoint", "checkpoint_of_the_language_model.py", 112))
	for i := range 12 {
		p.alloc(10, int64(20-i)*mib, p.at("forward_of_a_layer", "modeling_of_the_layers.py", i+1))
	}
	c, s := p.finish(t)
	for _, width := range []int{plot.Least, 640, 960} {
		svg := string(render(t, c, s, Options{Width: width}))
		for _, want := range []string{"checkpoint_of_the_language_model.py:112", "modeling_of_the_layers.py:1", "modeling_of_the_layers.py:4"} {
			if width < 640 && !strings.Contains(svg, ">"+want+" <tspan") || width == 960 && !strings.Contains(svg, ">"+want) && !strings.Contains(svg, ">load_pretrained_checkpoint<") {
				t.Errorf("width %d: no %q", width, want)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	c, s := before().finish(t)
	bare := *s
	bare.Buffers, bare.Facts = nil, lifetime.Totals
	nowhere := *s
	nowhere.Facts &^= lifetime.Addresses
	huge := newProgram("huge", cuda)
	huge.Alloc(huge.space, 5, build.Block{Addr: 1 << 62, Requested: 1 << 61, Occupied: 1 << 61})
	hc, hs := huge.finish(t)
	for _, tc := range []struct {
		c    *lifetime.Capture
		s    *lifetime.Space
		o    Options
		want string
	}{
		{c, &bare, Options{}, "space cpu: no buffers to draw: blocks need a history or an end state, but this space has only totals"},
		{c, &nowhere, Options{Layout: Address}, "space cpu: no addresses"},
		{hc, hs, Options{}, "space cuda:0: the sizes add up to more than 1 EiB"},
	} {
		err := Write(io.Discard, judge.Of(tc.c), tc.s, tc.o)
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("error %v, want %q", err, tc.want)
		}
	}
	if err := Write(io.Discard, judge.Of(c), &nowhere, Options{}); err != nil {
		t.Error(err)
	}
}

// TestExtremes draws captures with the limits of every range, as in damaged captures.
func TestExtremes(t *testing.T) {
	for _, l := range []Layout{Stacked, Address} {
		for _, times := range [][2]int64{{math.MinInt64, math.MaxInt64 - 9}, {0, 1}, {math.MaxInt64 - 9, math.MaxInt64}, {-5, 1e18}} {
			p := newProgram("damaged", lifetime.SpaceInfo{Axis: lifetime.Time})
			for i, addr := range []uint64{0, 1, math.MaxUint64 - 4096, math.MaxUint64, 1 << 63} {
				p.Reserve(p.space, times[0], lifetime.Region{Addr: addr, Size: 1 << 62})
				p.Alloc(p.space, times[0]+int64(i), build.Block{Addr: addr, Requested: 1 << uint(8*i), Occupied: 1 << uint(8*i)})
				p.Mark(p.space, lifetime.Mark{Begin: times[i%2], End: times[i%2], Kind: lifetime.MarkKind(i % 4), Free: failure.BytesOf(math.MaxInt64), Requested: math.MaxInt64})
			}
			p.Free(p.space, times[1], build.Block{Addr: 1 << 63, Requested: 1 << 40, Occupied: 1 << 40})
			c, err := p.Finish()
			if err != nil {
				t.Fatal(err)
			}
			read(t, render(t, c, c.Spaces[0], Options{Layout: l}))
		}
	}
}
