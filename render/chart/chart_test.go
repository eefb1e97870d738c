package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"image/png"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/native"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

var update = flag.Bool("update", false, "rewrite the pictures in testdata")

// open reads a capture from testdata/native, and returns its space with this id.
func open(t *testing.T, file, id string) (*lifetime.Capture, *lifetime.Space) {
	t.Helper()
	f, err := os.Open(filepath.Join("../../testdata/native", file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := build.New(build.Everything)
	if err := native.Read(file, f, b); err != nil {
		t.Fatal(err)
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, s := range c.Spaces {
		if s.ID() == id {
			return c, s
		}
		ids = append(ids, s.ID())
	}
	t.Fatalf("no space %q in %q", id, ids)
	return nil, nil
}

// scene is a space and the picture to draw of it.
type scene struct {
	name, file, id string
	draw           func(w io.Writer, c *judge.Capture, s *lifetime.Space, o Options) error
	o              Options
}

// marked draws the peak with a buffer marked.
func marked(buffer string) func(io.Writer, *judge.Capture, *lifetime.Space, Options) error {
	return func(w io.Writer, c *judge.Capture, s *lifetime.Space, o Options) error {
		return Peak(w, c.Capture, s, buffer, o)
	}
}

// account draws who had the memory when the last request failed.
func account(w io.Writer, c *judge.Capture, s *lifetime.Space, o Options) error {
	failures := c.Failures(s)
	return Account(w, c, &failures[len(failures)-1], "Out of memory on "+s.ID(), o)
}

var scenes = []scene{
	{"account", "../../testdata/oomtext/torchrun_4ranks.native", "rank 2/cuda:2", account, Options{}},
	{"usage-runtime", "runtime.native", "node7/tpu:3", Usage, Options{}},
	{"usage-program", "programs.native", "node7/jit_step(5)/space0", Usage, Options{Theme: canvas.Dark, Width: 700, Height: 300}},
	{"usage-torch", "../../testdata/torchsnap/mode_snapmark.native", "cuda:0", Usage, Options{}},
	{"usage-only", "../../testdata/gpumemprof/both.native", "cuda:0", Usage, Options{Theme: canvas.Light}},
	{"peak-program", "programs.native", "node7/jit_step(5)/space0", marked(""), Options{}},
	{"peak-marked", "programs.native", "node7/jit_step(5)/space0", marked("fusion.2"), Options{Width: 600}},
	{"peak-runtime", "runtime.native", "node7/tpu:3", marked(""), Options{Theme: canvas.Dark}},
}

func drawn(t *testing.T, sc scene) []byte {
	t.Helper()
	c, s := open(t, sc.file, sc.id)
	var w bytes.Buffer
	if err := sc.draw(&w, judge.Of(c), s, sc.o); err != nil {
		t.Fatalf("%s: %v", sc.name, err)
	}
	return w.Bytes()
}

func TestGoldens(t *testing.T) {
	for _, sc := range scenes {
		golden(t, sc.name, drawn(t, sc))
	}
}

// golden compares a picture with the one in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if err := xml.Unmarshal(got, new(struct{})); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	path := filepath.Join("testdata", name+".svg")
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
}

func TestPNG(t *testing.T) {
	for _, sc := range scenes {
		sc.o.Format = canvas.PNG
		first := drawn(t, sc)
		if !bytes.Equal(first, drawn(t, sc)) {
			t.Errorf("%s: two drawings differ", sc.name)
		}
		img, err := png.Decode(bytes.NewReader(first))
		if err != nil {
			t.Fatal(err)
		}
		if width := max(sc.o.Width, 480); sc.o.Width > 0 && img.Bounds().Dx() != 2*width {
			t.Errorf("%s is %d dots wide", sc.name, img.Bounds().Dx())
		}
	}
}

// Every column has the lowest and the highest level of its part of the window.
func TestCurve(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		w := plot.Window{From: -50, To: -50 + 1 + r.Int64N(4000), Columns: 1 + r.IntN(300)}
		var levels []lifetime.Level
		for at := w.From + r.Int64N(20); at < w.To; at += r.Int64N(40) { // some at one instant
			levels = append(levels, lifetime.Level{At: at, Bytes: r.Int64N(1000)})
		}
		c := newCurve(w, slices.Values(levels))
		for k := range w.Columns {
			low, high, known := int64(1<<60), int64(-1), false
			for i, l := range levels {
				until := w.To
				if i+1 < len(levels) {
					until = levels[i+1].At
				}
				// The level holds over [l.At, until), the column over [begin, end) / columns.
				begin, end := int64(k)*(w.To-w.From), int64(k+1)*(w.To-w.From)
				if n := int64(w.Columns); l.At < until && (l.At-w.From)*n < end && (until-w.From)*n > begin {
					low, high, known = min(low, l.Bytes), max(high, l.Bytes), true
				}
			}
			if known != c.known[k] || known && (low != c.low[k] || high != c.high[k]) {
				t.Fatalf("column %d of %d: %d to %d (%v), want %d to %d (%v)", k, w.Columns, c.low[k], c.high[k], c.known[k], low, high, known)
			}
		}
	}
}

// The curve of many changes contains their peak.
func TestPeakIsKept(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "a"})
	ref := b.Space()
	b.Describe(ref, lifetime.SpaceInfo{Device: "cuda:0", Axis: lifetime.Time})
	for i := range int64(200000) {
		size := int64(512)
		if i == 123456 {
			size = 1 << 30
		}
		b.Alloc(ref, 2*i, build.Block{Addr: 4096, Requested: size, Occupied: size})
		b.Free(ref, 2*i+1, build.Block{Addr: 4096, Requested: size, Occupied: size})
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	s := c.Spaces[0]
	curve := newCurve(plot.Window{From: s.Begin, To: s.End, Columns: 900}, s.Levels(lifetime.Occupied))
	if curve.highest() != s.Peak(lifetime.Occupied).Bytes {
		t.Errorf("the curve reaches %d, the peak is %v", curve.highest(), s.Peak(lifetime.Occupied))
	}
	var w bytes.Buffer
	if err := Usage(&w, judge.Of(c), s, Options{}); err != nil || w.Len() > 100000 {
		t.Errorf("%d bytes, %v", w.Len(), err)
	}
}

