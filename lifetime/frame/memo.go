package frame

import (
	"strings"
	"sync"
)

// memo remembers for the whole process what a frame is: the files of one job have the same frames.
type memo[V any] struct {
	sync.RWMutex
	known map[key]V
}

// key is a frame as files write it.
type key struct{ function, file string }

// Most frames that a memo remembers, and the most bytes of each: a file may have frames without end. A full memo begins again.
const maxKnown, maxKey = 1 << 14, 1 << 10

// of returns what find returns for a frame.
func (m *memo[V]) of(k key, find func(key) V) V {
	m.RLock()
	v, ok := m.known[k]
	m.RUnlock()
	if ok {
		return v
	}
	v = find(k)
	if len(k.function)+len(k.file) > maxKey {
		return v
	}
	m.Lock()
	defer m.Unlock()
	if m.known == nil || len(m.known) == maxKnown {
		m.known = map[key]V{}
	}
	m.known[key{strings.Clone(k.function), strings.Clone(k.file)}] = v // they may be parts of a large text
	return v
}
