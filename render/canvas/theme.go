package canvas

import "strings"

// RGB is a colour of the data: 0xRRGGBB.
type RGB uint32

// Role is a colour of the page, which the theme decides.
type Role uint8

const (
	Data       Role = iota // no role: the colour is given
	Background             // the page
	Foreground             // texts and strong lines
	Dim                    // texts that matter less
	Grid
	Room   // memory that is reserved and may be free
	Bad    // what went wrong
	Stays  // what matters less than what is hatched: in pictures of leaks, all else that is alive at the end
	Passes // still less: what was freed
)

// roles are the names of the roles in style sheets, and their colours. Dim
// texts have a contrast of at least 4.5 on the page.
var roles = [...]struct {
	name        string
	light, dark RGB
}{
	Data:       {"fg", 0x24292f, 0xe6edf3}, // of texts
	Background: {"bg", 0xffffff, 0x0d1117},
	Foreground: {"fg", 0x24292f, 0xe6edf3},
	Dim:        {"dim", 0x5f6871, 0x9198a1},
	Grid:       {"grid", 0xd8dee4, 0x30363d},
	Room:       {"room", 0xe8edf2, 0x1b222b},
	Bad:        {"bad", 0xc0283d, 0xff7b86},
	Stays:      {"stays", 0xb4c3d2, 0x3d4c5c},
	Passes:     {"passes", 0xdde4eb, 0x252e38},
}

// color returns the value of a role.
func (t Theme) color(r Role) RGB {
	if t == Dark {
		return roles[r].dark
	}
	return roles[r].light
}

// styleSheet returns the colours of the page. Its selectors name the picture, so
// that it may stand in a page beside others. Where both themes are in it every
// colour stands twice, as converters that know no variables (librsvg) keep to the
// plain one.
func (t Theme) styleSheet() string {
	var b strings.Builder
	b.WriteString("<style>")
	if t == Auto {
		variables := func(dark bool) {
			b.WriteString(".memlane{")
			for r := Background; int(r) < len(roles); r++ {
				c := roles[r].light
				if dark {
					c = roles[r].dark
				}
				b.WriteString("--" + roles[r].name + ":" + c.String() + ";")
			}
			b.WriteString("}")
		}
		variables(false)
		b.WriteString("@media(prefers-color-scheme:dark){")
		variables(true)
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

// String returns the colour as style sheets have it.
func (c RGB) String() string {
	const digits = "0123456789abcdef"
	s := []byte("#000000")
	for i := range 6 {
		s[6-i] = digits[c>>(4*i)&15]
	}
	return string(s)
}
