package replay

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"

	"github.com/memlane/memlane/internal/units"
)

// block is a range of a segment: in use, free, or (of an expandable segment) unmapped.
type block struct {
	addr       uint64
	size       int64
	prev, next int32 // neighbours in the segment; 0 = none
	group      int32
	used       bool
	mapped     bool
	expandable bool
	base       uint64 // of an expandable segment
	born       int64  // pool.calls when it became free
	owner      int32  // number of the request that uses it
	pending    bool   // the program freed it, other streams may still use it
}

// pool is a BlockPool of PyTorch: small or large blocks of the default pool or of a private one.
type pool struct {
	small  bool
	calls  int64 // searches so far, for garbage collection
	groups []int32
	sorted bool // groups are in order of stream
}

// group has the blocks of one pool that are not in use, of one stream.
type group struct {
	pool           int32
	stream         int32
	free, unmapped sorted
}

type groupKey struct {
	private, stream int32
	small           bool
}

// memory is where an allocator gets its segments from. Addresses matter: best fit takes the
// lowest address of equal sizes.
type memory interface {
	// alloc returns a new segment (cudaMalloc). ok is false if the device is full.
	alloc(size int64) (addr uint64, ok bool)
	// release takes a segment back.
	release(addr uint64, size int64)
	// reserve returns a range of addresses for an expandable segment.
	reserve() (addr uint64, size int64)
	// mapRange takes memory for a range of an expandable segment. ok is false if the device is full.
	mapRange(addr uint64, size int64) (ok bool)
	// unmap gives it back.
	unmapRange(addr uint64, size int64)
}

// allocator is PyTorch's DeviceCachingAllocator (c10/cuda/CUDACachingAllocator.cpp). The comments name its functions.
type allocator struct {
	Settings
	memory
	limit int64 // allowed_memory_maximum; 0 = no fraction is set

	blocks   []block // 0 is unused
	recycled []int32
	pools    []pool
	groups   []group
	index    map[groupKey]int32 // groups
	poolOf   map[groupKey]int32 // pools; their stream is -1

	pending []int32 // blocks that were pending when they were added; some no longer are

	reserved, peakReserved int64
	live, peakLive         int64
	segments               int
	retries                int
	releases               int // of all cached blocks, with the retries
	early                  int // blocks that releaseAll freed before other streams had used them
	work                   int // steps of searches that may be long
}

// maxWork bounds work: damaged captures could make searches long.
const maxWork = 1 << 28

func newAllocator(s Settings, m memory, limit int64) *allocator {
	return &allocator{Settings: s, memory: m, limit: limit, blocks: make([]block, 1, 1024), index: map[groupKey]int32{},
		poolOf: map[groupKey]int32{}}
}

func (a *allocator) group(private, stream int32, small bool) int32 {
	k := groupKey{private, stream, small}
	g, ok := a.index[k]
	if !ok {
		g = int32(len(a.groups))
		a.index[k] = g
		k.stream = -1
		p, known := a.poolOf[k]
		if !known {
			p = int32(len(a.pools))
			a.poolOf[k] = p
			a.pools = append(a.pools, pool{small: small})
		}
		a.groups = append(a.groups, group{pool: p, stream: stream})
		a.pools[p].groups, a.pools[p].sorted = append(a.pools[p].groups, g), false
	}
	return g
}

func (a *allocator) byStream(p *pool) []int32 {
	if !p.sorted {
		slices.SortFunc(p.groups, func(x, y int32) int { return cmp.Compare(a.groups[x].stream, a.groups[y].stream) })
		p.sorted = true
	}
	return p.groups
}

func (a *allocator) small(g int32) bool { return a.pools[a.groups[g].pool].small }

// fingerprint returns a number that is mostly different if any block is another one.
func (a *allocator) fingerprint() (sum uint64) {
	for i := range a.blocks {
		b := &a.blocks[i]
		if b.size == 0 {
			continue
		}
		sum += maphash.Comparable(seed, struct {
			addr                  uint64
			size                  int64
			group                 int32
			used, mapped, pending bool
		}{b.addr, b.size, b.group, b.used, b.mapped, b.pending})
	}
	return sum
}

var seed = maphash.MakeSeed() // of fingerprints, which are only compared with each other

// add returns a new block. Pointers to other blocks are then invalid.
func (a *allocator) add(b block) int32 {
	if n := len(a.recycled); n > 0 {
		i := a.recycled[n-1]
		a.recycled = a.recycled[:n-1]
		a.blocks[i] = b
		return i
	}
	a.blocks = append(a.blocks, b)
	return int32(len(a.blocks) - 1)
}

