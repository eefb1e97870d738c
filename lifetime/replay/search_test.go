package replay

import (
	"errors"
	"testing"
)

func never() error { return nil }

// TestSearch: the search finds expandable segments for a program whose small pieces pin
// large segments, and keeps the settings of one that they do not help.
func TestSearch(t *testing.T) {
	_, pinned := open(t, "../../testdata/replay/b16.pickle.zst")
	_, steady := open(t, "../../testdata/replay/b06.pickle.zst")
	_, middle := open(t, "../../testdata/replay/b17.pickle.zst")
	for name, c := range map[string]struct {
		of   []*History
		want string
	}{
		"pinned":      {pinned, "expandable_segments:True"},
		"steady":      {steady, ""},
		"from inside": {middle, ""}, // the gain is in the range of what is not known
		"both":        {append(pinned[:1:1], steady...), "expandable_segments:True"},
	} {
		all, err := Search(c.of, make([]Device, len(c.of)), never)
		if err != nil {
			t.Fatal(err)
		}
		if got := all[Recommend(all)].Outcomes[0].Settings.String(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if !all[0].Recorded || all[1].Recorded {
			t.Errorf("%s: the recorded settings are not the first", name)
		}
	}
}

// TestSearchLimited: with a memory fraction, the search tries garbage collection.
func TestSearchLimited(t *testing.T) {
	_, of := open(t, "../../testdata/replay/b16.pickle.zst")
	all, err := Search(of, []Device{{Capacity: 1 << 30, Fraction: 0.9}}, never)
	if err != nil {
		t.Fatal(err)
	}
	collects := 0
	for _, trial := range all {
		if trial.Outcomes[0].Settings.Collect > 0 {
			collects++
		}
	}
	if collects < len(collectFrom) {
		t.Errorf("%d settings with garbage collection", collects)
	}
}

// TestStop: an error of stop ends a search.
func TestStop(t *testing.T) {
	_, of := open(t, "../../testdata/replay/b06.pickle.zst")
	stopped := errors.New("stopped")
	if _, err := Search(of, []Device{{}}, func() error { return stopped }); err != stopped {
		t.Error(err)
	}
	if _, err := Try(of, []Device{{}}, nil, func() error { return stopped }); err != stopped {
		t.Error(err)
	}
}

// TestFailureNotReplayed: a recorded failure that the replay does not have makes a search inexact, but no later replay.
func TestFailureNotReplayed(t *testing.T) {
	_, of := open(t, "../../testdata/replay/b06.pickle.zst")
	d := Device{Capacity: 1 << 40}
	h, other := of[0], of[0].Settings
	other.Expandable = true
	before := h.RunBoth(other, d)
	h.events, h.requests, h.capacity = append(h.events, event{opFull, int32(len(h.requests))}), append(h.requests, request{requested: 1}), d.Capacity
	for range 2 {
		all, err := Try(of, []Device{d}, []Settings{other}, never)
		if err != nil || !all[0].Outcomes[0].OOM || all[0].Outcomes[0].Exact || all[1].Outcomes[0].Exact {
			t.Fatalf("%v: %+v", err, all)
		}
	}
	if after := h.RunBoth(other, d); after.Exact != before.Exact || !after.Exact {
		t.Errorf("%+v after a search, %+v before", after, before)
	}
}

// TestRecommend: a recommendation gains 2 %, or 5 % if it is not exact, makes nothing worse,
// and has few settings.
func TestRecommend(t *testing.T) {
	trial := func(conf string, exact bool, peaks ...int64) Trial {
		s, err := Parse(conf)
		if err != nil {
			t.Fatal(err)
		}
		var one Trial
		for _, peak := range peaks {
			one.Outcomes = append(one.Outcomes, Outcome{Settings: s, PeakReserved: max(peak, -peak), High: max(peak, -peak), OOM: peak < 0, Exact: exact})
		}
		return one
	}
	const expandable, both = "expandable_segments:True", "expandable_segments:True,roundup_power2_divisions:4"
	for name, c := range map[string]struct {
		all  []Trial
		want int
	}{
		"1 % less":               {[]Trial{trial("", true, 1000), trial(expandable, true, 990)}, 0},
		"2 % less":               {[]Trial{trial("", true, 1000), trial(expandable, true, 980)}, 1},
		"4 % less, not exact":    {[]Trial{trial("", true, 1000), trial(expandable, false, 960)}, 0},
		"5 % less, not exact":    {[]Trial{trial("", true, 1000), trial(expandable, false, 950)}, 1},
		"worse for another rank": {[]Trial{trial("", true, 1000, 1000), trial(expandable, true, 500, 1020)}, 0},
		"better for all":         {[]Trial{trial("", true, 1000, 1000), trial(expandable, true, 900, 1005)}, 1},
		"simpler":                {[]Trial{trial("", true, 1000), trial(both, true, 900), trial(expandable, true, 902)}, 2},
		"clearly better":         {[]Trial{trial("", true, 1000), trial(both, true, 900), trial(expandable, true, 950)}, 1},
		"avoids an OOM":          {[]Trial{trial("", true, -1000), trial(expandable, true, 1000)}, 1},
		"dies as well":           {[]Trial{trial("", true, -1000), trial(expandable, true, -500)}, 0},
		"one less OOM":           {[]Trial{trial("", true, -1000, -1000), trial(expandable, true, -500, 1000)}, 1},
		"dies":                   {[]Trial{trial("", true, 1000), trial(expandable, true, -900)}, 0},
	} {
		if got := Recommend(c.all); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
