package diff

import (
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// spacePair is a space on both sides; nil if a side lacks it.
type spacePair struct{ before, after *lifetime.Space }

func (p spacePair) name() string {
	if p.after != nil {
		return p.after.ID()
	}
	return p.before.ID()
}

// spaceKey is equal for spaces that match.
type spaceKey struct {
	static                             bool
	device, memory, allocator, program string
}

// pairSpaces pairs the spaces of the same memory: by memory ID; else by device, kind of memory and name of the program;
// else by the number of the device (cuda:0 and hip:0); else the only space left on each side.
func pairSpaces(before, after []*lifetime.Space) (pairs []spacePair) {
	taken := map[*lifetime.Space]*lifetime.Space{} // space after by space before
	used := map[*lifetime.Space]bool{}
	for _, key := range []func(s *lifetime.Space) (key spaceKey, ok bool){
		func(s *lifetime.Space) (spaceKey, bool) { return spaceKey{static: static(s), device: s.ID()}, true },
		func(s *lifetime.Space) (spaceKey, bool) {
			return spaceKey{static(s), s.Device, s.Memory, s.Allocator, programName(s)}, true
		},
		func(s *lifetime.Space) (spaceKey, bool) { // the program moved to another kind of device
			return spaceKey{device: number(s), memory: s.Memory}, !static(s) && number(s) != ""
		},
	} {
		candidates := map[spaceKey][]*lifetime.Space{}
		for _, a := range after {
			if k, ok := key(a); ok && !used[a] {
				candidates[k] = append(candidates[k], a)
			}
		}
		for _, b := range before {
			if taken[b] != nil {
				continue
			}
			if k, ok := key(b); ok && len(candidates[k]) > 0 {
				taken[b] = candidates[k][0]
				used[taken[b]], candidates[k] = true, candidates[k][1:]
			}
		}
	}
	left := func(spaces []*lifetime.Space, isTaken func(*lifetime.Space) bool) (only *lifetime.Space) {
		n := 0
		for _, s := range spaces {
			if !isTaken(s) && !static(s) {
				n++
				only = s
			}
		}
		if n != 1 {
			return nil
		}
		return only
	}
	b, a := left(before, func(s *lifetime.Space) bool { return taken[s] != nil }),
		left(after, func(s *lifetime.Space) bool { return used[s] })
	if b != nil && a != nil {
		taken[b], used[a] = a, true
	}
	for _, b := range before {
		pairs = append(pairs, spacePair{b, taken[b]})
	}
	for _, a := range after {
		if !used[a] {
			pairs = append(pairs, spacePair{nil, a})
		}
	}
	return pairs
}

func number(s *lifetime.Space) string {
	_, n, _ := strings.Cut(s.Device, ":")
	return n
}

func static(s *lifetime.Space) bool { return s.Axis == lifetime.ProgramOrder }

// programName returns the name of a compiled program without the number of its run.
func programName(s *lifetime.Space) string {
	name, _, _ := strings.Cut(s.Module, "(")
	return name
}
