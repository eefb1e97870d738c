package xplane_test

import (
	"cmp"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pw "google.golang.org/protobuf/encoding/protowire"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
)

// wire is a message taken apart without knowing what it means: the values of
// its fields by number.
type wire map[pw.Number][]wireValue

type wireValue struct {
	number uint64
	bytes  []byte
}

func takeApart(b []byte) wire {
	m := wire{}
	for len(b) > 0 {
		num, typ, n := pw.ConsumeTag(b)
		b = b[n:]
		var v wireValue
		switch typ {
		case pw.VarintType:
			v.number, n = pw.ConsumeVarint(b)
		case pw.Fixed64Type:
			v.number, n = pw.ConsumeFixed64(b)
		default:
			v.bytes, n = pw.ConsumeBytes(b)
		}
		b = b[n:]
		m[num] = append(m[num], v)
	}
	return m
}

func (m wire) last(n pw.Number) (v wireValue) {
	if all := m[n]; len(all) > 0 {
		v = all[len(all)-1]
	}
	return v
}

func (m wire) names(field pw.Number) map[uint64]string {
	names := map[uint64]string{}
	for _, e := range m[field] {
		entry := takeApart(e.bytes)
		names[entry.last(1).number] = string(takeApart(entry.last(2).bytes).last(2).bytes)
	}
	return names
}

// happened is an event of an allocator, as the oracle sees it.
type happened struct {
	at    *big.Int // picoseconds
	alloc bool
	space string
	stats map[string]int64
	op    string
}

// allEvents decodes the events of allocators by the generic wire decoder, all
// in memory.
func allEvents(data []byte) []happened {
	var all []happened
	for _, p := range takeApart(data)[1] {
		plane := takeApart(p.bytes)
		if string(plane.last(2).bytes) != "/host:CPU" {
			continue
		}
		events, stats := plane.names(4), plane.names(5)
		for _, l := range plane[3] {
			line := takeApart(l.bytes)
			start := new(big.Int).Mul(big.NewInt(int64(line.last(3).number)), big.NewInt(1000))
			for _, e := range line[4] {
				event := takeApart(e.bytes)
				name := events[event.last(1).number]
				if name != "MemoryAllocation" && name != "MemoryDeallocation" {
					continue
				}
				h := happened{at: new(big.Int).Add(start, big.NewInt(int64(event.last(2).number))), alloc: name == "MemoryAllocation", stats: map[string]int64{}}
				for _, s := range event[4] {
					stat := takeApart(s.bytes)
					key := stats[stat.last(1).number]
					h.stats[key] = int64(stat.last(4).number)
					switch text := stats[stat.last(7).number]; key {
					case "allocator_name":
						h.space = text
					case "index_on_host":
						h.space = string(rune('0' + h.stats[key]))
					case "tf_op":
						h.op = strings.TrimPrefix(text, "(null)")
					}
				}
				all = append(all, h)
			}
		}
	}
	slices.SortStableFunc(all, func(x, y happened) int { return x.at.Cmp(y.at) })
	return all
}

// replayed is what a plain replay of the events of one allocator says.
type replayed struct {
	allocations, frees int
	base               int64 // constant difference between what was reported and what is alive
	constant           bool
	peak               int64
	atPeak             map[string]int64 // bytes by operation, older buffers and base as ""
}

// replay walks over the events of one space with a map of what is alive. What
// is freed without having been allocated was alive from the beginning.
func replay(all []happened, space string) replayed {
	type block struct {
		size int64
		op   string
	}
	r := replayed{constant: true}
	alive := map[int64]block{}
	opened := map[int64]bool{}
	for _, h := range all { // first: who is older than the window
		if addr := h.stats["addr"]; h.space == space && h.alloc {
			opened[addr] = true
		} else if h.space == space && !opened[addr] {
			opened[addr] = true
			alive[addr] = block{size: h.stats["allocation_bytes"]}
		}
	}
	sum := func() (n int64) {
		for _, b := range alive {
			n += b.size
		}
		return n
	}
	first := true
	for _, h := range all {
		if h.space != space {
			continue
		}
		addr := h.stats["addr"]
		if h.alloc {
			r.allocations++
			alive[addr] = block{h.stats["allocation_bytes"], h.op}
		} else {
			r.frees++
			delete(alive, addr)
		}
		gap := h.stats["bytes_allocated"] - sum()
		if first {
			r.base, first = gap, false
		}
		r.constant = r.constant && gap == r.base
		if level := h.stats["bytes_allocated"] + h.stats["bytes_reserved"]; level > r.peak {
			r.peak = level
			r.atPeak = map[string]int64{"": r.base, "stack": h.stats["bytes_reserved"]}
			for _, b := range alive {
				r.atPeak[b.op] += b.size
			}
		}
	}
	return r
}

// TestReplay holds every capture against a replay that shares no code with the
// reader: counts, the bytes older than the window, the constant difference
// between reported and live bytes at every event, the peak and what makes it up.
func TestReplay(t *testing.T) {
	files, _ := filepath.Glob(captures + "/*.xplane.pb")
	if dir := os.Getenv("MEMLANE_CAPTURES"); dir != "" {
		for _, pattern := range []string{"xplane/tf/*.xplane.pb", "labelled/*.xplane.pb", "public/xplane/*.xplane.pb"} {
			more, _ := filepath.Glob(filepath.Join(dir, pattern))
			files = append(files, more...)
		}
	}
	spaces, events := 0, 0
	for _, file := range files {
		if strings.Contains(file, "MANGLED") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := formats.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(c.Losses, func(l lifetime.Loss) bool { return l.Reason == lifetime.TotalMismatch }); i >= 0 {
			t.Errorf("%s: %v", file, c.Losses[i])
		}
		all := allEvents(data)
		for _, s := range c.Spaces {
			if s.Axis == lifetime.Time {
				spaces++
				events += s.Allocations + s.Frees
				compare(t, filepath.Base(file), c, s, replay(all, cmp.Or(s.Allocator, strings.TrimPrefix(s.Device, "tpu:"))))
			}
		}
	}
	t.Logf("%d spaces, %d events", spaces, events)
	if spaces < 4 {
		t.Error("too few spaces")
	}
}

func compare(t *testing.T, file string, c *lifetime.Capture, s *lifetime.Space, want replayed) {
	t.Helper()
	peak := s.Peak(lifetime.Occupied)
	if s.Allocations != want.allocations || s.Frees != want.frees || s.Base != want.base || !want.constant || peak.Bytes != want.peak {
		t.Errorf("%s %s: %d allocations, %d frees, base %d, peak %d; replay: %+v", file, s.ID(), s.Allocations, s.Frees, s.Base, peak.Bytes, want)
	}
	got := map[string]int64{"": 0, "stack": 0}
	for _, row := range s.Breakdown(peak.At) {
		if row.Stack {
			got["stack"] += row.Bytes
		} else {
			got[c.Sites[row.Site].Op] += row.Bytes
		}
	}
	if !maps.Equal(got, want.atPeak) {
		t.Errorf("%s %s: the peak is made up of %v; replay: %v", file, s.ID(), got, want.atPeak)
	}
}
