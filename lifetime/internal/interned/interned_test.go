package interned

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTable compares a table with a map.
func TestTable(t *testing.T) {
	type value struct {
		text string
		n    int
	}
	var all []value
	table := New[value, uint32](&all)
	want := map[value]uint32{{}: 0}
	texts := []string{"", "a", "b", "model.py:18"}
	for r := rand.New(rand.NewPCG(1, 2)); len(want) < 2000; {
		v := value{texts[r.IntN(len(texts))], r.IntN(1000)}
		id := table.ID(v)
		if old, ok := want[v]; ok && id != old || !ok && int(id) != len(want) {
			t.Fatalf("%v: number %d of %d, before %d %v", v, id, len(want), old, ok)
		}
		want[v] = id
		if all[id] != v {
			t.Fatalf("entry %d is %v, not %v", id, all[id], v)
		}
	}
	if len(all) != len(want) || !slices.Equal(all[:1], []value{{}}) {
		t.Errorf("%d entries, not %d; the first is %v", len(all), len(want), all[0])
	}
	values := slices.Clone(all)
	again := Of[value, uint32](&values)
	again.Grow(10_000)
	for id, v := range all {
		if got := again.ID(v); int(got) != id {
			t.Errorf("%v: number %d in a table of the list, not %d", v, got, id)
		}
	}
	if got := again.ID(value{"new", 1}); int(got) != len(all) || !slices.Equal(values[:len(all)], all) {
		t.Errorf("a new value has number %d, not %d, or the list changed", got, len(all))
	}
}
