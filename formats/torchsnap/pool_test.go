package torchsnap_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/memlane/memlane/internal/pickletest"
)

// TestSegments has segments that were reserved, freed or mapped in the window, with and without the ID of a pool.
func TestSegments(t *testing.T) {
	const mib = 1 << 20
	at := func(action string, addr int64, size any, us int, stream any, pool any) dict {
		e := dict{"action", action, "addr", addr, "size", size, "stream", stream, "time_us", us}
		if pool != nil {
			e = append(e, "pool_id", pool)
		}
		return e
	}
	const other = int64(0x55d000001000) // the handle of a stream
	events := list{
		at("segment_alloc", 100*mib, 20*mib, 10, 0, nil), at("segment_free", 100*mib, 20*mib, 20, 0, nil),
		at("segment_alloc", 200*mib, 2*mib, 30, other, tuple{1, 0}), at("segment_free", 200*mib, 2*mib, 40, other, tuple{1, 0}),
		at("segment_free", 300*mib, 12*mib, 50, other, tuple{0, 3}), // reserved before the window
		at("segment_map", 400*mib, 2*mib, 60, other, tuple{0, 0}), at("segment_unmap", 400*mib, 2*mib, 70, other, tuple{0, 0}),
		at("segment_alloc", 500*mib, 2*mib, 80, other, nil),                                                          // in the end state, which knows the pool
		at("segment_alloc", 600*mib, mib, 90, 0, tuple{0, 0}), at("segment_free", 600*mib, mib, 100, 0, tuple{0, 0}), // no size of CUDA's allocator
		at("segment_alloc", 700*mib, 20*mib, 110, 0, "?"), at("segment_free", 700*mib, 20*mib, 120, 0, tuple{0}),
	}
	kept := dict{"device", 0, "address", 500 * mib, "total_size", 2 * mib, "stream", other, "segment_type", "small", "segment_pool_id", tuple{0, 1},
		"is_expandable", true, "blocks", list{}}
	c, err := readBytes(t, pickletest.Pickle(snapshot(list{kept}, events)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range space(c, "cuda:0").Regions {
		got = append(got, fmt.Sprintf("%d %q small=%t stream=%d pool=%q %s", r.Addr/mib, r.Kind, r.Small, r.Stream, r.Pool, r.Edge))
	}
	want := []string{
		`300 "large" small=false stream=1 pool="0,3" begin-unseen`,
		`100 "large" small=false stream=0 pool="" pool-unknown`,
		`200 "small" small=true stream=1 pool="1,0" -`,
		`400 "expandable" small=true stream=1 pool="" -`,
		`500 "expandable" small=true stream=1 pool="0,1" end-open`,
		`600 "" small=false stream=0 pool="" -`,
		`700 "large" small=false stream=0 pool="" pool-unknown`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// TestSettings has settings of all kinds.
func TestSettings(t *testing.T) {
	settings := dict{"max_split_size", -1, "expandable_segments", true, "PYTORCH_CUDA_ALLOC_CONF", "a:1,b:2", "garbage_collection_threshold", 0.8,
		"roundup_power2_divisions", dict{"1", 0, "2", 4}, "limit", power(64), "a list", list{1}, "deep", dict{"a", dict{"b", 1}}, 5, 6, "nothing", nil}
	c, err := readBytes(t, pickletest.Pickle(append(snapshot(list{segment(0, 1<<30, 1<<20)}, list{}), "allocator_settings", settings)))
	if err != nil {
		t.Fatal(err)
	}
	want := [][2]string{{"PYTORCH_CUDA_ALLOC_CONF", "a:1,b:2"}, {"expandable_segments", "true"}, {"garbage_collection_threshold", "0.8"},
		{"limit", "18446744073709551616"}, {"max_split_size", "-1"}, {"roundup_power2_divisions", "1:0,2:4"}}
	var got [][2]string
	for _, s := range c.Sources[0].Settings {
		got = append(got, [2]string{s.Key, s.Value})
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(c.Losses) == 0 || c.Losses[0].Count != 4 {
		t.Errorf("losses %v", c.Losses)
	}
}
