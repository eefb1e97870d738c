package replay

import (
	"cmp"
	"maps"
	"math"
)

// Device describes the device of a replay. Sizes are bytes.
type Device struct {
	Capacity int64   // memory of the device, less what others hold; 0 = unlimited
	Fraction float64 // torch.cuda.set_per_process_memory_fraction; 0 = not called
}

// limit returns what the fraction allows (allowed_memory_maximum); 0 = no fraction.
func (d *Device) limit(s *Settings) int64 {
	f := cmp.Or(d.Fraction, s.Fraction)
	if f == 0 || d.Capacity == 0 {
		return 0
	}
	return max(int64(f*float64(d.Capacity)), 1)
}

// most returns the bytes that can be reserved; 0 = unlimited.
func (d *Device) most(s *Settings) int64 {
	if limit := d.limit(s); limit > 0 {
		return min(limit, d.Capacity)
	}
	return d.Capacity
}

const (
	firstAddress = 0x7f0000000000 // of segments
	firstRange   = 0x300000000    // of expandable segments
	rangeStep    = 1 << 28        // ranges begin at multiples of it

	// A range has 9/8 of the device's memory. If its memory is not known, a range holds everything.
	boundlessRange = 1 << 46
)

// simulated is a device with a capacity. Snapshots do not tell how a driver chooses
// addresses. Under the recorded settings, a segment takes the one that the next segment of
// its size was recorded at. Otherwise it takes the lowest free range of exactly its size,
// else addresses that were never used: above all others, or below them if it is descending.
type simulated struct {
	descending bool
	recorded   map[int64][]uint64 // see History.addressesOf
	taken      map[key]bool       // recorded addresses

	free      int64 // bytes
	rangeSize int64
	next      uint64 // address
	nextRange uint64
	holes     sorted // released segments
}

func newSimulated(d Device, recorded map[int64][]uint64) *simulated {
	m := &simulated{recorded: maps.Clone(recorded), taken: map[key]bool{}, free: math.MaxInt64,
		rangeSize: boundlessRange, next: firstAddress, nextRange: firstRange}
	for size, all := range recorded {
		for _, addr := range all {
			m.next = max(m.next, addr+uint64(size))
		}
	}
	if d.Capacity > 0 {
		m.free = d.Capacity
		m.rangeSize = d.Capacity + d.Capacity/8
	}
	return m
}

func (m *simulated) alloc(size int64) (addr uint64, ok bool) {
	if size > m.free {
		return 0, false
	}
	m.free -= size
	if next := m.recorded[size]; len(next) > 0 {
		m.recorded[size] = next[1:]
		if k := (key{size: size, addr: next[0]}); !m.taken[k] {
			m.taken[k] = true
			if hole, ok := m.holes.get(m.holes.find(k)); ok && hole == k {
				m.holes.remove(k)
			}
			return k.addr, true
		}
	}
	if hole, ok := m.holes.get(m.holes.find(key{size: size})); ok && hole.size == size {
		m.holes.remove(hole)
		m.taken[hole] = true
		return hole.addr, true
	}
	if m.descending {
		m.next -= uint64(size)
		return m.next, true
	}
	addr = m.next
	m.next += uint64(size)
	return addr, true
}

func (m *simulated) release(addr uint64, size int64) {
	m.free += size
	m.holes.insert(key{size: size, addr: addr})
	delete(m.taken, key{size: size, addr: addr})
}

func (m *simulated) reserve() (addr uint64, size int64) {
	addr = m.nextRange
	m.nextRange += uint64(roundUp(m.rangeSize, rangeStep))
	return addr, m.rangeSize
}

func (m *simulated) mapRange(_ uint64, size int64) bool {
	if size > m.free {
		return false
	}
	m.free -= size
	return true
}

func (m *simulated) unmapRange(_ uint64, size int64) { m.free += size }
