package blocks

import (
	"bytes"
	"testing"
)

// TestBytes checks that pictures of the default size have at most 40 KiB, somewhat more if thousands of buffers alternate in each colour, that the
// largest have a tooltip, and that MaxBlocks asks for more.
func TestBytes(t *testing.T) {
	for name, p := range map[string]*program{
		"few": training(2, 3, true), "training": training(60, 24, true), "layers": training(3, 300, false),
		"random": random(1, 400, cuda), "more": random(2, 4000, cuda), "most": random(3, 20_000, cuda),
	} {
		c, s := p.finish(t)
		for _, color := range []Color{BySite, BySize, ByLeak} {
			svg := render(t, c, s, Options{Color: color, Marks: p.marks(s)})
			noisy := len(s.Buffers) > 1000 && name != "training"
			if len(svg) > 40<<10 && !noisy || len(svg) > 56<<10 {
				t.Errorf("%s, colour %d: %d bytes", name, color, len(svg))
			}
			if tooltips := bytes.Count(svg, []byte("\naddress 0x")) + bytes.Count(svg, []byte(", alive at the end")); tooltips < 10 && !noisy {
				t.Errorf("%s, colour %d: %d tooltips", name, color, tooltips)
			}
			if more := render(t, c, s, Options{Color: color, Marks: p.marks(s), MaxBlocks: 10_000}); len(svg) > 30<<10 && len(more) <= len(svg) {
				t.Errorf("%s, colour %d: %d bytes with 10,000 blocks, %d without", name, color, len(more), len(svg))
			}
		}
	}
}