// The purposes add up to the peak.
func TestShares(t *testing.T) {
	for _, id := range []string{"node7/tpu:3", "node7/jit_small(9)/space0"} {
		c, s := open(t, "runtime.native", id)
		p := &peak{usage: usage{c: c, s: s, figure: newFigure(s, 960)}}
		if err := p.choose(""); err != nil {
			t.Fatal(err)
		}
		p.split()
		sum, count := int64(0), int64(0)
		for _, k := range p.kinds {
			sum, count = sum+k.bytes, count+k.count
		}
		if sum != p.peak.Bytes || count != int64(len(p.live)) {
			t.Errorf("%s: %d bytes in %d buffers, want %d in %d", id, sum, count, p.peak.Bytes, len(p.live))
		}
	}
}

func TestRefusals(t *testing.T) {
	c, s := open(t, "programs.native", "node7/jit_step(5)/space0")
	if err := Peak(io.Discard, c, s, "no such thing", Options{}); !errors.Is(err, errNotFound) || !strings.HasPrefix(err.Error(), "space node7/") {
		t.Error(err)
	}
	c, s = open(t, "../../testdata/gpumemprof/both.native", "cuda:0")
	if err := Peak(io.Discard, c, s, "", Options{}); !errors.Is(err, errNoBuffers) {
		t.Error(err)
	}
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "empty"})
	b.Describe(b.Space(), lifetime.SpaceInfo{Device: "cuda:0"})
	if c, err := b.Finish(); err != nil {
		t.Error(err)
	} else if err := Usage(io.Discard, judge.Of(c), c.Spaces[0], Options{}); !errors.Is(err, errNothing) {
		t.Error(err)
	}
}
