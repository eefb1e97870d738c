package scan

// object is an event while it is read.
type object struct {
	ev    Event
	level level
	seen  uint64 // fields that were there
	has   uint32 // bits of numbers, from fieldBytes on
	sizes [sizes]int64
	key   []byte // of the member that is read, if it is a counter
	names []byte // of the counters

	counters []Counter         // reused by the next event
	kept     [texts + 1][]byte // texts that the window does not hold, and key
}

const (
	maxCounters = 1 << 14
	maxNames    = 1 << 20
)

// text returns where a text belongs.
func (o *object) text(k int) *[]byte {
	switch field(k) + fieldName {
	case fieldName:
		return &o.ev.Name
	case fieldCat:
		return &o.ev.Cat
	case fieldPID:
		return &o.ev.PID
	case fieldTID:
		return &o.ev.TID
	case fieldID:
		return &o.ev.ID
	case fieldCallFrom:
		return &o.ev.Args.CallFrom
	case fieldArgName:
		return &o.ev.Args.Name
	case fieldDims:
		return &o.ev.Args.Dims
	case fieldTypes:
		return &o.ev.Args.Types
	}
	return &o.key
}

// int returns where a number belongs.
func (o *object) int(f field) *int64 {
	switch f {
	case fieldBytes:
		return &o.ev.Args.Bytes
	case fieldTotalAllocated:
		return &o.ev.Args.TotalAllocated
	case fieldTotalReserved:
		return &o.ev.Args.TotalReserved
	case fieldDeviceType:
		return &o.ev.Args.DeviceType
	case fieldDeviceID:
		return &o.ev.Args.DeviceID
	case fieldSequence:
		return &o.ev.Args.Sequence
	case fieldFwdThread:
		return &o.ev.Args.FwdThread
	case fieldPythonID:
		return &o.ev.Args.PythonID
	case fieldPythonParent:
		return &o.ev.Args.PythonParent
	case fieldPythonModule:
		return &o.ev.Args.PythonModule
	case fieldEvIdx:
		return &o.ev.Args.EvIdx
	}
	return &o.sizes[f-fieldSize]
}

// spill copies what points into the window, before that moves.
func (o *object) spill() {
	for k := range o.kept {
		if t := o.text(k); len(*t) > 0 {
			o.kept[k] = append(o.kept[k][:0], *t...)
			*t = o.kept[k]
		}
	}
}

// begin makes ready for the event at an offset.
func (o *object) begin(offset int64) {
	o.counters = o.ev.Args.Counters[:0]
	o.ev = Event{Offset: offset}
	o.ev.Args.Counters = o.counters
	o.level, o.seen, o.has = inEvent, 0, 0
	o.key, o.names = nil, o.names[:0]
}

// end settles what depends on several members.
func (o *object) end(members bool) {
	o.ev.Empty = !members
	args := &o.ev.Args
	args.Has |= o.has & (HasAddr - 1)
	for k := fieldSize - fieldBytes; o.has>>k != 0; k++ {
		if o.has>>k&1 != 0 {
			args.Size = o.sizes[fieldBytes+k-fieldSize]
			args.Has |= HasSize
			break
		}
	}
	if o.ev.Phase != 'C' {
		args.Counters = args.Counters[:0]
	}
}

// readEvent reads the object at index i.
func (s *scanner) readEvent(i int) int {
	s.begin(s.base + int64(i))
	i++
	last := &s.steps[inEvent].first
	members := false
	value, comma := false, false // what stands before: a value, a comma
	for {
		var f field
		var st *step
		if s.level != inArgs || !s.mayCount() { // the names of counters are needed
			st = s.follow(last, i)
		}
		if st != nil {
			i += len(st.text)
			last, f = st, st.f
			members = members || f != closing
		} else {
			from, base, odd := i, s.base, s.odd
			if value {
				if i, comma = s.comma(i); i < 0 {
					return i
				}
			}
			if i = s.ws(i); i < 0 {
				return i
			}
			if s.b[i] == '}' {
				if comma {
					s.count(TrailingComma, i)
				}
				f = closing
				i++
			} else {
				if f, i = s.eventKey(i); i < 0 {
					return i
				}
				if i = s.colon(i); i < 0 {
					return i
				}
				members = true
			}
			if base == s.base && odd == s.odd {
				last = s.learn(last, s.b[from:i], f)
			} else {
				last = &s.steps[s.level].unknown
			}
		}
		if f == closing {
			if s.level == inEvent {
				s.end(members)
				return i
			}
			s.level--
			last = &s.steps[s.level].behind
			value = true
			continue
		}
		if bit := uint64(1) << f; f != other {
			if s.seen&bit != 0 {
				s.duplicate(f, i)
			}
			s.seen |= bit
		}
		c := s.b[i]
		if s.level == inArgs && s.mayCount() && c != '"' && c != '{' && c != '[' {
			if i = s.counter(i); i < 0 {
				return i
			}
		}
		if c == '{' && (f == fieldArgs || f == fieldSnapshot) {
			s.level++
			last = &s.steps[s.level].first
			value, comma = false, false
			i++
			continue
		}
		value = true
		if f == other {
			if next := quickNumber(s.b, i); next >= 0 {
				i = next
				continue
			}
		}
		if i = s.member(f, i); i < 0 {
			return i
		}
	}
}

// eventKey reads the key at index i.
func (s *scanner) eventKey(i int) (field, int) {
	if s.b[i] == '"' {
		return s.readKey(i)
	}
	return s.oddKey(i)
}
