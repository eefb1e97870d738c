package text_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/internal/shorten"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/whatif"
	"github.com/memlane/memlane/render/text"
)

// TestWhatIf: the figure to act on stands first, whatever is drawn from; the table fits 100 columns, or a terminal of 80, and no change is cut. What
// the changes are compared with is said once.
func TestWhatIf(t *testing.T) {
	for _, of := range []struct {
		file     string
		capacity int64
		first    string // the line after the name
	}{
		{"whatif/one_step", 0, "the next step will need about 318 MiB"},
		{"whatif/one_step", 300 << 20, "the next step will need about 318 MiB"},
		{"replay/b19.c2.oom", 0, "with the request that failed the program needs 4.99 GiB"},
		{"whatif/gpt_small", 300 << 20, "replayed, the peak is 318 MiB"},
	} {
		c, err := judged.Open("../../testdata/"+of.file+".pickle.zst", formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		asked := answer.WhatIfAsked{Capacity: of.capacity}
		for _, edits := range []string{"checkpoint=blocks,optimizer=adam8bit,batch=0.25,accumulate=4", "offload=activations", "optimizer.device=host"} {
			s, err := whatif.Parse(edits)
			if err != nil {
				t.Fatal(err)
			}
			asked.Scenarios = append(asked.Scenarios, s)
		}
		spaces, err := answer.WhatIfOf(c, asked)
		if err != nil {
			t.Fatal(err)
		}
		for _, width := range []int{0, 80, 120} {
			var b bytes.Buffer
			if err := text.WhatIf(&b, answer.NewWhatIf(spaces), text.Style{Width: width}); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(b.String(), "\n")
			if !strings.HasPrefix(strings.TrimSpace(lines[1]), of.first) {
				t.Errorf("%s: %q, want %q first", of.file, lines[1], of.first)
			}
			table := 0
			for _, line := range lines[1:] {
				if width == 0 && strings.HasPrefix(line, "  ") && table == 0 {
					continue // a paragraph is a line
				}
				if table++; shorten.Columns(line) > max(width, 100) || width == 80 && shorten.Columns(line) > width {
					t.Errorf("%s, %d columns: %q has %d", of.file, width, line, shorten.Columns(line))
				}
			}
			for _, edit := range []string{"optimizer=adam8bit,", "accumulate=4\n", "optimizer.device=host\n", "offload=activations\n"} {
				if !strings.Contains(b.String(), edit) {
					t.Errorf("%s, %d columns: no %q in\n%s", of.file, width, edit, b.String())
				}
			}
		}
	}
}
