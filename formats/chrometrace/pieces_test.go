package chrometrace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/build"
)

// anyCall returns a random call, sometimes with extreme values.
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

// TestCallsAreKept packs calls of a thread in random order, in memory and in a file, and
// compares them with the result of a stable sort.
func TestCallsAreKept(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, limit := range []int{math.MaxInt, 1000, 0} {
		for _, n := range []int{0, 1, pieceLen, pieceLen + 1, 3000, 40 * pieceLen} {
			s := store{limit: limit}
			var th thread
			var want []call
			for i := range n {
				c := anyCall(r)
				c.name = uint32(i) // distinguishes calls at the same time
				if n == 3000 && c.begin >= 0 && c.begin < 1000 {
					c.begin += int64(i) << 20 // mostly in order
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
			for c := range th.runs[0].backward(&s) {
				got = append(got, *c)
			}
			slices.Reverse(got)
			if !slices.Equal(got, want) {
				t.Errorf("limit %d: %d calls come back otherwise from the end", limit, n)
			}
			if n == 3000 && limit < math.MaxInt && s.inMemory > limit {
				t.Errorf("%d bytes are in memory, %d may be", s.inMemory, limit)
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

// TestNoRoomForCalls checks that calls stay in memory if no file can be created.
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

// TestInterner numbers random texts.
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
		if known := n.ids[string(text)]; known != id {
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

// TestAllocationsOfCalls checks that calls cost no allocations, except for pieces and new
// names.
func TestAllocationsOfCalls(t *testing.T) {
	text := func(n int) string {
		var b strings.Builder
		b.WriteString(`{"traceEvents": [`)
		for i := range n {
			fmt.Fprintf(&b, `{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": %d.000, "dur": 5.500, "args": {"External id": %d, "Input Dims": [[4, 4]], "Input type": ["float"]}},`, 10*i, i)
			fmt.Fprintf(&b, `{"ph": "X", "cat": "python_function", "name": "a.py(1): f", "pid": 1, "tid": 1, "ts": %d.000, "dur": 5.500, "args": {"Python id": %d, "Python parent id": %d}},`, 10*i, i+1, i/2)
			b.WriteString(`{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.000, "dur": 5.500, "args": {"grid": [1, 1, 1]}},` + "\n")
		}
		return b.String() + `{}]}`
	}
	allocations := func(n int) float64 {
		trace := text(n)
		return testing.AllocsPerRun(3, func() {
			if err := Read("x", strings.NewReader(trace), build.New(build.Everything)); err != nil {
				t.Fatal(err)
			}
		})
	}
	const more = 20_000
	if per := (allocations(more+100) - allocations(100)) / (3 * more); per > 0.02 {
		t.Errorf("%.3f allocations for each event", per)
	}
}

// BenchmarkCalls packs calls and reads them back.
func BenchmarkCalls(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	calls := make([]call, 64*pieceLen)
	at := int64(0)
	for i := range calls {
		at += r.Int64N(4000)
		calls[i] = call{begin: at, end: at + r.Int64N(1e6), name: r.Uint32N(5000), kind: python, id: uint32(i + 1), parent: uint32(i), sequence: -1}
	}
	b.ReportAllocs()
	packed := 0
	for b.Loop() {
		s := store{limit: math.MaxInt}
		var th thread
		for i := range calls {
			th.add(&s, calls[i])
		}
		th.sort(&s)
		n := 0
		for range th.all(&s) {
			n++
		}
		if n != len(calls) {
			b.Fatal(n)
		}
		packed = s.inMemory
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(calls)), "ns/call")
	b.ReportMetric(float64(packed)/float64(len(calls)), "B/call")
}
