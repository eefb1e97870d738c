package report

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/render/pprof"
)

// TestProfile: the profile of a fleet sums to those of its captures, in every sample
// type, and does not depend on the order of its records.
func TestProfile(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/torchsnap/*.pickle")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	var records []*fleet.Record
	var want [5]int64
	functions := map[string]bool{}
	for i, file := range files {
		c, err := judged.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, fleet.Of(c).Named(fmt.Sprint("rank", i), finding.RankNames{}))
		p, err := pprof.Profile([]*lifetime.Capture{c.Capture}, pprof.Options{Marks: finding.MarksOf(c.Findings()), UserFrames: true})
		if err != nil {
			if strings.Contains(err.Error(), pprof.ErrNoBuffers.Error()) {
				continue
			}
			t.Fatal(err)
		}
		for _, s := range p.Sample {
			for i, v := range s.Value {
				want[i] += v
			}
		}
		for _, f := range p.Function {
			functions[f.Name] = !strings.HasSuffix(f.Name, ", inferred") // records have no stacks of the forward pass
		}
		for _, s := range c.Spaces {
			delete(functions, s.ID()) // the outermost frame of a capture's own profile
		}
	}
	write := func(backwards bool) []byte {
		f := &fleet.Fleet{}
		for i, r := range records {
			if backwards {
				r = records[len(records)-1-i]
			}
			f.Add(r)
		}
		var b bytes.Buffer
		if err := writeProfile(&b, Of(f, finding.RankNames{}, nil, nil)); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	first := write(false)
	if !bytes.Equal(first, write(true)) {
		t.Error("the order of records matters")
	}
	p, err := profile.ParseData(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckValid(); err != nil {
		t.Error(err)
	}
	var have [5]int64
	for _, s := range p.Sample {
		for i, v := range s.Value {
			have[i] += v
		}
	}
	if have != want || have[4] == 0 {
		t.Errorf("sums %v, want %v", have, want)
	}
	for _, f := range p.Function {
		delete(functions, f.Name)
	}
	for name, kept := range functions {
		if kept {
			t.Errorf("%s is missing", name)
		}
	}
}
