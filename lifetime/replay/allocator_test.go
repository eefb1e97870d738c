package replay

import "testing"

// program builds a history by hand.
type program struct{ History }

// alloc adds a request and returns its index.
func (p *program) alloc(size int64) int32 {
	of := int32(len(p.requests))
	p.requests = append(p.requests, request{requested: size, number: int32(len(p.events))})
	p.events = append(p.events, event{opAlloc, of})
	return of
}

func (p *program) free(all ...int32) {
	for _, of := range all {
		p.events = append(p.events, event{opFree, of})
	}
}

func (p *program) run(t *testing.T, conf string, d Device) Outcome {
	t.Helper()
	s, err := Parse(conf)
	if err != nil {
		t.Fatal(err)
	}
	return p.Run(s, d)
}

// TestCollect: garbage collection needs a memory limit. It then releases all segments of
// at least average age before the device is full, and does not stop at its target.
func TestCollect(t *testing.T) {
	var p program
	a, b, c := p.alloc(30*mib), p.alloc(40*mib), p.alloc(50*mib)
	p.free(a, b, c) // of the same age: nothing was allocated since
	p.alloc(60 * mib)
	const conf = "garbage_collection_threshold:0.5"
	if o := p.run(t, conf, Device{Capacity: 200 * mib}); o.PeakReserved != 180*mib {
		t.Errorf("without a limit: %+v", o)
	}
	if o := p.run(t, conf, Device{Capacity: 200 * mib, Fraction: 1}); o.PeakReserved != 120*mib || o.Segments != 1 || o.Retries != 0 {
		t.Errorf("with a limit: %+v", o)
	}
}

// TestRetry: if the device is full, the allocator releases everything that is free, also
// blocks that other streams may still use.
func TestRetry(t *testing.T) {
	var p program
	a := p.alloc(30 * mib)
	p.events = append(p.events, event{opRequest, a})
	p.alloc(30 * mib)
	p.free(a)
	if o := p.run(t, "", Device{Capacity: 40 * mib}); o.OOM || o.Retries != 1 || o.PeakReserved != 30*mib || o.Exact {
		t.Errorf("%+v", o)
	}
	if o := p.run(t, "", Device{}); o.Retries != 0 || o.PeakReserved != 60*mib || o.PeakLive != 30*mib || !o.Exact {
		t.Errorf("%+v", o)
	}
	if o := p.run(t, "", Device{Capacity: 20 * mib}); !o.OOM || o.OOMEvent != 0 {
		t.Errorf("%+v", o)
	}
}

// TestFraction: set_per_process_memory_fraction and per_process_memory_fraction limit a
// process.
func TestFraction(t *testing.T) {
	var p program
	p.alloc(30 * mib)
	p.alloc(30 * mib)
	for _, c := range []struct {
		conf string
		d    Device
		oom  bool
	}{
		{"", Device{Capacity: 100 * mib}, false}, {"", Device{Capacity: 100 * mib, Fraction: 0.5}, true},
		{"per_process_memory_fraction:0.5", Device{Capacity: 100 * mib}, true}, {"per_process_memory_fraction:0.6", Device{Capacity: 100 * mib}, false},
	} {
		if o := p.run(t, c.conf, c.d); o.OOM != c.oom {
			t.Errorf("%q %+v: %+v", c.conf, c.d, o)
		}
	}
}

// TestMaxSplit: blocks of at least max_split_size are not split, and serve only requests
// that waste less than max_non_split_rounding.
func TestMaxSplit(t *testing.T) {
	var p program
	p.free(p.alloc(100 * mib))
	p.alloc(70 * mib)
	p.alloc(4 * mib)
	for conf, want := range map[string]int64{
		"":                     100 * mib,
		"max_split_size_mb:50": 190 * mib,
		"max_split_size_mb:50,max_non_split_rounding_mb:40": 120 * mib,
	} {
		if o := p.run(t, conf, Device{}); o.PeakReserved != want {
			t.Errorf("%q: %d MiB, want %d", conf, o.PeakReserved/mib, want/mib)
		}
	}
}

// TestLargeSegment: large_segment_size_mb is the size of segments for requests from 1 to
// 10 MiB, and of the pages of expandable ones.
func TestLargeSegment(t *testing.T) {
	var p program
	p.alloc(4 * mib)
	for conf, want := range map[string]int64{
		"": 20 * mib, "large_segment_size_mb:32": 32 * mib, "expandable_segments:True,large_segment_size_mb:12": 12 * mib,
	} {
		if o := p.run(t, conf, Device{}); o.PeakReserved != want {
			t.Errorf("%q: %d MiB, want %d", conf, o.PeakReserved/mib, want/mib)
		}
	}
}

// TestEmptyCache: segments that were released without need were released by
// torch.cuda.empty_cache(), which the replay calls as well. A release before a new segment
// made room, unless there was room: then it was empty_cache, too.
func TestEmptyCache(t *testing.T) {
	segments := []segment{{size: 20 * mib}, {size: 20 * mib}, {size: 30 * mib}}
	for name, c := range map[string]struct {
		events []event
		want   int
	}{
		"then a request":     {[]event{{opSegment, 0}, {opRelease, 0}, {opAlloc, 0}}, 1},
		"at the end":         {[]event{{opSegment, 0}, {opRelease, 0}}, 1},
		"then an OOM":        {[]event{{opSegment, 0}, {opRelease, 0}, {opFull, 0}}, 0},
		"no room":            {[]event{{opSegment, 0}, {opSegment, 1}, {opRelease, 0}, {opSegment, 2}}, 0},
		"room":               {[]event{{opSegment, 0}, {opSegment, 1}, {opSegment, 2}, {opRelease, 0}, {opRelease, 2}, {opAlloc, 0}, {opRelease, 1}, {opSegment, 1}}, 2},
		"two after another":  {[]event{{opSegment, 0}, {opSegment, 1}, {opRelease, 0}, {opRelease, 1}, {opAlloc, 0}}, 1},
		"nothing to release": {[]event{{opSegment, 0}, {opAlloc, 0}}, 0},
	} {
		h := historian{History: History{segments: segments, events: c.events}}
		reserved := int64(0)
		for _, e := range c.events {
			switch e.op {
			case opSegment:
				reserved += segments[e.of].size
			case opRelease:
				reserved -= segments[e.of].size
			}
			h.peakReserved = max(h.peakReserved, reserved)
		}
		h.markEmptyCache()
		got := 0
		for _, e := range h.events {
			if e.op == opEmpty {
				got++
			}
		}
		if got != c.want || len(h.events) != len(c.events)+got {
			t.Errorf("%s: %d calls in %v, want %d", name, got, h.events, c.want)
		}
	}
}
