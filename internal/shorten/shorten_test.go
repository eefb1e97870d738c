package shorten_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/shorten"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// TestExamples holds the function to a table that was written before it. The page is held to the same table.
func TestExamples(t *testing.T) {
	file, err := os.ReadFile("testdata/examples.json")
	if err != nil {
		t.Fatal(err)
	}
	var examples []struct {
		Why         string
		N           int
		Names, Want []string
	}
	if err := json.Unmarshal(file, &examples); err != nil {
		t.Fatal(err)
	}
	for _, e := range examples {
		if got := shorten.Names(e.Names, e.N); !slices.Equal(got, e.Want) {
			t.Errorf("%s: in %d columns\n got %q\nwant %q", e.Why, e.N, got, e.Want)
		}
	}
}

// TestPlaces holds the words of places to those of package lifetime.
func TestPlaces(t *testing.T) {
	line := frame.Frame{Function: "a_function_with_a_long_name", File: "/home/a/encoder_adamw.py", Line: 10}
	for _, c := range []struct {
		place lifetime.Place
		n     int
		want  string
	}{
		{lifetime.Place{Frame: line}, 30, "a_…_name (encoder_adamw.py:10)"},
		{lifetime.Place{Frame: line, Node: "NativeLayerNormBackward0", Inferred: true}, 57, "NativeLayerNormBackward0 of encoder_adamw.py:10, inferred"},
		{lifetime.Place{Frame: line, Node: "NativeLayerNormBackward0", Unseen: true}, 58, "freed in NativeLayerNormBackward0 of encoder_adamw.py:10"},
		{lifetime.Place{Frame: line, Unseen: true}, 40, "freed in a_…g_name (encoder_adamw.py:10)"},
	} {
		if got := shorten.Name(c.place.String(), c.n); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.place.String(), c.n, got, c.want)
		}
	}
}

var word = rapid.StringMatching(`[a-c_]{0,12}[0-9]{0,2}|[長Wé]{1,5}`)

// name draws names of all forms, and texts without form.
var name = rapid.Custom(func(t *rapid.T) string {
	head := strings.Join(rapid.SliceOfN(word, 1, 8).Draw(t, "parts"), rapid.SampledFrom([]string{"/", "::", "_", " "}).Draw(t, "separator"))
	place := rapid.SampledFrom([]string{"", " (a_file.py:12)", " (backward)", "Backward0 (backward) of model.py:31, inferred", " of model.py:7", " train.py:42"}).Draw(t, "place")
	before := rapid.SampledFrom([]string{"", "", "allocated before the recording, freed in "}).Draw(t, "before")
	on := rapid.SampledFrom([]string{"", "", " on cuda:0"}).Draw(t, "on")
	return rapid.SampledFrom([]string{before + head + place + on, head + "\n\xff" + place}).Draw(t, "name")
})

func TestMain(m *testing.M) {
	deep.FixDraws(100)
	os.Exit(m.Run())
}

func TestNeverLonger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names, n := rapid.SliceOf(name).Draw(t, "names"), rapid.IntRange(-1, 80).Draw(t, "n")
		out := shorten.Names(names, n)
		for i, s := range out {
			if got := utf8.RuneCountInString(s); got > max(n, 0) || !utf8.ValidString(s) {
				t.Errorf("%q in %d: %q has %d", names[i], n, s, got)
			}
			if utf8.ValidString(names[i]) && utf8.RuneCountInString(names[i]) <= n && s != names[i] {
				t.Errorf("%q fits %d, but became %q", names[i], n, s)
			}
		}
		if again := shorten.Names(out, n); !slices.Equal(again, out) {
			t.Errorf("%q became %q", out, again)
		}
	})
}

