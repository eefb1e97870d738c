// Package chunked has lists that grow without copying their elements.
package chunked

import "iter"

// Len is the number of elements of a chunk.
const Len = 8192

// List is a list in chunks. After the first chunk it never copies its elements, so a long
// list takes no more memory than its size. Its zero value is empty.
type List[T any] struct {
	chunks [][]T
	N      int // number of elements
}

// Add appends an element.
func (c *List[T]) Add(v T) {
	if c.N%Len == 0 {
		size := Len
		if c.N == 0 {
			size = 16 // a capture may have thousands of spaces with one event each
		}
		c.chunks = append(c.chunks, make([]T, 0, size))
	}
	last := len(c.chunks) - 1
	c.chunks[last] = append(c.chunks[last], v)
	c.N++
}

// At returns element i.
func (c *List[T]) At(i int) *T { return &c.chunks[i/Len][i%Len] }

// Release frees the chunks before that of element i. Their elements must not be used afterwards.
func (c *List[T]) Release(i int) {
	for k := i/Len - 1; k >= 0 && c.chunks[k] != nil; k-- {
		c.chunks[k] = nil
	}
}

// All yields a pointer to each element in order.
func (c *List[T]) All() iter.Seq[*T] {
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
