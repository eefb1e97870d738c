package units

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 45: "45 B", 1023: "1023 B", 1024: "1.00 KiB", 4 << 20: "4.00 MiB", 71303168: "68.0 MiB",
		224186138: "214 MiB", 1002 << 20: "0.98 GiB", 999 << 20: "999 MiB", 1<<20 - 1: "1.00 MiB", 1000 << 10: "0.98 MiB", math.MaxInt64: "8.00 EiB", 1 << 30: "1.00 GiB", -3 << 29: "-1.50 GiB", math.MinInt64: "-8.00 EiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
	if got, want := Exact(4<<20), "4.00 MiB (4,194,304 B)"; got != want {
		t.Errorf("Exact = %q, want %q", got, want)
	}
	for n, want := range map[int64]string{0: "0 B", 4 << 20: "+4.00 MiB", -3 << 29: "-1.50 GiB"} {
		if got := Signed(n); got != want {
			t.Errorf("Signed(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for s, want := range map[string]int64{"4096": 4096, "64MiB": 64 << 20, "1.5GiB": 3 << 29, "64 mib": 64 << 20} {
		if got, err := ParseBytes(s); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "x", "-1", "99999999999GiB"} {
		if n, err := ParseBytes(s); err == nil {
			t.Errorf("ParseBytes(%q) = %d, want an error", s, n)
		}
	}
}

// TestSum compares sums with those of arbitrary precision.
func TestSum(t *testing.T) {
	numbers := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 62, -1, 0, 1, 1 << 62, math.MaxInt64 - 1, math.MaxInt64}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var got Sum
		want := new(big.Int)
		for range 60 {
			v := numbers[r.IntN(len(numbers))]
			if r.IntN(2) == 0 {
				got.Add(v)
				want.Add(want, big.NewInt(v))
			} else {
				got.Sub(v)
				want.Sub(want, big.NewInt(v))
			}
			nearest := int64(math.MaxInt64)
			if want.IsInt64() {
				nearest = want.Int64()
			} else if want.Sign() < 0 {
				nearest = math.MinInt64
			}
			if got.Value() != nearest || got.Fits() != want.IsInt64() {
				t.Fatalf("%d, want %s", got.Value(), want)
			}
		}
	}
}

func TestSpan(t *testing.T) {
	for _, c := range []struct {
		n    int64
		unit string
		want string
	}{
		{5, "ns", "5 ns"}, {1500, "ns", "1.50 µs"}, {65165000, "ns", "65.2 ms"}, {123e9, "ns", "123 s"}, {999_960_000, "ns", "1.00 s"}, {999_400, "ns", "999 µs"},
		{-2500, "ns", "-2.50 µs"}, {1, "event", "1 event"}, {1200, "event", "1,200 events"},
	} {
		if got := Span(c.n, c.unit); got != c.want {
			t.Errorf("Span(%d, %q) = %q, want %q", c.n, c.unit, got, c.want)
		}
	}
}
