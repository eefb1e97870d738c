package selection

import (
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/outline"
)

// Recorded returns the spaces that were recorded while a program ran, or all if there are none.
func Recorded(all []*lifetime.Space) []*lifetime.Space {
	recorded := slices.DeleteFunc(slices.Clone(all), func(s *lifetime.Space) bool { return s.Axis == lifetime.ProgramOrder })
	if len(recorded) == 0 {
		return all
	}
	return recorded
}

// Largest returns the space with the highest peak among those with buffers, main memory first, and the number of these
// spaces; nil if there is none.
func Largest(spaces []*lifetime.Space) (best *lifetime.Space, of int) {
	i, of := largest(spaces, func(s *lifetime.Space) (int64, bool) {
		if s.UsageOnly() || len(s.Buffers) == 0 && s.Base == 0 && len(s.Stack) == 0 {
			return 0, false
		}
		return s.Peak(lifetime.Occupied).Bytes, true
	})
	if i < 0 {
		return nil, of
	}
	return spaces[i], of
}

// largest returns the index of the space with the highest peak, main memory first, and the number of spaces with a
// peak; -1 if there is none.
func largest[S interface{ IsMain() bool }](spaces []S, peak func(S) (bytes int64, ok bool)) (best, count int) {
	best, most := -1, int64(0)
	for i, s := range spaces {
		bytes, ok := peak(s)
		if !ok {
			continue
		}
		count++
		if best < 0 || s.IsMain() && !spaces[best].IsMain() || bytes > most && s.IsMain() == spaces[best].IsMain() {
			best, most = i, bytes
		}
	}
	return best, count
}

// choice is the selection of spaces that a command shows, by index.
type choice struct {
	Spaces   []int
	Programs int // omitted spaces of compiled programs, if there are spaces of the run
	Of       int // number of candidates, if Spaces is one compiled program
}

// Choose returns the most informative spaces: those recorded while the program ran, else the compiled program with the
// highest peak of main memory. all selects every space, because the user named them.
func Choose(o *outline.Outline, all bool) (c choice) {
	for i, s := range o.Spaces {
		if s.Axis != lifetime.ProgramOrder {
			c.Spaces = append(c.Spaces, i)
		}
	}
	if len(c.Spaces) > 0 && !all {
		c.Programs = len(o.Spaces) - len(c.Spaces)
		return c
	}
	running := len(c.Spaces) > 0
	c.Spaces = nil
	for i := range o.Spaces {
		c.Spaces = append(c.Spaces, i)
	}
	if all || running {
		return c
	}
	best, of := largest(o.Spaces, func(s *outline.Space) (int64, bool) {
		return s.Peak.Bytes, !s.UsageOnly && (len(s.PeakRows) > 0 || len(s.EndRows) > 0)
	})
	if best >= 0 {
		c.Spaces, c.Of = []int{best}, of
	}
	return c
}
