package answer_test

import (
	"path/filepath"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	did "github.com/memlane/memlane/lifetime/program"
)

// TestPhasePeaks: the peak of a memory ID is that of a phase or of memory from before the first one. What a phase leaves are buffers
// of one run that are alive at the end of the run, counted here from a list of all buffers.
func TestPhasePeaks(t *testing.T) {
	files, err := filepath.Glob("../../testdata/meaning/*.pickle.zst")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	names := map[string]bool{}
	for _, file := range files {
		c, err := judged.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Spaces {
			peak := s.Peak(lifetime.Occupied)
			line := did.Of(c.Capture).Timeline(s)
			highest := int64(0)
			for _, p := range answer.PeakOf(&c.Tables, s, peak.At).PhasePeaks {
				names[p.Name()] = true
				highest = max(highest, p.PeakBytes)
				if got := s.LevelAt(p.PeakAt, lifetime.Occupied); got != p.PeakBytes {
					t.Errorf("%s: %s: peak %d, but %d at %d", file, p.Name(), p.PeakBytes, got, p.PeakAt)
				}
				most, sum := int64(0), int64(0)
				for _, span := range line.Spans {
					if span.Phase.String() == p.Phase && span.Part.String() == p.Part {
						most = max(most, leftBehind(s, span))
					}
				}
				for _, part := range p.Left {
					sum += part.Bytes
				}
				if p.LeftBytes != most || len(p.Left) > 0 && sum != most {
					t.Errorf("%s: %s leaves %d, its categories %d, want %d", file, p.Name(), p.LeftBytes, sum, most)
				}
			}
			if len(line.Spans) > 0 && peak.At >= line.Spans[0].Begin && highest != peak.Bytes {
				t.Errorf("%s: the highest phase has %d, the peak is %d", file, highest, peak.Bytes)
			}
		}
	}
	for _, name := range []string{"forward", "backward", "optimizer", "other, data", "other, setup", "forward, evaluation"} {
		if !names[name] {
			t.Errorf("no phase %q", name)
		}
	}
}

func leftBehind(s *lifetime.Space, span did.PhaseSpan) (bytes int64) {
	for _, i := range s.LiveAt(min(span.End, s.AtEnd())) {
		if b := &s.Buffers[i]; b.Edge&lifetime.BeginUnseen == 0 && b.Begin >= span.Begin && b.Begin < span.End {
			bytes += b.Size
		}
	}
	return bytes
}

// TestLayers: layers and their categories sum to the whole, and the layers of a model of equal blocks hold the same.
func TestLayers(t *testing.T) {
	c, err := judged.Open("../../testdata/meaning/a17.pickle.zst", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Spaces[0]
	peak := answer.PeakOf(&c.Tables, s, s.Peak(lifetime.Occupied).At)
	total := int64(0)
	var blocks []answer.Layer
	for _, layer := range peak.Layers {
		sum := int64(0)
		for _, p := range layer.Categories {
			sum += p.Bytes
		}
		if total += layer.Bytes; sum != layer.Bytes {
			t.Errorf("layer %s: %d, its categories %d", layer.Name, layer.Bytes, sum)
		}
		if layer.Name != "unknown" && layer.Of("activation") > 0 && layer.Of("parameter") > 0 && layer.Of("optimizer_state") > 0 {
			blocks = append(blocks, layer)
		}
	}
	if total != peak.Bytes {
		t.Errorf("layers sum to %d, want %d", total, peak.Bytes)
	}
	if len(blocks) < 4 {
		t.Fatalf("layers with activations, weights and states: %v", blocks)
	}
	for _, b := range blocks[1:] {
		if a := blocks[0]; b.Of("parameter") != a.Of("parameter") || b.Of("activation") != a.Of("activation") || b.Of("optimizer_state") != a.Of("optimizer_state") {
			t.Errorf("%s and %s differ:\n%v\n%v", a.Name, b.Name, a.Categories, b.Categories)
		}
	}
}
