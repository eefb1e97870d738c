package pickle

// unwind ends a truncated pickle: it puts the values on the stack into their containers, the innermost container first.
//
// The stack contains, from the bottom: an open container, then either a mark and
// the items of one batch (protocol 1 and later), or the next single item.
func (d *Decoder) unwind() (Value, error) {
	d.cut = map[Value]bool{}
	// Long lists have several batches: one on top of the stack may lack the next.
	if n := len(d.stack); n > 0 && d.stack[n-1].Kind() == List && d.isOpen(d.stack[n-1]) {
		d.cut[d.stack[n-1]] = true
	}
	for len(d.marks) > 0 {
		items, err := d.popMark()
		if err != nil {
			return 0, err
		}
		// The items are above the stack's end, which no push overwrites here.
		if n := len(d.stack); n > 0 {
			if err := d.putBack(d.stack[n-1], items, true, 0); err != nil {
				return 0, err
			}
		}
	}
	if len(d.stack) == 0 {
		return Keep, nil
	}
	if err := d.putBack(d.stack[0], d.stack[1:], false, 0); err != nil {
		return 0, err
	}
	root := d.stack[:1]
	if err := d.settleAll(root); err != nil {
		return 0, err
	}
	return root[0], nil
}

// putBack adds the items above a container to it. Items of the last of these items may
// follow without a mark, as APPEND and SETITEM add one at a time.
func (d *Decoder) putBack(into Value, items []Value, marked bool, depth int) error {
	if !d.isOpen(into) || depth > maxNesting {
		return nil
	}
	d.cut[into] = true
	n := d.ownItems(into.Kind(), items, marked)
	if n > 0 && n < len(items) {
		if err := d.putBack(items[n-1], items[n:], false, depth+1); err != nil {
			return err
		}
	}
	items = items[:n]
	if into.Kind() == Dict {
		items = items[:n/2*2]
	} else if !marked && n == 1 && d.isOpen(items[0]) {
		d.cut[items[0]] = true // it may still have been growing
	}
	return d.fill(into, items)
}

// ownItems returns how many of the items belong to the container itself. The others belong to the last of these.
func (d *Decoder) ownItems(k Kind, items []Value, marked bool) int {
	switch {
	case !marked && k == Dict:
		return min(2, len(items))
	case !marked:
		return min(1, len(items))
	case k == Dict:
		for i := 2; i < len(items); i += 2 {
			if items[i].Kind() != Str { // not a key
				return i
			}
		}
	default:
		for i := 1; i < len(items); i++ {
			if items[i-1].Kind() == List && items[i].Kind() != List {
				return i
			}
		}
	}
	return len(items)
}

func (d *Decoder) isOpen(v Value) bool {
	return (v.Kind() == List || v.Kind() == Dict) && d.objects.at(v.index()).state() == open
}
