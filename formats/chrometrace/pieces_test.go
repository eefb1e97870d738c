package chrometrace

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// anyCall makes a call: one as traces have them, or one of extremes.
func anyCall(r *rand.Rand) call {
	c := call{begin: r.Int64N(1000), name: r.Uint32N(500), sequence: -1}
	c.end = c.begin + r.Int64N(50)
	if r.IntN(10) == 0 {
		c.begin = int64(r.Uint64())
		c.end = c.begin + r.Int64N(math.MaxInt64-max(c.begin, 0))
	}
	switch c.kind = callKind(r.IntN(3)); {
	case c.kind == python && r.IntN(4) > 0:
		c.id, c.parent, c.from = r.Uint32(), r.Uint32(), r.Uint32N(2)
	case c.kind == operator && r.IntN(4) > 0:
		c.dims, c.types = r.Uint32N(2), r.Uint32N(300)
		c.sequence, c.forward = r.Int64N(math.MaxInt64)>>r.IntN(63), int64(r.Uint64())
	}
	return c
}

// TestCallsAreKept packs calls of a thread in any order, in memory and in a
// file, and reads them back as a stable sort has them.
func TestCallsAreKept(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, limit := range []int{math.MaxInt, 1000, 0} {
		for _, n := range []int{0, 1, pieceLen, pieceLen + 1, 3000, 40 * pieceLen} {
			s := store{limit: limit}
			var th thread
			var want []call
			for i := range n {
				c := anyCall(r)
				c.name = uint32(i) // tells the calls of one time apart
				if n == 3000 && c.begin >= 0 && c.begin < 1000 {
					c.begin += int64(i) << 20 // in order, as a rule
					c.end += int64(i) << 20
				}
				want = append(want, c)
				th.add(&s, c)
			}
			th.sort(&s)
			slices.SortStableFunc(want, func(x, y call) int { return inOrder(&x, &y) })
			var got []call
			for c := range th.all(&s) {
				got = append(got, *c)
			}
			if !slices.Equal(got, want) {
				t.Errorf("limit %d: %d calls come back otherwise", limit, n)
			}
			got = nil
			for c := range th.backward(&s) {
				got = append(got, *c)
			}
			slices.Reverse(got)
			if !slices.Equal(got, want) {
				t.Errorf("limit %d: %d calls come back otherwise from the end", limit, n)
			}
			if n == 3000 && limit < math.MaxInt && s.held > limit {
				t.Errorf("%d bytes are in memory, %d may be", s.held, limit)
			}
			if s.err != nil {
				t.Error(s.err)
			}
			s.close()
			if s.file != nil {
				if _, err := os.Stat(s.file.Name()); err == nil {
					t.Errorf("%s is left behind", s.file.Name())
				}
			}
		}
	}
}

// TestNoRoomForCalls keeps calls in memory where no file can be made.
func TestNoRoomForCalls(t *testing.T) {
	t.Setenv("TMPDIR", "/nowhere")
	t.Setenv("TMP", "/nowhere")
	s := store{}
	var th thread
	for i := range 3 * pieceLen {
		th.add(&s, call{begin: int64(i), end: int64(i), sequence: -1})
	}
	th.sort(&s)
	n := 0
	for range th.all(&s) {
		n++
	}
	if s.file != nil || s.err != nil || n != 3*pieceLen {
		t.Error(s.file, s.err, n)
	}
}

// TestInterner numbers texts as a map does.
func TestInterner(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	n := newInterner()
	want := map[string]uint32{"": 0}
	for range 20_000 {
		text := make([]byte, r.IntN(4))
		for i := range text {
			text[i] = byte(r.IntN(40))
		}
		id, ok := want[string(text)]
		if known := n.known(text); known != id {
			t.Fatalf("%q is known as %d, not %d", text, known, id)
		}
		if !ok {
			id = uint32(len(want))
			want[string(text)] = id
		}
		if got := n.id(text); got != id || n.text(id) != string(text) {
			t.Fatalf("%q has number %d, not %d", text, got, id)
		}
	}
}
