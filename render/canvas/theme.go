package canvas

import (
	"fmt"
	"math"
	"strings"
)

// RGB is a colour of the data: 0xRRGGBB.
type RGB uint32

// Role is a colour of the page that depends on the theme.
type Role uint8

const (
	Data       Role = iota // no role: the look has its RGB
	Background             // the page
	Foreground             // texts and strong lines
	Dim                    // less important texts
	Grid
	Room   // reserved memory, which may be free
	Bad    // problems, such as failed allocations
	Stays  // less important than hatched: in pictures of leaks, other buffers alive at the end
	Passes // least important: in pictures of leaks, freed buffers
	Ink    // texts on light shapes
	Chalk  // texts on dark shapes
)

// roles has the names of the roles in style sheets, and their colours. Dim texts have a
// contrast of at least 4.5 on the page.
var roles = [...]struct {
	name        string
	light, dark RGB
}{
	Data:       {"fg", 0x24292f, 0xe6edf3}, // of texts
	Background: {"bg", 0xffffff, 0x0d1117},
	Foreground: {"fg", 0x24292f, 0xe6edf3},
	Dim:        {"dim", 0x5f6871, 0x9198a1},
	Grid:       {"grid", 0xd8dee4, 0x30363d},
	Room:       {"room", 0xdde3ea, 0x3a434f},
	Bad:        {"bad", 0xc0283d, 0xff7b86},
	Stays:      {"stays", 0xb4c3d2, 0x3d4c5c},
	Passes:     {"passes", 0xdde4eb, 0x252e38},
	Ink:        {"ink", 0x1b1f24, 0x1b1f24},
	Chalk:      {"chalk", 0xffffff, 0xffffff},
}

// color returns the colour of a role.
func (t Theme) color(r Role) RGB {
	if t == Dark {
		return roles[r].dark
	}
	return roles[r].light
}

// styleSheet returns the style sheet of the page. Its selectors name the picture, so that
// it does not change other parts of a web page. With both themes, it has every colour
// twice: converters without support for variables (librsvg) use the plain one.
func (t Theme) styleSheet() string {
	var b strings.Builder
	b.WriteString("<style>")
	if t == Auto {
		variables := func(t Theme) {
			b.WriteString(".memlane{")
			for r := Background; int(r) < len(roles); r++ {
				b.WriteString("--" + roles[r].name + ":" + t.color(r).String() + ";")
			}
			b.WriteString("}")
		}
		variables(Light)
		b.WriteString("@media(prefers-color-scheme:dark){")
		variables(Dark)
		b.WriteString("}")
	}
	rule := func(selector, property string, r Role) {
		b.WriteString(".memlane " + selector + "{" + property + ":" + t.color(r).String())
		if t == Auto {
			b.WriteString(";" + property + ":var(--" + roles[r].name + ")")
		}
		b.WriteString("}")
	}
	rule("text", "fill", Foreground)
	for r := Background; int(r) < len(roles); r++ {
		rule("."+roles[r].name, "fill", r)
		rule(".line-"+roles[r].name, "stroke", r)
	}
	rule(".edge", "stroke", Background)
	rule(".halo", "stroke", Background)
	b.WriteString(".memlane .edge{stroke-width:.5}.memlane .halo{stroke-width:3;stroke-linejoin:round;paint-order:stroke}</style>\n")
	return b.String()
}

// On returns the role of texts on shapes of a look: the one with more contrast.
func On(l Look) Role {
	switch {
	case l.Hatched || l.Role != Data:
		return Foreground
	case contrast(l.RGB, roles[Ink].light) >= contrast(l.RGB, roles[Chalk].light):
		return Ink
	}
	return Chalk
}

// contrast returns the contrast of two colours as https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio defines it, 1 to 21.
func contrast(a, b RGB) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// luminance returns the relative luminance of a colour.
func luminance(c RGB) (sum float64) {
	for i, weight := range [...]float64{0.2126, 0.7152, 0.0722} {
		v := float64(c>>(16-8*i)&255) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += float64(weight * v)
	}
	return sum
}

// pale returns the colour of stripes over c.
func (c RGB) pale() RGB {
	up := func(v RGB) RGB { return v + (255-v)*2/5 }
	return up(c>>16&255)<<16 | up(c>>8&255)<<8 | up(c&255)
}

// String returns the colour in the notation of style sheets: "#d1495b".
func (c RGB) String() string { return fmt.Sprintf("#%06x", uint32(c)) }
