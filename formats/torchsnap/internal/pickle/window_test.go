package pickle_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/torchsnap/internal/pickle"
)

// window is the size of the decoder's window in bytes.
const window = 256 << 10

// filler returns n >= 2 bytes of pickle that do not change the stack.
func filler(n int) string {
	if n%2 == 1 {
		return "K\x010" + filler(n-3)
	}
	return strings.Repeat("N0", n/2)
}

// TestOffsets checks the offset in errors after the first window, of the fast loop and
// of the slow one.
func TestOffsets(t *testing.T) {
	before := filler(window + 10_000)
	for _, c := range []struct{ name, pickle, want string }{
		{"MEMOIZE on nothing", "\x94", "the stack is empty"},
		{"LONG_BINPUT on nothing", "r" + le32(1), "the stack is empty"},
		{"APPENDS without a mark", "e", "no mark is set"},
		{"SETITEMS without a mark", "u", "no mark is set"},
		{"TUPLE2 of nothing", "\x86", "the stack is empty"},
		{"TUPLE1 of nothing", "\x85", "the stack is empty"},
		{"LONG_BINGET of nothing", "j" + le32(1<<32-1), "memo entry 4294967295 is not set"},
		{"BINGET of nothing", "h\x05", "memo entry 5 is not set"},
		{"a line", "I0x\n", "is not an integer"},
	} {
		for _, behind := range []string{".", filler(100)} { // the slow loop, the fast one
			_, _, err := decode([]byte(before + c.pickle + behind))
			if want := fmt.Sprintf("byte %d: ", len(before)); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s%s", c.name, err, want, c.want)
			}
		}
	}
	for _, cut := range []string{"", "X" + le32(100) + "abc", "J\x01", "V" + "abc"} {
		_, _, err := decode([]byte(before + cut))
		if want := fmt.Sprintf("byte %d: ", len(before)+len(cut)); !errors.Is(err, pickle.ErrTruncated) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("cut behind %q: %v, want %s", cut, err, want)
		}
	}
}

