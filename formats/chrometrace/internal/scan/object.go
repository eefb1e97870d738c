package scan

type object struct {
	ev    Event
	level level
	seen  uint64 // bits of the fields so far
	has   uint32 // bits of the numbers so far, from fieldBytes
	sizes [sizes]int64
	key   []byte // of the current member, if it may be a counter
	names []byte // of the counters

	numbers [numbers]*int64    // in ev, from fieldBytes
	texts   [texts + 1]*[]byte // in ev, from fieldName, and key

	counters []Counter         // reused by the next event
	kept     [texts + 1][]byte // copies of texts that are not in the window
}

const (
	maxCounters = 1 << 14
	maxNames    = 1 << 20
)

func (o *object) init() {
	e, a := &o.ev, &o.ev.Args
	o.numbers = [numbers]*int64{
		&a.Bytes, &a.TotalAllocated, &a.TotalReserved, &a.DeviceType, &a.DeviceID, &a.Sequence, &a.FwdThread,
		&a.PythonID, &a.PythonParent,
	}
	o.texts = [texts + 1]*[]byte{&e.Name, &e.Cat, &e.PID, &e.TID, &e.ID, &a.CallFrom, &a.Name, &a.Dims, &a.Types, &o.key}
}

// spill copies the texts in the window, before the window moves.
func (o *object) spill() {
	for k := range o.kept {
		if t := o.texts[k]; len(*t) > 0 {
			o.kept[k] = append(o.kept[k][:0], *t...)
			*t = o.kept[k]
		}
	}
}

func (o *object) begin() {
	o.counters = o.ev.Args.Counters[:0]
	o.ev = Event{}
	o.ev.Args.Counters = o.counters
	o.level, o.seen, o.has = inEvent, 0, 0
	o.key, o.names = nil, o.names[:0]
}

func (o *object) end() {
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

func (s *scanner) readEvent(i int) int {
	s.begin()
	i++
	last := &s.steps[inEvent].first
	value, comma := false, false // what precedes: a value, a comma
	for {
		var f field
		var st *step
		if s.level != inArgs || !s.mayCount() { // the names of counters are needed
			st = s.follow(last, i)
		}
		if st != nil {
			i += len(st.text)
			last, f = st, st.f
		} else {
			from, base, tolerated := i, s.base, s.tolerated
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
			} else if f, i = s.readKey(i); i < 0 {
				return i
			}
			if base == s.base && tolerated == s.tolerated {
				last = s.learn(last, s.b[from:i], f)
			} else {
				last = &s.steps[s.level].unknown
			}
		}
		if f == closing {
			if s.level == inEvent {
				s.end()
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