func (a *allocator) drop(i int32) {
	a.blocks[i] = block{}
	a.recycled = append(a.recycled, i)
}

func (a *allocator) put(i int32) {
	b := &a.blocks[i]
	g := &a.groups[b.group]
	if b.mapped {
		b.born = a.pools[g.pool].calls
		g.free.insert(key{b.size, b.addr, i})
		return
	}
	g.unmapped.insert(key{0, b.addr, i})
}

func (a *allocator) take(i int32) {
	b := &a.blocks[i]
	g := &a.groups[b.group]
	if b.mapped {
		g.free.remove(key{b.size, b.addr, i})
		return
	}
	g.unmapped.remove(key{0, b.addr, i})
}

// split cuts block i after size bytes and returns the rest, which is in no set.
func (a *allocator) split(i int32, size int64) int32 {
	b := a.blocks[i]
	b.addr, b.size, b.prev = b.addr+uint64(size), b.size-size, i
	rest := a.add(b)
	if b.next != 0 {
		a.blocks[b.next].prev = rest
	}
	a.blocks[i].next, a.blocks[i].size = rest, size
	return rest
}

// merge joins block i with a neighbour of its kind that is not in use (try_merge_blocks). Block i must be in no set.
func (a *allocator) merge(i, with int32) {
	b, other := &a.blocks[i], &a.blocks[with]
	if with == 0 || other.used || other.mapped != b.mapped {
		return
	}
	a.take(with)
	if b.prev == with {
		b.addr, b.prev = other.addr, other.prev
		if b.prev != 0 {
			a.blocks[b.prev].next = i
		}
	} else {
		b.next = other.next
		if b.next != 0 {
			a.blocks[b.next].prev = i
		}
	}
	b.size += other.size
	a.drop(with)
}

func (a *allocator) mergeBoth(i int32) {
	a.merge(i, a.blocks[i].prev)
	a.merge(i, a.blocks[i].next)
}

// malloc returns the block for a request. ok is false if the memory is full.
func (a *allocator) malloc(r *request, owner int32) (i int32, ok bool) {
	size := a.size(r.requested)
	g := a.group(r.pool, r.stream, size <= smallSize)
	if i = a.bestFit(g, size); i == 0 {
		i = a.newBlock(g, size)
	}
	if i == 0 {
		return 0, false
	}
	a.occupy(i, size, owner)
	return i, true
}

// occupy puts a block that is in no set to use, without the part that is not needed (alloc_found_block).
func (a *allocator) occupy(i int32, size int64, owner int32) {
	if a.splits(&a.blocks[i], size) {
		a.put(a.split(i, size))
	}
	b := &a.blocks[i]
	b.used, b.owner = true, owner
	a.live = units.AddSat(a.live, b.size)
	a.peakLive = max(a.peakLive, a.live)
}

// splits reports whether a request of size bytes leaves the rest of b free (should_split).
func (a *allocator) splits(b *block, size int64) bool {
	rest := b.size - size
	if a.small(b.group) || a.Expandable {
		return rest >= minBlock
	}
	return size < a.MaxSplit && rest > smallSize
}

// bestFit removes the free block for a request from its set; 0 if there is none (get_free_block).
func (a *allocator) bestFit(g int32, size int64) int32 {
	if a.collects() {
		a.pools[a.groups[g].pool].calls++
	}
	free := &a.groups[g].free
	at := free.find(key{size: size})
	k, ok := free.get(at)
	if ok && a.blocks[k.id].expandable {
		k, ok = a.bestExpandable(free, at, k)
	}
	if !ok || size < a.MaxSplit && k.size >= a.MaxSplit || size >= a.MaxSplit && k.size >= size+a.NonSplit {
		return 0
	}
	free.remove(k)
	return k.id
}

// bestExpandable returns the block from place at on that can grow least. If expandable
// segments were turned off, it returns the first block outside of them.
func (a *allocator) bestExpandable(free *sorted, at place, k key) (key, bool) {
	for {
		a.work++
		at = free.next(at)
		next, ok := free.get(at)
		switch {
		case a.Expandable && (!a.blocks[k.id].expandable || !ok || a.growable(next.id) >= a.growable(k.id)):
			return k, true
		case !ok:
			return k, false
		}
		if k = next; !a.Expandable && !a.blocks[k.id].expandable {
			return k, true
		}
	}
}

// growable returns the size of a free block together with the unmapped block behind it.
func (a *allocator) growable(i int32) int64 {
	b := &a.blocks[i]
	if next := &a.blocks[b.next]; b.next != 0 && !next.mapped {
		return b.size + next.size
	}
	return b.size
}

