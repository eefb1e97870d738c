package blocks

import "github.com/memlane/memlane/render/plot"

// bytesAxis draws lines at round sizes.
func (p *picture) bytesAxis() {
	height := p.height()
	p.Upwards("bytes in use")
	p.sizeLines(height.From, func(v uint64) point { return p.Bottom - height.At(v) })
}

// addressAxis draws lines at round numbers of bytes of mapped memory.
func (p *picture) addressAxis(m *addressMap) {
	p.Upwards("offset, without gaps")
	p.sizeLines(m.scale.From, func(v uint64) point { return p.Bottom - m.height(v) })
}

// height returns where v bytes of mapped memory lie above the bottom.
func (m *addressMap) height(v uint64) point {
	i := len(m.below) - 1
	for i > 0 && m.below[i] > v {
		i--
	}
	return m.scale.At(v) + point(i)*m.gap
}

// sizeLines draws a line every 50 pixels at most.
func (p *picture) sizeLines(most uint64, y func(uint64) point) {
	for _, tick := range plot.Bytes(most, int((p.Bottom-p.Top)/500)) {
		p.GridLine(y(tick.At), tick.Label)
	}
}
