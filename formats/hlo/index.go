package hlo

// valueIndex finds values by their id. XLA numbers values one after the other, so most are in a list. Its zero value is
// empty.
type valueIndex struct {
	list []int32         // by id: the index from 1; 0 = none
	far  map[int64]int32 // ids that would make the list much longer than there are values
	n    int             // number of calls of set
}

// get returns the index of a value.
func (x *valueIndex) get(id int64) (i int32, ok bool) {
	if id >= 0 && id < int64(len(x.list)) && x.list[id] != 0 {
		return x.list[id] - 1, true
	}
	i, ok = x.far[id]
	return i, ok
}

// set records the index of a value. Of two with the same id the last counts.
func (x *valueIndex) set(id int64, i int32) {
	x.n++
	_, isFar := x.far[id]
	if isFar || id < 0 || id >= 4*int64(x.n)+1024 {
		if x.far == nil {
			x.far = map[int64]int32{}
		}
		x.far[id] = i
		return
	}
	if missing := int(id) + 1 - len(x.list); missing > 0 {
		x.list = append(x.list, make([]int32, missing)...)
	}
	x.list[id] = i + 1
}

// remove removes a value.
func (x *valueIndex) remove(id int64) {
	delete(x.far, id)
	if id >= 0 && id < int64(len(x.list)) {
		x.list[id] = 0
	}
}
