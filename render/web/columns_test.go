package web

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// TestTotals checks that the columns of a space without buffers end with its totals, relative to the start of the window, and those of another have none.
func TestTotals(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "tpu:0"})
	for i, bytes := range []int64{512, 2048, 0} {
		b.Total(s, lifetime.Total{T: 1000 + 10*int64(i), Bytes: bytes, Measure: lifetime.Occupied})
	}
	b.Total(s, lifetime.Total{T: 1100, Bytes: 4096, Measure: lifetime.Reserved})
	other := b.Space()
	b.Describe(other, lifetime.SpaceInfo{Device: "tpu:1"})
	b.Alloc(other, 1000, build.Block{Addr: 1 << 20, Requested: 512, Occupied: 512})
	b.Total(other, lifetime.Total{T: 1000, Bytes: 512, Measure: lifetime.Occupied})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for rest := spaceColumns(c.Spaces[0], placesOf(c.Spaces[0])); len(rest) > 0; {
		v, n := binary.Varint(rest)
		got, rest = append(got, v), rest[n:]
	}
	want := []int64{1, 10, 10, 512, 1536, -2048}
	if len(got) < len(want) || !slices.Equal(got[len(got)-len(want):], want) {
		t.Errorf("%v, want %v at the end", got, want)
	}
	if n := len(shownTotals(c.Spaces[1])); n != 0 {
		t.Errorf("%d totals beside buffers", n)
	}
}

// TestPackFails checks that pack returns write errors at any position.
func TestPackFails(t *testing.T) {
	data := make([]byte, 1<<16) // that cannot be compressed
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	for room := range 341 { // base64 of it is longer
		if err := pack(&limited{room << 8}, data); !errors.Is(err, errNoRoom) {
			t.Errorf("after %d bytes: %v", room<<8, err)
		}
	}
}

var errNoRoom = errors.New("no room")

// limited accepts a number of bytes, then fails.
type limited struct{ room int }

func (l *limited) Write(p []byte) (int, error) {
	if l.room -= len(p); l.room < 0 {
		return 0, errNoRoom
	}
	return len(p), nil
}
