package canvas

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// nasty are texts of hostile captures.
var nasty = []string{
	`</title><script>alert(1)</script>`, `" onload="alert(1)`, "a\x00b\x1b[31m\x7f\u0085c", "\xff\xfe\xc3", "line\nbreak\ttab\rreturn", "\ufffe\uffff",
	"\u202egnp.exe\u2066", strings.Repeat("長", 500), strings.Repeat("W", 100000), "", " ", "\xed\xa0\x80", "e\u0301\u200d",
}

func TestCutAndFit(t *testing.T) {
	for _, s := range nasty {
		for _, w := range []Length{0, 100, 500, 3000} {
			if got := Fit(s, 12, w); Width(got, 12) > max(w, Width("…", 12)) {
				t.Errorf("%q is wider than %d", got, w)
			}
		}
		if got := Cut(s, 10); utf8.RuneCountInString(got) > 11 {
			t.Errorf("%q", got)
		}
	}
	if got := Cut("abc", 3) + Cut("äöü", 3) + Cut("abcd", 3); got != "abcäöü…cd" {
		t.Error(got)
	}
}

func TestEscape(t *testing.T) {
	for _, s := range nasty {
		got := string(appendText(nil, []byte(s)))
		if strings.ContainsAny(got, "<>\"\x00\x1b\u202e\u2066\ufffe") || !utf8.ValidString(got) {
			t.Errorf("%q", got)
		}
	}
	if got := string(appendText(nil, []byte("a<b> & \"c\"\nä"))); got != "a&lt;b&gt; &amp; &quot;c&quot;\nä" {
		t.Error(got)
	}
}
