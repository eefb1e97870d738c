package jaxprof

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/memlane/memlane/formats/internal/holders"
	"github.com/memlane/memlane/formats/internal/wire"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
)

// named are the names that memlane's recorder added. A profile has no addresses, but buffers that agree in all that a
// likeness has cannot be told apart in the model either, so it does not matter which of them gets which name.
type named struct {
	holders map[likeness][]lifetime.HolderID
	buffers map[likeness]int64 // of the profile
}

type likeness struct {
	device int64
	stack  string // digest of its lines
	bytes  int64
}

// readNames reads the names, if there are any, and counts the buffers that can have them.
func (r *reader) readNames() {
	if r.tables.recorded == "" {
		return
	}
	n := &named{map[likeness][]lifetime.HolderID{}, map[likeness]int64{}}
	holders.Read(r.tables.recorded, r.b, func(e *holders.Entry) {
		if e.Stack == "" {
			r.b.Lose(loss.NameWithoutBuffer, 1, 0, "array without a stack")
			return
		}
		like := likeness{e.Device, e.Stack, e.Bytes}
		n.holders[like] = append(n.holders[like], r.b.Holder(e.Holder))
	})
	r.named = n
	m := wire.Scan(r.profile, wire.Span{End: len(r.profile)})
	for f, ok := m.Next(); ok; f, ok = m.Next() {
		if f.Tag != profileSample {
			continue
		}
		if s, whole, err := r.decode(f.Body); err == nil && whole && s.count > 0 {
			n.buffers[r.likeness(&s)] += s.count
		}
	}
	for like, found := range n.holders {
		if int64(len(found)) > n.buffers[like] { // some of these arrays were freed before the profile was taken
			r.b.Lose(loss.NameWithoutBuffer, int64(len(found)), 0, "")
			delete(n.holders, like)
		}
	}
}

// likeness returns that of the buffers of the sample whose stack is in r.ids.
func (r *reader) likeness(s *sample) likeness {
	number := s.device[strings.LastIndexFunc(s.device, func(c rune) bool { return c < '0' || c > '9' })+1:]
	device, err := strconv.ParseInt(number, 10, 64)
	if err != nil || s.kind != "buffer" || s.bytes%s.count != 0 {
		return likeness{}
	}
	lines := sha256.New()
	for _, id := range r.ids {
		l := r.tables.locations[id]
		fmt.Fprintf(lines, "%s:%d\n", r.tables.text(r.tables.functions[l.function].file), l.line)
	}
	return likeness{device, hex.EncodeToString(lines.Sum(nil)[:8]), s.bytes / s.count}
}

// name gives the next name that fits a sample to one of its buffers.
func (r *reader) name(like likeness, v *build.Interval) {
	if rest := r.named.holders[like]; len(rest) > 0 {
		v.Holder, r.named.holders[like] = rest[0], rest[1:]
	}
}
