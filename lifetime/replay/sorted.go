package replay

import "slices"

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
