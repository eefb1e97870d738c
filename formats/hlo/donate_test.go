package hlo_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/compiled"
)

// TestDonation checks from when on results can use the memory of arguments. Every tensor has 32 bytes.
func TestDonation(t *testing.T) {
	const unknown = 0
	for _, c := range []struct {
		name        string
		main        message
		allocations string // P, O and T with the instructions whose results they hold: arguments, results, others
		arguments   int
		peak        int64 // with donated arguments; unknown
		others      []message
	}{
		{"element by element", step(0, "parameter; parameter #1; add 0 1"), "P0 P1 O2", 1, 64, nil},
		{"a product reads its operands while it writes", step(0, "parameter; parameter #1; dot 0 1"), "P0 P1 O2", 0, 96, nil},
		{"after the last use", step(0, "parameter; dot 0 0; dot 1 1"), "P0 T1 O2", 1, 64, nil},
		{"others used the memory of the result", step(0, "parameter; sine 0; dot 1 0; dot 2 2"), "P0 O1,3 T2", 0, 96, nil},
		{"others use it after the last use", step(0, "parameter; dot 0 0; dot 1 1; dot 2 2; dot 3 3"), "P0 T1,3 O2,4", 1, 64, nil},
		{"a use that may be later", step(0, "parameter; sine 0; dot 1 1; dot 0 0; tuple 2 3"), "P0 T1 O2 O3", 0, 128, nil},
		{"a copy for a while", step(0, "parameter; parameter #1; dot 1 1; dot 0 0; dot 2 3; dot 4 4; dot 5 5; tuple 2 6"), "P0 P1 O2 T3,5 T4 O6", 2, 160, nil},
		{"written over a copy", step(0, "parameter; parameter #1; copy 0; dynamic-update-slice 2 1"), "P0 P1 O2,3", 1, 64, nil},
		{"a copy that is needed", step(0, "parameter; parameter #1; copy 0; dynamic-update-slice 2 1; dot 0 0; dot 3 4; tuple 3"), "P0 P1 O2,3 T4 T5", 0, 160, nil},
		{"pairs have an order", step(0, "parameter; parameter #1; sine 1; sine 0; tuple 2 3"), "P0 P1 O2 O3", 0, 128, nil},
		{"the second argument", step(0, "parameter; parameter #1; dot 0 1; add 2 1"), "P0 P1 T2 O3", 1, 96, nil},
		{"in a fusion", step(0, "parameter; parameter #1; fusion 0 1 @1"), "P0 P1 O2", 0, 96, []message{step(1, "parameter; parameter #1; transpose 0; transpose 1; add 2 3")}},
		{"a loop", step(0, "parameter; while 0 @1 @2"), "P0 O1", 0, unknown, []message{step(1, "parameter; sine 0"), step(2, "parameter; compare 0")}},
		{"a loop changes a copy", step(0, "parameter; copy 0; while 1 @1 @2"), "P0 O1,2", 1, 32, []message{step(1, "parameter; sine 0"), step(2, "parameter; compare 0")}},
		{"a copy at the start", step(0, "parameter; sine 0; dot 1 1; dot 2 2; dot 2 3; negate 0"), "P0 T1,3 T2 T4 O5", 0, 160, nil},
		{"a copy where another argument was", step(0, "parameter; parameter #1; sine 1; dot 2 2; dot 3 1; sine 0; dot 0 0; tuple 6 5"), "P0 P1 T2,4 T3 O5 O6", 2, 160, nil},
		{"nothing to donate", step(0, "parameter; sine 0; negate 1"), "P0 T1", 0, unknown, nil},
	} {
		for _, scheduled := range []bool{true, false} {
			assignment := message{}
			for n, text := range strings.Fields(c.allocations) {
				var values []int64
				for _, of := range strings.Split(text[1:], ",") {
					id := int64(of[0]-'0') + 1
					values = append(values, id, 0)
					assignment = assignment.put(1, buffer(id, 32, id))
				}
				a := allocation(int64(n), 32, values...)
				switch text[0] {
				case 'P':
					a = a.num(parameter, 1)
				case 'O':
					a = a.num(liveOut, 1)
				}
				assignment = assignment.put(3, a)
			}
			module := message{}.text(1, "jit_f").text(2, "c0").put(3, append(c.others, c.main)...)
			want := c.peak
			if scheduled {
				module = module.put(7, message{}.put(1, message{}.put(2, message{}.list(1, 1, 2, 3, 4, 5, 6, 7, 8, 9))))
			} else {
				want = unknown
			}
			var got compiled.Change
			for _, got = range captureOf(t, "jit_f", module, assignment).Spaces[0].Remedies {
			}
			low := cmp.Or(map[string]int64{"a copy for a while": 128, "a copy where another argument was": 128}[c.name], want) // without the copy
			if names := strings.FieldsFunc(got.What, func(r rune) bool { return r == ',' }); got.High != want || scheduled && got.Low != low || len(names) != c.arguments && scheduled {
				t.Errorf("%s, scheduled %t: %+v, want %d with %d", c.name, scheduled, got, want, c.arguments)
			}
		}
	}
}

// TestTarget: the configuration that XLA's compiler for GPUs sets tells what a program is for. Layouts of TPUs tell it without.
func TestTarget(t *testing.T) {
	for config, want := range map[string]string{`{"operation_queue_id":"0","wait_on_operation_queues":[]}`: "gpu", `{"outer_dimension_partitions":["2"]}`: "", "": ""} {
		main := message{}.text(1, "c0").put(2, message{}.text(1, "i1").text(2, "add").put(3, array(f32, 8)).num(35, 1).text(43, config)).num(6, 1)
		c := captureOf(t, "jit_f", message{}.text(1, "jit_f").text(2, "c0").put(3, main), message{}.put(1, buffer(1, 32, 1)).put(3, allocation(0, 32, 1, 0)))
		if got := c.Spaces[0].Target; got != want {
			t.Errorf("%s: %q, want %q", config, got, want)
		}
	}
}
