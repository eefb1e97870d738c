package laws

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/memlane/memlane/formats"
)

// snapshot is a memory snapshot of PyTorch. The laws of evidence change it, because nothing has judged it yet: the program's own words,
// without pairs, kinds of frames or categories. What they do not change they share with the snapshot that it was made from.
type snapshot struct {
	traces   [][]event // by device
	segments []segment
	notes    []note // external_annotations; nil = the snapshot has none
	names    string // table of memlane's recorder; "" = none
	rest     []any  // keys and values
	bytes    int    // of the file
}

type event struct {
	action             string
	addr               int64
	size, stream, time int64
	frames             *callers
	rest               []any // keys and values

	noAddr, noTime bool
}

type segment struct {
	device, addr, size, stream int64
	frames                     *callers
	blocks                     []block
	expandable                 bool
	rest                       []any
}

type block struct {
	addr, size, requested int64
	state                 string
	frames                *callers
	rest                  []any

	noAddr, noRequested bool
}

const inactive = "inactive"

// note is the start or the end of an annotation.
type note struct {
	stage, name  string
	device, time int64
	noDevice     bool
}

// call is a frame.
type call struct {
	name, file string
	line       int64
	noLine     bool // line -1, which PyTorch writes as 2^64 - 1
	rest       []any
}

// callers are the frames of a stack, innermost first. Events share them.
type callers struct{ of []*call }

func (c *callers) len() int {
	if c == nil {
		return 0
	}
	return len(c.of)
}

// same reports whether two stacks have equal frames.
func (c *callers) same(d *callers) bool {
	return c == d || c.len() == d.len() && (c.len() == 0 || slices.EqualFunc(c.of, d.of, func(x, y *call) bool {
		return x == y || x.name == y.name && x.file == y.file && x.line == y.line
	}))
}

// readSnapshot reads a file. It fails for what the laws of evidence do not speak about: other formats, pickles of protocols before 2,
// snapshots without a history, and addresses beyond 63 bits.
func readSnapshot(data []byte) (s *snapshot, err error) {
	if bytes.HasPrefix(data, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		d, err := zstd.NewReader(nil)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		if data, err = d.DecodeAll(data, nil); err != nil {
			return nil, err
		}
	}
	if len(data) < 2 || data[0] != 0x80 {
		return nil, fmt.Errorf("no pickle")
	}
	root, err := unpickle(data)
	if err != nil {
		return nil, err
	}
	top, ok := root.(*dict)
	if !ok {
		return nil, fmt.Errorf("no snapshot with a history")
	}
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("%v", p)
		}
	}()
	return parse(top, len(data))
}

// fields takes a dict apart: each known key has a place for its value, the others are kept.
type fields map[string]func(v any)

func (d *dict) into(known fields) (rest []any) {
	for i := 0; i < len(d.items); i += 2 {
		if set := known[d.items[i].(string)]; set != nil {
			set(d.items[i+1])
		} else {
			rest = append(rest, d.items[i], d.items[i+1])
		}
	}
	return rest
}

type parser struct {
	calls  map[*dict]*call
	stacks map[*list]*callers
}

func parse(top *dict, size int) (*snapshot, error) {
	s, p := &snapshot{bytes: size}, &parser{map[*dict]*call{}, map[*list]*callers{}}
	used := false
	s.rest = top.into(fields{
		"device_traces": func(v any) {
			for _, of := range v.(*list).items {
				var trace []event
				for _, e := range of.(*list).items {
					trace = append(trace, p.event(e.(*dict)))
				}
				s.traces, used = append(s.traces, trace), used || len(trace) > 0
			}
		},
		"segments": func(v any) {
			for _, g := range v.(*list).items {
				s.segments = append(s.segments, p.segment(g.(*dict)))
			}
		},
		"external_annotations": func(v any) {
			s.notes = []note{}
			for _, a := range v.(*list).items {
				n := note{noDevice: true}
				a.(*dict).into(fields{"stage": textTo(&n.stage), "name": textTo(&n.name), "time_us": numberTo(&n.time),
					"device": func(v any) { n.device, n.noDevice = v.(int64), false }})
				s.notes = append(s.notes, n)
			}
		},
		"memlane": textTo(&s.names),
	})
	if !used {
		return nil, fmt.Errorf("no history")
	}
	return s, nil
}

