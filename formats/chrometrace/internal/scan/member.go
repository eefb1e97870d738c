package scan

import (
	"math"
	"strconv"
)

// readKey reads the key at index i and its colon, and returns the index of the value.
func (s *scanner) readKey(i int) (field, int) {
	key, next := s.anyKey(&s.kept[texts], i)
	if next < 0 {
		return other, next
	}
	if s.level == inArgs && s.mayCount() {
		s.key = key
	}
	return fields[s.level][string(key)], s.colon(next)
}

// anyKey returns the text of a key, which may lack its first or both quotes, and the index after it.
func (s *scanner) anyKey(dst *[]byte, i int) (key []byte, next int) {
	if s.b[i] == '"' {
		return s.text(dst, i)
	}
	return s.bareKey(i)
}

// maxBareKey bounds the search for the end of a key without quotes.
const maxBareKey = 64

// bareKey reads a key without its first or both quotes.
func (s *scanner) bareKey(i int) (key []byte, next int) {
	i = s.look(i, maxBareKey+1)
	j := i
	for j < len(s.b) && j-i < maxBareKey && (class[s.b[j]] == letter || class[s.b[j]] == number || s.b[j] == ' ') {
		j++
	}
	if j == len(s.b) {
		return nil, ended
	}
	if j == i || s.b[j] != '"' && s.b[j] != ':' {
		return nil, s.fail(i, ',')
	}
	s.count(MissingQuote, i)
	key = s.b[i:j]
	if s.b[j] == '"' {
		j++
	}
	return key, j
}

// colon reads the colon after a key, and returns the index of the value.
func (s *scanner) colon(i int) int {
	if i = s.ws(i); i < 0 {
		return i
	}
	if s.b[i] != ':' {
		return s.fail(i, ',')
	}
	return s.ws(i + 1)
}

// comma reads the comma after a member, up to the next key or the end of the object.
func (s *scanner) comma(i int) (next int, comma bool) {
	if i = s.ws(i); i < 0 {
		return i, false
	}
	switch s.b[i] {
	case ',':
		return i + 1, true
	case '}':
		return i, false
	case '"':
		s.count(MissingComma, i)
		return i, false
	}
	return s.fail(i, ','), false
}

func (s *scanner) member(f field, i int) int {
	switch {
	case f == other:
		return s.skip(i)
	case f <= fieldSnapshotBytes:
		return s.intMember(f, i)
	case f <= fieldArgName:
		return s.readText(int(f-fieldName), i)
	case f <= fieldTypes:
		return s.rawText(int(f-fieldName), i)
	}
	switch f {
	case fieldTS:
		return s.time(i, &s.ev.TS)
	case fieldDur:
		return s.time(i, &s.ev.Dur)
	case fieldPhase:
		return s.phase(i)
	case fieldAddr:
		next, ok := 0, false
		s.ev.Args.Has &^= HasAddr
		if s.ev.Args.Addr, next, ok = s.address(i); ok {
			s.ev.Args.Has |= HasAddr
		}
		return next
	}
	return s.skip(i) // args that are not an object
}

func (s *scanner) intMember(f field, i int) int {
	v, next := quickInt(s.b, i)
	ok := next >= 0
	if !ok {
		v, next, ok = s.integer(i, f < fieldSize)
	}
	bit := uint32(1) << (f - fieldBytes)
	if s.has |= bit; !ok {
		s.has &^= bit
	}
	if f < fieldSize {
		*s.numbers[f-fieldBytes] = v
	} else {
		s.sizes[f-fieldSize] = v
	}
	return next
}

func (s *scanner) phase(i int) int {
	s.ev.Phase = 0
	if i+3 < len(s.b) && s.b[i] == '"' && s.b[i+2] == '"' && isLetter(s.b[i+1]) {
		s.ev.Phase = s.b[i+1]
		return i + 3
	}
	if s.b[i] != '"' {
		return s.skip(i)
	}
	text, next := s.text(&s.scratch, i)
	if len(text) > 0 {
		s.ev.Phase = text[0]
	}
	return next
}

