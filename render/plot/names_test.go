package plot

import (
	"slices"
	"testing"
)

func TestApart(t *testing.T) {
	for _, c := range []struct{ files, want []string }{
		{[]string{"/runs/1/a.pickle", "b.pickle"}, []string{"a.pickle", "b.pickle"}},
		{[]string{"/runs/1/a.pickle", "/runs/2/a.pickle"}, []string{"1/a.pickle", "2/a.pickle"}},
		{[]string{`C:\runs\a`, `C:\runs\x\a`, `C:\runs\b`}, []string{"a", "x/a", "b"}},
		{[]string{"./a", "a"}, []string{"a", "a"}},
		{[]string{"-", "", "/"}, []string{"-", "", "/"}},
		{nil, nil},
	} {
		if got := Apart(c.files); !slices.Equal(got, c.want) {
			t.Errorf("%q have the short names %q, want %q", c.files, got, c.want)
		}
	}
}
