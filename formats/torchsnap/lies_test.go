package torchsnap_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/pickletest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
)

// TestLies reads snapshots with contradictory or impossible records, and checks the
// buffers and losses.
func TestLies(t *testing.T) {
	const mib = 1 << 20
	const base int64 = 0x7f0000000000
	const most, least int64 = math.MaxInt64, math.MinInt64
	seg := segment(0, base, 20*mib, block(base, mib, mib, "active_allocated"), block(base+mib, 19*mib, 0, "inactive"))
	empty := list{}
	alloc := func(us any) dict { return event("alloc", base, mib, us) }
	free := func(us any) dict { return event("free_completed", base, mib, us) }
	request := func(us any) dict { return event("free_requested", base, mib, us) }
	type losses = map[loss.Reason]int64
	again := pickletest.Share(alloc(5))
	open := pickletest.Share(raw("]"))
	seen := pickletest.Share(list{alloc(1), free(2)})
	one := pickletest.Share(block(base, mib, mib, "active_allocated"))
	all := pickletest.Share(list{block(base, mib, mib, "active_allocated"), block(base+mib, mib, mib, "inactive")})
	for _, c := range []struct {
		name   string
		data   any
		spaces string // ID buffers/allocations/frees, joined by ", "
		losses losses
	}{
		{"sound", snapshot(list{seg}, list{alloc(1), event("snapshot", 0, mib, 2)}), "cuda:0 1/1/0", losses{}},
		{"nothing recorded", snapshot(list{seg}, empty), "cuda:0 1/0/0", losses{loss.NotAHistory: 1}},
		{"no device", snapshot(empty), "", losses{}},
		{"a device that the program did not use", snapshot(list{segment(1, base, mib, block(base, mib, mib, "active_allocated"))}, list{event("snapshot", 0, 0, 1)}, list{alloc(1), event("snapshot", 0, mib, 2)}), "cuda:1 1/1/0", losses{}},
		{"a device whose memory was freed", snapshot(empty, list{alloc(1), free(2), event("snapshot", 0, 0, 3)}), "cuda:0 1/1/1", losses{}},

		// Sizes.
		{"negative sizes", snapshot(list{segment(0, base, -1, block(base, -5, -7, "active_allocated"))}, list{event("alloc", base+mib, -9, 1), event("free_completed", base+mib, -9, 2)}),
			"cuda:0 2/1/1", losses{loss.BeforeWindow: 1, loss.InvalidSize: 5}},
		{"sizes of 2^70", snapshot(list{segment(0, base, power(70), block(base, power(70), power(70), "active_allocated"))}, list{event("alloc", base, power(70), 1)}),
			"cuda:0 1/1/0", losses{loss.NotAHistory: 1, loss.InvalidSize: 3, loss.Overflow: 1}},
		{"sizes that overflow together", snapshot(empty, list{event("alloc", 1, most, 1), event("alloc", 2, most, 2), event("free_completed", 1, most, 3), event("alloc", 3, most, 4), event("free_completed", 2, 0, 5), event("free_completed", 3, 0, 6)}),
			"cuda:0 3/3/3", losses{loss.Overflow: 1}},
		{"size is text", snapshot(empty, list{event("alloc", base, "big", 1), free(2)}), "cuda:0 1/1/1", losses{}},
		{"another size at the free", snapshot(empty, list{alloc(1), event("free_completed", base, 5, 2)}), "cuda:0 1/1/1", losses{}},
		{"a total that is wrong", snapshot(list{seg}, list{alloc(1), event("snapshot", 0, 7, 2), event("snapshot", 0, 2*mib, 3)}), "cuda:0 1/1/0", losses{}},
		{"segments over each other", snapshot(list{seg, seg, segment(0, base+mib, 20*mib)}, list{alloc(1)}), "cuda:0 1/1/0", losses{loss.NotAHistory: 1, loss.StateMismatch: 1}},

		// Addresses.
		{"addresses at 2^63 and 2^64-1", snapshot(list{segment(0, uint64(1)<<63, mib)}, list{event("alloc", uint64(1)<<63, 512, 1), event("alloc", uint64(math.MaxUint64), mib, 2), event("free_completed", uint64(math.MaxUint64), mib, 3), event("free_completed", uint64(1)<<63, 512, 4)}),
			"cuda:0 2/2/2", losses{}},
		{"addresses at 2^64 and below 0", snapshot(empty, list{event("alloc", power(64), 512, 1), event("alloc", -1, 512, 2), alloc(3), free(4)}), "cuda:0 1/1/1", losses{loss.IncompleteRecord: 2}},
		{"a block at 2^64", snapshot(list{segment(0, base, mib, block(power(64), 512, 512, "active_allocated"))}, list{alloc(1), free(2)}), "cuda:0 1/1/1", losses{loss.IncompleteRecord: 1}},
		{"a segment at 2^64", snapshot(list{segment(0, power(64), mib)}, list{alloc(1), free(2)}), "cuda:0 1/1/1", losses{loss.IncompleteRecord: 1}},
		{"address 0", snapshot(empty, list{event("alloc", 0, 512, 1), event("free_completed", 0, 512, 2)}), "cuda:0 1/1/1", losses{}},
		{"a segment at the top", snapshot(list{segment(0, uint64(math.MaxUint64)-100, mib)}, list{event("segment_alloc", uint64(math.MaxUint64)-100, mib, 1), event("segment_free", uint64(math.MaxUint64)-1, mib, 2)}), "cuda:0 0/0/0", losses{}},

		// Times.
		{"times as floats", snapshot(empty, list{alloc(1.5), free(2.25)}), "cuda:0 1/1/1", losses{}},
		{"times that are not numbers", snapshot(empty, list{alloc(math.NaN()), free(math.Inf(1)), alloc(math.Inf(-1)), free("noon")}), "cuda:0 2/2/2", losses{loss.ClockBackwards: 1}},
		{"negative times", snapshot(empty, list{alloc(-20), free(-10)}), "cuda:0 1/1/1", losses{}},
		{"times at 2^63", snapshot(empty, list{alloc(most), free(most), alloc(power(63)), free(power(63))}), "cuda:0 2/2/2", losses{}},
		{"marks at the end of time", snapshot(empty, list{alloc(most), free(most), alloc(most), free(most), event("oom", 0, 5, most), event("snapshot", 0, 0, most)}), "cuda:0 2/2/2", losses{}},
		{"the whole of time", snapshot(empty, list{alloc(least), free(most)}), "cuda:0 1/1/1", losses{}},
		{"time runs backwards", snapshot(empty, list{alloc(30), free(20), alloc(10), free(40)}), "cuda:0 2/2/2", losses{loss.ClockBackwards: 2}},
		{"no times", snapshot(empty, list{dict{"action", "alloc", "addr", base, "size", mib}, dict{"action", "free_completed", "addr", base, "size", mib}}), "cuda:0 1/1/1", losses{}},
		{"some times", snapshot(empty, list{dict{"action", "alloc", "addr", base, "size", mib}, free(7), dict{"action", "alloc", "addr", base, "size", mib}, free(9)}), "cuda:0 2/2/2", losses{}},

		// Keys.
		{"missing keys", snapshot(list{dict{"total_size", 5}, dict{"device", 0, "total_size", 5}, dict{"state", "inactive"}}, list{dict{"action", "alloc"}, dict{"action", "alloc", "addr", base}, dict{"action", "alloc", "size", 5}, dict{"action", 7, "addr", base, "size", 7}, alloc(1), free(2)}),
			"cuda:0 1/1/1", losses{loss.IncompleteRecord: 6}},
		{"duplicate keys", snapshot(empty, list{append(alloc(1), "size", 512, "size", 1024), free(2)}), "cuda:0 1/1/1", losses{}},
		{"unknown keys", snapshot(list{append(seg[:len(seg):len(seg)], "colour", "red")}, list{append(alloc(1), "mood", "good", 5, 6, tuple{}, nil, "alloc", 1)}), "cuda:0 1/1/0", losses{loss.NotAHistory: 1, loss.UnknownKey: 5}},
		{"unknown keys on top", append(snapshot(empty, list{alloc(1), free(2)}), "trace_alloc_overflowed", true, 5, nil), "cuda:0 1/1/1", losses{loss.UnknownKey: 2}},
		{"a long unknown key", snapshot(empty, list{append(alloc(1), strings.Repeat("k", 100000), 5), free(2)}), "cuda:0 1/1/1", losses{loss.UnknownKey: 1}},
		{"unknown actions", snapshot(empty, list{event("workspace_snapshot", base, mib, 1), event("teleport", base, mib, 2), alloc(3), free(4)}), "cuda:0 1/1/1", losses{loss.UnknownAction: 2}},
		{"an unknown state", snapshot(list{segment(0, base, mib, block(base, mib, mib, "asleep"))}, list{alloc(1), free(2)}), "cuda:0 1/1/1", losses{loss.UnknownAction: 1}},
		{"states that are numbers", snapshot(list{segment(0, base, mib, manyStates()...)}, list{alloc(1), free(2)}), "cuda:0 1/1/1", losses{loss.UnknownAction: 100}},
		{"keys of the wrong kind", snapshot(list{segment("zero", base, mib, 5, "x", nil), 7, nil}, list{7, nil, alloc(1), free(2)}, 7, nil, "x"), "cuda:0 1/1/1", losses{loss.IncompleteRecord: 1}},
		{"segments is a number", dict{"segments", 5, "device_traces", list{list{alloc(1), free(2)}}}, "cuda:0 1/1/1", losses{}},
		{"device_traces is a number", dict{"segments", list{seg}, "device_traces", 5}, "cuda:0 1/0/0", losses{loss.NotAHistory: 1}},

		// Sharing through the memo.
		{"an event twice", snapshot(empty, list{again, free(6), again, free(8)}), "cuda:0 2/1/2", losses{loss.BeforeWindow: 1}},
		{"one history for two devices", snapshot(empty, seen, seen), "cuda:0 1/1/1", losses{}},
		{"one history for device and host", append(snapshot(empty, seen), "host_traces", seen, "host_segments", list{}), "cuda:0 1/1/1", losses{}},
		{"a block of two segments", snapshot(list{segment(0, base, mib, one), segment(0, base+2*mib, mib, one, block(base+2*mib, mib, mib, "active_pending_free"))}, empty), "cuda:0 2/0/0", losses{loss.NotAHistory: 1, loss.IncompleteRecord: 1}},
		{"one list of blocks of two segments", snapshot(list{dict{"device", 0, "address", base, "total_size", 2 * mib, "blocks", all}, dict{"device", 0, "address", base + 2*mib, "total_size", 2 * mib, "blocks", all}}, empty),
			"cuda:0 1/0/0", losses{loss.NotAHistory: 1, loss.IncompleteRecord: 1}},
		{"frames before they are complete", snapshot(empty, list{event("alloc", base, mib, 1, "frames", open), free(2)}), "cuda:0 1/1/1", losses{}},
		{"frames that are not frames", snapshot(empty, list{event("alloc", base, mib, 1, "frames", list{5, stackOf("f"), nil}), free(2)}), "cuda:0 1/1/1", losses{}},
		{"a frame with invalid fields", snapshot(empty, list{event("alloc", base, mib, 1, "frames", list{dict{"name", 5, "filename", nil, "line", power(70)}}), free(2)}), "cuda:0 1/1/1", losses{}},

		// Devices.
		{"a segment without blocks", snapshot(list{segment(0, base, mib), dict{"device", 0, "address", base + 2*mib, "total_size", mib}}, list{alloc(1), free(2)}), "cuda:0 1/1/1", losses{}},
		{"segments of other devices", snapshot(list{segment(3, base, mib, block(base, 512, 500, "active_allocated"))}, list{alloc(1), free(2)}), "cuda:0 1/1/1, cuda:3 1/0/0", losses{loss.BeforeWindow: 1}},
		{"devices below 0 and at 10^12", snapshot(list{segment(-7, base, mib), segment(int64(1e12), base, mib), segment(power(70), base, mib), segment(1024, base, mib)}, list{alloc(1), free(2)}), "cuda:0 1/1/1", losses{loss.IncompleteRecord: 4}},
		{"history of device 2 only", snapshot(empty, empty, empty, list{alloc(1), free(2)}), "cuda:2 1/1/1", losses{}},
		{"history of device 1024", snapshot(empty, append(slices.Repeat(list{empty}, 1024), list{alloc(1), free(2)})...), "", losses{loss.IncompleteRecord: 2}},
		{"events without a device", snapshot(empty, list{alloc(1), free(2)}, alloc(3)), "cuda:0 1/1/1", losses{loss.IncompleteRecord: 1}},
		{"events outside of traces", append(snapshot(empty, list{alloc(1), free(2)}), "x", list{alloc(3), free(4)}, "y", list{free(9)}, "z", alloc(5), "t", tuple{alloc(4)}), "cuda:0 1/1/1", losses{loss.IncompleteRecord: 5, loss.UnknownKey: 4}},
		{"events in no list and nothing in a trace", dict{"segments", empty, "device_traces", list{nil}, "x", alloc(5)}, "", losses{loss.IncompleteRecord: 1, loss.UnknownKey: 1}},

		// PyTorch 2.0 to 2.2.
		{"blocks without addresses", snapshot(list{segment(0, base, 3*mib, dict{"size", mib, "state", "active_allocated", "history", list{dict{"addr", base, "real_size", 5, "frames", stackOf("f")}}}, dict{"size", mib, "state", "inactive"}, dict{"size", mib, "state", "active_allocated", "history", list{5}})}, list{event("alloc", base+2*mib, mib, 1)}),
			"cuda:0 2/1/0", losses{loss.NotAHistory: 1}},

		// Histories that contradict themselves.
		{"alloc twice", snapshot(empty, list{alloc(1), alloc(2), free(3)}), "cuda:0 2/2/1", losses{loss.LostFree: 1}},
		{"free twice", snapshot(empty, list{alloc(1), free(2), free(3)}), "cuda:0 2/1/2", losses{loss.BeforeWindow: 1}},
		{"two requests", snapshot(empty, list{alloc(1), request(2), request(3), free(4)}), "cuda:0 1/1/1", losses{}},
		{"requested only", snapshot(empty, list{alloc(1), request(2), alloc(3), request(4)}), "cuda:0 2/2/0", losses{loss.LostFree: 2}},
		{"requested only, at many addresses", snapshot(empty, manyRequested()), "cuda:0 40/40/0", losses{loss.LostFree: 40}},
		{"completed first, with requests of frees", snapshot(empty, list{free(1), alloc(2), request(3), free(4)}), "cuda:0 2/1/2", losses{loss.RingOverflow: 1}},
		{"completed later, with requests of frees", snapshot(empty, list{alloc(1), request(2), free(3), free(4)}), "cuda:0 2/1/2", losses{loss.BeforeWindow: 1}},
		{"completed only", snapshot(empty, list{alloc(1), free(2), alloc(3), free(4)}), "cuda:0 2/2/2", losses{}},
		{"alive by the history only", snapshot(empty, list{alloc(1), event("alloc", base+mib, mib, 2), event("free_completed", base+mib, mib, 3)}), "cuda:0 2/2/1", losses{loss.LostFree: 1}},
		{"alive by the end state only", snapshot(list{seg}, list{alloc(1), free(2)}), "cuda:0 2/1/1", losses{loss.BeforeWindow: 1}},
		{"another size in the end state", snapshot(list{seg}, list{event("alloc", base, 512, 1), event("alloc", 512, 512, 5), event("free_completed", 512, 512, 9)}), "cuda:0 3/2/1", losses{loss.StateMismatch: 1, loss.LostFree: 1, loss.BeforeWindow: 1}},
		{"a block twice in the end state", snapshot(list{segment(0, base, mib, block(base, mib, mib, "active_allocated"), block(base, mib, mib, "active_pending_free"))}, list{alloc(1)}), "cuda:0 1/1/0", losses{loss.NotAHistory: 1, loss.StateMismatch: 1}},
		{"segment events without sense", snapshot(list{seg}, list{event("segment_free", base, 40*mib, 1), event("segment_alloc", base, 2*mib, 2), event("segment_map", base+mib, 2*mib, 3), event("segment_unmap", base+2*mib, 5*mib, 4), alloc(5)}), "cuda:0 1/1/0", losses{loss.LostFree: 1}},
		{"annotate nothing", snapshot(empty, list{event("annotate", base, 0, 1, "user_metadata", "x"), alloc(2), event("annotate", base, 0, 3, "user_metadata", "y"), free(4), event("annotate", base, 0, 5, "user_metadata", "z")}), "cuda:0 1/1/1", losses{}},
		{"oom of less than nothing", snapshot(empty, list{event("oom", base, -4, 1, "device_free", 1), alloc(3), free(4)}), "cuda:0 1/1/1", losses{loss.InvalidSize: 1}},
		{"oom without device_free", snapshot(empty, list{dict{"action", "oom", "size", mib, "time_us", 1}, event("oom", base, power(70), 2, "device_free", power(70)), alloc(3), free(4)}), "cuda:0 1/1/1", losses{loss.InvalidSize: 1}},

		// Annotations.
		{"annotations out of balance", append(snapshot(empty, list{alloc(1), free(9)}), "external_annotations", list{
			note("END", "a", 1), note("START", "b", 2), note("START", "b", 3), note("END", "b", 4), note("START", "c", 9), note("END", "c", 5), note("START", "d", 6),
			dict{"stage", "START"}, note("START", "e", "never"), note("END", "e", power(63)), note("PAUSE", "f", 1)}), "cuda:0 1/1/1",
			losses{loss.AnnotationOpen: 4, loss.IncompleteRecord: 3}},
		{"annotations whose stage is a number", append(snapshot(empty, list{alloc(1), free(9)}), "external_annotations", manyStages()), "cuda:0 1/1/1", losses{loss.IncompleteRecord: 100}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := readBytes(t, pickletest.Pickle(c.data))
			if err != nil {
				t.Fatal(err)
			}
			var spaces []string
			for _, s := range got.Spaces {
				spaces = append(spaces, fmt.Sprintf("%s %d/%d/%d", s.ID(), len(s.Buffers), s.Allocations, s.Frees))
			}
			if text := strings.Join(spaces, ", "); text != c.spaces {
				t.Errorf("spaces %q, want %q", text, c.spaces)
			}
			if l := lossCounts(got); !maps.Equal(l, c.losses) {
				t.Errorf("losses %v, want %v\n%v", l, c.losses, got.Losses)
			}
			for _, l := range got.Losses {
				if strings.ContainsAny(l.First, "\n\x1b") || len(l.First) > 200 {
					t.Errorf("%s: position %.300q", l.Reason, l.First)
				}
			}
		})
	}
}

