package replay

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
)

// TestParse: settings are read as PyTorch does, and written so that they can be read again.
func TestParse(t *testing.T) {
	for _, conf := range []string{
		"", "expandable_segments:True", "max_split_size_mb:128", "garbage_collection_threshold:0.6,roundup_power2_divisions:4",
		"expandable_segments:True,max_split_size_mb:512,large_segment_size_mb:40,max_non_split_rounding_mb:64,per_process_memory_fraction:0.5",
	} {
		s, err := Parse(conf)
		if err != nil {
			t.Errorf("%q: %v", conf, err)
			continue
		}
		if again, err := Parse(s.String()); err != nil || again != s {
			t.Errorf("%q: %q is read as %+v, %v", conf, s, again, err)
		}
	}
	for _, bad := range []string{ // PyTorch 2.8 refuses these too
		"max_non_split_rounding_mb:20", "garbage_collection_threshold:1.0", "garbage_collection_threshold:0", "roundup_power2_divisions:0",
		"max_split_size_mb:20", "max_split_size_mb:19", "max_split_size_mb:x", "no_such_key:1", "backend:cudaMallocAsync", "roundup_power2_divisions:3",
		"garbage_collection_threshold:2", "expandable_segments:yes", "roundup_power2_divisions:[3:4]", "large_segment_size_mb:40,max_split_size_mb:30",
	} {
		if s, err := Parse(bad); err == nil {
			t.Errorf("%q: %+v, want an error", bad, s)
		}
	}
}

// TestRoundup: the tables that PyTorch 2.8 makes of roundup_power2_divisions, from
// allocator_settings of its snapshots. > overwrites the key before it, keys between two
// others stay 0.
func TestRoundup(t *testing.T) {
	for conf, want := range map[string]string{
		"4":                        "4444444444444444",
		"[16:1,64:2,128:4,>:8]":    "1111102888888888",
		"[256:1,512:2,1024:4,>:8]": "1111111112888888",
		"[1:2,>:4]":                "4444444444444444",
		"[65536:8]":                "8888888888888888",
	} {
		s, err := Parse("roundup_power2_divisions:" + conf)
		got := ""
		for _, n := range s.Roundup {
			got += string(rune('0' + n))
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, want %s (%v)", conf, got, want, err)
		}
	}
}

// TestSize: sizes of blocks (round_size).
func TestSize(t *testing.T) {
	four := Default()
	for i := range four.Roundup {
		four.Roundup[i] = 4
	}
	for _, c := range []struct {
		requested, plain, rounded int64
	}{
		{0, 512, 512}, {1, 512, 512}, {512, 512, 512}, {513, 1024, 1024}, {2048, 2048, 2048}, {2049, 2560, 2560},
		{5000, 5120, 5120}, {1200 << 10, 1200 << 10, 1280 << 10}, {1 << 20, 1 << 20, 1 << 20}, {9 << 20, 9 << 20, 10 << 20},
	} {
		plain := Default()
		if got := plain.size(c.requested); got != c.plain {
			t.Errorf("%d: %d, want %d", c.requested, got, c.plain)
		}
		if got := four.size(c.requested); got != c.rounded {
			t.Errorf("%d with 4 divisions: %d, want %d", c.requested, got, c.rounded)
		}
	}
}

// TestSettings: what the allocator reports counts more than PYTORCH_CUDA_ALLOC_CONF, which
// has the settings that are not reported.
func TestSettings(t *testing.T) {
	var h History
	got := h.settings([]lifetime.Setting{
		{Key: "PYTORCH_CUDA_ALLOC_CONF", Value: "max_split_size_mb:64,large_segment_size_mb:32"},
		{Key: "expandable_segments", Value: "true"}, {Key: "max_split_size", Value: "134217728"},
		{Key: "garbage_collection_threshold", Value: "0.5"}, {Key: "roundup_power2_divisions", Value: "1:0,2:8"},
	})
	want := "expandable_segments:True,max_split_size_mb:128,large_segment_size_mb:32,garbage_collection_threshold:0.5,roundup_power2_divisions:[1:1,2:8"
	if !strings.HasPrefix(got.String(), want) {
		t.Errorf("%s, want %s...", got, want)
	}
	h.segments = []segment{{expandable: true}}
	if s := h.settings(nil); !s.Expandable {
		t.Error("expandable segments without settings are not expandable")
	}
}