// TestPlaceSurvives: a place stays if four columns remain for the name.
func TestPlaceSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		place := rapid.StringMatching(` \([a-z_]{1,20}\.py:[0-9]{1,5}\)( on cuda:[0-7])?| of [a-z_]{1,20}\.py:[0-9]{1,5}`).Draw(t, "place")
		long := rapid.StringMatching(`[a-z_/0-9]{1,60}`).Draw(t, "name") + place
		n := utf8.RuneCountInString(place) + rapid.IntRange(4, 20).Draw(t, "room")
		if got := shorten.Name(long, n); !strings.HasSuffix(got, place) {
			t.Errorf("%q in %d: %q", long, n, got)
		}
	})
}

// TestStayDifferent: up to 40 names stay different in 8 columns.
func TestStayDifferent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(name, 2, 40, func(s string) string { return strings.ToValidUTF8(s, "\ufffd") }).Draw(t, "names")
		n := rapid.IntRange(8, 60).Draw(t, "n")
		seen := map[string]string{}
		for i, s := range shorten.Names(names, n) {
			if other, ok := seen[s]; ok {
				t.Errorf("%q and %q became %q", other, names[i], s)
			}
			seen[s] = names[i]
		}
	})
}

// TestDifferenceIsShown: two names that differ in one character keep it, without a number.
func TestDifferenceIsShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := rapid.StringMatching(`[a-z_/]{0,60}`).Draw(t, "before"), rapid.StringMatching(`[a-z_/]{0,60}`).Draw(t, "after")
		place := rapid.SampledFrom([]string{"", " (a.py:1)", " of a.py:1"}).Draw(t, "place")
		n := rapid.IntRange(24, 80).Draw(t, "n")
		out := shorten.Names([]string{before + "X" + after + place, before + "Y" + after + place}, n)
		if !strings.Contains(out[0], "X") || strings.ReplaceAll(out[0], "X", "Y") != out[1] {
			t.Errorf("%q", out)
		}
	})
}

// TestMeasured: widths other than one column are kept too.
func TestMeasured(t *testing.T) {
	m := shorten.Measure(func(r rune) int {
		if r == 'W' {
			return 95
		}
		return 57
	})
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOf(name).Draw(t, "names")
		room := rapid.SliceOfN(rapid.IntRange(0, 4000), len(names), len(names)).Draw(t, "room")
		for i, s := range m.Names(names, room) {
			width := 0
			for _, r := range s {
				width += m(r)
			}
			if width > room[i] {
				t.Errorf("%q in %d: %q has %d", names[i], room[i], s, width)
			}
		}
	})
}

// TestMarks checks that marks take no column, and stay with their character or go with it.
func TestMarks(t *testing.T) {
	const accent = "\u0301"
	for text, want := range map[string]int{"e" + accent: 1, "\u2764\ufe0f x": 3, "長い": 2, "": 0} {
		if got := shorten.Columns(text); got != want {
			t.Errorf("%q has %d columns, want %d", text, got, want)
		}
	}
	marked := strings.Repeat("e"+accent, 10)
	if got := shorten.Name(marked, 10); got != marked {
		t.Errorf("10 characters with marks in 10 columns: %q", got)
	}
	if got := shorten.Name("e"+strings.Repeat(accent, 100_000), 10); len(got) != 1+8*len(accent) {
		t.Errorf("100,000 marks become %d bytes", len(got))
	}
	if got, want := shorten.Name(marked, 4), "e"+accent+"…"+strings.Repeat("e"+accent, 2); got != want {
		t.Errorf("in 4 columns %q, want %q", got, want)
	}
}

// TestHugeNames would not end if the time were quadratic in the length.
func TestHugeNames(t *testing.T) {
	for _, part := range []string{"a", "a/", "1::", "(a:", " of a:1", "#"} {
		long := strings.Repeat(part, 1<<18/len(part))
		names := []string{long + "x", long + "y", "x" + long, long + "x" + long + " (a.py:1)"}
		if out := shorten.Names(names, 40); len(slices.Compact(slices.Sorted(slices.Values(out)))) != len(names) {
			t.Errorf("%q", out)
		}
	}
}
