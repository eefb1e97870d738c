package lifetime

import "iter"

// chunkLen is the number of elements of a chunk.
const chunkLen = 8192

// chunked is a growing list in pieces: past the first one it never copies what
// it holds, so a long list costs its size and no more.
type chunked[T any] struct {
	chunks [][]T
	n      int
}

func (c *chunked[T]) add(v T) {
	if c.n%chunkLen == 0 {
		size := chunkLen
		if c.n == 0 {
			size = 16 // a capture may have thousands of spaces with an event each
		}
		c.chunks = append(c.chunks, make([]T, 0, size))
	}
	last := len(c.chunks) - 1
	c.chunks[last] = append(c.chunks[last], v)
	c.n++
}

func (c *chunked[T]) at(i int) *T { return &c.chunks[i/chunkLen][i%chunkLen] }

// release lets go of the chunks before that of element i: they are not looked at any
// more.
func (c *chunked[T]) release(i int) {
	for k := i/chunkLen - 1; k >= 0 && c.chunks[k] != nil; k-- {
		c.chunks[k] = nil
	}
}

// all yields a pointer to each element in order.
func (c *chunked[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, chunk := range c.chunks {
			for i := range chunk {
				if !yield(&chunk[i]) {
					return
				}
			}
		}
	}
}