// newBlock takes memory from the device for a request. If the device is full it releases
// cached blocks. It returns a block in no set, or 0.
func (a *allocator) newBlock(g int32, size int64) int32 {
	if a.collects() {
		a.collect()
	}
	i := a.fromDevice(g, size)
	if i == 0 && a.releaseFor(g, size) {
		i = a.fromDevice(g, size)
	}
	if i == 0 {
		a.releaseAll()
		a.retries++
		i = a.fromDevice(g, size)
	}
	return i
}

// fromDevice returns a new block in no set; 0 if the device is full (alloc_block).
func (a *allocator) fromDevice(g int32, size int64) int32 {
	segment := a.segment(size)
	if a.limit > 0 && a.reserved+segment > a.limit {
		return 0
	}
	if a.Expandable {
		return a.expand(g, size)
	}
	addr, ok := a.alloc(segment)
	if !ok {
		return 0
	}
	return a.newSegment(g, addr, segment)
}

// newSegment returns a block that is a whole segment, in no set.
func (a *allocator) newSegment(g int32, addr uint64, size int64) int32 {
	a.grow(size)
	a.segments++
	return a.add(block{addr: addr, size: size, group: g, mapped: true})
}

func (a *allocator) grow(size int64) {
	a.reserved = units.AddSat(a.reserved, size)
	a.peakReserved = max(a.peakReserved, a.reserved)
}

// request says that the program freed block i of a request. Other streams may still use it,
// so it is not free yet, but no longer counts as live (memory_allocated).
func (a *allocator) request(i, owner int32) {
	if b := &a.blocks[i]; b.owner == owner && !b.pending {
		b.pending = true
		a.live -= b.size
		a.pending = append(a.pending, i)
	}
}

// free frees block i of a request, unless a retry freed it before.
func (a *allocator) free(i, owner int32) {
	b := &a.blocks[i]
	if b.owner != owner {
		return
	}
	if !b.pending {
		a.live -= b.size
	}
	a.reclaim(i)
}

// reclaim makes a block free (free_block).
func (a *allocator) reclaim(i int32) {
	b := &a.blocks[i]
	b.used, b.pending, b.owner = false, false, 0
	a.mergeBoth(i)
	a.put(i)
}

// whole reports whether b is a whole segment of cudaMalloc.
func (b *block) whole() bool { return !b.expandable && b.prev == 0 && b.next == 0 }

// collects reports whether garbage collection is on: it needs a memory limit.
func (a *allocator) collects() bool { return a.limit > 0 && a.Collect > 0 }

// collect releases free segments of at least average age until the memory in use is below
// the threshold. It does not stop within a round (garbage_collect_cached_blocks).
func (a *allocator) collect() {
	threshold := int64(a.Collect * float64(a.limit))
	large, ok := a.poolOf[groupKey{stream: -1}]
	if a.reserved <= threshold || !ok {
		return
	}
	target, reclaimed := a.reserved-threshold, int64(0)
	p := &a.pools[large]
	var candidates []key
	total := int64(0)
	for _, g := range a.byStream(p) {
		for _, k := range a.groups[g].free.all() {
			a.work++
			if b := &a.blocks[k.id]; b.whole() {
				candidates = append(candidates, k)
				total += p.calls - b.born
			}
		}
	}
	for freed := true; reclaimed < target && freed && len(candidates) > 0; {
		average := float64(total) / float64(len(candidates))
		freed = false
		kept := candidates[:0]
		for _, k := range candidates {
			age := p.calls - a.blocks[k.id].born
			if float64(age) < average {
				kept = append(kept, k)
				continue
			}
			freed = true
			reclaimed += k.size
			total -= age
			a.releaseSegment(k.id)
		}
		candidates = kept
	}
}

// releaseSegment returns a whole free segment to the device (release_block).
func (a *allocator) releaseSegment(i int32) {
	a.take(i)
	b := a.blocks[i]
	a.release(b.addr, b.size)
	a.reserved -= b.size
	a.segments--
	a.drop(i)
}

// releaseFor releases oversize blocks until a request fits, the largest first
// (release_available_cached_blocks). It reports whether it released enough.
func (a *allocator) releaseFor(g int32, size int64) bool {
	if a.MaxSplit == unlimited {
		return false
	}
	wanted := max(size, a.MaxSplit)
	free := &a.groups[g].free
	at := free.find(key{size: wanted})
	if k, ok := free.get(at); ok {
		if a.blocks[k.id].expandable {
			return false // PyTorch fails with an internal error (pytorch/pytorch#123548)
		}
		a.releaseSegment(k.id)
		return true
	}
	released := int64(0)
	for released < wanted {
		k, ok := free.before(free.find(key{size: math.MaxInt64}))
		if !ok || k.size < a.MaxSplit || a.blocks[k.id].expandable {
			break
		}
		a.releaseSegment(k.id)
		released += k.size
	}
	return released >= wanted
}

