package failure

import "slices"

// Grows reports whether figures of one place, each larger than the one before, show memory that grows. Few must grow much. Of many the
// lowest of each slice counts, without the first third, in which programs warm up. Growth that slows down is that of a cache.
func Grows(bytes []int64) bool {
	const (
		many   = 12  // figures
		few    = 6   // figures, below which the last must be half as large again as the first
		steady = .25 // of the growth, that the later half has
	)
	n := len(bytes)
	floors, least := bytes, 1.1
	switch {
	case n >= many:
		floors, least = nil, 1.05
		for i := many / 3; i < many; i++ {
			floors = append(floors, slices.Min(bytes[i*n/many:(i+1)*n/many]))
		}
	case n < 3:
		return false
	case n < few:
		least = 1.5
	}
	if !Rises(floors) {
		return false
	}
	first, middle, last := float64(floors[0]), float64(floors[len(floors)/2]), float64(floors[len(floors)-1])
	return last >= least*first && last-middle >= steady*(last-first)
}

// Rises reports whether each number is larger than the one before.
func Rises(numbers []int64) bool {
	for i := 1; i < len(numbers); i++ {
		if numbers[i] <= numbers[i-1] {
			return false
		}
	}
	return true
}
