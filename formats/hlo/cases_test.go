package hlo_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// three is the base of most cases: three instructions with one array each, and one buffer for each.
func three(allocations []message, traces ...message) program {
	p := program{allocations: allocations, traces: traces}
	for id := int64(1); id <= 3; id++ {
		p.instructions = append(p.instructions, instruction(id, array(f32, 100*id), metadata("jit(f)/mlp/dot")))
		p.buffers = append(p.buffers, buffer(id, 512*id, id))
	}
	return p
}

// temporaries holds the three buffers; the first two share bytes.
func temporaries() []message { return []message{allocation(0, 2560, 1, 0, 2, 0, 3, 1024)} }

// cases are small programs and the expected buffers of their first space: the value, [begin, end), address,
// size and size of the elements. After the first bar come the values that are inside others or have positions,
// after the second the skipped records.
var cases = []struct {
	name    string
	program program
	want    string
}{
	{"allocated and freed", three(temporaries(), trace(alloc(1), alloc(3), free(1))),
		"1[0,2)@0:512/400 3[1,3)@1024:1536/1200 open | 1[0,2] 3[1,2]"},
	{"shared while alive", three(temporaries(), trace(alloc(1), share(2, 1), free(1), alloc(3), free(2), free(3))),
		"1[0,4)@0:512/400 3[3,5)@1024:1536/1200 | 1[0,4] 2 in 1 3[3,5]"},
	{"shared when freed", three(temporaries(), trace(alloc(1), free(1), share(2, 1), alloc(3), free(2), free(3))),
		"1[0,1)@0:512/400 2[2,4)@0:512/400 3[3,5)@1024:1536/1200 | 1[0,1] 2[2,4] 3[3,5]"},
	{"shared by two when freed", three(temporaries(), trace(alloc(1), free(1), share(2, 1), share(3, 2), free(2), free(3))),
		"1[0,1)@0:512/400 2[2,5)@0:512/400 | 1[0,1] 2[2,4] 3 in 2"},
	{"allocated again", three(temporaries(), trace(alloc(1), free(1), alloc(1))),
		"1[0,1)@0:512/400 1[2,3)@0:512/400 open | 1[2,2]"},
	{"whole program", three([]message{
		allocation(0, 1536, 1, 0, 3, 0).num(liveOut, 1), allocation(1, 512).num(parameter, 1), allocation(2, 1024, 2, 0).num(constant, 1)}),
		"3[-1,0)@0:1536/1200 output open -1[-1,0)@1536:512/0 parameter open 2[-1,0)@2048:1024/800 constant open | 1 in 3"},
	{"thread-local", three([]message{allocation(0, 512, 1, 0).num(threadLocal, 1), allocation(1, 2560, 2, 0, 3, 1024)}),
		"3[-1,0)@512:2560/2224 open | 2 in 3"},
	{"allocations in any order", three([]message{allocation(7, 1536, 3, 0), allocation(2, 1024, 1, 0, 2, 512)}, trace(alloc(3), free(3))),
		"2[-1,2)@0:1024/800 open 3[0,1)@1024:1536/1200 | 1 in 2 3[0,1]"},
	{"trace of the first temporary allocation", three(
		[]message{allocation(0, 512, 1, 0), allocation(1, 2560, 2, 0, 3, 1024)}, trace(alloc(2), alloc(3), free(2)), trace(alloc(1), free(1))),
		"3[-1,2)@512:2560/2224 open 1[0,1)@0:512/400 | 1[0,1] 2 in 3"},
	{"and not the longest one", three(
		[]message{allocation(0, 512, 1, 0), allocation(1, 2560, 2, 0, 3, 1024)}, trace(alloc(1), free(1)), trace(alloc(2), alloc(3), free(2))),
		"3[-1,2)@512:2560/2224 open 1[0,1)@0:512/400 | 1[0,1] 2 in 3"},
	{"trace in two allocations", three(
		[]message{allocation(0, 512, 1, 0), allocation(1, 2560, 2, 0, 3, 1024)}, trace(alloc(1), alloc(3), free(3), free(1))),
		"1[0,3)@0:512/400 3[1,2)@1536:1536/1200 | 1[0,3] 3[1,2]"},
	{"trace in an output", three([]message{allocation(0, 2560, 1, 0, 2, 0, 3, 1024).num(liveOut, 1)}, trace(alloc(1), free(1))),
		"3[-1,2)@0:2560/2224 output open | 1[0,1] in 3 2 in 3"},
	{"two traces in an output, as long", three([]message{allocation(0, 2560, 1, 0, 2, 0, 3, 1024).num(liveOut, 1)}, trace(alloc(1), free(1)), trace(alloc(2), free(2))),
		"3[-1,2)@0:2560/2224 output open | 1[0,1] in 3 2 in 3"},
	{"no events of a color", func() program {
		p := three([]message{allocation(0, 512, 1, 0), allocation(1, 1536, 3, 0).num(color, 1)}, trace(alloc(3), free(3)))
		p.buffers[2] = p.buffers[2].colored(1)
		p.buffers = append(p.buffers[:1], p.buffers[2])
		return p
	}(), "1[-1,0)@0:512/400 open |"},
	{"what does not exist", func() program {
		p := three([]message{allocation(0, 2560, 1, 0, 2, 1024, 9, 0, 1, 0)}, trace(alloc(1), alloc(9), share(2, 9), free(3), free(1), free(1)))
		p.instructions = p.instructions[1:]
		return p
	}(), "1[0,4)@0:512/512 | 1[0,4] | 8: buffer_allocations: no logical buffer 9"},
	{"shares its own memory", three(temporaries(), trace(share(1, 1), alloc(1), alloc(1), share(1, 2), free(1))),
		"1[1,4)@0:512/400 | 1[1,4] | 3: heap_simulator_traces: logical buffer 1 shares"},
	{"two allocations of one number", three([]message{allocation(0, 512, 1, 0), allocation(0, 512, 2, 0)}),
		"1[-1,0)@0:512/400 open 2[-1,0)@512:512/512 open | | 2: buffer_allocations: index 0 twice"},
	{"part that is not there", func() program {
		p := three(temporaries())
		p.buffers[0] = buffer(1, 512, 1, 4)
		return p
	}(), "3[-1,0)@0:2560/2224 open | 1 in 3 2 in 3 | 1: logical buffer 1: its instruction has no such part"},
	{"part behind the last", func() program {
		p := three(temporaries())
		p.instructions[0] = instruction(1, tupleOf(array(f32, 4)), nil)
		p.buffers[0] = buffer(1, 512, 1, 1)
		return p
	}(), "3[-1,0)@0:2560/2224 open | 1 in 3 2 in 3 | 1: logical buffer 1: its instruction has no such part"},
	{"instruction number 0", program{instructions: []message{instruction(0, array(f32, 100), nil)},
		buffers: []message{buffer(1, 512, 0)}, allocations: []message{allocation(0, 512, 1, 0)}}, "1[-1,0)@0:512/400 open |"},
	{"largest first", func() program {
		p := three([]message{allocation(0, 2560, 3, 1024, 2, 0, 1, 0)})
		slices.Reverse(p.buffers)
		return p
	}(), "3[-1,0)@0:2560/2224 open | 2 in 3 1 in 3"},
	{"pointers of 4 bytes", program{instructions: []message{instruction(1, tupleOf(array(f32, 4), array(f32, 4), array(f32, 4)), nil)},
		buffers: []message{buffer(1, 16, 1)}, allocations: []message{allocation(0, 16, 1, 0)}}, "1[-1,0)@0:16/16 open |"}, // on TPU: no padding
	{"allocation of nothing", three(append(temporaries(), allocation(1, 0))), "3[-1,0)@0:2560/2224 open | 1 in 3 2 in 3"},
	{"nothing", program{}, "|"},
}

