package pickle

import "slices"

// object is the state of one list, dict or tuple, in 4 bytes: a snapshot contains
// millions of event dicts, each used once.
type object uint32

const (
	open    = iota // being filled: index into Decoder.slots
	kept           // complete: index into Decoder.slots
	gone           // dropped by the handler
	records        // + tag: replaced by a record with that index
)

const stateBits = 4

func newObject(state, index int) object { return object(index<<stateBits | state) }

func (o object) state() int { return int(o & (1<<stateBits - 1)) }
func (o object) index() int { return int(o >> stateBits) }

func (d *Decoder) create(k Kind) (Value, error) {
	if d.objects.n >= maxIndex {
		return 0, d.errorf("more than %d objects", maxIndex)
	}
	var slot int
	if n := len(d.freeSlots); n > 0 {
		slot = d.freeSlots[n-1]
		d.freeSlots = d.freeSlots[:n-1]
	} else {
		slot = len(d.slots)
		if slot >= maxValues {
			return 0, d.errorf("more than %d lists and dicts besides the records of a snapshot", maxValues)
		}
		d.slots = append(d.slots, nil)
	}
	i := d.objects.n
	d.objects.n++
	*d.objects.make(i) = newObject(open, slot)
	return value(k, i), nil
}

// tuple adds a tuple, which is always complete. It interns pairs, as newer snapshots
// have one, the pool ID, in every event.
func (d *Decoder) tuple(items []Value) (Value, error) {
	if err := d.settleAll(items); err != nil {
		return 0, err
	}
	var pair [2]Value
	if len(items) == 2 {
		pair = [2]Value(items)
		if v, ok := d.pairs[pair]; ok {
			return v, nil
		}
	}
	v, err := d.create(Tuple)
	if err != nil {
		return 0, err
	}
	o := d.objects.at(v.index())
	d.slots[o.index()] = append(d.slots[o.index()][:0:0], items...)
	*o = newObject(kept, o.index())
	if len(items) == 2 {
		d.pairs[pair] = v
	}
	return v, nil
}

// settle completes a list or dict that is put into another container, and returns the value to store there; Gone if the
// handler dropped it. into is the list that receives it, or 0.
func (d *Decoder) settle(v, into Value) (Value, error) {
	switch o := *d.objects.at(v.index()); o.state() {
	case kept:
		return v, nil
	case gone:
		return Forget, nil
	case open:
		return d.complete(v, o.index(), into)
	default:
		return NewRecord(o.state()-records, o.index()), nil
	}
}

// settleAll settles the containers among values.
func (d *Decoder) settleAll(values []Value) (err error) {
	for i, v := range values {
		if v.container() {
			if values[i], err = d.settle(v, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// complete passes a container to the handler at its first use. It cannot change
// afterwards. Python could still add items, but only recursive data does.
func (d *Decoder) complete(v Value, slot int, into Value) (Value, error) {
	d.unfinished = d.cut != nil && d.cut[v]
	var to Value
	var err error
	if v.Kind() == Dict {
		to, err = d.handler.Dict(d.slots[slot], into)
	} else {
		to, err = d.handler.List(d.slots[slot], v)
	}
	if err != nil {
		return 0, err
	}
	o := d.objects.at(v.index())
	switch to.Kind() {
	case Record:
		if to.Record() >= maxIndex {
			return 0, d.errorf("more than %d records", maxIndex)
		}
		if v == d.repeats.list {
			d.learn(d.slots[slot], to)
		}
		*o = newObject(records+to.Tag(), to.Record())
	case Gone:
		*o = newObject(gone, 0)
	default:
		*o = newObject(kept, slot)
		return v, nil
	}
	if cap(d.slots[slot]) > maxReuse {
		d.slots[slot] = nil
	}
	d.slots[slot] = d.slots[slot][:0]
	d.freeSlots = append(d.freeSlots, slot)
	return to, nil
}

// maxReuse is the maximum capacity of items that the next container reuses.
const maxReuse = 4096

// fill appends values to an open container.
func (d *Decoder) fill(into Value, values []Value) error {
	o := *d.objects.at(into.index())
	switch {
	case o.state() != open:
		return d.errorf("a list or dict changes after it was used: not plain data")
	case into.Kind() == Dict:
		return d.fillDict(into, o.index(), values)
	}
	slot := slices.Grow(d.slots[o.index()], len(values))
	for _, v := range values {
		if v.container() {
			if v == into {
				return d.errorf("a list contains itself: not plain data")
			}
			var err error
			if v, err = d.settle(v, into); err != nil {
				return err
			}
		}
		if v.Kind() != Gone {
			slot = append(slot, v)
		}
	}
	d.slots[o.index()] = slot
	return nil
}

func (d *Decoder) fillDict(into Value, index int, values []Value) error {
	if len(values)%2 != 0 {
		return d.errorf("a dict has a key without a value")
	}
	slot := slices.Grow(d.slots[index], len(values))
	for i := 0; i+1 < len(values); i += 2 {
		k, v := values[i], values[i+1]
		if k.container() {
			return d.errorf("a list or dict is a key: not plain data")
		}
		if v.container() {
			if v == into {
				return d.errorf("a dict contains itself: not plain data")
			}
			var err error
			if v, err = d.settle(v, 0); err != nil {
				return err
			}
		}
		slot = append(slot, k, v)
	}
	d.slots[index] = slot
	return nil
}
