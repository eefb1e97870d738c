package scan

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// count returns the number of tolerations of a kind.
func count(t Tolerated, k Kind) (n int64) {
	for _, l := range t.List {
		if l.Kind == k {
			n += l.Count
		}
	}
	return n
}

// TestPlaces checks the offsets of tolerations, which ^ marks, also after the first
// window.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		in   string
	}{
		{InvalidUTF8, "[{\"name\":^\"a\xff\",\"ts\":1}]"},
		{InvalidUTF8, "[{\"ts\":1,\"x\":^\"a\xffbc\"}]"},
		{ControlChar, "[{\"name\":^\"a\nb\",\"ts\":1}]"},
		{BadEscape, `[{"name":^"C:\Users","ts":1}]`},
		{BadEscape, `[{"name":^"\u00zz","ts":1}]`},
		{NotANumber, `[{"name":"a","ts":^NaN}]`},
		{NotANumber, `[{"name":"a","args":{"x":^-Infinity}}]`},
		{UnknownWord, `[{"name":"a","x":^None}]`},
		{BadNumber, `[{"name":"a","ts":^+1.5}]`},
		{BadNumber, `[{"name":"a","args":{"Bytes":^007}}]`},
		{BadNumber, `[{"name":"a","args":{"Addr":^"0xzz"}}]`},
		{BigNumber, `[{"name":"a","ts":^1e30}]`},
		{BigNumber, `[{"name":"a","args":{"Bytes":^1.5}}]`},
		{BigNumber, `[{"name":"a","args":{"Addr":^-7}}]`},
		{BigNumber, `[{"ph":"C","args":{"x":^1e400}}]`},
		{StringNumber, `[{"name":"a","ts":^"1.5"}]`},
		{StringNumber, `[{"name":"a","ts":^" 1.5 "}]`},
		{StringNumber, `[{"name":"a","args":{"Bytes":^"12"}}]`},
		{DuplicateKey, `[{"name":"a","name":^"b"}]`}, // at the second value
		{DuplicateKey, `{"a":1,^"a":2,"traceEvents":[{}]}`},
		{LongString, `[{"name":"a","x":^"` + strings.Repeat("x", maxString+9) + `"}]`},
	} {
		at := strings.IndexByte(c.in, '^')
		in := c.in[:at] + c.in[at+1:]
		for _, before := range []int{0, 100_000} {
			for _, window := range []int{16, windowSize} {
				l := read(strings.NewReader(strings.Repeat(" ", before)+in), window)
				if l.err != nil || len(l.tol.List) != 1 || l.tol.List[0] != (Toleration{c.kind, 1, int64(before + at)}) {
					t.Errorf("%.60q after %d bytes, window %d: %+v %v, want %s at %d", in, before, window, l.tol.List, l.err, c.kind, before+at)
				}
			}
		}
	}
}

// TestPlacesOfErrors checks the offset in errors.
func TestPlacesOfErrors(t *testing.T) {
	before := strings.Repeat(" ", 100_000)
	for in, want := range map[string]string{
		before:                "not a trace: the input is empty (byte 100000)",
		before + "hello":      `not a trace: it begins with "h" at byte 100000, not with { or [`,
		before[:99] + "hello": `not a trace: it begins with "h" at byte 99, not with { or [`,
	} {
		if l := readText(in); l.err == nil || l.err.Error() != want {
			t.Errorf("%v, want %s", l.err, want)
		}
	}
	bad := errors.New("bad disk")
	l := read(io.MultiReader(strings.NewReader(before+"["+evA), iotest.ErrReader(bad)), windowSize)
	if want := fmt.Sprintf("at byte %d: bad disk", len(before)+1+len(evA)); l.err == nil || l.err.Error() != want {
		t.Errorf("%v, want %s", l.err, want)
	}
	if l := read(stuck{}, windowSize); !errors.Is(l.err, io.ErrNoProgress) {
		t.Errorf("%v", l.err)
	}
}

