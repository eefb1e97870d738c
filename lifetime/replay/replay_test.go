package replay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/selection"
)

// open returns a capture and the histories of its spaces.
func open(t testing.TB, file string) (*lifetime.Capture, []*History) {
	t.Helper()
	c, err := formats.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	var all []*History
	for _, s := range c.Spaces {
		if h := Of(s, c.Sources[s.Source].Settings); h != nil {
			all = append(all, h)
		}
	}
	return c, all
}

// TestLaw: replayed under its own settings, every address and every segment of every
// snapshot is where the allocator put it.
func TestLaw(t *testing.T) {
	var files []string
	for _, pattern := range []string{"torchsnap/*.pickle", "labelled/*.pickle*", "replay/*.pickle.zst"} {
		some, err := filepath.Glob("../../testdata/" + pattern)
		if err != nil || len(some) == 0 {
			t.Fatal(pattern, err)
		}
		files = append(files, some...)
	}
	addresses, segments := 0, 0
	for _, file := range files {
		_, histories := open(t, file)
		for _, h := range histories {
			law := h.Verify()
			addresses += law.Equal
			segments += law.SegmentsEqual
			switch {
			case strings.HasSuffix(file, "/b14.c2.oom.pickle.zst"): // it ends before the pools matter, but nobody can know
				if h.Refusal(&law) == "" {
					t.Errorf("%s: %+v is not refused", file, law)
				}
			case strings.HasSuffix(file, "/b14.pickle.zst"): // its events do not say which pool they are of
				if h.Refusal(&law) == "" || law.Rate() == 1 {
					t.Errorf("%s: %+v is not refused", file, law)
				}
			case law.Equal != law.Addresses || law.SegmentsEqual != law.Segments || h.Refusal(&law) != "":
				t.Errorf("%s: %+v, settings %q, refused: %s", file, law, h.Settings, h.Refusal(&law))
			}
		}
	}
	if addresses < 20000 || segments < 500 {
		t.Errorf("only %d addresses and %d segments were compared", addresses, segments)
	}
}

// run is the truth of one run of a program under other settings.
type run struct {
	Conf      string
	Total     int64 `json:"total_memory"`
	Fraction  float64
	Outcome   string
	Reserved  int64 `json:"peak_reserved"`
	Allocated int64 `json:"peak_allocated"`
	Retries   int   `json:"num_alloc_retries"`
	Segments  int   `json:"segments_at_end"`
	OOMEvent  *int  `json:"oom_event"`
}

func truth(t *testing.T, name string) map[string]run {
	t.Helper()
	data, err := os.ReadFile("../../testdata/replay/" + name + ".truth.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Settings map[string]run }
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all.Settings
}

// TestRealRuns: what the replay of one capture predicts for other settings is what the
// allocator of PyTorch 2.8 did when the program ran under them.
func TestRealRuns(t *testing.T) {
	for _, name := range []string{"b06", "b12", "b13", "b16"} {
		_, histories := open(t, "../../testdata/replay/"+name+".pickle.zst")
		for key, want := range truth(t, name) {
			s, err := Parse(want.Conf)
			if err != nil {
				t.Fatal(err)
			}
			got := histories[0].RunBoth(s, Device{Capacity: want.Total, Fraction: want.Fraction})
			if want.Outcome == "oom" {
				if want.OOMEvent != nil && (!got.OOM || got.OOMEvent != *want.OOMEvent || got.PeakReserved != want.Reserved) {
					t.Errorf("%s %s: %+v, want OOM at event %d", name, key, got, *want.OOMEvent)
				}
				continue
			}
			equal := got.PeakReserved == want.Reserved && got.PeakLive == want.Allocated
			if got.OOM || got.Exact && !equal {
				t.Errorf("%s %s: %+v, want %+v", name, key, got, want)
			}
			// After a retry, b13 needs to know when its streams would have been done.
			if name != "b13" && (!equal || got.Retries != want.Retries || !s.Expandable && got.Segments != want.Segments) {
				t.Errorf("%s %s: %+v, want %+v", name, key, got, want)
			}
		}
	}
}

// TestMiddle: a recording that begins in the middle gives no exact figures, except for its
// own settings, but ranges that hold what the allocator did in all real runs.
func TestMiddle(t *testing.T) {
	_, histories := open(t, "../../testdata/replay/b17.pickle.zst")
	h := histories[0]
	if h.FromStart() {
		t.Fatal("it begins in the middle")
	}
	for key, want := range truth(t, "b17") {
		s, err := Parse(want.Conf)
		if err != nil {
			t.Fatal(err)
		}
		got := h.RunBoth(s, Device{Capacity: want.Total, Fraction: want.Fraction})
		if got.Exact && (got.PeakReserved != want.Reserved || s != Default()) {
			t.Errorf("%s: exact %+v, want %+v", key, got, want)
		}
		if got.Low > got.PeakReserved || got.High < got.PeakReserved {
			t.Errorf("%s: %d is not in [%d, %d]", key, got.PeakReserved, got.Low, got.High)
		}
		if want.Outcome == "ok" && (want.Reserved < got.Low || want.Reserved > got.High) {
			t.Errorf("%s: [%d, %d], want %d", key, got.Low, got.High, want.Reserved)
		}
	}
}

// TestCut: of recordings whose beginning was cut off, the ranges hold the peaks that the
// whole recordings have.
func TestCut(t *testing.T) {
	cases := 0
	for _, name := range []string{"b06", "b12", "b13", "b16"} {
		c, histories := open(t, "../../testdata/replay/"+name+".pickle.zst")
		for percent := int64(25); percent < 100; percent += 25 {
			from := &selection.Instant{T: (c.Spaces[0].End - c.Spaces[0].Begin) * percent / 100, Since: true}
			cut, err := (&selection.Selection{From: from}).Of(c)
			if err != nil {
				t.Fatal(err)
			}
			h := Of(cut.Spaces[0], cut.Sources[0].Settings)
			if law := h.Verify(); h.Refusal(&law) != "" {
				t.Fatalf("%s from %d %%: %+v", name, percent, law)
			}
			for _, conf := range []string{"", "expandable_segments:True", "max_split_size_mb:21", "max_split_size_mb:64", "roundup_power2_divisions:4"} {
				s, err := Parse(conf)
				if err != nil {
					t.Fatal(err)
				}
				want := histories[0].Run(s, Device{}).PeakReserved
				if got := h.RunBoth(s, Device{}); want < got.Low || want > got.High {
					t.Errorf("%s from %d %%, %q: [%d, %d], want %d", name, percent, conf, got.Low, got.High, want)
				}
				cases++
			}
		}
	}
	if cases < 60 {
		t.Errorf("only %d cases", cases)
	}
}

// TestDied: the snapshot of a run that died tells its capacity, and dies again.
func TestDied(t *testing.T) {
	_, histories := open(t, "../../testdata/replay/b16.c2.oom.pickle.zst")
	h, want := histories[0], truth(t, "b16")
	if h.Capacity() != want["c2:default"].Total {
		t.Errorf("capacity %d, want %d", h.Capacity(), want["c2:default"].Total)
	}
	if o := h.Run(h.Settings, Device{Capacity: h.Capacity()}); !o.OOM {
		t.Errorf("it did not die again: %+v", o)
	}
}
