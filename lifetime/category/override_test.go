package category_test

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/purpose"
)

// TestOverrides: lines give categories by frame, size and device; the first line that fits counts.
func TestOverrides(t *testing.T) {
	const lines = `# mine
weights  frame="manual.py:4 params" size=1MiB..   # large
cache    frame=manual\.py:4 device=cuda:0

elsewhere size=0.. device=cuda:7
`
	own, err := category.ReadOverrides("mine.txt", strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := open(meaning+"/n07.pickle.zst", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := open(meaning+"/n07.pickle.zst", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	category.Of(c, own)
	counts := map[string]int{}
	s := c.Spaces[0]
	for i := range s.Buffers {
		at := false
		for f := range c.FramesOf(c.Sites[s.Buffers[i].Site].Stack) {
			at = at || strings.HasSuffix(f.File, "/manual.py") && f.Line == 4
		}
		p, before := c.Purpose(s.PurposeOf(i)), plain.Purpose(plain.Spaces[0].PurposeOf(i))
		switch {
		case !at:
			if p != before {
				t.Fatalf("buffer %d changed from %v to %v", i, before, p)
			}
			continue
		case s.Buffers[i].Requested >= 1<<20:
			if p.Own != "weights" || p.Category != purpose.UnknownCategory || p.Rule != "mine.txt:2" {
				t.Errorf("buffer %d: %+v", i, p)
			}
		default:
			if p.Category != purpose.Cache || p.Rule != "mine.txt:3" {
				t.Errorf("buffer %d: %+v", i, p)
			}
		}
		if p.Evidence != purpose.FromUser || p.Confidence != 1 {
			t.Errorf("buffer %d: %+v", i, p)
		}
		counts[p.Name()]++
	}
	if counts["weights"] == 0 || counts["cache"] == 0 {
		t.Error(counts)
	}
}

// TestOverrideErrors: a bad file has one error, which names the line.
func TestOverrideErrors(t *testing.T) {
	for lines, want := range map[string]string{
		"":                                   "f: no categories; write lines such as: teacher frame=teacher.py",
		"# only a comment\n":                 "f: no categories; write lines such as: teacher frame=teacher.py",
		"a frame=x\nteacher\n":               "f:2: category teacher has no condition: frame=, size= or device=",
		"a frame=(x":                         `f:1: frame=(x: missing closing ) near "(x"`,
		"a frame=":                           "f:1: frame= has no value",
		"a size=1..x":                        "f:1: size=1..x: use a size such as 1MiB, or a range such as 1MiB..2GiB",
		"a size=..":                          "f:1: size=..: use a size such as 1MiB, or a range such as 1MiB..2GiB",
		"a size=2MiB..1MiB":                  "f:1: size=2MiB..1MiB: the range ends before it begins",
		"a frame=x frame=y":                  "f:1: frame= is given twice",
		"a color=red":                        `f:1: unknown condition "color": use frame=, size= or device=`,
		"<b> frame=x":                        `f:1: category "<b>": use letters, digits, _ and -, at most 64`,
		strings.Repeat("ä", 65) + " frame=x": `f:1: category "` + strings.Repeat("ä", 65) + `": use letters, digits, _ and -, at most 64`,
		strings.Repeat("x", 70<<10):          "f:1: the line is longer than 65536 bytes",
		strings.Repeat("a size=1\n", 1001):   "f:1001: more than 1000 categories",
	} {
		if _, err := category.ReadOverrides("f", strings.NewReader(lines)); err == nil || err.Error() != want {
			t.Errorf("%.30q: %v, want %s", lines, err, want)
		}
	}
}