func textTo(to *string) func(any)  { return func(v any) { *to, _ = v.(string) } }
func numberTo(to *int64) func(any) { return func(v any) { *to = v.(int64) } }

func (p *parser) frames(to **callers) func(any) {
	return func(v any) {
		of, ok := v.(*list)
		if !ok {
			return
		}
		if p.stacks[of] == nil {
			c := &callers{}
			for _, f := range of.items {
				c.of = append(c.of, p.call(f.(*dict)))
			}
			p.stacks[of] = c
		}
		*to = p.stacks[of]
	}
}

func (p *parser) call(d *dict) *call {
	if p.calls[d] == nil {
		c := &call{}
		c.rest = d.into(fields{"name": textTo(&c.name), "filename": textTo(&c.file), "line": func(v any) {
			n, ok := v.(int64)
			c.line, c.noLine = n, !ok
		}})
		p.calls[d] = c
	}
	return p.calls[d]
}

func (p *parser) event(d *dict) event {
	e := event{noAddr: true, noTime: true}
	e.rest = d.into(fields{"action": textTo(&e.action), "size": numberTo(&e.size), "stream": numberTo(&e.stream), "frames": p.frames(&e.frames),
		"addr":    func(v any) { e.addr, e.noAddr = v.(int64), false },
		"time_us": func(v any) { e.time, e.noTime = v.(int64), false }})
	return e
}

func (p *parser) segment(d *dict) (g segment) {
	g.rest = d.into(fields{"device": numberTo(&g.device), "address": numberTo(&g.addr), "total_size": numberTo(&g.size), "stream": numberTo(&g.stream),
		"is_expandable": func(v any) { g.expandable, _ = v.(bool) }, "frames": p.frames(&g.frames),
		"active_size": nothing, "allocated_size": nothing, "requested_size": nothing, // sums of blocks, which memlane does not read
		"blocks": func(v any) {
			for _, of := range v.(*list).items {
				b := block{noAddr: true, noRequested: true}
				b.rest = of.(*dict).into(fields{"size": numberTo(&b.size), "state": textTo(&b.state), "frames": p.frames(&b.frames),
					"address":        func(v any) { b.addr, b.noAddr = v.(int64), false },
					"requested_size": func(v any) { b.requested, b.noRequested = v.(int64), false }})
				g.blocks = append(g.blocks, b)
			}
		}})
	return g
}

func nothing(any) {}

// memory is a file that is not on a disk.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// inMemory opens data under any name.
func inMemory(data []byte) formats.Input {
	return formats.Input{File: func(string) (formats.File, error) { return memory{bytes.NewReader(data)}, nil }}
}

// TestSnapshots: a snapshot that is read and written again has the same model, in both protocols.
func TestSnapshots(t *testing.T) {
	tried := 0
	snapshots(t, []string{"../../testdata/torchsnap"}, func(s *unchanged) {
		want := modelOf(t, s.file, formats.Input{})
		for _, how := range []writing{{}, {old: true}} {
			if got := modelOf(t, s.file, inMemory(s.pickle(how))); got != want {
				t.Errorf("%s: written as %+v it has another model", s.file, how)
			}
		}
		tried++
	}, func(string, error) {})
	if tried < 40 {
		t.Errorf("only %d snapshots", tried)
	}
}

func modelOf(t *testing.T, file string, in formats.Input) string {
	t.Helper()
	c, err := formats.Open(file, in)
	if err != nil {
		t.Fatal(err)
	}
	return spelled(c)
}
