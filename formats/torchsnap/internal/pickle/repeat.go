package pickle

import "encoding/binary"

// repeats finds lists that were read before: a snapshot has a list of frames in each event, in the same bytes for the
// same stack. Such a list is references to the memo, which do not change, so the record that replaced the first one
// replaces the others.
type repeats struct {
	known map[string]Value // records of lists, by their references
	kept  int              // bytes of these references

	list Value  // the last list of references that was not known
	refs []byte // its references
}

// maxKept bounds the bytes of known lists. Those beyond it are read again.
const maxKept = 64 << 20

// batch is the number of items that Python writes at a time. (Lib/pickle.py, _BATCHSIZE)
const batch = 1000

// references returns where the references to the memo begin and end if there is a list of nothing else at the beginning
// of b, in one batch. to is 0 if there is none, or if b may end in what follows it.
func references(b []byte) (from, to int) {
	from = 1
	switch b[1] {
	case opMemoize:
		from = 2
	case opBinPut:
		from = 3
	case opLongBinPut:
		from = 6
	}
	if b[from] != opMark {
		return 0, 0
	}
	from++
	to = from
	for n := 0; n < batch && to+2*ahead <= len(b); n++ {
		switch b[to] {
		case opBinGet:
			to += 2
			continue
		case opLongBinGet:
			to += 5
			continue
		case opAppends:
			if !continues(b[to+1:]) {
				return from, to
			}
		}
		break
	}
	return 0, 0
}

// continues reports whether a list goes on after a batch: with another one, or with a single reference.
func continues(b []byte) bool {
	switch b[0] {
	case opBinGet:
		return b[2] == opAppend
	case opLongBinGet:
		return b[5] == opAppend
	}
	return b[0] == opMark || b[0] == opAppend
}

// list runs EMPTY_LIST at the beginning of b, or a whole list that was read before. It returns the size of what it ran.
func (d *Decoder) list(b []byte) (size int, err error) {
	size, refs, err := d.repeat(b)
	if size > 0 || err != nil {
		return size, err
	}
	if err := d.makeEmpty(opEmptyList); err != nil {
		return 0, err
	}
	if r := &d.repeats; refs != nil {
		r.list, r.refs = d.stack[len(d.stack)-1], append(r.refs[:0], refs...)
	}
	return 1, nil
}

// repeat pushes the record of the list at the beginning of b, stores it in the memo, and returns the size of the list.
// If the list is not known or if b has no list of references, size is 0. Then refs are its references, or nil.
func (d *Decoder) repeat(b []byte) (size int, refs []byte, err error) {
	from, to := references(b)
	if to == 0 || len(d.marks) == maxNesting {
		return 0, nil, nil
	}
	refs = b[from:to]
	record, ok := d.repeats.known[string(refs)]
	if !ok {
		return 0, refs, nil
	}
	d.push(record)
	d.opAt++
	switch b[1] {
	case opMemoize:
		err = d.put(uint64(d.memo.n))
	case opBinPut:
		err = d.put(uint64(b[2]))
	case opLongBinPut:
		err = d.put(uint64(binary.LittleEndian.Uint32(b[2:])))
	}
	return to + 1, nil, err
}

// learn keeps the record of the expected list, which has items.
func (d *Decoder) learn(items []Value, record Value) {
	r := &d.repeats
	if _, again := r.known[string(r.refs)]; again || r.kept+len(r.refs) > maxKept || !d.refersTo(items) {
		return
	}
	if r.known == nil {
		r.known = map[string]Value{}
	}
	r.known[string(r.refs)] = record
	r.kept += len(r.refs)
}

// refersTo reports whether the references of the expected list are the items. A list may have got others, too.
func (d *Decoder) refersTo(items []Value) bool {
	n := 0
	for refs := d.repeats.refs; len(refs) > 0; n++ {
		i, size := uint64(refs[1]), 2
		if refs[0] == opLongBinGet {
			i, size = uint64(binary.LittleEndian.Uint32(refs[1:])), 5
		}
		if v, ok := d.recall(i); !ok || n == len(items) || v != items[n] {
			return false
		}
		refs = refs[size:]
	}
	return n == len(items)
}

// forget drops all known lists: a reference of the memo has changed.
func (r *repeats) forget() {
	clear(r.known)
	r.kept, r.list = 0, 0
}

// reset is forget for another pickle.
func (r *repeats) reset() {
	if len(r.known) > mostValuesKept/8 {
		r.known = nil
	}
	r.forget()
	r.refs = emptied(r.refs)
}
