package blocks

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/plot"
)

// many is a program of n call sites, equal in size, with shapes of the given number.
func many(n, shapes int) *program {
	p := newProgram("many.xplane.pb", cuda)
	for i := range n {
		site := lifetime.Site{Op: fmt.Sprintf("replica_%d/op", i)}
		if shapes > 0 {
			site.DType, site.Shape = "float", fmt.Sprintf("[%d,512]", i%shapes)
		}
		p.alloc(10, 4*mib, p.Site(site))
	}
	return p
}

// TestTelling checks that a picture of which call sites would leave most in grey is by what covers most of the peak, and says so.
func TestTelling(t *testing.T) {
	for _, test := range []struct {
		sites, shapes int
		want          Color
		says          string
	}{
		{8, 2, BySite, " by call site"},
		{16, 2, BySite, " by call site"}, // half of it
		{17, 2, ByShape, " by shape"},
		{749, 10, ByShape, " by shape"},
		{749, 17, BySize, " by size"}, // shapes leave most in grey too
		{749, 0, BySize, " by size"},
	} {
		c, s := many(test.sites, test.shapes).finish(t)
		s.Facts |= lifetime.Stacks
		if got := Telling(c, s); got != test.want {
			t.Errorf("%d sites with %d shapes: %d, want %d", test.sites, test.shapes, got, test.want)
		}
		d := read(t, render(t, c, s, Options{Color: test.want}))
		if !strings.Contains(d.titles[0], test.says) {
			t.Errorf("the picture is called %q, want %q in it", d.titles[0], test.says)
		}
	}
	c, s := many(749, 10).finish(t)
	d := read(t, render(t, c, s, Options{Color: ByShape}))
	text := ""
	for _, b := range d.texts {
		text += b.s + "\n"
	}
	for _, want := range []string{"float [0,512]\n", "float [7,512]\n", "other shapes (2)\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

// TestColoursByTop checks that those who have little at any time lose their colour first if the legend lacks room, also if they have much at the
// peak; that rows are in order of the peak, and that colours stay.
func TestColoursByTop(t *testing.T) {
	p := newProgram("p.pickle", cuda)
	category := func(region string) lifetime.SiteID { return p.Site(lifetime.Site{Op: region, Region: region}) }
	long := p.alloc(10, 40*mib, category("early"))
	p.free(1000, long)
	for i := range 12 {
		p.alloc(1, int64(i+1)*mib, category(fmt.Sprint("c", i)))
	}
	c, s := p.finish(t)
	for _, color := range []Color{ByCategory, BySite} {
		q, err := newPicture(judge.Of(c), s, Options{Color: color, Width: 480, Height: 240})
		if err != nil {
			t.Fatal(err)
		}
		least, early := q.classes[0].bytes, false
		for _, k := range q.classes {
			early = early || k.name == "early"
			if k.bytes > least && !strings.HasPrefix(k.name, "other ") {
				t.Errorf("colour %d: %q has a colour, with %d bytes at the peak after one with %d", color, k.name, k.bytes, least)
			}
			least = min(least, k.bytes)
		}
		if svg := string(render(t, c, s, Options{Color: color, Width: 1600, Height: 900})); !early || !strings.Contains(svg, ">at most 40.0 MiB<") {
			t.Errorf("colour %d: what had most memory has no colour or figure", color)
		}
		wide, err := newPicture(judge.Of(c), s, Options{Color: color, Width: 1600, Height: 900})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range q.classes[:len(q.classes)-1] {
			if !slices.ContainsFunc(wide.classes, func(w class) bool { return w.name == k.name && w.look == k.look }) {
				t.Errorf("%q has another colour in a larger picture", k.name)
			}
		}
	}
}

// TestNarrow: a narrow picture has no legend beside its plot. Each class has its name on an area, or else below the plot.
func TestNarrow(t *testing.T) {
	for _, file := range []string{"meaning/a17.pickle.zst", "torchsnap/leak_loss.pickle", "replay/b03.c2.oom.pickle.zst"} {
		c, err := judged.Open("../../testdata/"+file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		for _, layout := range []Layout{Stacked, Address} {
			var svg bytes.Buffer
			var frame plot.Frame
			o := Options{Width: 480, Color: ByCategory, Layout: layout, Frame: &frame}
			if err := Write(&svg, c, c.Spaces[0], o); err != nil {
				t.Fatal(err)
			}
			if frame.Width-frame.Right > 30 {
				t.Errorf("%s: the plot ends at %.0f of %.0f pixels", file, frame.Right, frame.Width)
			}
			p, err := newPicture(c, c.Spaces[0], o)
			if err != nil {
				t.Fatal(err)
			}
			for _, class := range p.classes {
				if !class.hidden && !strings.Contains(svg.String(), ">"+class.name) {
					t.Errorf("%s: %s has no name", file, class.name)
				}
			}
		}
	}
}