// TestLines reads lines of text across the end of the window, and checks the limit of
// their length everywhere in the window.
func TestLines(t *testing.T) {
	text := strings.Repeat("0123456789abcde\\", 64)[:1000]
	for at := window - 1020; at <= window+20; at += 104 {
		d, v, err := decode([]byte(filler(at) + "V" + text + "\nV" + text + "x\n\x86."))
		if want := fmt.Sprintf("(%q, %q)", text, text+"x"); err != nil || show(d, v, 10_000) != want {
			t.Fatalf("at byte %d: %.100s, want %.100s (%v)", at, show(d, v, 10_000), want, err)
		}
	}
	const most = 64 << 10
	for _, at := range []int{0, window - most - 1, window - 70_000, window - 1000, window} {
		for n, want := range map[int]string{most: "", most + 1: "a line of more than 65536 bytes"} {
			d, v, err := decode([]byte(filler(at) + "V" + strings.Repeat("x", n) + "\n."))
			switch {
			case want == "" && (err != nil || len(d.Str(v)) != n):
				t.Errorf("a line of %d bytes at %d: %v", n, at, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("a line of %d bytes at %d: %v, want %s", n, at, err, want)
			}
		}
	}
}

// TestNumbers reads integers at the limits of their encodings. Equal numbers that fit a
// Value are equal Values, whatever their encoding.
func TestNumbers(t *testing.T) {
	five := "\x05\x00\x00\x00\x00\x00\x00\x00"
	for _, behind := range []string{"", filler(100)} { // the slow loop, the fast one
		for _, p := range []string{"\x8a\x08" + five, "\x8b" + le32(8) + five, "K\x05", "L5L\n", "\x8a\x01\x05"} {
			_, v, err := decode([]byte(p + "." + behind))
			if err != nil || v.Kind() != pickle.Int || v.Int() != 5 {
				t.Errorf("%q: kind %d of %d (%v)", p, v.Kind(), v.Int(), err)
			}
		}
		for p, want := range map[string]string{
			"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x80": "-2361183241434822606848",
			"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x7f": "2342736497361113055232",
			"I" + strings.Repeat("9", 1024) + "\n":         strings.Repeat("9", 1024),
		} {
			d, v, err := decode([]byte(p + "." + behind))
			if got := show(d, v, 2000); err != nil || got != want {
				t.Errorf("%.40q: %.40s, want %.40s (%v)", p, got, want, err)
			}
		}
	}
	d, v, err := decode([]byte("\x8b" + le32(1024) + strings.Repeat("\x01", 1024) + "."))
	if err != nil || d.Wide(v).BitLen() != 1023*8+1 {
		t.Errorf("an integer of 1024 bytes: %v", err)
	}
	for p, want := range map[string]string{
		"\x8b" + le32(1025) + strings.Repeat("\x01", 1025): "an integer of 1025 bytes",
		"I" + strings.Repeat("9", 1025) + "\n":             "an integer of 1025 digits",
	} {
		if _, _, err := decode([]byte(p + ".")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestRange reads integers as int64 and as uint64.
func TestRange(t *testing.T) {
	for text, want := range map[string]struct {
		i  int64
		u  uint64
		is [2]bool // int64, uint64
	}{
		"0":                    {0, 0, [2]bool{true, true}},
		"-1":                   {-1, 1<<64 - 1, [2]bool{true, false}},
		"1152921504606846976":  {1 << 60, 1 << 60, [2]bool{true, true}},
		"9223372036854775807":  {1<<63 - 1, 1<<63 - 1, [2]bool{true, true}},
		"9223372036854775808":  {0, 1 << 63, [2]bool{false, true}},
		"18446744073709551615": {0, 1<<64 - 1, [2]bool{false, true}},
		"18446744073709551616": {},
		"-9223372036854775808": {-1 << 63, 0, [2]bool{true, false}},
		"-9223372036854775809": {},
	} {
		d, v, err := decode([]byte("L" + text + "\n."))
		if err != nil {
			t.Fatal(err)
		}
		i, isInt := d.Int64(v)
		u, isUint := d.Uint64(v)
		if isInt != want.is[0] || isUint != want.is[1] || isInt && i != want.i || isUint && u != want.u {
			t.Errorf("%s: int64 %d %v, uint64 %d %v", text, i, isInt, u, isUint)
		}
	}
	d, v, _ := decode([]byte("F1\n."))
	if _, ok := d.Int64(v); ok {
		t.Error("a float is an int64")
	}
	if _, ok := d.Uint64(v); ok {
		t.Error("a float is a uint64")
	}
}

// TestCutValues checks the values of truncated pickles: everything that was read is in
// its container.
func TestCutValues(t *testing.T) {
	for in, want := range map[string]string{
		"":                                     "kind 0",
		"(":                                    "kind 0",
		"((":                                   "kind 0",
		"](K\x01K\x02":                         "[1, 2]",
		"](](K\x01K\x02e](K\x03":               "[[1, 2], [3]]",
		"]]K\x01":                              "[[1]]",
		"]]]K\x01":                             "[[[1]]]",
		"](]K\x01":                             "[[1]]",
		"]}K\x01K\x02":                         "[dict[1, 2]]",
		"}K\x01]K\x02":                         "dict[1, [2]]",
		"}(K\x01K\x02K\x03":                    "dict[1, 2]",
		"}(K\x01](K\x02](K\x03":                "dict[1, [2, [3]]]",
		"}(\x8c\x01aK\x01\x8c\x01b]K\x02":      `dict["a", 1, "b", [2]]`,
		"}(\x8c\x01a]\x8c\x01bK\x01\x8c\x01cN": `dict["a", [], "b", 1, "c", None]`,
	} {
		d, v, err := decode([]byte(in))
		got := show(d, v, 1000)
		if v.Kind() == pickle.None {
			got = "kind 0"
		}
		if !errors.Is(err, pickle.ErrTruncated) || got != want {
			t.Errorf("%q: %s, want %s (%v)", in, got, want, err)
		}
	}
}
