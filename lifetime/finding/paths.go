package finding

import (
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// callPaths numbers stacks; those that differ only in what does not count have one number. Stacks of deep recursion share most of
// their frames, so each frame is looked at once.
type callPaths struct {
	numbers map[pathFrame]int
	of      map[lifetime.StackID]int
}

// pathFrame is a frame of a path and the number of the path that called it.
type pathFrame struct {
	caller   int // 0 = none
	function string
	file     string
	line     int
}

// number returns the number of a stack; 0 if none of its frames counts. name returns the name under which a frame counts, and whether it
// does. It must be the same function in all calls.
func (c *callPaths) number(t *lifetime.Tables, stack lifetime.StackID, name func(*frame.Frame) (string, bool)) int {
	if c.of == nil {
		c.numbers, c.of = map[pathFrame]int{}, map[lifetime.StackID]int{0: 0}
	}
	var unknown []lifetime.StackID
	number, known := c.of[stack]
	for !known {
		unknown = append(unknown, stack)
		stack = t.Stacks[stack].Caller
		number, known = c.of[stack]
	}
	for _, stack := range slices.Backward(unknown) {
		f := &t.Frames[t.Stacks[stack].Frame]
		if function, counts := name(f); counts {
			path := pathFrame{number, function, f.File, f.Line}
			if c.numbers[path] == 0 {
				c.numbers[path] = len(c.numbers) + 1
			}
			number = c.numbers[path]
		}
		c.of[stack] = number
	}
	return number
}
