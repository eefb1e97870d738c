package pickle_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/torchsnap/internal/pickle"
	"github.com/memlane/memlane/internal/deep"
)

func le64(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }
func le32(n uint32) string { return string(binary.LittleEndian.AppendUint32(nil, n)) }

// doubled returns a pickle that nests pairs 60 times through the memo: 2^60 values
// if written out.
func doubled(open, pair string) string {
	var b strings.Builder
	b.WriteString(open + "q\x00")
	for i := range 60 {
		fmt.Fprintf(&b, "0%sq%c", strings.ReplaceAll(pair, "?", fmt.Sprintf("h%c", i)), i+1)
	}
	return b.String() + "."
}

// TestBombs decodes small pickles that claim or expand to much data. Each returns an
// error or a result, with memory bounded by a small multiple of its size.
func TestBombs(t *testing.T) {
	const million = 1_000_000
	many := func(s string) string { return strings.Repeat(s, million) }
	for _, c := range []struct {
		name, pickle, want string // "" = accepted
	}{
		{"marks", many("("), "nested more than 10000 deep"},
		{"nested lists", many("]") + strings.Repeat("a", million-1) + ".", ""},
		{"nested lists, cut", many("]"), "ends early"},
		{"nested dicts", many("}N") + "}" + many("s") + ".", ""},
		{"nested dicts, cut", many("}N"), "ends early"},
		{"nested tuples", ")" + many("\x85") + ".", ""},
		{"nested marked lists", strings.Repeat("](", 9999) + strings.Repeat("e", 9999) + ".", ""},
		{"empty tuples", "(" + many(")") + "t.", ""},
		{"empty lists", "(" + many("]") + "t.", ""},
		{"duplicates", "(N" + many("2") + "l.", ""},
		{"duplicates of a list", "(]" + many("2") + "l.", ""},
		{"duplicates left over", "N" + many("2") + ".", "STOP with 1000001 values"},
		{"pairs of pairs", ")" + many("2\x86") + ".", ""},
		{"doubled lists", doubled("]", "](??e"), ""},
		{"doubled tuples", doubled(")", "??\x86"), ""},
		{"doubled dicts", doubled("}", "}(K\x01?K\x02?u"), ""},
		{"BINUNICODE8 of 2^63", "\x8d" + le64(1<<63) + "x", "a string of 9223372036854775808 bytes"},
		{"BINBYTES8 of 2^64-1", "\x8e" + le64(1<<64-1) + "x", "a string of 18446744073709551615 bytes"},
		{"BINUNICODE of 2^32-1", "X" + le32(1<<32-1) + "x", "a string of 4294967295 bytes"},
		{"BINBYTES of 2^31", "B" + le32(1<<31) + "x", "a string of 2147483648 bytes"},
		{"BINUNICODE of 16 MiB, cut", "X" + le32(16<<20) + "x", "ends early"},
		{"LONG4 of -2^31", "\x8b" + le32(1<<31), "an integer of"},
		{"LONG4 of 2^31-1", "\x8b" + le32(1<<31-1), "an integer of"},
		{"FRAME of 2^64-1", "\x80\x04\x95" + le64(1<<64-1) + "N.", ""},
		{"LONG_BINPUT at 2^32-1", "Nr" + le32(1<<32-1) + ".", "memo index 4294967295"},
		{"PUT at 10^9", "Np1000000000\n.", "memo index 1000000000"},
		{"PUT at 10^30", "Np1" + strings.Repeat("0", 30) + "\n.", "is not a memo index"},
		{"PUT at -1", "Np-1\n.", "is not a memo index"},
		{"far puts", "N" + strings.Repeat("r"+le32(0), million/5) + ".", ""},
		{"GET of nothing", "h\x05.", "memo entry 5 is not set"},
		{"LONG_BINGET of nothing", "j" + le32(1<<32-1) + ".", "memo entry 4294967295 is not set"},
		{"digits without end", "I" + many("9"), "a line of more than"},
		{"long digits", strings.Repeat("L"+strings.Repeat("9", 60000)+"L\n0", 50) + "N.", "integer"},
		{"long name", "V" + many("x"), "a line of more than"},
		{"a list in itself", "]q\x00h\x00a.", "a list contains itself"},
		{"a list in itself, marked", "]q\x00(h\x00e.", "a list contains itself"},
		{"a dict in itself", "}q\x00K\x01h\x00s.", "a dict contains itself"},
		{"a list in its tuple", "]q\x00h\x00\x85a.", "changes after it was used"},
		{"a list in its list", "]q\x00]h\x00aa.", "changes after it was used"},
		{"a list changed after use", "]q\x00]q\x01h\x00a0h\x00K\x01a.", "changes after it was used"},
		{"a dict changed after use", "}q\x00]q\x01h\x00a0h\x00K\x01K\x02s.", "changes after it was used"},
		{"SETITEMS of three", "}(K\x01K\x02K\x03u.", "a key without a value"},
		{"a tuple as key", "}(K\x01\x85K\x02u.", ""},
		{"a list as key", "}(]K\x02u.", "is a key"},
		{"DICT of one", "(K\x01d.", "a key without a value"},
		{"SETITEM on a list", "]K\x01K\x02s.", "items for a list or dict that is not on the stack"},
		{"APPEND on a dict", "}K\x01a.", "items for a list or dict that is not on the stack"},
		{"APPENDS on a number", "K\x01(K\x01e.", "items for a list or dict that is not on the stack"},
		{"APPEND across a mark", "](K\x01a.", "the stack is empty"},
		{"STOP on nothing", ".", "STOP with 0 values"},
		{"STOP with a mark", "N(.", "STOP with"},
		{"POP on nothing", "0.", "the stack is empty"},
		{"POP_MARK without a mark", "N1.", "no mark is set"},
		{"DUP on nothing", "2.", "the stack is empty"},
		{"MEMOIZE on nothing", "\x94.", "the stack is empty"},
		{"APPEND on nothing", "a.", "the stack is empty"},
		{"TUPLE without a mark", "Nt.", "no mark is set"},
		{"TUPLE2 of one", "N\x86.", "the stack is empty"},
		{"protocol 6", "\x80\x06N.", "protocol 6 is not known; the newest known is 5"},
		{"no number", "F1.2.3\n.", "is not a number"},
		{"no integer", "I0x\n.", "is not an integer"},
		{"no opcode", "N\xff.", "is not a pickle opcode"},
		{"nothing", "", "ends early"},
	} {
		t.Run(c.name, func(t *testing.T) {
			allocated, err := cost(func() error {
				_, _, err := decode([]byte(c.pickle))
				return err
			})
			// A container takes 1 byte of input and 36 bytes of memory, and five times
			// that while lists grow.
			if limit := uint64(64<<20 + 128*len(c.pickle)); allocated > limit {
				t.Errorf("%d bytes allocated for %d bytes of input", allocated, len(c.pickle))
			}
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%.300v", err)
			case c.want != "" && err == nil:
				t.Errorf("accepted, want %q", c.want)
			case err != nil:
				checkMessage(t, err)
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
			}
		})
	}
}