func TestCases(t *testing.T) {
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			c := mustRead(t, k.program)
			want := strings.Split(k.want, "|")
			got := []string{buffersOf(c), valuesOf(c.Spaces[0]), ""}
			if len(c.Losses) > 0 {
				l := c.Losses[0]
				got[2] = fmt.Sprintf("%d: %s", l.Count, strings.TrimPrefix(l.First, "jit_f(5): "))
			}
			for i, part := range append(want, "")[:3] {
				part = strings.TrimSpace(part)
				if i < 2 && part != got[i] || i == 2 && (part == "" && got[i] != "" || !strings.HasPrefix(got[i], part)) {
					t.Errorf("%s\nwant\n%s", got[i], part)
				}
			}
		})
	}
}

func buffersOf(c *lifetime.Capture) string {
	var list []string
	s := c.Spaces[0]
	for i := range s.Buffers {
		b := &s.Buffers[i]
		text := fmt.Sprintf("%d[%d,%d)@%d:%d/%d", s.ValueIDs[i], b.Begin, b.End, b.Addr, b.Size, b.Requested)
		if b.Kind != lifetime.Temporary {
			text += " " + b.Kind.String()
		}
		if b.Edge == lifetime.EndOpen {
			text += " open"
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

// valuesOf lists the values that are not identical with a buffer.
func valuesOf(s *lifetime.Space) string {
	var list []string
	for i := range s.Values {
		v := &s.Values[i]
		text := fmt.Sprint(v.ID)
		if v.End >= v.Begin {
			text += fmt.Sprintf("[%d,%d]", v.Begin, v.End)
		}
		if v.Root != v.ID {
			text += fmt.Sprintf(" in %d", v.Root)
		}
		if text != fmt.Sprint(v.ID) {
			list = append(list, text)
		}
	}
	return strings.Join(list, " ")
}

// TestShapes: the text, element type and element size of shapes, as XProf 2.24.2 displays them.
func TestShapes(t *testing.T) {
	tile := func(dimensions ...int64) message { return message{}.list(1, dimensions...) }
	shape := func(element int64, layout message, dimensions ...int64) message {
		return message{}.num(2, element).list(3, dimensions...).put(5, layout)
	}
	order := message{}.list(1, 1, 0)
	seven := slices.Repeat([]message{array(f32, 2)}, 7)
	for want, m := range map[string]message{
		"f32[200,300]{1,0:T(8,128)(2,1)} 240000": shape(f32, order.put(6, tile(8, 128), tile(2, 1)), 200, 300),
		"bf16[2,3]{1,0:T(8,*)E(16)S(3)} 12":      shape(16, order.put(6, tile(8, -1<<63)).num(7, 16).num(8, 3), 2, 3),
		"f32[9]{0:L(128)} 36":                    shape(f32, message{}.list(1, 0).num(16, 128), 9),
		"f32[9]{0:SC(0:4,6)} 36":                 shape(f32, message{}.list(1, 0).put(17, message{}.list(2, 4, 6)), 9),
		"f32[9]{0} 36":                           shape(f32, message{}.list(1, 0).num(16, 1), 9),
		"f32[<=9]{0} 36":                         array(f32, 9).list(6, 1),
		"f32[?]{0} 0":                            array(f32, -1<<63),
		"f32[] 4":                                shape(f32, nil),
		"f32[]{:T(128)} 4":                       shape(f32, message{}.put(6, tile(128))),
		"f32[3] 12":                              message{}.num(2, f32).list(3, 3),
		"s4[7]{0} 7":                             array(s4, 7),
		"s4[7]{0:E(4)} 4":                        shape(s4, message{}.list(1, 0).num(7, 4), 7),
		"token[] 0":                              message{}.num(2, 17),
		"opaque[] 8":                             message{}.num(2, 14),
		"pred[8]{0} 8":                           array(1, 8),
		"type34[2]{0} 1536":                      array(34, 2), // the first that is not known
		"c128[2]{0} 32":                          array(18, 2),
		"() 0":                                   tupleOf(),
		"(f32[2]{0}, (s4[1]{0})) 16":             tupleOf(array(f32, 2), tupleOf(array(s4, 1))),
		"(f32[2]{0}, f32[2]{0}, f32[2]{0}, f32[2]{0}, f32[2]{0}, /*index=5*/f32[2]{0}, f32[2]{0}) 56": tupleOf(seven...),
		"f64[3037000500,3037000500]{0} 1152921504606846976":                                           array(12, 3037000500, 3037000500),
	} {
		p := three(temporaries())
		p.instructions[2] = instruction(3, m, nil)
		c := mustRead(t, p)
		s := c.Spaces[0]
		site := c.Sites[s.Buffers[0].Site]
		if got := fmt.Sprintf("%s %d", site.Shape, s.Values[2].Requested); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if dtype, _, _ := strings.Cut(want, "["); site.DType != strings.Trim(dtype, "()") && dtype[0] != '(' || dtype[0] == '(' && site.DType != "" {
			t.Errorf("%s: elements of type %q", want, site.DType)
		}
	}
}

// TestDeepTuple: the text of deeply nested tuples is bounded.
func TestDeepTuple(t *testing.T) {
	m := array(f32, 2)
	for range 5000 {
		m = tupleOf(m)
	}
	p := three(temporaries())
	p.instructions[2] = instruction(3, m, nil)
	c := mustRead(t, p)
	if shape := c.Sites[c.Spaces[0].Buffers[0].Site].Shape; strings.Count(shape, "(") != 65 || !strings.Contains(shape, "(...)") {
		t.Errorf("shape %.400s", shape)
	}
}

// TestSites: scopes, source locations and calls, in new and old files.
func TestSites(t *testing.T) {
	location := func(file, function, line, column int64) message {
		return message{}.num(1, file).num(2, function).num(3, line).num(4, column)
	}
	frames := message{}.text(1, "/home/me/train.py").text(1, "/lib/python3/site-packages/jax/api.py").text(2, "step").text(2, "<module>").
		put(3, location(1, 1, 42, 7), location(1, 2, 99, 1), location(2, 1, 5, 3)).
		put(4, message{}.num(1, 2), message{}.num(1, 3).num(2, 1), message{}.num(1, 1).num(2, 2),
			message{}.num(1, 1).num(2, 4), // its own parent
			message{}.num(2, 1))
	for _, k := range []struct {
		name     string
		metadata message
		stack    string
		source   string
	}{
		{"scopes and calls", metadata("jit(step)/layer_3//mlp/dot_general").num(15, 3), "dot_general(train.py:42:7) mlp layer_3 jit(step)",
			"step(train.py:42:7) step(api.py:5:3)framework <module>(train.py:99:1)"},
		{"no scopes", metadata("").num(15, 1), "i1(train.py:99:1)", "<module>(train.py:99:1)"},
		{"neither", nil, "", ""},
		{"old place", metadata("a/b").text(3, "old.py").num(4, 8).num(18, 2).num(15, 1), "b(old.py:8:2) a", "<module>(train.py:99:1)"},
		{"frame that is not there", metadata("a").num(15, 77), "a", ""},
		{"negative frame", metadata("a").num(15, -1), "a", ""},
		{"frame without a place", metadata("a").num(15, 5), "a", " <module>(train.py:99:1)"},
		{"circle of frames", metadata("a").num(15, 4), "a(train.py:42:7)", "step(train.py:42:7)"},
	} {
		t.Run(k.name, func(t *testing.T) {
			p := three(temporaries())
			p.frames = frames
			p.instructions[0] = instruction(1, array(f32, 100), k.metadata)
			c := mustRead(t, p)
			site := c.Sites[c.Spaces[0].Values[0].Site]
			if got := stackText(c, site.Stack); got != k.stack {
				t.Errorf("stack %s\nwant  %s", got, k.stack)
			}
			if got := stackText(c, site.Source); got != k.source {
				t.Errorf("source %s\nwant   %s", got, k.source)
			}
		})
	}
}

// TestDeepFrames: calls that instructions share are stored once, however deep they are.
func TestDeepFrames(t *testing.T) {
	const n = 2000
	p := program{frames: message{}.text(1, "main.py").text(2, "f")}
	var placed []int64
	for i := range int64(n) {
		p.frames = p.frames.put(3, message{}.num(1, 1).num(2, 1).num(3, i+1)).put(4, message{}.num(1, i+1).num(2, i))
		p.instructions = append(p.instructions, instruction(i+1, array(f32, 100), metadata("").num(15, i+1)))
		p.buffers = append(p.buffers, buffer(i+1, 512, i+1))
		placed = append(placed, i+1, 512*i)
	}
	p.allocations = []message{allocation(0, 512*n, placed...)}
	c := mustRead(t, p)
	deepest := 0
	for _, site := range c.Sites {
		deepest = max(deepest, len(strings.Fields(stackText(c, site.Source))))
	}
	if len(c.Stacks) > 3*n || deepest != n {
		t.Errorf("%d calls are stored, the deepest stack has %d, of %d", len(c.Stacks), deepest, n)
	}
}

func stackText(c *lifetime.Capture, id lifetime.StackID) string {
	var list []string
	for f := range c.FramesOf(id) {
		text := f.Function
		if f.File != "" {
			text += fmt.Sprintf("(%s:%d)", f.Place(), f.Column)
		}
		if f.Kind == frame.Framework {
			text += "framework"
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

// TestOldLocations: old files identify instructions by name, new ones by number.
func TestOldLocations(t *testing.T) {
	p := three(temporaries())
	for id := range p.buffers {
		p.buffers[id] = message{}.num(1, int64(id+1)).num(2, 512).put(3, message{}.text(2, fmt.Sprintf("i%d", id+1)))
	}
	c := mustRead(t, p)
	for _, v := range c.Spaces[0].Values {
		if got, want := c.Sites[v.Site].Instr, fmt.Sprintf("i%d", v.ID); got != want {
			t.Errorf("value %d is of %q, want %s", v.ID, got, want)
		}
	}
}

// TestPlaces: each value names its part of the result.
func TestPlaces(t *testing.T) {
	p := three(temporaries())
	p.instructions[0] = instruction(1, tupleOf(array(f32, 4), tupleOf(array(s4, 9), array(f32, 1))), nil)
	p.buffers = []message{buffer(1, 512, 1), buffer(2, 512, 1, 0), buffer(3, 512, 1, 1, 0), buffer(4, 512, 1)}
	p.allocations = []message{allocation(0, 2560, 1, 0, 2, 0, 3, 1024, 4, 0)}
	c := mustRead(t, p)
	whole := "i1 (f32[4]{0}, (s4[9]{0}, f32[1]{0}))"
	want := []string{whole, "i1{0} f32[4]{0}", "i1{1,0} s4[9]{0}", whole}
	for i, v := range c.Spaces[0].Values {
		if site := c.Sites[v.Site]; site.Instr+" "+site.Shape != want[i] {
			t.Errorf("%s %s, want %s", site.Instr, site.Shape, want[i])
		}
	}
}