func lossCounts(c *lifetime.Capture) map[loss.Reason]int64 {
	counts := map[loss.Reason]int64{}
	for _, l := range c.Losses {
		counts[l.Reason] += l.Count
	}
	return counts
}

// note is an external annotation.
func note(stage, name string, us any) dict {
	return dict{"stage", stage, "name", name, "device", 0, "time_us", us}
}

// manyStates returns blocks whose states are numbers, among them the decoder's indexes of
// the state names.
func manyStates() list {
	l := list{}
	for i := range 100 {
		l = append(l, dict{"address", 0x7f0000000000 + int64(i)*512, "size", 512, "state", i})
	}
	return l
}

func manyStages() list {
	l := list{}
	for i := range 100 {
		l = append(l, dict{"stage", i, "name", "n", "device", 0, "time_us", i})
	}
	return l
}

// manyRequested returns a history of blocks whose frees were requested but never
// completed.
func manyRequested() list {
	l := list{}
	for i := range 40 {
		l = append(l, event("alloc", 512*(i+1), 512, i))
	}
	for i := range 40 {
		l = append(l, event("free_requested", 512*(i+1), 512, 100+i))
	}
	return l
}

// TestRefusedSnapshots reads plain data that is not a snapshot, and snapshots that run
// code in Python. Each must return one clear error.
func TestRefusedSnapshots(t *testing.T) {
	half := pickletest.Share(raw("]"))
	for _, c := range []struct {
		name string
		data any
		want string
	}{
		{"None", nil, "not a memory snapshot"},
		{"a number", 5, "not a memory snapshot"},
		{"an empty list", list{}, "not a memory snapshot"},
		{"a list of numbers", list{1, 2}, "not a memory snapshot"},
		{"a tuple", tuple{dict{"segments", list{}}}, "not a memory snapshot"},
		{"a model's weights", dict{"epoch", 5, "state_dict", dict{"weight", list{1.5, 2.5}}}, "not a memory snapshot"},
		{"an event alone", event("alloc", 1, 2, 3), "not a memory snapshot"},
		{"a frame alone", dict{"name", "f", "filename", "x.py", "line", 1}, "not a memory snapshot"},
		{"frames that grow after use", snapshot(list{}, list{event("alloc", 1, 2, 3, "frames", half), raw("j\x00\x00\x00\x00"), raw("(K\x01e")}), "not on the stack"},
		{"a call", snapshot(list{}, raw("cbuiltins\neval\n(X\x04\x00\x00\x001+12tR")), "would import builtins.eval: refused, not executed"},
		{"a call instead of frames", snapshot(list{}, list{event("alloc", 1, 2, 3, "frames", raw("cposix\nsystem\n"))}), "opcode GLOBAL at byte"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readBytes(t, pickletest.Pickle(c.data))
			if err == nil {
				t.Fatal("accepted")
			}
			if msg := err.Error(); !strings.Contains(msg, c.want) || strings.Contains(msg, "\n") {
				t.Errorf("%q, want %q", msg, c.want)
			}
		})
	}
}

