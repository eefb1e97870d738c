// Package interned finds the numbers of values in tables.
package interned

import "hash/maphash"

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

// ID returns the index of v in the table. It adds a new v.
func (t *Table[T, ID]) ID(v T) ID {
	if v == (*t.all)[0] {
		return 0
	}
	hash := uint32(maphash.Comparable(t.seed, v))
	mask := uint32(len(t.slots) - 1)
	i := hash & mask
	for ; t.slots[i].id != 0; i = (i + 1) & mask {
		if s := t.slots[i]; s.hash == hash && (*t.all)[s.id] == v {
			return s.id
		}
	}
	id := ID(len(*t.all))
	*t.all = append(*t.all, v)
	t.slots[i] = slot[ID]{hash, id}
	if 2*len(*t.all) > len(t.slots) {
		t.grow()
	}
	return id
}

func (t *Table[T, ID]) grow() {
	old := t.slots
	t.slots = make([]slot[ID], 2*len(old))
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
