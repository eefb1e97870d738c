package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/canvas"
)

// run returns a capture of a program that allocates the sizes one after the other and
// keeps three of them at a time, in one region that is large enough.
func run(t *testing.T, file string, sizes ...int64) *lifetime.Capture {
	t.Helper()
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: file})
	ref := b.Space()
	b.Describe(ref, lifetime.SpaceInfo{Device: "cuda:0", Axis: lifetime.Time, Facts: lifetime.History | lifetime.Addresses})
	reserved := int64(1)
	for i, size := range sizes {
		reserved = max(reserved, size)
		site := b.Site(lifetime.Site{Op: fmt.Sprintf("layer %d <&>", i%3)})
		b.Alloc(ref, int64(i)*1000, build.Block{Addr: uint64(i) << 40, Requested: size, Occupied: size, Site: site})
		if old := i - 3; old >= 0 {
			b.Free(ref, int64(i)*1000+500, build.Block{Addr: uint64(old) << 40, Requested: sizes[old], Occupied: sizes[old]})
		}
	}
	b.Reserve(ref, 0, lifetime.Region{Addr: 0, Size: 4 * reserved})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func compare(before, after *lifetime.Capture) *diff.Result {
	return diff.Compare(judge.Of(before), judge.Of(after))
}

func drawnDiff(t *testing.T, d *diff.Result, o Options) []byte {
	t.Helper()
	var w bytes.Buffer
	if err := Diff(&w, d, d.Main(), o); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
}

func TestDiffGoldens(t *testing.T) {
	before, after := run(t, "runs/1/<a&b>.pickle", 30<<20, 50<<20, 20<<20, 40<<20, 10<<20), run(t, "runs/2/<a&b>.pickle", 30<<20, 20<<20, 10<<20, 5<<20)
	golden(t, "diff", drawnDiff(t, compare(before, after), Options{}))
	golden(t, "diff-same", drawnDiff(t, compare(after, after), Options{Theme: canvas.Dark, Width: 600, Height: 500}))
	c, _ := open(t, "programs.native", "node7/jit_step(5)/space0")
	golden(t, "diff-new", drawnDiff(t, compare(run(t, "one.pickle", 10<<20), c), Options{Theme: canvas.Light}))
}

var (
	areas  = regexp.MustCompile(`<path fill="#699bdd" d="([^"]*)"><title>(.*)(?:: |\n)peak [^<]*</title>`)
	labels = regexp.MustCompile(`<text class="dim" text-anchor="end" x="\S+" y="(\S+)">([^<]*)</text>`)
	moves  = regexp.MustCompile(`([Mhvlz])(-?[\d.]+)?(?: (-?[\d.]+))?`)
)

// peaksOf reads a picture. By the labels of the axis, it returns the bytes at the
// highest point of each area, and the bytes of one pixel.
func peaksOf(t *testing.T, picture string) (peaks map[string]float64, pixel float64) {
	t.Helper()
	zero := 0.0
	for _, m := range labels.FindAllStringSubmatch(picture, -1) {
		y := number(t, m[1])
		if bytes, err := units.ParseBytes(m[2]); m[2] == "0" {
			zero = y
		} else if err == nil && zero > 0 {
			pixel = float64(bytes) / (zero - y)
			break
		}
	}
	peaks = map[string]float64{}
	for _, m := range areas.FindAllStringSubmatch(picture, -1) {
		y, top, bottom := 0.0, math.Inf(1), math.Inf(-1)
		for _, move := range moves.FindAllStringSubmatch(m[1], -1) {
			switch move[1] {
			case "M":
				y = number(t, move[3])
			case "v":
				y += number(t, move[2])
			case "l":
				y += number(t, move[3])
			}
			top, bottom = min(top, y), max(bottom, y)
		}
		peaks[m[2]] = (bottom - top) * pixel
	}
	return peaks, pixel
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// sizes returns the sizes of a random program.
func sizes(r *rand.Rand) (all []int64) {
	for range 4 + r.IntN(500) {
		all = append(all, 1+r.Int64N(1<<30))
	}
	return all
}

// TestDiffScale checks that the heights of both peaks and the widths of both windows
// are in proportion to their bytes and lengths.
func TestDiffScale(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		before, after := run(t, "a", sizes(r)...), run(t, "b", sizes(r)...)
		picture := string(drawnDiff(t, compare(before, after), Options{Width: 600 + r.IntN(800), Height: 500 + r.IntN(500)}))
		peaks, pixel := peaksOf(t, picture)
		widths := map[string]float64{}
		for _, m := range areas.FindAllStringSubmatch(picture, -1) {
			for _, move := range moves.FindAllStringSubmatch(m[1], -1) {
				if move[1] == "h" {
					widths[m[2]] += max(number(t, move[2]), 0) // the way back is along the bottom
				}
			}
		}
		for word, c := range map[string]*lifetime.Capture{"before": before, "after": after} {
			if want := float64(c.Spaces[0].Peak(lifetime.Occupied).Bytes); math.Abs(peaks[word]-want) > pixel {
				t.Errorf("%s has a drawn peak of %.0f, want %.0f; a pixel is %.0f", word, peaks[word], want, pixel)
			}
		}
		lengths := func(c *lifetime.Capture) float64 { return float64(c.Spaces[0].End - c.Spaces[0].Begin) }
		longer := max(widths["before"], widths["after"])
		if got, want := widths["after"]*lengths(before), widths["before"]*lengths(after); math.Abs(got-want) > 1.5/longer*max(got, want)+max(lengths(before), lengths(after)) {
			t.Errorf("windows of %.0f and %.0f ns have widths of %.1f and %.1f", lengths(before), lengths(after), widths["before"], widths["after"])
		}
	}
}

