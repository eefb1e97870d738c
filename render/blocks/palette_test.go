package blocks

import (
	"math"
	"slices"
	"testing"

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

// TestPalette checks that people with common colour blindnesses can distinguish the
// colours of one picture, also in a grey print. A difference of 2 is barely visible.
func TestPalette(t *testing.T) {
	categories := []canvas.RGB{plot.UnknownLook.RGB}
	for k := purpose.ModelParameter; k <= purpose.Cache; k++ {
		categories = append(categories, plot.CategoryLook(k.String()).RGB)
	}
	for name, colors := range map[string][]canvas.RGB{"sites": plot.Palette[:], "leaks": hatches[:], "sizes": shades[:], "categories": categories} {
		difference, lightness := 15.0, 4.0
		if name == "categories" { // eleven colours, and not all of them in one picture
			difference, lightness = 12, 3
		}
		for who, eyes := range blindness {
			for i, c := range colors {
				for _, other := range colors[:i] {
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