// releaseAll frees pending blocks and returns everything that is free to the device (release_cached_blocks): on
// failure, and in torch.cuda.empty_cache(). It keeps private pools: they may be in use by a graph.
func (a *allocator) releaseAll() {
	a.releases++
	for _, i := range a.pending {
		if a.blocks[i].pending {
			a.reclaim(i)
			a.early++
		}
	}
	a.pending = a.pending[:0]
	for _, small := range []bool{false, true} {
		if p, ok := a.poolOf[groupKey{stream: -1, small: small}]; ok {
			a.releasePool(a.byStream(&a.pools[p]))
		}
	}
}

func (a *allocator) releasePool(groups []int32) {
	var unmap []key
	for _, g := range groups {
		for _, k := range a.groups[g].free.all() {
			a.work++
			switch b := &a.blocks[k.id]; {
			case b.expandable:
				unmap = append(unmap, k)
			case b.whole():
				a.releaseSegment(k.id)
			}
		}
	}
	for _, k := range unmap {
		a.shrink(k.id)
	}
}

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

// key orders the free blocks of a stream: by size, then by address. Unmapped blocks have
// size 0, so that their order is by address.
type key struct {
	size int64
	addr uint64
	id   int32 // index of the block
}

func (k key) less(than key) bool {
	return k.size < than.size || k.size == than.size && k.addr < than.addr
}

// chunkKeys limits the keys of a chunk: an insertion moves few keys, and the list of chunks stays short.
const chunkKeys = 256

// sorted is an ordered set of keys, in chunks. A search takes O(log n), an insertion
// O(chunkKeys + n/chunkKeys). Its zero value is empty.
type sorted struct {
	chunks [][]key
}

type place struct{ chunk, at int }

// find returns the place of the first key that is not less than k.
func (s *sorted) find(k key) place {
	c := 0
	for end := len(s.chunks); c < end; {
		mid := (c + end) / 2
		if chunk := s.chunks[mid]; chunk[len(chunk)-1].less(k) {
			c = mid + 1
		} else {
			end = mid
		}
	}
	if c == len(s.chunks) {
		return place{c, 0}
	}
	i := 0
	for end := len(s.chunks[c]); i < end; {
		mid := (i + end) / 2
		if s.chunks[c][mid].less(k) {
			i = mid + 1
		} else {
			end = mid
		}
	}
	return place{c, i}
}

// get returns the key at p. ok is false behind the last key.
func (s *sorted) get(p place) (k key, ok bool) {
	if p.chunk == len(s.chunks) {
		return key{}, false
	}
	return s.chunks[p.chunk][p.at], true
}

func (s *sorted) next(p place) place {
	if p.at+1 < len(s.chunks[p.chunk]) {
		return place{p.chunk, p.at + 1}
	}
	return place{p.chunk + 1, 0}
}

// before returns the last key before p.
func (s *sorted) before(p place) (k key, ok bool) {
	switch {
	case p.at > 0:
		return s.chunks[p.chunk][p.at-1], true
	case p.chunk > 0:
		last := s.chunks[p.chunk-1]
		return last[len(last)-1], true
	}
	return key{}, false
}

func (s *sorted) insert(k key) {
	p := s.find(k)
	if p.chunk == len(s.chunks) {
		if p.chunk == 0 {
			s.chunks = append(s.chunks, append(make([]key, 0, 8), k))
			return
		}
		p.chunk--
		p.at = len(s.chunks[p.chunk])
	}
	chunk := slices.Insert(s.chunks[p.chunk], p.at, k)
	if len(chunk) > chunkKeys {
		half := len(chunk) / 2
		s.chunks = slices.Insert(s.chunks, p.chunk+1, slices.Clone(chunk[half:]))
		chunk = chunk[:half]
	}
	s.chunks[p.chunk] = chunk
}

func (s *sorted) remove(k key) {
	p := s.find(k)
	chunk := slices.Delete(s.chunks[p.chunk], p.at, p.at+1)
	s.chunks[p.chunk] = chunk
	if len(chunk) == 0 {
		s.chunks = slices.Delete(s.chunks, p.chunk, p.chunk+1)
	}
}

func (s *sorted) all() []key {
	return slices.Concat(s.chunks...)
}
