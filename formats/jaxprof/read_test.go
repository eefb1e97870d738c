package jaxprof_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/pprof/profile"
	"github.com/klauspost/compress/gzip"

	"github.com/memlane/memlane/formats/jaxprof"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

const captures = "../../testdata/jaxprof/"

// names are the captures in testdata.
var names = []string{"leak_before", "leak_after"}

// contentOf returns the decompressed content of a capture.
func contentOf(t testing.TB, file string) []byte {
	t.Helper()
	packed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// read reads data and checks the properties of every capture.
func read(t testing.TB, in io.Reader) (*lifetime.Capture, error) {
	t.Helper()
	b := build.New(build.Everything)
	if err := jaxprof.Read("x.prof", in, b); err != nil {
		nativetest.Message(t, err, 300)
		return nil, err
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	return c, nil
}

func mustRead(t testing.TB, data []byte) *lifetime.Capture {
	t.Helper()
	c, err := read(t, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// losses formats the losses of a capture.
func losses(c *lifetime.Capture) string {
	var all []string
	for _, l := range c.Losses {
		all = append(all, fmt.Sprintf("%s %d %d %s", l.Reason, l.Count, l.Bytes, l.First))
	}
	return strings.Join(all, "; ")
}

// TestGolden compares the whole model of the captures with their native text.
func TestGolden(t *testing.T) {
	for _, name := range names {
		c := mustRead(t, contentOf(t, captures+name+".memory.prof"))
		nativetest.Golden(t, c, captures+name+".native")
	}
}

// TestLeak: between the two captures one call site retained 10 arrays of 256 KiB.
func TestLeak(t *testing.T) {
	at := func(name string) map[lifetime.Place]lifetime.Amount {
		c := mustRead(t, contentOf(t, captures+name+".memory.prof"))
		all := map[lifetime.Place]lifetime.Amount{}
		for _, row := range c.Spaces[0].Summary().Sites {
			amount := all[c.PlaceOf(row.Site)]
			amount.Add(row.AtEnd)
			all[c.PlaceOf(row.Site)] = amount
		}
		return all
	}
	before, after := at("leak_before"), at("leak_after")
	for place, amount := range after {
		if place.Frame.Function == "go" {
			if want := (lifetime.Amount{Count: 10, Bytes: 2_621_440, Requested: 2_621_440}); amount != want || before[place].Count != 0 {
				t.Errorf("%s: %v, before %v", place, amount, before[place])
			}
		} else if amount != before[place] {
			t.Errorf("%s: %v, before %v", place, amount, before[place])
		}
	}
	if len(after) != len(before)+1 {
		t.Errorf("%d places, then %d", len(before), len(after))
	}
}

// TestSums compares allocations and bytes per device, and the stack with the most bytes, with the results of
// the pprof package. MEMLANE_CAPTURES adds captures from a folder.
func TestSums(t *testing.T) {
	files := []string{captures + "leak_before.memory.prof", captures + "leak_after.memory.prof"}
	if dir := os.Getenv("MEMLANE_CAPTURES"); dir != "" {
		more, err := filepath.Glob(filepath.Join(dir, "public/jaxprof/*.prof"))
		if err != nil || len(more) == 0 {
			t.Fatal(len(more), err)
		}
		files = append(files, more...)
	}
	for _, file := range files {
		data := contentOf(t, file)
		p, err := profile.ParseData(data)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]lifetime.Amount{}
		for _, s := range p.Sample {
			id := "executables"
			if s.Label["kind"][0] == "buffer" {
				id = "device:0" // pprof does not distinguish number 0 from none
			} else if s.Value[1] == 0 {
				continue
			}
			if s.Label["device"] != nil {
				id = s.Label["device"][0]
			}
			amount := want[id]
			amount.Add(lifetime.Amount{Count: s.Value[0], Bytes: s.Value[1], Requested: s.Value[1]})
			want[id] = amount
		}
		c := mustRead(t, data)
		if !jaxprof.Sniff(data[:min(len(data), 4096)]) || len(c.Spaces) != len(want) || !strings.HasPrefix(losses(c), "unknown-size ") || len(c.Losses) != 1 {
			t.Errorf("%s: %d spaces, want %d; lost %s", file, len(c.Spaces), len(want), losses(c))
		}
		for _, s := range c.Spaces {
			if have := s.Summary().Live; have != want[s.ID()] || s.Facts != lifetime.EndState|lifetime.Stacks {
				t.Errorf("%s %s: %v, want %v; %v", file, s.ID(), have, want[s.ID()], s.Facts.Names())
			}
		}
	}
}

// made returns a profile of some samples, written by the pprof package.
func made(t testing.TB, types string, samples ...*profile.Sample) []byte {
	t.Helper()
	f := &profile.Function{ID: 7, Name: "f", Filename: "a.py"}
	l := &profile.Location{ID: 9, Line: []profile.Line{{Function: f, Line: 3}}}
	p := &profile.Profile{Function: []*profile.Function{f}, Location: []*profile.Location{l}}
	for _, name := range strings.Fields(types) {
		typ, unit, _ := strings.Cut(name, "/")
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: typ, Unit: unit})
	}
	for _, s := range samples {
		s.Location = []*profile.Location{l}
		p.Sample = append(p.Sample, s)
	}
	var b bytes.Buffer
	if err := p.WriteUncompressed(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const ofJAX = "allocations/count space/bytes"

// of returns a sample of a device, or of no device.
func of(device, kind string, values ...int64) *profile.Sample {
	s := &profile.Sample{Value: values, Label: map[string][]string{"kind": {kind}}}
	if device != "" {
		s.Label["device"] = []string{device}
	}
	return s
}

// TestSamples reads every kind of sample.
func TestSamples(t *testing.T) {
	numbered := of("", "buffer", 1, 8)
	numbered.NumLabel = map[string][]int64{"device": {3}}
	for _, c := range []struct {
		name    string
		samples []*profile.Sample
		want    string // spaces
		losses  string
	}{
		{"nothing", nil, "", ""},
		{"a buffer", []*profile.Sample{of("tpu:0", "buffer", 1, 100)}, "tpu:0 [100]", ""},
		{"unequal ones", []*profile.Sample{of("tpu:0", "buffer", 3, 100)}, "tpu:0 [34 33 33]", ""},
		{"two devices", []*profile.Sample{of("tpu:0", "buffer", 1, 1), of("tpu:1", "buffer", 1, 2), of("tpu:0", "buffer", 1, 3)}, "tpu:0 [1 3] tpu:1 [2]", ""},
		{"a program", []*profile.Sample{of("", "executable", 2, 10), of("", "executable", 1, 0)}, "executables [5 5]", "unknown-size 1 0 "},
		{"a program before a device", []*profile.Sample{of("", "executable", 1, 5), of("tpu:0", "buffer", 1, 7)}, "tpu:0 [7] executables [5]", ""},
		{"programs on TPU", []*profile.Sample{of("", "executable", 1, -1), of("", "executable", 2, -2)}, "", "unknown-size 3 0 "},
		{"empty arrays", []*profile.Sample{of("cpu:0", "buffer", 2, 0)}, "cpu:0 [0 0]", ""},
		{"of nothing", []*profile.Sample{of("cpu:0", "buffer", 0, 0)}, "", ""},
		{"a numbered device", []*profile.Sample{numbered}, "device:3 [8]", ""},
		{"no device", []*profile.Sample{of("", "buffer", 1, 8)}, "unknown device [8]", ""},
		{"less than none", []*profile.Sample{of("cpu:0", "buffer", -1, 8), of("cpu:0", "buffer", 1, -8), of("cpu:0", "buffer", 0, 8)}, "", "incomplete-record 3 16 sample[0]"},
		{"more than can be", []*profile.Sample{of("cpu:0", "buffer", 1<<62, 1<<62), of("cpu:0", "buffer", 1, 1<<62), of("cpu:0", "buffer", 1, 1<<62)},
			"cpu:0 [4611686018427387904 4611686018427387904 4611686018427387904]", "overflow 1 0 cpu:0"},
	} {
		have := mustRead(t, made(t, ofJAX, c.samples...))
		var spaces []string
		for _, s := range have.Spaces {
			var sizes []int64
			for _, b := range s.Buffers {
				sizes = append(sizes, b.Size)
			}
			spaces = append(spaces, fmt.Sprint(s.ID(), " ", sizes))
		}
		if strings.Join(spaces, " ") != c.want || losses(have) != c.losses {
			t.Errorf("%s: %s, lost %q", c.name, spaces, losses(have))
		}
	}
}

// TestOrder: sample types may come in any order, and unused fields anywhere.
func TestOrder(t *testing.T) {
	other := "\x09\xff\xff\xff\xff\xff\xff\xff\xff" // field 1, of eight bytes
	c := mustRead(t, append([]byte(other), made(t, "space/bytes allocations/count", of("tpu:0", "buffer", 100, 2))...))
	if s := c.Spaces[0]; len(s.Buffers) != 2 || s.Summary().Live.Bytes != 100 || losses(c) != "" {
		t.Errorf("%v, lost %q", s.Buffers, losses(c))
	}
}

// TestManyBuffers: a few bytes cannot create any number of buffers or devices.
func TestManyBuffers(t *testing.T) {
	var samples []*profile.Sample
	for range 3 {
		samples = append(samples, of("cpu:0", "buffer", 100_000, 400_000))
	}
	c := mustRead(t, made(t, ofJAX, samples...))
	s := c.Spaces[0]
	last := len(s.Buffers) - 1
	if sum := s.Summary().Live; last != 200_000 || sum.Bytes != 1_200_000 || c.Notes[s.BufNotes[last]] != "100000 allocations" || s.BufNotes[0] != 0 {
		t.Errorf("%d buffers, %v, lost %s", last+1, sum, losses(c))
	}
	const most = 1 << 18
	if c := mustRead(t, made(t, ofJAX, of("cpu:0", "buffer", most, most), of("cpu:0", "buffer", 2, 2))); len(c.Spaces[0].Buffers) != most+1 {
		t.Errorf("%d buffers of a sample that has as many as there may be, and of one more", len(c.Spaces[0].Buffers))
	}
	samples = nil
	for i := range 2 * (build.MaxSpaces + 100) { // samples beyond the limit are counted
		samples = append(samples, of(fmt.Sprint("tpu:", i%(build.MaxSpaces+100)), "buffer", 1, 1))
	}
	if c := mustRead(t, made(t, ofJAX, samples...)); len(c.Spaces) != build.MaxSpaces || losses(c) != "too-many-spaces 200 200 sample[10000]" {
		t.Errorf("%d spaces, lost %s", len(c.Spaces), losses(c))
	}
}

// TestRefused: any other file gives one clear error.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{"", "a pprof profile of nothing; expected allocations (count) and space (bytes)"},
		{"hello", "not a complete pprof profile: the field at byte 2 cannot be read"},
		{string(made(t, "samples/count cpu/nanoseconds")), `a pprof profile of "samples", "cpu"; expected allocations (count)`},
		{string(made(t, "allocations/count space/count")), `a pprof profile of "allocations", "space"`},
		{string(made(t, ofJAX)) + "\x0a\x03\x08\x80\x80", "sample_type[2]: the field at byte 79 is cut short"},
		{string(made(t, ofJAX)) + "\x22\x03\x08\x80\x80", "location[1]: the field at byte 79 is cut short"},
		{string(made(t, ofJAX)) + "\x2a\x03\x08\x80\x80", "function[1]: the field at byte 79 is cut short"},
		{string(made(t, ofJAX)) + "\x12\x03\x0a\x01\x80", "sample[0]: the field at byte 81 is cut short"},
	} {
		if _, err := read(t, strings.NewReader(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20q: %v, want %q", c.data, err, c.want)
		}
	}
	broken := errors.New("broken disk")
	if _, err := read(t, iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if _, err := read(t, iotest.ErrReader(io.ErrUnexpectedEOF)); err == nil || !strings.Contains(err.Error(), "the file ends early") {
		t.Errorf("%v", err)
	}
}

// TestCut cuts the captures at every byte: there is one clear error, or a loss if the cut is between two of the
// names at the end.
func TestCut(t *testing.T) {
	for _, name := range names {
		data := contentOf(t, captures+name+".memory.prof")
		whole := mustRead(t, data).Spaces[0].Summary().Live
		used := 0
		for at := range data {
			c, err := read(t, bytes.NewReader(data[:at]))
			if err != nil {
				continue
			}
			used++
			lost := c.Losses[0].Bytes
			for _, s := range c.Spaces {
				lost += s.Summary().Live.Bytes
			}
			if lost != whole.Bytes {
				t.Errorf("%s cut at %d: %d bytes, lost %s", name, at, lost, losses(c))
			}
		}
		if used == 0 {
			t.Errorf("%s: no cut was used", name)
		}
	}
}

// TestSniff distinguishes these profiles from other files.
func TestSniff(t *testing.T) {
	for text, want := range map[string]bool{
		string(made(t, ofJAX, of("a", "buffer", 1, 1))): true, "\x0a\x04\x08\x01\x10\x02\x12": true,
		"": false, "\x0a": false, "\x0a\x04\x08\x01\x10\x02": false, "\x0a\x04\x08\x01\x10": false, "\x12\x04": false,
		"\x0a\x02\x08\x01\x12": false, "\x0a\x06\x08\x01\x10\x02\x18\x03\x12": false, "\x0a\x04\x10\x01\x08\x02\x12": false,
	} {
		if have := jaxprof.Sniff([]byte(text)); have != want {
			t.Errorf("%.20q: %t", text, have)
		}
	}
	others, err := filepath.Glob("../../testdata/*/*")
	if err != nil || len(others) < 100 {
		t.Fatal(len(others), err)
	}
	for _, file := range others {
		data, err := os.ReadFile(file)
		if err == nil && jaxprof.Sniff(data[:min(len(data), 4096)]) {
			t.Errorf("%s is taken", file)
		}
	}
}
