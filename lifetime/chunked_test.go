package lifetime

import "testing"

// TestChunked: a list of several chunks, and what is let go of.
func TestChunked(t *testing.T) {
	var c chunked[int]
	const n = 3*chunkLen + 5
	for i := range n {
		c.add(i)
	}
	next := 0
	for v := range c.all() {
		if *v != next || *c.at(next) != next {
			t.Fatalf("element %d is %d, and %d by its number", next, *v, *c.at(next))
		}
		next++
	}
	if next != n || c.n != n {
		t.Errorf("%d elements of %d", next, c.n)
	}
	c.release(chunkLen - 1)
	if c.chunks[0] == nil {
		t.Error("the chunk of an element is gone")
	}
	c.release(2*chunkLen + 1)
	if c.chunks[0] != nil || c.chunks[1] != nil || *c.at(2 * chunkLen) != 2*chunkLen {
		t.Error("chunks before that of an element are still there, or others gone")
	}
}
