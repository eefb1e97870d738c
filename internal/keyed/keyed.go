// Package keyed sums up by key, in the order in which keys appear.
package keyed

// At returns the item of a list that has a key. If there is none, it appends one. index has the place of each key. The
// pointer is valid until the list grows.
func At[K comparable, V any](index map[K]int, list *[]V, key K, one V) *V {
	at, ok := index[key]
	if !ok {
		at = len(*list)
		index[key], *list = at, append(*list, one)
	}
	return &(*list)[at]
}
