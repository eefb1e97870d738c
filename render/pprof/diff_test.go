package pprof

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/memlane/memlane/lifetime"
)

// valuesOf adds the values of a profile, times sign, to those of a map, by the functions and labels of their samples.
func valuesOf(t *testing.T, p *profile.Profile, of map[string][5]int64, sign int64) {
	t.Helper()
	for _, s := range p.Sample {
		var key []string
		for _, l := range s.Location {
			for _, line := range l.Line {
				key = append(key, line.Function.Name+"@"+line.Function.Filename)
			}
		}
		for label, values := range s.Label {
			key = append(key, fmt.Sprint(label, values))
		}
		for label, values := range s.NumLabel {
			key = append(key, fmt.Sprint(label, values))
		}
		slices.Sort(key[len(s.Location):])
		k := strings.Join(key, ";")
		sum := of[k]
		for i, v := range s.Value {
			sum[i] += sign * v
		}
		if of[k] = sum; sum == [5]int64{} {
			delete(of, k)
		}
	}
}

// TestWriteDiff: the profile of a comparison has the values of the second capture less those of the first, for each function and label.
func TestWriteDiff(t *testing.T) {
	for seed := range uint64(6) {
		before, after := random(t, seed, 3, 400), random(t, seed+1, 2, 300)
		for name, pair := range map[string][2]*lifetime.Capture{"two": {before, after}, "the same": {after, after}} {
			var out bytes.Buffer
			if err := WriteDiff(&out, pair[0], pair[1], Options{}, Options{At: End}); err != nil {
				t.Fatal(err)
			}
			d, err := profile.Parse(&out)
			if err != nil {
				t.Fatal(err)
			}
			got, want := map[string][5]int64{}, map[string][5]int64{}
			valuesOf(t, d, got, 1)
			for i, sign := range []int64{-1, 1} {
				o := Options{byFunction: true}
				if i == 1 {
					o.At = End
				}
				p, err := Profile(pair[i:i+1], o)
				if err != nil {
					t.Fatal(err)
				}
				valuesOf(t, p, want, sign)
			}
			if len(got) != len(want) {
				t.Errorf("seed %d, %s: %d samples, want %d", seed, name, len(got), len(want))
			}
			for key, v := range want {
				if got[key] != v {
					t.Errorf("seed %d, %s: %s has %d, want %d", seed, name, key, got[key], v)
				}
			}
		}
	}
}

// TestWriteDiffFails: a full disk and captures without buffers are errors.
func TestWriteDiffFails(t *testing.T) {
	c := random(t, 1, 1, 100)
	if err := WriteDiff(failing{}, c, c, Options{}, Options{}); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
	for _, pair := range [][2]*lifetime.Capture{{c, {}}, {{}, c}} {
		if err := WriteDiff(&bytes.Buffer{}, pair[0], pair[1], Options{}, Options{}); !errors.Is(err, ErrNoBuffers) {
			t.Errorf("without buffers: %v", err)
		}
	}
}
