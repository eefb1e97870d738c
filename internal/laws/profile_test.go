package laws

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/pprof/profile"
	"pgregory.net/rapid"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/pprof"
)

// sums returns the values of the captures' heap profile by stack, without labels.
func sums(t *rapid.T, captures ...*lifetime.Capture) map[string][5]int64 {
	var data bytes.Buffer
	if err := pprof.Write(&data, captures, pprof.Options{}); err != nil {
		t.Skip(err) // the captures have no profile
	}
	p, err := profile.ParseData(data.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	byStack := map[string][5]int64{}
	for _, s := range p.Sample {
		key := ""
		for _, l := range s.Location[:len(s.Location)-1] { // the outermost names the memory, and its file if others share its ID
			key += fmt.Sprintf("%s:%d;", l.Line[0].Function.Name, l.Line[0].Line)
		}
		byStack[key] = added(byStack[key], [5]int64(s.Value))
	}
	return byStack
}

func added(x, y [5]int64) [5]int64 {
	for i := range x {
		x[i] += y[i]
	}
	return x
}

// TestProfiles: the profile of two captures is the sum of their profiles, in any order.
func TestProfiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyCapture(t, usual)
		b := anyCapture(t, usual)
		for _, c := range []*lifetime.Capture{a, b} { // compiled programs have their own profiles
			c.Spaces = slices.DeleteFunc(c.Spaces, func(s *lifetime.Space) bool { return s.Axis == lifetime.ProgramOrder })
		}
		want := sums(t, a)
		for key, values := range sums(t, b) {
			want[key] = added(want[key], values)
		}
		for name, got := range map[string]map[string][5]int64{"a and b": sums(t, a, b), "b and a": sums(t, b, a)} {
			if !maps.Equal(got, want) {
				t.Fatalf("%s: %v, the sum of both is %v", name, got, want)
			}
		}
	})
}