// readText reads a string, or a number as written.
func (s *scanner) readText(k, i int) int {
	dst := s.texts[k]
	*dst = nil
	switch s.b[i] {
	case '"':
		if n := shortString(s.b, i+1); n >= 0 {
			*dst = s.b[i+1 : i+1+n]
			return i + n + 2
		}
		text, next := s.text(&s.kept[k], i)
		*dst = text
		return next
	case '{', '[':
		return s.skip(i)
	}
	if next := quickNumber(s.b, i); next >= 0 {
		*dst = s.b[i:next]
		return next
	}
	token, next := s.bare(i)
	if next >= 0 && s.classify(token, next) == isNumber {
		*dst = token
	}
	return next
}

// rawText skips a value and keeps its text.
func (s *scanner) rawText(k, i int) int {
	dst := s.texts[k]
	*dst = nil
	s.captured = capture{true, i, s.captured.text[:0]}
	next := s.skip(i)
	if next < 0 {
		s.captured.on = false
		return next
	}
	text := s.captured.end(s.b, next)
	switch {
	case !oneLine(text):
		s.kept[k] = appendCompact(s.kept[k][:0], text)
		text = s.kept[k]
	case len(s.captured.text) > 0: // the next capture overwrites it
		s.kept[k] = append(s.kept[k][:0], text...)
		text = s.kept[k]
	}
	*dst = text
	return next
}

// duplicate counts a repeated field, and drops the contents of repeated args or snapshots.
func (s *scanner) duplicate(f field, i int) {
	s.count(DuplicateKey, i)
	const snapshots = 1<<(fieldSnapshotSize-fieldBytes) | 1<<(fieldSnapshotSizeBytes-fieldBytes) | 1<<(fieldSnapshotBytes-fieldBytes)
	switch f {
	case fieldArgs:
		s.ev.Args = Args{Counters: s.ev.Args.Counters[:0]}
		s.names = s.names[:0]
		s.has = 0
		s.seen &= 1<<fieldName | 1<<fieldCat | 1<<fieldPID | 1<<fieldTID | 1<<fieldID | 1<<fieldPhase | 1<<fieldTS | 1<<fieldDur | 1<<fieldArgs
	case fieldSnapshot:
		s.has &^= snapshots
		s.seen &^= 1<<fieldSnapshotSize | 1<<fieldSnapshotSizeBytes | 1<<fieldSnapshotBytes
	}
}

// mayCount reports whether this may be a counter event: its phase is C, or still unknown.
func (o *object) mayCount() bool { return o.ev.Phase == 'C' || o.ev.Phase == 0 }

// counter adds the value at index i to the counters if it is a number. It does not
// consume the value, and returns its index, which more may change.
func (s *scanner) counter(i int) int {
	token, next := s.bare(i)
	if next < 0 {
		return next
	}
	i = next - len(token)
	if kindOf(token) != isNumber {
		return i
	}
	v, err := strconv.ParseFloat(string(token), 64)
	if err != nil || math.IsInf(v, 0) {
		s.count(BigNumber, i)
		return i
	}
	s.addCounter(v, i)
	return i
}

func (s *scanner) addCounter(v float64, i int) {
	counters := s.ev.Args.Counters
	if s.ev.Phase == 'C' && len(counters) <= maxSearched {
		for k := range counters {
			if string(counters[k].Name) == string(s.key) {
				s.count(DuplicateKey, i)
				counters[k].Value = v
				return
			}
		}
	}
	if len(counters) == maxCounters || len(s.names)+len(s.key) > maxNames {
		if s.ev.Phase == 'C' {
			s.count(TooMany, i)
		}
		return
	}
	// Copy the key, as the window moves, and the next key overwrites its buffer.
	from := len(s.names)
	s.names = append(s.names, s.key...)
	s.ev.Args.Counters = append(counters, Counter{s.names[from:], v})
}

// maxSearched is the number of counters that are searched for the same name.
const maxSearched = 64

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
