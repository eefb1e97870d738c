package lifetime_test

import (
	"math"
	"testing"

	"github.com/memlane/memlane/lifetime"
)

// TestBytes: the zero value is unknown, 0 bytes are not.
func TestBytes(t *testing.T) {
	for _, n := range []int64{0, 1, 80 << 30, math.MaxInt64} {
		if b := lifetime.BytesOf(n); !b.Known() || b.Or(7) != n {
			t.Errorf("%d: %v %d", n, b.Known(), b.Or(7))
		}
	}
	for _, b := range []lifetime.Bytes{{}, lifetime.BytesOf(-1), lifetime.BytesOf(math.MinInt64)} {
		if b.Known() || b.Or(7) != 7 || b != (lifetime.Bytes{}) {
			t.Errorf("%+v is known", b)
		}
	}
	if m := (lifetime.Mark{}); m.Free.Known() {
		t.Error("a mark without free bytes knows them")
	}
}
