package blocks

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// blindness has matrices on linear RGB that simulate colour vision:
// Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation
// of Color Vision Deficiency" (2009), severity 1.
var blindness = map[string][3][3]float64{
	"none":         {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// lab returns a colour in CIE L*a*b*, as these eyes see it.
func lab(c canvas.RGB, eyes [3][3]float64) [3]float64 {
	var linear, seen [3]float64
	for i := range linear {
		v := float64(c>>(16-8*i)&255) / 255
		if linear[i] = v / 12.92; v > 0.04045 {
			linear[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	for i, row := range eyes {
		seen[i] = min(max(row[0]*linear[0]+row[1]*linear[1]+row[2]*linear[2], 0), 1)
	}
	f := func(r, g, b, white float64) float64 {
		t := (r*seen[0] + g*seen[1] + b*seen[2]) / white
		if t > 0.008856 {
			return math.Cbrt(t)
		}
		return 7.787*t + 16.0/116
	}
	x, y, z := f(0.4124564, 0.3575761, 0.1804375, 0.95047), f(0.2126729, 0.7151522, 0.0721750, 1), f(0.0193339, 0.1191920, 0.9503041, 1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// TestNames: nothing that is drawn later crosses a name on an area, and its figure is that of the area at the instant where it stands.
func TestNames(t *testing.T) {
	plates := regexp.MustCompile(`stroke-width="13" d="(M[^"]*)"`)
	paths := regexp.MustCompile(`<path [^>]* d="(M[^"]*)"`)
	box := func(d string) (b [4]int) {
		b = [4]int{math.MaxInt, math.MaxInt, 0, 0}
		for _, shape := range readPath(t, d) {
			for _, q := range shape.points {
				b = [4]int{min(b[0], q[0]), min(b[1], q[1]), max(b[2], q[0]), max(b[3], q[1])}
			}
		}
		return b
	}
	named := 0
	for seed := range uint64(8) {
		c, s := random(seed, 200, cuda).finish(t)
		for _, color := range []Color{BySite, ByCategory, BySize, ByLeak} {
			svg := string(render(t, c, s, Options{Color: color}))
			for _, at := range plates.FindAllStringSubmatchIndex(svg, -1) {
				named++
				plate := box(svg[at[2]:at[3]])
				for _, later := range paths.FindAllStringSubmatch(svg[at[1]:], -1) {
					if b := box(later[1]); b[0] < plate[2] && plate[0] < b[2] && b[1] < plate[1]+65 && plate[1]-65 < b[3] {
						t.Fatalf("seed %d, colour %d: %s is drawn over a name", seed, color, later[0])
					}
				}
			}
			p, err := newPicture(judge.Of(c), s, Options{Color: color})
			if err != nil {
				t.Fatal(err)
			}
			p.stack()
			for _, name := range p.names {
				group, figure, ok := strings.Cut(name.S, ": ")
				columns := int(canvas.Width(group+": "+units.Bytes(1023<<20), canvas.TextSize)+80)/columnWidth + 1
				at := p.cols.at[min(len(p.cols.at)-1, int((name.X-40-p.Left)/columnWidth)+columns/2)]
				sum, runs, last := int64(0), []int64(nil), -1 // all that is alive, and what touches in order of allocation
				p.each(func(i int, k uint8) {
					b := &s.Buffers[i]
					if !aliveAt(b, at) || b.Size == 0 {
						return
					}
					if int(k) != last {
						runs = append(runs, 0)
					}
					last = int(k)
					if p.classes[k].look == name.look {
						sum += b.Size
						runs[len(runs)-1] += b.Size
					}
				})
				legend := slices.IndexFunc(p.classes, func(c class) bool { return c.look == name.look })
				if ok && figure != units.Bytes(p.classes[legend].bytes) {
					t.Errorf("seed %d, colour %d: %q on a picture whose legend has %s", seed, color, name.S, units.Bytes(p.classes[legend].bytes))
				}
				if !ok || color == BySite {
					continue
				}
				// Small buffers are in bands of their own, so that more may touch in the picture.
				shown, err := units.ParseBytes(strings.ReplaceAll(figure, " ", ""))
				if err != nil || units.Bytes(sum) != figure && (shown > sum || float64(shown) < .995*float64(slices.Max(runs))) {
					t.Errorf("seed %d, colour %d: %q stands where %s are alive, of which %v touch (%v)", seed, color, name.S, units.Bytes(sum), runs, err)
				}
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d names", named)
	}
}

// TestPalette checks that people with common colour blindnesses can distinguish the
// colours of one picture, also in a grey print. A difference of 2 is barely visible.
func TestPalette(t *testing.T) {
	categories := []canvas.RGB{plot.UnknownLook.RGB}
	for k := purpose.ModelParameter; k <= purpose.Cache; k++ {
		categories = append(categories, plot.CategoryLook(k.String()).RGB)
	}
	categories = append(categories, plot.CategoryLook(purpose.Leaked.String()).RGB)
	phases := []canvas.RGB{}
	for _, name := range []string{"forward", "backward", "optimizer", "evaluation"} {
		phases = append(phases, plot.Phases[name].RGB)
	}
	for name, colors := range map[string][]canvas.RGB{"phases": phases, "sites": plot.Palette[:], "leaks": hatches[:], "sizes": shades[:], "categories": categories} {
		difference, lightness := 15.0, 4.0 // sizes are in order, leaks are hatched
		page := []canvas.RGB(nil)
		switch name {
		case "categories": // twelve colours, each by its meaning in every picture, on a white page
			difference, lightness, page = 20, 3, []canvas.RGB{0xffffff}
		case "phases": // each has its name or initial on it
			difference = 10
			for _, phase := range phases {
				for _, category := range categories {
					for who, eyes := range blindness {
						a, b := lab(phase, eyes), lab(category, eyes)
						if d := math.Hypot(math.Hypot(a[0]-b[0], a[1]-b[1]), a[2]-b[2]); d < 20 {
							t.Errorf("%s: phase %v and category %v differ by %.1f", who, phase, category, d)
						}
					}
				}
			}
		case "sites": // beside unknown and other ones
			difference, page = 20, []canvas.RGB{plot.UnknownLook.RGB, plot.OtherLook.RGB}
		}
		for who, eyes := range blindness {
			for i, c := range colors {
				for _, other := range append(page, colors[:i]...) {
					a, b := lab(c, eyes), lab(other, eyes)
					if d := math.Hypot(math.Hypot(a[0]-b[0], a[1]-b[1]), a[2]-b[2]); d < difference {
						t.Errorf("%s, %s: %v and %v differ by %.1f", name, who, c, other, d)
					}
				}
			}
		}
		var greys []float64
		for _, c := range colors {
			greys = append(greys, lab(c, blindness["none"])[0])
		}
		slices.Sort(greys)
		for i := 1; i < len(greys); i++ {
			if greys[i]-greys[i-1] < lightness {
				t.Errorf("%s: in grey, two colours have lightness %.1f and %.1f", name, greys[i-1], greys[i])
			}
		}
	}
}

// TestContrast: an area that has a contrast of less than 3 on a white page is below a darker edge: the line along the memory in use, which every stacked picture
// has from its first column to its last.
func TestContrast(t *testing.T) {
	contrast := func(c canvas.RGB) float64 { return 1.05 / (math.Pow((lab(c, blindness["none"])[0]+16)/116, 3) + .05) }
	least := 21.0
	for _, c := range plot.Categories {
		least = min(least, contrast(c))
	}
	for _, c := range slices.Concat(plot.Palette[:], shades[:], hatches[:], []canvas.RGB{plot.UnknownLook.RGB, plot.OtherLook.RGB, plot.BaseLook.RGB, stackLook.RGB}) {
		least = min(least, contrast(c))
	}
	for seed := range uint64(4) {
		c, s := random(seed, 100, cuda).finish(t)
		for _, color := range []Color{BySite, ByCategory, BySize, ByLeak} {
			svg := string(render(t, c, s, Options{Color: color}))
			dim := regexp.MustCompile(`--dim:#([0-9a-f]{6})`).FindStringSubmatch(svg)
			rgb, err := strconv.ParseUint(dim[1], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			p, err := newPicture(judge.Of(c), s, Options{Color: color})
			if err != nil {
				t.Fatal(err)
			}
			edge := point(0)
			for _, path := range regexp.MustCompile(`class="line-dim"[^>]* d="(M[^"]*)"`).FindAllStringSubmatch(svg, -1) {
				for _, shape := range readPath(t, path[1]) {
					first, last := shape.points[0], shape.points[len(shape.points)-1]
					if point(first[0]) == p.Left {
						edge = max(edge, point(last[0])-p.Left)
					}
				}
			}
			if drawn := edge == p.Right-p.Left; least < 3 && (!drawn || contrast(canvas.RGB(rgb)) < 3) {
				t.Errorf("seed %d, colour %d: an area has a contrast of %.2f, its edge is drawn: %v, and has %.2f", seed, color, least, drawn, contrast(canvas.RGB(rgb)))
			}
		}
	}
}

// TestAddressTexts: by address, no text is on the blocks: names are in the legend, and labels are above all addresses.
func TestAddressTexts(t *testing.T) {
	texts := regexp.MustCompile(`<text[^>]* x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)`)
	for seed := range uint64(8) {
		c, s := random(seed, 200, cuda).finish(t)
		p, err := newPicture(judge.Of(c), s, Options{Layout: Address})
		if err != nil {
			t.Fatal(err)
		}
		top, above := float64(p.Bottom-p.m.height(p.m.bytes)), 0
		for _, text := range texts.FindAllStringSubmatch(string(render(t, c, s, Options{Layout: Address})), -1) {
			x, _ := strconv.ParseFloat(text[1], 64)
			y, _ := strconv.ParseFloat(text[2], 64)
			if x, y = 10*x, 10*y; x < float64(p.Left) || x > float64(p.Right) || y > float64(p.Bottom) {
				continue
			}
			if above++; y > top {
				t.Errorf("seed %d: %q is on the blocks", seed, text[3])
			}
		}
		if above == 0 {
			t.Errorf("seed %d: no label", seed)
		}
	}
}