// cost returns the bytes that f allocates, including freed ones.
func cost(f func() error) (bytes uint64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

// failing is a reader that returns an error after its data.
type failing struct {
	data []byte
	err  error
}

func (r *failing) Read(p []byte) (int, error) {
	n := copy(p, r.data)
	r.data = r.data[n:]
	if n == 0 {
		return 0, r.err
	}
	return n, nil
}

// TestReadError checks that read errors are returned unchanged, and that only the end of
// the file is ErrTruncated.
func TestReadError(t *testing.T) {
	broken := errors.New("broken disk")
	_, err := pickle.NewDecoder(&failing{[]byte("](K\x01"), broken}, keepAll{}).Decode()
	if !errors.Is(err, broken) || errors.Is(err, pickle.ErrTruncated) {
		t.Errorf("%v", err)
	}
	_, err = pickle.NewDecoder(bytes.NewReader([]byte("](K\x01")), keepAll{}).Decode()
	if !errors.Is(err, pickle.ErrTruncated) {
		t.Errorf("%v", err)
	}
}

// TestLongText reads text longer than the decoder's window, up to the limit.
func TestLongText(t *testing.T) {
	for _, n := range []int{256<<10 - 6, 256 << 10, 256<<10 + 1, 1 << 20, 16 << 20} {
		text := strings.Repeat("0123456789abcdef", n/16+1)[:n]
		d, v, err := decode([]byte("X" + le32(uint32(n)) + text + "."))
		if err != nil || d.Str(v) != text {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// TestEscapes compares raw-unicode-escape with Python's results: a backslash after a
// backslash starts no escape.
func TestEscapes(t *testing.T) {
	for in, want := range map[string]string{
		`\u0041`:     "A",
		`\\u0041`:    `\\u0041`,
		`\\\u0041`:   `\\A`,
		`a\`:         `a\`,
		`a\u004`:     `a\u004`,
		`a\U0001f60`: `a\U0001f60`,
		"\x80":       "\u0080",
		`\x41\n`:     `\x41\n`,
		`\U0001F600`: "😀",
		"\xe9":       "é",
	} {
		d, v, err := decode([]byte("V" + in + "\n."))
		if got := d.Str(v); err != nil || got != want {
			t.Errorf("%q: %q, want %q (%v)", in, got, want, err)
		}
	}
}

// cutter is a Handler that counts all containers and the truncated ones.
type cutter struct {
	d        *pickle.Decoder
	all, cut int
}

func (c *cutter) seen() (pickle.Value, error) {
	c.all++
	if c.d.Unfinished() {
		c.cut++
	}
	return pickle.Keep, nil
}
func (c *cutter) Dict([]pickle.Value, pickle.Value) (pickle.Value, error) { return c.seen() }
func (c *cutter) List([]pickle.Value, pickle.Value) (pickle.Value, error) { return c.seen() }

// TestCut cuts the captures at many bytes, the smallest ones at every byte. The root is
// always truncated. The number of complete containers never falls by more than two:
// empty containers that the next bytes fill.
func TestCut(t *testing.T) {
	all := captures(t)
	for _, name := range sortedNames(all) {
		data := all[name]
		step := 1 + len(data)/deep.Or(10, 40)
		if len(data) < 1500 {
			step = 1
		}
		complete := 0
		for at := 0; at < len(data); at += step {
			h := &cutter{}
			h.d = pickle.NewDecoder(bytes.NewReader(data[:at]), h)
			_, err := h.d.Decode()
			if !errors.Is(err, pickle.ErrTruncated) {
				t.Fatalf("%s cut at %d: %v", name, at, err)
			}
			checkMessage(t, err)
			n := h.all - h.cut
			if n < complete-2 {
				t.Errorf("%s cut at %d: %d complete containers, %d before", name, at, n, complete)
			}
			complete = max(n, complete)
			if h.all > 0 && h.cut == 0 {
				t.Errorf("%s cut at %d: nothing is cut", name, at)
			}
		}
	}
}

// TestCutList cuts between two batches of a long list. The list is truncated, although
// everything above the last mark is complete.
func TestCutList(t *testing.T) {
	for _, c := range []struct{ name, pickle string }{
		{"alone", "](K\x01e"},
		{"in a list", "](](K\x01e"},
		{"behind another", "](](K\x01e](K\x01e"},
		{"in a dict", "}(K\x01](K\x01e"},
		{"one item", "]](K\x01e"},
		{"one item in a dict", "}(K\x01]](K\x01e"},
		{"before an empty dict", "](}"},
	} {
		h := &cutter{}
		h.d = pickle.NewDecoder(strings.NewReader(c.pickle), h)
		_, err := h.d.Decode()
		whole := 0
		if c.name == "behind another" || c.name == "before an empty dict" {
			whole = 1
		}
		if !errors.Is(err, pickle.ErrTruncated) || h.all-h.cut != whole {
			t.Errorf("%s: %d containers, %d cut, want %d whole (%v)", c.name, h.all, h.cut, whole, err)
		}
	}
}
