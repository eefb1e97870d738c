package xplane

import (
	"cmp"
	"slices"
)

// instant is a time: nanoseconds, and the picoseconds beyond them. Both
// together do not fit an int64 for clocks that count from 1970.
type instant struct {
	ns int64
	ps int64 // 0 to 999
}

func (t instant) compare(u instant) int {
	return cmp.Or(cmp.Compare(t.ns, u.ns), cmp.Compare(t.ps, u.ps))
}

// after returns the time some picoseconds after a timestamp.
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
	begins int64    // where event stands in the file
	sorted []placed // the rest of the events, where the file does not have them in order
	cut    bool
	last   int64 // offset of the last event
}

// placed is where the event of a time stands in the file: to read it once more
// takes less than to keep it.
type placed struct{ offset, at int64 }

// window makes the window of a line, of so many bytes at most.
func (l *line) window(most int) {
	l.w = l.h.r.window(int(min(int64(most), l.body.end-l.body.at+1)))
}

// open reads what stands before the events of a line.
func (l *line) open() error {
	l.w.open(l.body)
	l.last = -1 << 63
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

// eventTag is the tag of an event in a line.
const eventTag = lineEvents<<3 | bytesType

// maxEvent bounds the body of an event.
const maxEvent = 16 << 20

// body returns the next event's bytes, good until the next call.
func (l *line) nextBody() ([]byte, bool) {
	for {
		b := l.w.buf[l.w.pos:]
		// Nearly all events are whole in the window, with a length of two bytes.
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
			l.stamp = int64(f.value) // behind events: not seen so far
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

// skipOthers goes past events that are whole in the window and that no one wants, by
// the number of their metadata: in most files they are nearly all.
func (l *line) skipOthers() {
	w, h := &l.w, l.h
	b := w.buf[:max(min(int64(len(w.buf)), w.end-w.base), 0)]
	for w.pos+8 <= len(b) && b[w.pos] == eventTag { // room for all that is looked at
		n, body := int(b[w.pos+1]), w.pos+2
		if n >= short {
			n, body = n&0x7f|int(b[body])<<7, body+1
			if b[w.pos+2] >= short {
				return
			}
		}
		id := int64(b[body+1])
		if id >= short {
			id = id&0x7f | int64(b[body+2])<<7
			if b[body+2] >= short {
				return
			}
		}
		if n < 3 || body+n > len(b) || b[body] != eventMetadata<<3|varintType || id == h.allocation || id == h.free {
			return
		}
		w.pos = body + n
	}
}

// errOrder says that the events of a line are not in order of time.
type errOrder struct{ l *line }

func (e *errOrder) Error() string { return "events are not in order" }

// next goes on to the next event that is wanted: one of an allocator, or a root
// of a step. It reports false at the end of the line.
func (l *line) next() (bool, error) {
	if l.sorted != nil {
		if len(l.sorted) == 0 {
			return false, nil
		}
		l.w.skip(l.sorted[0].at)
		l.sorted = l.sorted[1:]
		ok, err := l.scan()
		l.at = after(l.stamp, l.event.offset)
		return ok, err
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

// scan finds the next wanted event in the order of the file.
func (l *line) scan() (bool, error) {
	h := l.h
	for {
		if !h.roots {
			l.skipOthers()
		}
		at := l.w.at()
		b, ok := l.nextBody()
		if !ok {
			return false, h.r.settle(&l.w, &l.cut)
		}
		id := metaOf(b)
		if id >= 0 && id != h.allocation && id != h.free && !h.roots {
			continue
		}
		if !h.decoder.decode(b, &l.event) {
			return false, &damage{at, "an event cannot be read"}
		}
		e := &l.event
		if h.reports(e) || e.is(isRoot) {
			l.begins = at
			return true, nil
		}
	}
}

// scatteredBytes is how much of a line is looked at in one piece whose events are
// read in another order than that of the file.
const scatteredBytes = 2 << 10

// sort finds all wanted events of a line and brings them in order.
func (l *line) sort() error {
	l.sorted = []placed{}
	if err := l.open(); err != nil {
		return err
	}
	for {
		ok, err := l.scan()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		l.sorted = append(l.sorted, placed{l.event.offset, l.begins})
	}
	slices.SortStableFunc(l.sorted, func(x, y placed) int { return cmp.Compare(x.offset, y.offset) })
	l.window(scatteredBytes)
	l.w.open(l.body)
	return nil
}