// stuck is a reader that returns neither data nor an error.
type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// TestEscapes reads valid and invalid escapes.
func TestEscapes(t *testing.T) {
	for in, want := range map[string]string{
		`\u00E9\u00e9\u20AC\uD83D\uDE00`: "éé€😀",
		`\b\f\n\r\t\/\\\"`:               "\b\f\n\r\t/\\\"",
		`\u00eG`:                         `\u00eG`,
		`\u00@9`:                         `\u00@9`,
		"\\u00`9":                        "\\u00`9",
		`\u00/9\u00:9`:                   `\u00/9\u00:9`,
		`C:\x \"y\"`:                     `C:\x "y"`,
		`C:\x\"`:                         `C:\x"`,
		`\u00e`:                          `\u00e`,
		`\uD83Dx\uDE00`:                  "\ufffdx\ufffd",
	} {
		for _, window := range []int{16, windowSize} {
			var got string
			_, err := scan(strings.NewReader(`[{"name":"`+in+`"}]`), Handler{Event: func(e *Event) { got = string(e.Name) }}, window)
			if got != want || err != nil {
				t.Errorf("%s: %q, want %q (%v)", in, got, want, err)
			}
		}
	}
}

// TestLongStrings checks that strings of more than 1 MiB are truncated, but not inside a
// character or an escape.
func TestLongStrings(t *testing.T) {
	for _, unit := range []struct{ written, meant string }{{"x", "x"}, {"é", "é"}, {"😀", "😀"}, {`\u00e9`, "é"}, {`\\`, `\`}, {`\"`, `"`}} {
		for shift := range 6 {
			n := maxString - 24 - shift
			in := strings.Repeat("a", n) + strings.Repeat(unit.written, 20)
			meant := strings.Repeat("a", n) + strings.Repeat(unit.meant, 20)
			for _, more := range []string{"", strings.Repeat("z", 100)} {
				var got string
				tol, err := scan(strings.NewReader(`[{"name":"`+in+more+`","ts":1},`+evB+`]`), Handler{Event: func(e *Event) {
					if string(e.Name) != "b" {
						got = string(e.Name)
					}
				}}, windowSize)
				cut := len(in+more) >= maxString
				switch {
				case err != nil || !utf8.ValidString(got) || !strings.HasPrefix(meant+more, got) || len(got) < n:
					t.Errorf("%q shifted by %d: %d bytes, %q at the end (%v)", unit.written, shift, len(got), got[max(0, len(got)-30):], err)
				case (count(tol, LongString) == 1) != cut || len(tol.List) > 1:
					t.Errorf("%q shifted by %d: %d bytes: %+v", unit.written, shift, len(in+more), tol.List)
				case !cut && got != meant+more:
					t.Errorf("%q shifted by %d: cut", unit.written, shift)
				}
			}
		}
	}
}

// TestNesting skips values whose nesting exceeds 64, the bits of one word of the stack.
func TestNesting(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var write func(b *strings.Builder, depth int)
		write = func(b *strings.Builder, depth int) {
			if depth == 0 {
				b.WriteString([]string{"1", `"]}"`, "null", "{}", "[]"}[rng.IntN(5)])
				return
			}
			object := rng.IntN(2) == 0
			key := func() {
				if object {
					b.WriteString(`"k":`)
				}
			}
			b.WriteString(map[bool]string{true: "{", false: "["}[object])
			if rng.IntN(3) == 0 {
				key()
				b.WriteString("[1],")
			}
			key()
			write(b, depth-1)
			if rng.IntN(2) == 0 {
				b.WriteString(",")
				if object {
					b.WriteString(`"l":`)
				}
				b.WriteString(`{"m":[2]}`)
			}
			b.WriteString(map[bool]string{true: "}", false: "]"}[object])
		}
		var b strings.Builder
		write(&b, 60+rng.IntN(80))
		l := readText(`[{"name":"a","ts":1,"x":` + b.String() + `},` + evB + `]`)
		if l.err != nil || len(l.events) != 2 || count(l.tol, Damaged)+count(l.tol, MissingComma)+count(l.tol, MissingQuote) > 0 {
			t.Errorf("seed %d: %d events, %+v %v", seed, len(l.events), l.tol, l.err)
		}
	}
}
