package pickle_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/torchsnap/internal/pickle"
)

// plain contains, for every opcode of plain data, a pickle with it and the value.
var plain = map[byte]struct{ pickle, want string }{
	'(':  {"(K\x01t.", "(1)"},
	'.':  {"N.", "None"},
	'0':  {"NK\x010.", "None"},
	'1':  {"N(K\x01K\x021.", "None"},
	'2':  {"K\x012\x86.", "(1, 1)"},
	'F':  {"F-2.5\n.", "float(-2.5)"},
	'I':  {"(I42\nI01\nI00\nI-7\nI123456789012345678901234567890\nt.", "(42, True, False, -7, 123456789012345678901234567890)"},
	'J':  {"(J\xff\xff\xff\xffJ\x00\x00\x00\x80t.", "(-1, -2147483648)"},
	'K':  {"K\xff.", "255"},
	'L':  {"(L5L\nL-9223372036854775808L\nL99999999999999999999\nt.", "(5, -9223372036854775808, 99999999999999999999)"},
	'M':  {"M\x01\x02.", "513"},
	'N':  {"N.", "None"},
	'T':  {"T\x02\x00\x00\x00ab.", `"ab"`},
	'U':  {"U\x02ab.", `"ab"`},
	'V':  {"V\xe9\\u20ac\\U0001f600\\u005cx\n.", `"é€😀\\x"`},
	'X':  {"X\x03\x00\x00\x00a\nb.", `"a\nb"`},
	'B':  {"B\x02\x00\x00\x00\x00\xff.", `"\x00\xff"`},
	'C':  {"C\x01\xfe.", `"\xfe"`},
	'a':  {"]K\x01aK\x02a.", "[1, 2]"},
	'd':  {"(K\x01K\x02d.", "dict[1, 2]"},
	'}':  {"}.", "dict[]"},
	'e':  {"](K\x01K\x02e.", "[1, 2]"},
	'g':  {"K\x07p1\n0g1\n.", "7"},
	'h':  {"K\x07q\x020h\x02.", "7"},
	'j':  {"K\x07q\x020j\x02\x00\x00\x00.", "7"},
	'l':  {"(K\x01l.", "[1]"},
	']':  {"].", "[]"},
	'p':  {"(Np0\n0I-1\np1\n0g0\ng1\nt.", "(None, -1)"},
	'q':  {"\x8a\x05\x00\x00\x00\x00\x01q\x040h\x04.", "4294967296"},
	'r':  {"K\x07r\x02\x00\x00\x000h\x02.", "7"},
	's':  {"}K\x01K\x02s.", "dict[1, 2]"},
	't':  {"(t.", "()"},
	')':  {").", "()"},
	'u':  {"}(K\x01K\x02K\x03K\x04u.", "dict[1, 2, 3, 4]"},
	'G':  {"G\x3f\xf8\x00\x00\x00\x00\x00\x00.", "float(1.5)"},
	0x80: {"\x80\x05N.", "None"},
	0x85: {"K\x01\x85.", "(1)"},
	0x86: {"K\x01K\x02\x86.", "(1, 2)"},
	0x87: {"K\x01K\x02K\x03\x87.", "(1, 2, 3)"},
	0x88: {"\x88.", "True"},
	0x89: {"\x89.", "False"},
	0x8a: {"(\x8a\x00\x8a\x01\xff\x8a\x02\x00\x01\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\xfft.",
		"(0, -1, 256, 9223372036854775807, 9223372036854775808, -18446744073709551616)"},
	0x8b: {"\x8b\x03\x00\x00\x00\x01\x00\x80.", "-8388607"},
	0x8c: {"\x8c\x02\xc3\xa9.", `"é"`},
	0x8d: {"\x8d\x01\x00\x00\x00\x00\x00\x00\x00a.", `"a"`},
	0x8e: {"\x8e\x01\x00\x00\x00\x00\x00\x00\x00\xff.", `"\xff"`},
	0x94: {"K\x01\x94K\x02\x94\x86\x940h\x02.", "(1, 2)"},
	0x95: {"\x95\x02\x00\x00\x00\x00\x00\x00\x00N.", "None"},
}

