package xplane

import (
	"math/rand/v2"

	"github.com/memlane/memlane/lifetime"
)

// siteKey identifies a site by numbers of the file.
type siteKey struct {
	op, region, shape textRef
	dtype             int64
	stack             lifetime.StackID // of the events around it
}

// siteTable maps keys to sites. It is a hash table with linear probing: every allocation needs a lookup, and a
// Go map would take longer than everything else.
type siteTable struct {
	slots []siteSlot // length a power of two, at most half full
	n     int
	seed  uint64 // random, so that no file can force collisions
}

type siteSlot struct {
	key  siteKey
	id   lifetime.SiteID
	used bool
}

// slot returns the slot of a key, an unused one if the key is new. It is valid until the next put.
func (t *siteTable) slot(key siteKey) *siteSlot {
	if t.slots == nil {
		t.slots, t.seed = make([]siteSlot, 256), rand.Uint64()
	}
	h := t.seed
	for _, part := range [...]int64{int64(key.op) ^ int64(key.stack)<<32, int64(key.region), int64(key.shape), key.dtype} {
		h = (h ^ uint64(part)) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	mask := uint64(len(t.slots) - 1)
	for h &= mask; t.slots[h].used && t.slots[h].key != key; h = (h + 1) & mask {
	}
	return &t.slots[h]
}

// put adds a key that has no slot.
func (t *siteTable) put(key siteKey, id lifetime.SiteID) *siteSlot {
	if t.n++; 2*t.n > len(t.slots) {
		old := t.slots
		t.slots = make([]siteSlot, 2*len(old))
		for _, s := range old {
			if s.used {
				*t.slot(s.key) = s
			}
		}
	}
	slot := t.slot(key)
	*slot = siteSlot{key, id, true}
	return slot
}
