package xplane

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// instant is a time in nanoseconds plus picoseconds. For clocks that count from 1970 one int64 cannot hold both.
type instant struct {
	ns int64
	ps int64 // 0 to 999
}

func (t instant) compare(u instant) int {
	return cmp.Or(cmp.Compare(t.ns, u.ns), cmp.Compare(t.ps, u.ps))
}

// after returns the time ps picoseconds after the timestamp ns (nanoseconds).
func after(ns, ps int64) instant {
	q, r := ps/1000, ps%1000
	if r < 0 {
		q, r = q-1, r+1000
	}
	return instant{ns + q, r}
}

// line reads the events of one thread, in order of time.
type line struct {
	h      *host
	w      window
	body   span
	stamp  int64 // timestamp of the line in nanoseconds
	at     instant
	event  event
	begins int64    // offset of event in the file
	sorted []placed // the remaining events, if the file does not store them in order of time
	cut    bool
	last   int64 // time offset of the last event

	nesting *nesting // of the events up to the current one, for call stacks; nil = not read
}

// placed is the time and file offset of an event. Reading an event twice takes less memory than keeping it.
type placed struct{ offset, at int64 }

// window creates the window of a line, with at most the given number of bytes.
func (l *line) window(most int) {
	l.w = l.h.r.window(int(min(int64(most), l.body.end-l.body.at+1)))
}

// open reads the fields before the events of a line.
func (l *line) open() error {
	l.w.open(l.body)
	l.last = -1 << 63
	if l.nesting != nil {
		l.nesting.open = l.nesting.open[:0]
		l.nesting.shorten()
	}
	for {
		before := l.w.at()
		f, ok := l.w.next()
		switch {
		case !ok:
			return l.h.r.settle(&l.w, &l.cut)
		case f.number == lineTimestamp && f.wire == varintType:
			l.stamp = int64(f.value)
		case f.number == lineEvents && f.wire == bytesType:
			l.w.skip(before)
			return nil
		case f.wire == bytesType:
			s, ok := l.w.body(f)
			if !ok {
				return l.h.r.settle(&l.w, &l.cut)
			}
			l.w.skip(s.end)
		}
	}
}

const eventTag = lineEvents<<3 | bytesType

// maxEvent bounds the body of an event.
const maxEvent = 16 << 20

// nextBody returns the bytes of the next event. They are valid until the next call.
func (l *line) nextBody() ([]byte, bool) {
	for {
		b := l.w.buf[l.w.pos:]
		// Fast path: nearly all events are whole in the window, with a length of one or two bytes.
		if len(b) >= 3 && b[0] == eventTag {
			n, head := int(b[1]), 2
			if n >= 0x80 {
				n, head = n&0x7f|int(b[2])<<7, 3
			}
			if head == 2 || b[2] < 0x80 {
				if head+n <= len(b) && l.w.at()+int64(head+n) <= l.w.end {
					l.w.pos += head + n
					return b[head : head+n], true
				}
			}
		}
		f, ok := l.w.next()
		switch {
		case !ok:
			return nil, false
		case f.number == lineTimestamp && f.wire == varintType:
			l.stamp = int64(f.value) // open stops at the first event
		case f.wire != bytesType:
		case f.number == lineEvents && f.value <= maxEvent:
			return l.w.take(f, maxEvent)
		default:
			s, ok := l.w.body(f)
			if !ok {
				return nil, false
			}
			if f.number == lineEvents {
				l.h.tooLarge = append(l.h.tooLarge, f.at)
			}
			l.w.skip(s.end)
		}
	}
}

// each opens the line and calls use after every step (next, scan or decodeNext) up to the end of the line.
func (l *line) each(step func() (bool, error), use func()) error {
	if err := l.open(); err != nil {
		return err
	}
	for {
		if more, err := step(); !more || err != nil {
			return err
		}
		use()
	}
}

// decodeNext advances to the next event of any kind in file order.
func (l *line) decodeNext() (bool, error) {
	at := l.w.at()
	b, ok := l.nextBody()
	if !ok {
		return false, l.h.r.settle(&l.w, &l.cut)
	}
	if !l.h.decoder.decode(b, &l.event) {
		return false, &damage{at, "an event cannot be read"}
	}
	return true, nil
}

