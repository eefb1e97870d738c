package xplane

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// Field numbers of xplane.proto.
const (
	spacePlanes    = 1
	spaceErrors    = 2
	spaceWarnings  = 3
	spaceHostnames = 4

	planeName      = 2
	planeLines     = 3
	planeEventMeta = 4
	planeStatMeta  = 5

	lineTimestamp = 3
	lineEvents    = 4

	eventMetadata = 1
	eventOffset   = 2
	eventDuration = 3
	eventStats    = 4

	statMetadata = 1
	statDouble   = 2
	statUint     = 3
	statInt      = 4
	statString   = 5
	statBytes    = 6
	statRef      = 7

	entryKey   = 1 // of a map
	entryValue = 2

	metaStats = 5

	nameField = 2 // of lines and metadata
)

// maxText bounds the names and texts that are read, in bytes.
const maxText = 1 << 20

// plane is what the first pass finds in an XPlane.
type plane struct {
	name  string
	lines []span
	names span // from the first entry of its metadata maps to the last
	cut   bool // the file ends inside it
}

// look finds the parts of a plane without reading their content.
func (r *reader) look(body span) (plane, error) {
	p := plane{}
	w := &r.look1
	w.open(body)
	for f, s, ok := w.nextBytes(); ok; f, s, ok = w.nextBytes() {
		switch f.number {
		case planeName:
			if b, ok := w.take(f, maxText); ok {
				p.name = string(b)
			}
			continue
		case planeLines:
			p.lines = append(p.lines, s)
		case planeEventMeta, planeStatMeta:
			if p.names.at == 0 {
				p.names.at = f.at
			}
			p.names.end = s.end
		}
		w.skip(s.end)
		p.cut = p.cut || s.end >= w.size && uint64(s.end-s.at) < f.value
	}
	return p, r.settle(w, &p.cut)
}

// settle returns the error that stopped a window. The early end of the file is not an error here: settle
// records it, and everything read before it counts.
func (r *reader) settle(w *window, cut *bool) error {
	if w.err == errShort {
		*cut, r.truncated = true, true
		return nil
	}
	return w.err
}

type entry struct {
	id   int64
	body span // of the XEventMetadata or XStatMetadata
	name span // in it
}

// entries calls use with every entry of one metadata map of a plane. name is valid until use returns.
func (r *reader) entries(p *plane, number int, use func(e entry, name []byte) error) error {
	w := &r.look1
	w.open(p.names)
	var failed error
	for f, s, ok := w.nextBytes(); ok && failed == nil; f, s, ok = w.nextBytes() {
		if f.number != number {
			w.skip(s.end)
			continue
		}
		w.within(s, func() {
			e, name := readEntry(w)
			if w.err == nil && e.body.end > 0 {
				failed = use(e, name)
			}
		})
	}
	if failed != nil {
		return failed
	}
	return r.settle(w, &p.cut)
}

// readEntry reads an entry of a metadata map. Its key precedes its value.
func readEntry(w *window) (e entry, name []byte) {
	for f, ok := w.next(); ok; f, ok = w.next() {
		switch {
		case f.number == entryKey && f.wire == varintType:
			e.id = int64(f.value)
		case f.wire == bytesType:
			s, ok := w.body(f)
			if !ok {
				return e, nil
			}
			if f.number != entryValue {
				w.skip(s.end)
				continue
			}
			e.body = s
			w.within(s, func() { e.name, name = readName(w, 0) })
			return e, name // anything after it would be a second value
		}
	}
	return e, nil
}

// readName returns the name in an XEventMetadata, XStatMetadata or XLine. It searches up to the first field
// with the number stop.
func readName(w *window, stop int) (span, []byte) {
	for f, s, ok := w.nextBytes(); ok && f.number != stop; f, s, ok = w.nextBytes() {
		if f.number == nameField {
			b, _ := w.take(f, maxText)
			return span{s.at, s.at + int64(len(b))}, b
		}
		w.skip(s.end)
	}
	return span{}, nil
}

// schema holds the numbers and names of the events and statistics of a plane.
type schema struct {
	names            texts // of events
	texts            texts
	stats            statTable
	allocation, free int64               // numbers of the allocator events; -1: none
	roots            bool                // some events may be roots of groups
	groupRules       map[int64]groupRule // by the metadata number of the event
	grouped          bool                // the file stores the groups itself
	loops            bool                // the program has loops on the host; XProf forms no groups then
}

func (r *reader) schema(p *plane) (schema, error) {
	s := schema{names: texts{in: r.in}, texts: texts{in: r.in}, allocation: -1, free: -1, groupRules: map[int64]groupRule{}}
	err := r.entries(p, planeEventMeta, func(e entry, name []byte) error {
		s.names.all = append(s.names.all, text{e.id, e.name})
		switch string(name) {
		case allocationName:
			s.allocation = e.id
		case freeName:
			s.free = e.id
		case "WhileOp-EvalCond", "WhileOp-StartBody", "ForOp", "ParallelForOp", "ForeverOp":
			s.loops = true
		default:
			if rule := groupRules[string(name)]; rule != noRule {
				s.groupRules[e.id] = rule
				s.roots = s.roots || rule <= executes
			}
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	err = r.entries(p, planeStatMeta, func(e entry, name []byte) error {
		if kind := statKinds[string(name)]; kind != otherStat {
			s.stats.set(e.id, kind)
			s.roots = s.roots || kind == isRoot
			s.grouped = s.grouped || kind == groupID
		}
		s.texts.all = append(s.texts.all, text{e.id, e.name})
		return nil
	})
	for _, t := range []*texts{&s.names, &s.texts} {
		slices.SortStableFunc(t.all, func(x, y text) int { return cmp.Compare(x.id, y.id) })
	}
	return s, err
}

// texts are the names of a plane's events or of its statistics. The latter are also its text table: a value may refer
// to one. They stay in the file until needed, because a profile may have millions.
type texts struct {
	in  io.ReaderAt
	all []text // by id
}

type text struct {
	id int64
	at span
}

// get returns the text with a number, or "" if there is none.
func (t *texts) get(id int64) string {
	i, ok := slices.BinarySearchFunc(t.all, id, func(n text, id int64) int { return cmp.Compare(n.id, id) })
	if !ok {
		return ""
	}
	b := make([]byte, t.all[i].at.end-t.all[i].at.at)
	if n, _ := t.in.ReadAt(b, t.all[i].at.at); n < len(b) {
		return ""
	}
	return string(b)
}

// modulesLine is the name of the TPU line that holds the runs of compiled programs.
const modulesLine = "XLA Modules"

// runs records the runs of compiled programs on a TPU. Their numbers count over all devices, in file order.
func (r *reader) runs(p *plane) error {
	names := map[int64]string{}
	err := r.entries(p, planeEventMeta, func(e entry, name []byte) error {
		if len(names) < maxInline {
			names[e.id] = string(name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	h := &host{r: r, p: p}
	h.decoder.stats = &h.stats
	return h.eachLine(func(l *line) error {
		w := &r.look2
		w.open(l.body)
		_, name := readName(w, lineEvents) // it precedes the events
		if err := r.settle(w, &r.truncated); err != nil || string(name) != modulesLine {
			return err
		}
		l.window(windowBytes)
		device, e := strings.TrimPrefix(p.name, "/device:"), &l.event
		return l.each(l.decodeNext, func() {
			r.b.Run(lifetime.Run{Name: names[e.meta], Plane: device, ID: r.ran, Begin: e.offset, End: units.AddSat(e.offset, e.duration)})
			r.ran++
		})
	})
}