// refused contains, for every refused opcode, a pickle with it and the message.
var refused = map[byte]struct{ pickle, want string }{
	'c':  {"\x80\x02X\x05\x00\x00\x00hello0" + "\x8c\x00" + "0cbuiltins\neval\n.", "opcode GLOBAL at byte 16 would import builtins.eval: refused, not executed"},
	0x93: {"\x8c\x02os\x8c\x06system\x93.", "opcode STACK_GLOBAL at byte 12 would import os.system: refused, not executed"},
	'R':  {"N)R.", "opcode REDUCE at byte 2 would call a function: refused, not executed"},
	'b':  {"N}b.", "opcode BUILD at byte 2 would set an object's state: refused, not executed"},
	'i':  {"(ios\nsystem\n.", "opcode INST at byte 1 would import os.system: refused, not executed"},
	'o':  {"(No.", "opcode OBJ at byte 2 would make an object: refused, not executed"},
	0x81: {"N)\x81.", "opcode NEWOBJ at byte 2 would make an object: refused, not executed"},
	0x92: {"N)}\x92.", "opcode NEWOBJ_EX at byte 3 would make an object: refused, not executed"},
	0x82: {"\x82\x01.", "opcode EXT1 at byte 0 would load a registered object: refused, not executed"},
	0x83: {"\x83\x01\x00.", "opcode EXT2 at byte 0 would load a registered object: refused, not executed"},
	0x84: {"\x84\x01\x00\x00\x00.", "opcode EXT4 at byte 0 would load a registered object: refused, not executed"},
	'P':  {"Pname\n.", "opcode PERSID at byte 0 would load an external object: refused, not executed"},
	'Q':  {"NQ.", "opcode BINPERSID at byte 1 would load an external object: refused, not executed"},
	'S':  {"S'a'\n.", "opcode STRING at byte 0 is text of Python 2: refused, not executed"},
	0x8f: {"\x8f.", "opcode EMPTY_SET at byte 0 makes a set: refused, not executed"},
	0x90: {"N(N\x90.", "opcode ADDITEMS at byte 3 fills a set: refused, not executed"},
	0x91: {"(N\x91.", "opcode FROZENSET at byte 2 makes a set: refused, not executed"},
	0x96: {"\x96\x00\x00\x00\x00\x00\x00\x00\x00.", "opcode BYTEARRAY8 at byte 0 makes a bytearray: refused, not executed"},
	0x97: {"\x97.", "opcode NEXT_BUFFER at byte 0 would load an external buffer: refused, not executed"},
	0x98: {"N\x98.", "opcode READONLY_BUFFER at byte 1 changes an external buffer: refused, not executed"},
}

// TestOpcodes runs every byte as an opcode. It is plain data, refused by name, or
// unknown.
func TestOpcodes(t *testing.T) {
	for op := range 256 {
		op := byte(op)
		p, isPlain := plain[op]
		r, isRefused := refused[op]
		switch {
		case isPlain:
			for _, behind := range []string{"", filler(100)} { // the slow loop, the fast one
				d, v, err := decode([]byte(p.pickle + behind))
				if err != nil {
					t.Errorf("opcode %q: %v", op, err)
				} else if got := show(d, v, 1000); got != p.want {
					t.Errorf("opcode %q: %s, want %s", op, got, p.want)
				}
			}
		case isRefused:
			_, _, err := decode([]byte(r.pickle))
			var e *pickle.Error
			if !errors.As(err, &e) || !e.Refused || err.Error() != r.want {
				t.Errorf("opcode %q: %v, want %s", op, err, r.want)
			}
		default:
			_, _, err := decode([]byte{'N', op, '.'})
			if err == nil || !strings.Contains(err.Error(), "is not a pickle opcode") || !strings.Contains(err.Error(), "byte 1:") {
				t.Errorf("byte %#x: %v", op, err)
			}
		}
	}
}

// TestRefusedNames checks that messages about imports are safe to print for any name,
// and name the opcode even if the names are damaged.
func TestRefusedNames(t *testing.T) {
	for _, c := range []struct{ name, pickle string }{
		{"terminal escapes", "c\x1b[31mos\nsys\x07tem\n."},
		{"C1 controls and directions", "c\u009b31m\nsys\u202etem\n."},
		{"long", "c" + strings.Repeat("m", 60000) + "\n" + strings.Repeat("n", 60000) + "\n."},
		{"too long", "c" + strings.Repeat("m", 100000) + "\nx\n."},
		{"no newline", "cos"},
		{"stack of numbers", "K\x01K\x02\x93."},
		{"empty stack", "\x93."},
	} {
		_, _, err := decode([]byte(c.pickle))
		if err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		checkMessage(t, err)
		if !strings.Contains(err.Error(), "GLOBAL at byte") || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: %v", c.name, err)
		}
		if strings.ContainsAny(err.Error(), "\u009b\u202e") {
			t.Errorf("%s: %q has invisible characters", c.name, err)
		}
	}
}
