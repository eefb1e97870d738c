// Package interned finds the numbers of values in tables.
package interned

import (
	"hash/maphash"
	"math/bits"
	"slices"
)

// Table finds the ID of a value in a list. It is a hash table of IDs with open
// addressing, because a map would store all values twice.
type Table[T comparable, ID ~uint32] struct {
	seed  maphash.Seed // random, so that no file can cause collisions
	slots []slot[ID]   // length a power of two, at most half full
	all   *[]T         // entry 0 means "none"
}

// slot is an ID and the lower half of its value's hash. The hash saves most
// comparisons of values, and hashing them again when the table grows.
type slot[ID ~uint32] struct {
	hash uint32
	id   ID // 0 = free slot
}

// New returns a table of the values in all, which gets the zero value as entry 0.
func New[T comparable, ID ~uint32](all *[]T) Table[T, ID] {
	*all = make([]T, 1)
	return Table[T, ID]{seed: maphash.MakeSeed(), slots: make([]slot[ID], 64), all: all}
}

// Of returns a table of the values that are in all. Entry 0 is the zero value; of equal values the first counts.
func Of[T comparable, ID ~uint32](all *[]T) Table[T, ID] {
	values := *all
	t := New[T, ID](all)
	*all = values
	t.Grow(0)
	for id := range values {
		if free, _ := t.find(&values[id]); free != nil {
			free.id = ID(id)
		}
	}
	return t
}

// Grow prepares the table for n more values.
func (t *Table[T, ID]) Grow(n int) {
	*t.all = slices.Grow(*t.all, n)
	if size := 1 << bits.Len(uint(2*(len(*t.all)+n))); size > len(t.slots) {
		t.resize(size)
	}
}

// ID returns the index of v in the table. It adds a new v.
func (t *Table[T, ID]) ID(v T) ID {
	free, id := t.find(&v)
	if free == nil {
		return id
	}
	id = ID(len(*t.all))
	*t.all = append(*t.all, v)
	free.id = id
	if 2*len(*t.all) > len(t.slots) {
		t.resize(2 * len(t.slots))
	}
	return id
}

// find returns the ID of v. If v is not in the table, it returns the slot for it, which already has the hash.
func (t *Table[T, ID]) find(v *T) (free *slot[ID], id ID) {
	if *v == (*t.all)[0] {
		return nil, 0
	}
	hash := uint32(maphash.Comparable(t.seed, *v))
	mask := uint32(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		switch {
		case s.id == 0:
			s.hash = hash
			return s, 0
		case s.hash == hash && (*t.all)[s.id] == *v:
			return nil, s.id
		}
	}
}

func (t *Table[T, ID]) resize(size int) {
	old := t.slots
	t.slots = make([]slot[ID], size)
	mask := uint32(len(t.slots) - 1)
	for _, s := range old {
		if s.id == 0 {
			continue
		}
		i := s.hash & mask
		for ; t.slots[i].id != 0; i = (i + 1) & mask {
		}
		t.slots[i] = s
	}
}