// skipOthers skips events that are whole in the window and are not allocator events by their metadata number.
// In most files these are nearly all events.
func (l *line) skipOthers() {
	w, h := &l.w, l.h
	b := w.buf[:max(min(int64(len(w.buf)), w.end-w.base), 0)]
	for w.pos+8 <= len(b) && b[w.pos] == eventTag { // the header bytes below are in range
		n, body := int(b[w.pos+1]), w.pos+2
		if n >= short {
			n, body = n&0x7f|int(b[body])<<7, body+1
			if b[w.pos+2] >= short {
				return
			}
		}
		id, times := int64(b[body+1]), body+2
		if id >= short {
			id, times = id&0x7f|int64(b[body+2])<<7, body+3
			if b[body+2] >= short {
				return
			}
		}
		if n < 3 || body+n > len(b) || b[body] != eventMetadata<<3|varintType || id == h.allocation || id == h.free {
			return
		}
		if l.nesting != nil && !l.enterPlain(b, times, body+n, id) {
			return
		}
		w.pos = body + n
	}
}

// enterPlain opens the event whose time and duration are at b[i:end]. It returns false if the event must be decoded:
// its fields come in another order, or it may have a statistic that matters.
func (l *line) enterPlain(b []byte, i, end int, meta int64) bool {
	if i == end || b[i] != eventOffset<<3|varintType || i+18 > len(b) { // room for two 8-byte loads
		return false
	}
	word := binary.LittleEndian.Uint64(b[i+1:])
	last := lastByte(word)
	offset, i := int64(sevens(word, last)), i+2+last>>3
	if last == 64 || i > end {
		return false
	}
	duration := int64(0)
	if i < end && b[i] == eventDuration<<3|varintType {
		word = binary.LittleEndian.Uint64(b[i+1:])
		last = lastByte(word)
		if duration, i = int64(sevens(word, last)), i+2+last>>3; last == 64 || i > end {
			return false
		}
	}
	if i < end && l.h.linked {
		return false
	}
	l.nesting.enter(offset, duration, meta)
	return true
}

type errOrder struct{ l *line }

func (e *errOrder) Error() string { return "events are not in order" }

// next advances to the next relevant event: an allocator event, the root of a step, or a launch if the line is read for
// call stacks. It returns false at the end of the line.
func (l *line) next() (bool, error) {
	if l.sorted != nil {
		if len(l.sorted) == 0 {
			return false, nil
		}
		l.w.skip(l.sorted[0].at)
		l.sorted = l.sorted[1:]
	}
	ok, err := l.scan()
	if !ok || err != nil {
		return false, err
	}
	if l.event.offset < l.last {
		return false, &errOrder{l}
	}
	l.last = l.event.offset
	l.at = after(l.stamp, l.event.offset)
	return true, nil
}

// scan advances to the next relevant event in file order.
func (l *line) scan() (bool, error) {
	h := l.h
	for {
		if !h.roots {
			l.skipOthers()
		}
		begin := l.w.at()
		b, ok := l.nextBody()
		if !ok {
			return false, h.r.settle(&l.w, &l.cut)
		}
		id := metaOf(b)
		if id >= 0 && id != h.allocation && id != h.free && !h.roots && l.nesting == nil {
			continue
		}
		if !h.decoder.decode(b, &l.event) {
			return false, &damage{begin, "an event cannot be read"}
		}
		e := &l.event
		launches := false
		if l.nesting != nil && !h.reports(e) {
			l.enter()
			_, launches = e.launches()
		}
		if launches || h.reports(e) || e.is(isRoot) {
			l.begins = begin
			return true, nil
		}
	}
}

// scatteredBytes is the window size for lines whose events are read in another order than that of the file.
const scatteredBytes = 2 << 10

// sort finds all relevant events of a line and sorts them by time.
func (l *line) sort() error {
	l.sorted = []placed{}
	err := l.each(l.scan, func() { l.sorted = append(l.sorted, placed{l.event.offset, l.begins}) })
	if err != nil {
		return err
	}
	slices.SortStableFunc(l.sorted, func(x, y placed) int { return cmp.Compare(x.offset, y.offset) })
	l.window(scatteredBytes)
	l.w.open(l.body)
	return nil
}
