package build

import (
	"maps"
	"math/rand/v2"
	"testing"
)

// TestAddressTable compares the table with a map, for addresses that collide.
func TestAddressTable(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for range 20 {
		var table addressTable
		naive := map[uint64]openBuffer{}
		step := uint64(1) << r.IntN(60)
		for i := range 4000 {
			addr := r.Uint64N(200) * step
			switch o := (openBuffer{index: i}); r.IntN(3) {
			case 0:
				table.remove(addr)
				delete(naive, addr)
			default:
				table.put(addr, o)
				naive[addr] = o
			}
			addr = r.Uint64N(200) * step
			got, want := table.get(addr), naive[addr]
			if _, ok := naive[addr]; ok != (got != nil) || ok && *got != want {
				t.Fatalf("get(%#x) = %v, want %v", addr, got, want)
			}
		}
		left := map[uint64]openBuffer{}
		for _, s := range table.slots {
			if s.used {
				left[s.addr] = s.value
			}
		}
		if !maps.Equal(left, naive) || table.n != len(naive) {
			t.Fatalf("%d buffers are left, want %d", len(left), len(naive))
		}
		n := 0
		for range table.all() {
			n++
		}
		if n != len(naive) {
			t.Fatalf("all yields %d, want %d", n, len(naive))
		}
	}
}
