package failure_test

import (
	"math"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
)

// TestBytes: the zero value is unknown, 0 bytes are not.
func TestBytes(t *testing.T) {
	for _, n := range []int64{0, 1, 80 << 30, math.MaxInt64} {
		if b := failure.BytesOf(n); !b.Known() || b.Or(7) != n {
			t.Errorf("%d: %v %d", n, b.Known(), b.Or(7))
		}
	}
	for _, b := range []failure.Bytes{{}, failure.BytesOf(-1), failure.BytesOf(math.MinInt64)} {
		if b.Known() || b.Or(7) != 7 || b != (failure.Bytes{}) {
			t.Errorf("%+v is known", b)
		}
	}
	if m := (lifetime.Mark{}); m.Free.Known() {
		t.Error("a mark without free bytes knows them")
	}
}
