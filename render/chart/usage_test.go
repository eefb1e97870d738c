package chart

import (
	"bytes"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/judge"
)

// TestUsageBreak: what is always in use does not hide the rest; labels above the break tell the bytes above it.
func TestUsageBreak(t *testing.T) {
	for _, base := range []int64{0, 100 << 20, 5 << 30, 100 << 30} {
		c := run(t, "one", 30<<20, 50<<20, 20<<20, 40<<20, 10<<20)
		s := c.Spaces[0]
		s.Regions = nil
		s.Base = base
		u, err := newUsage(c, s, Options{}.withDefaults(420, 240))
		if err != nil {
			t.Fatal(err)
		}
		var w bytes.Buffer
		if err := Usage(&w, judge.Of(c), s, Options{}); err != nil {
			t.Fatal(err)
		}
		low := base // before the first buffer
		_, broken, _ := strings.Cut(w.String(), ">always in use: ")
		if want := base >= 5<<30; strings.HasPrefix(broken, units.Bytes(low)+", not to scale<") != want {
			t.Fatalf("base %d: the axis is broken: %.40q, want %v", base, broken, want)
		} else if !want {
			continue
		}
		at := map[string]float64{}
		for _, m := range labels.FindAllStringSubmatch(w.String(), -1) {
			at[m[2]] = number(t, m[1])
		}
		zero, ok := at[units.Bytes(low)]
		if bottom, from0 := at["0"]; !ok || !from0 || math.Abs(bottom-zero-24) > .11 {
			t.Fatalf("labels %v have no break", at)
		}
		peak := number(t, regexp.MustCompile(`<circle class="fg" r="3" cx="\S+" cy="(\S+)"`).FindStringSubmatch(w.String())[1])
		counted := 0
		for label, y := range at {
			if size, plus := strings.CutPrefix(label, "+"); plus {
				bytes, err := units.ParseBytes(size)
				if err != nil {
					t.Fatal(err)
				}
				counted++
				want := (zero - 4 - peak) / float64(u.peak.Bytes-low) * float64(bytes)
				if math.Abs(zero-y-want) > .3 {
					t.Errorf("label %s is %.1f above the break, want %.1f", label, zero-y, want)
				}
			}
		}
		if counted < 2 {
			t.Errorf("labels %v", at)
		}
	}
}

// TestRequestedSeen: a curve of requested bytes that covers that of the bytes in use is not drawn.
func TestRequestedSeen(t *testing.T) {
	for _, share := range []int64{10, 2000} {
		c := run(t, "one", 30<<20, 50<<20, 20<<20)
		for i := range c.Spaces[0].Buffers {
			b := &c.Spaces[0].Buffers[i]
			b.Requested = b.Size - b.Size/share
		}
		u, err := newUsage(c, c.Spaces[0], Options{}.withDefaults(420, 240))
		if err != nil {
			t.Fatal(err)
		}
		if drawn := u.requested != nil; drawn != (share == 10) {
			t.Errorf("one part in %d is rounding: drawn %v", share, drawn)
		}
	}
}
