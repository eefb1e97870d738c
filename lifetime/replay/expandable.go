package replay

// expand returns a block of an expandable segment for a request, in no set: at the lowest address where free and
// unmapped blocks have room (try_allocate_expandable_block). It returns 0 if the device is full.
func (a *allocator) expand(g int32, size int64) int32 {
	i := a.room(g, size)
	if i == 0 {
		i = a.newRange(g, size)
	}
	if b := &a.blocks[i]; !b.mapped && !a.mapBlock(i, min(b.size, size)) {
		return 0
	}
	for a.blocks[i].size < size {
		next := a.blocks[i].next
		if !a.mapBlock(next, min(size-a.blocks[i].size, a.blocks[next].size)) {
			return 0
		}
		i = next // mapBlock merged both
	}
	a.take(i)
	return i
}

func (a *allocator) newRange(g int32, size int64) int32 {
	addr, reserved := a.reserve()
	reserved = roundUp(max(reserved, size), a.page(a.small(g)))
	i := a.add(block{addr: addr, size: reserved, group: g, expandable: true, base: addr})
	a.put(i)
	a.segments++
	return i
}

// room returns the first free or unmapped block that begins a run of such blocks of size
// bytes; 0 if there is none (find_expandable_block).
func (a *allocator) room(g int32, size int64) int32 {
	unmapped := &a.groups[g].unmapped
	position := unmapped.find(key{})
	for k, ok := unmapped.get(position); ok; k, ok = unmapped.get(position) {
		first := k.id
		if prev := a.blocks[first].prev; prev != 0 && !a.blocks[prev].used {
			first = prev
		}
		run := int64(0)
		for i := first; i != 0 && run < size && !a.blocks[i].used; i = a.blocks[i].next {
			a.work++
			run += a.blocks[i].size
		}
		if run >= size {
			return first
		}
		position = unmapped.next(position)
	}
	return 0
}

// mapBlock maps the first size bytes of an unmapped block, rounded up to pages
// (mapRangeblock). The block is free afterwards, and merged with free neighbours.
func (a *allocator) mapBlock(i int32, size int64) bool {
	b := a.blocks[i]
	size = min(roundUp(size, a.page(a.small(b.group))), b.size)
	if !a.mapRange(b.addr, size) {
		return false
	}
	a.take(i)
	if size < b.size {
		a.put(a.split(i, size))
	}
	a.blocks[i].mapped = true
	a.grow(size)
	a.mergeBoth(i)
	a.put(i)
	return true
}

// shrink unmaps the whole pages of a free block (unmapRangeblock).
func (a *allocator) shrink(i int32) {
	lo, hi := a.pages(i)
	if lo >= hi {
		return
	}
	i = a.cut(i, lo, hi)
	b := &a.blocks[i]
	a.unmapRange(b.addr, b.size)
	b.mapped = false
	a.reserved -= b.size
	a.mergeBoth(i)
	if b = &a.blocks[i]; b.prev == 0 && b.next == 0 { // release_expandable_segment
		a.segments--
		a.drop(i)
		return
	}
	a.put(i)
}

// pages returns the range of the whole pages of a block.
func (a *allocator) pages(i int32) (lo, hi uint64) {
	b := &a.blocks[i]
	page := a.page(a.small(b.group))
	return b.base + uint64(roundUp(int64(b.addr-b.base), page)), b.base + uint64(int64(b.addr-b.base)+b.size)/uint64(page)*uint64(page)
}

// cut cuts the range [lo, hi) out of a free block and returns its block, in no set. The rest stays free.
func (a *allocator) cut(i int32, lo, hi uint64) int32 {
	a.take(i)
	if b := a.blocks[i]; hi < b.addr+uint64(b.size) {
		a.put(a.split(i, int64(hi-b.addr)))
	}
	if b := a.blocks[i]; lo > b.addr {
		rest := a.split(i, int64(lo-b.addr))
		a.put(i)
		return rest
	}
	return i
}
