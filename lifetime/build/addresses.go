package build

import (
	"iter"
	"math/rand/v2"
)

// addressTable holds the open buffers by address: a hash table with linear probing.
// Every event uses it; with a map, reading a snapshot takes 10 % longer.
type addressTable struct {
	slots []addressSlot // length a power of two, at most half full
	n     int
	seed  uint64 // random, so that no file can cause collisions
}

type addressSlot struct {
	addr  uint64
	value openBuffer
	used  bool
}

func (t *addressTable) home(addr uint64) uint64 {
	h := (addr ^ t.seed) * 0x9E3779B97F4A7C15
	h = (h ^ h>>32) * 0xD6E8FEB86659FD93
	return (h ^ h>>32) & uint64(len(t.slots)-1)
}

// find returns the slot of addr, or the free slot for it.
func (t *addressTable) find(addr uint64) uint64 {
	i := t.home(addr)
	for s := &t.slots[i]; s.used && s.addr != addr; s = &t.slots[i] {
		i = t.after(i)
	}
	return i
}

func (t *addressTable) after(i uint64) uint64 { return (i + 1) & uint64(len(t.slots)-1) }

// get returns the open buffer at addr, or nil. The pointer is valid until the next put or remove.
func (t *addressTable) get(addr uint64) *openBuffer {
	if t.n == 0 {
		return nil
	}
	if s := &t.slots[t.find(addr)]; s.used {
		return &s.value
	}
	return nil
}

func (t *addressTable) put(addr uint64, o openBuffer) {
	if 2*t.n >= len(t.slots) {
		t.grow()
	}
	s := &t.slots[t.find(addr)]
	if !s.used {
		t.n++
	}
	*s = addressSlot{addr, o, true}
}

func (t *addressTable) grow() {
	old := t.slots
	if old == nil {
		t.seed = rand.Uint64()
	}
	t.slots = make([]addressSlot, max(16, 2*len(old)))
	for _, s := range old {
		if s.used {
			t.slots[t.find(s.addr)] = s
		}
	}
}

// remove removes addr and returns its buffer; ok is false if there is none. It moves
// later slots into the gap if find would not reach them otherwise.
func (t *addressTable) remove(addr uint64) (was openBuffer, ok bool) {
	if t.n == 0 {
		return was, false
	}
	gap := t.find(addr)
	if !t.slots[gap].used {
		return was, false
	}
	was = t.slots[gap].value
	t.n--
	mask := uint64(len(t.slots) - 1)
	for i := t.after(gap); t.slots[i].used; i = t.after(i) {
		// A slot stays when its home lies between the gap and itself.
		if (i-t.home(t.slots[i].addr))&mask >= (i-gap)&mask {
			t.slots[gap] = t.slots[i]
			gap = i
		}
	}
	t.slots[gap] = addressSlot{}
	return was, true
}

// all yields the open buffers, in no order.
func (t *addressTable) all() iter.Seq[openBuffer] {
	return func(yield func(openBuffer) bool) {
		for _, s := range t.slots {
			if s.used && !yield(s.value) {
				return
			}
		}
	}
}
