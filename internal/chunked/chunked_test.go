package chunked

import "testing"

// TestList: a list of several chunks, and Release.
func TestList(t *testing.T) {
	var c List[int]
	const n = 3*Len + 5
	for i := range n {
		c.Add(i)
	}
	next := 0
	for v := range c.All() {
		if *v != next || *c.At(next) != next {
			t.Fatalf("element %d is %d, and %d by its number", next, *v, *c.At(next))
		}
		next++
	}
	if next != n || c.N != n {
		t.Errorf("%d elements of %d", next, c.N)
	}
	c.Release(Len - 1)
	if c.chunks[0] == nil {
		t.Error("the chunk of an element is gone")
	}
	c.Release(2*Len + 1)
	if c.chunks[0] != nil || c.chunks[1] != nil || *c.At(2 * Len) != 2*Len {
		t.Error("chunks before that of an element are still there, or others gone")
	}
}
