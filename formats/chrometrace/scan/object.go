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
	members, comma := false, false
	for {
		b := s.b
		if i+1 < len(b) && b[i] == ' ' && b[i+1] > ' ' { // most keys follow ", "
			i++
		} else if i >= len(b) || b[i] <= ' ' {
			if i = s.ws(i); i < 0 {
				return i
			}
			b = s.b
		}
		var f field
		switch c := b[i]; {
		case c == '"' && s.level == inEvent:
			if f, i = quickField(b, i+1); f == other {
				f, i = s.readKey(i - 1)
				b = s.b
			}
		case c == '"':
			f, i = s.readKey(i)
			b = s.b
		case c == '}':
			if comma {
				s.count(TrailingComma, i)
			}
			i++
			if s.level == inEvent {
				s.end(members)
				return i
			}
			s.level--
			if i, comma = s.comma(i); i < 0 {
				return i
			}
			continue
		default:
			f, i = s.oddKey(i)
			b = s.b
		}
		if i < 0 {
			return i
		}
		members = true
		if i+2 < len(b) && b[i] == ':' && b[i+1] == ' ' && b[i+2] > ' ' {
			i += 2
		} else if i+1 < len(b) && b[i] == ':' && b[i+1] > ' ' {
			i++
		} else if i = s.colon(i); i < 0 {
			return i
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
			i++
			comma = false
			continue
		}
		if i = s.member(f, i); i < 0 {
			return i
		}
		if b = s.b; i < len(b) && b[i] == ',' {
			i++
			comma = true
			continue
		}
		if i, comma = s.comma(i); i < 0 {
			return i
		}
	}
}
