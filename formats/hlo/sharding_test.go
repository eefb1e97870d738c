package hlo_test

import (
	"strings"
	"testing"
)

// replicated, tiled and tupled are OpShardings.
func replicated() message                      { return message{} }
func tiled(dimensions ...int64) message        { return message{}.num(1, 3).list(3, dimensions...) }
func tupled(parts ...message) message          { return message{}.num(1, 2).put(5, parts...) }
func (m message) copiesLast() message          { return m.num(6, 1) }
func (m message) lastKinds(k ...int64) message { return m.list(8, k...) }

func TestSharding(t *testing.T) {
	for _, c := range []struct {
		name     string
		devices  int64
		sharding message
		want     string
	}{
		{"replicated", 8, replicated(), "replicated on 8 devices"},
		{"split", 8, tiled(1, 8), "split 1x8"},
		{"split with copies", 8, tiled(2, 1, 4).copiesLast(), "split 2x1, on 4 devices each"},
		{"copies by their kind", 8, tiled(2, 1, 4).lastKinds(0), "split 2x1, on 4 devices each"},
		{"in one part", 8, tiled(1, 1, 8).copiesLast(), "replicated on 8 devices"},
		{"manual", 8, message{}.num(1, 4), ""},
		{"manual in part", 8, tiled(2, 1, 4).lastKinds(4), ""},
		{"on one device", 8, message{}.num(1, 1).list(3, 1).list(4, 5), ""},
		{"of another rank", 8, tiled(1, 1, 8), ""},
		{"of other devices", 8, tiled(1, 4), ""},
		{"no parts", 8, tiled(0, 8), ""},
		{"more than there can be", 8, tiled(1<<40, 1<<40), ""},
		{"more kinds than dimensions", 8, tiled(8).lastKinds(0, 0), ""},
		{"for one device", 1, replicated(), ""},
		{"for an unknown number of devices", 0, replicated(), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			argument := message{}.text(1, "w").text(2, "parameter").put(3, array(f32, 64, 64)).num(35, 1)
			result := message{}.text(1, "dot").text(2, "dot").put(3, array(f32, 64, 64)).num(35, 2)
			root := message{}.text(1, "root").text(2, "tuple").put(3, tupleOf(array(f32, 64, 64))).num(35, 3).list(36, 2)
			module := message{}.text(1, "jit_f").text(2, "main").
				put(3, message{}.text(1, "main").put(2, argument, result, root).num(6, 3)).
				put(12, tupled(c.sharding)).put(14, c.sharding).put(15, message{}.num(2, c.devices))
			assignment := message{}.put(1, buffer(1, 16384, 1), buffer(2, 16384, 2)).
				put(3, allocation(0, 16384, 1, 0).num(parameter, 1), allocation(1, 16384, 2, 0).num(liveOut, 1))
			capture := captureOf(t, "jit_f", module, assignment)
			for _, buf := range capture.Spaces[0].Buffers {
				if got := capture.Sites[buf.Site].Sharding.String(); got != c.want {
					t.Errorf("%s: %q, want %q", capture.Sites[buf.Site].Instr, got, c.want)
				}
			}
		})
	}
}

// TestShardedOutput: a result that is a part of what an instruction returns. Scalars have nothing to shard.
func TestShardedOutput(t *testing.T) {
	fusion := message{}.text(1, "fusion").text(2, "fusion").put(3, tupleOf(array(f32), array(f32, 64))).num(35, 1)
	part := message{}.text(1, "part").text(2, "get-tuple-element").put(3, array(f32, 64)).num(13, 1).num(35, 2).list(36, 1)
	scalar := message{}.text(1, "scalar").text(2, "get-tuple-element").put(3, array(f32)).num(35, 3).list(36, 1)
	root := message{}.text(1, "root").text(2, "tuple").put(3, tupleOf(array(f32, 64), array(f32))).num(35, 4).list(36, 2, 3)
	module := message{}.text(1, "jit_f").text(2, "main").put(3, message{}.text(1, "main").put(2, fusion, part, scalar, root).num(6, 4)).
		put(12, tupled(tiled(2, 4).copiesLast(), replicated())).put(15, message{}.num(2, 8))
	assignment := message{}.put(1, buffer(1, 256, 1, 1), buffer(2, 4, 1, 0)).
		put(3, allocation(0, 256, 1, 0).num(liveOut, 1), allocation(1, 4, 2, 0).num(liveOut, 1))
	capture := captureOf(t, "jit_f", module, assignment)
	var got []string
	for _, buf := range capture.Spaces[0].Buffers {
		site := &capture.Sites[buf.Site]
		got = append(got, site.Instr+": "+site.Sharding.String())
	}
	if want := "fusion{1}: split 2, on 4 devices each; fusion{0}: "; strings.Join(got, "; ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