// TestPlaces checks that a loss names its first record.
func TestPlaces(t *testing.T) {
	c, err := readBytes(t, pickletest.Pickle(snapshot(list{}, list{
		event("alloc", 512, 512, 1), append(event("alloc", 1024, 512, 2), "mood", "good", "weather", "bad"), event("free_completed", 512, power(70), 3)})))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`event 3`, `"mood" in event 2`} {
		if len(c.Losses) <= i || !slices.ContainsFunc(c.Losses, func(l loss.Loss) bool { return l.First == want }) {
			t.Errorf("no loss at %s: %v", want, c.Losses)
		}
	}
}

// TestDevices checks the order of the spaces of two devices and host memory.
func TestDevices(t *testing.T) {
	trace := func(n int) list { return list{event("alloc", 512*n, 512, n), event("free_completed", 512*n, 512, n+1)} }
	data := append(snapshot(list{}, trace(1), trace(2)), "host_traces", trace(3), "host_segments", list{})
	c, err := readBytes(t, pickletest.Pickle(data))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, s := range c.Spaces {
		ids = append(ids, s.ID())
	}
	if want := []string{"cpu/pinned", "cuda:0", "cuda:1"}; !slices.Equal(ids, want) {
		t.Errorf("%q, want %q", ids, want)
	}
}