func TestDiffRefuses(t *testing.T) {
	d := compare(run(t, "a"), run(t, "b"))
	if err := Diff(io.Discard, d, d.Main(), Options{}); !errors.Is(err, errNothing) {
		t.Error(err)
	}
}

var bars = regexp.MustCompile(`<path fill="#(?:699bdd|c8323a|2768ab)" d="M(\S+) \S+h(\S+?)v[^"]*"><title>([^<\n]*)\n([^<]*)</title>`)

// TestDiffWaterfall: each step begins where the one before it ends, all are on one scale from zero, and the last ends at the peak after.
func TestDiffWaterfall(t *testing.T) {
	before, after := run(t, "before", 300<<20, 500<<20, 200<<20, 400<<20), run(t, "after", 300<<20, 90<<20, 200<<20, 400<<20, 100<<20)
	d := compare(before, after)
	steps := d.Waterfall(0)
	var rows [][]string
	for _, m := range bars.FindAllStringSubmatch(string(drawnDiff(t, d, Options{})), -1) {
		rows = append(rows, m[1:])
	}
	if len(steps) == 0 || len(rows) != len(steps)+2 {
		t.Fatalf("%d rows of %d steps", len(rows), len(steps))
	}
	left, width := number(t, rows[0][0]), number(t, rows[0][1])
	pixel := float64(d.Pairs[0].Before.Peak) / width
	level := float64(d.Pairs[0].Before.Peak)
	for i, step := range steps {
		from, to := level, level+float64(step.Delta)
		level = to
		x, w := number(t, rows[i+1][0])-left, number(t, rows[i+1][1])
		if math.Abs(x*pixel-min(from, to)) > pixel || math.Abs((x+w)*pixel-max(from, to)) > pixel {
			t.Errorf("%s is from %.0f to %.0f, want %.0f to %.0f", rows[i+1][2], x*pixel, (x+w)*pixel, min(from, to), max(from, to))
		}
	}
	last := rows[len(rows)-1]
	if got := number(t, last[1]) * pixel; last[2] != "after" || math.Abs(got-level) > pixel || level != float64(d.Pairs[0].After.Peak) {
		t.Errorf("%s ends at %.0f, want %.0f", last[2], got, level)
	}
	if rows := bars.FindAllString(string(drawnDiff(t, d, Options{Height: 480})), -1); len(rows) != 0 {
		t.Errorf("%d rows without room", len(rows))
	}
}

// TestLines: a title is broken between words, not between a number and its unit, wherever that falls.
func TestLines(t *testing.T) {
	const title = "peak 42.0 GiB -> 7.87 GiB, optimizer state -15.2 GiB (gradient -7.60 MiB); step +512 B; 32 more"
	broken := 0
	for width := canvas.Length(1500); width < 7000; width += 50 {
		all := lines(title, 18, width, 9)
		for i, line := range all {
			if broken++; i > 0 && regexp.MustCompile(`^([KMGT]i)?B\b`).MatchString(line) {
				t.Errorf("at %d: %q begins with a unit", width, line)
			}
		}
		if len(all) < 9 && strings.Join(all, " ") != title {
			t.Errorf("at %d: %q", width, all)
		}
	}
	if broken < 200 {
		t.Errorf("only %d lines", broken)
	}
}
