package pickle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Opcodes of plain data, as in CPython's Lib/pickletools.py.
const (
	opMark           = '('
	opStop           = '.'
	opPop            = '0'
	opPopMark        = '1'
	opDup            = '2'
	opFloat          = 'F'
	opInt            = 'I'
	opBinInt         = 'J'
	opBinInt1        = 'K'
	opLong           = 'L'
	opBinInt2        = 'M'
	opNone           = 'N'
	opBinString      = 'T'
	opShortBinString = 'U'
	opUnicode        = 'V'
	opBinUnicode     = 'X'
	opBinBytes       = 'B'
	opShortBinBytes  = 'C'
	opAppend         = 'a'
	opDict           = 'd'
	opEmptyDict      = '}'
	opAppends        = 'e'
	opGet            = 'g'
	opBinGet         = 'h'
	opLongBinGet     = 'j'
	opList           = 'l'
	opEmptyList      = ']'
	opPut            = 'p'
	opBinPut         = 'q'
	opLongBinPut     = 'r'
	opSetItem        = 's'
	opTuple          = 't'
	opEmptyTuple     = ')'
	opSetItems       = 'u'
	opBinFloat       = 'G'
	opProto          = 0x80
	opTuple1         = 0x85
	opTuple2         = 0x86
	opTuple3         = 0x87
	opNewTrue        = 0x88
	opNewFalse       = 0x89
	opLong1          = 0x8a
	opLong4          = 0x8b
	opShortUnicode   = 0x8c
	opBinUnicode8    = 0x8d
	opBinBytes8      = 0x8e
	opMemoize        = 0x94
	opFrame          = 0x95
)

// ahead is the number of bytes that the fast loop needs in the window. Its longest opcode has 10 (LONG1 with 8 bytes).
const ahead = 16

// run executes opcodes up to STOP, which leaves one value on the stack.
func (d *Decoder) run() error {
	for {
		if err := d.more(1); err != nil {
			return err
		}
		if d.end-d.pos < ahead {
			d.more(ahead) // fails near the end of the file, where step takes over
		}
		if err := d.fast(); err != nil {
			return err
		}
		if len(d.stack) > maxValues {
			return d.errorf("more than %d values on the stack", maxValues)
		}
		if d.pos == d.end {
			continue
		}
		d.opAt = d.base + int64(d.pos)
		op := d.buf[d.pos]
		d.pos++
		if op == opStop {
			if len(d.stack) != 1 || len(d.marks) != 0 {
				return d.errorf("STOP with %d values on the stack", len(d.stack))
			}
			return nil
		}
		if err := d.step(op); err != nil {
			return err
		}
	}
}

// fast runs the opcodes that make up nearly all of a snapshot, while the window has enough bytes. It stops before any
// other opcode, and before one that fails, so that step returns the error. Local variables for the position and the
// stack save a third of the time.
func (d *Decoder) fast() error {
	pos, buf, stack, memo := d.pos, d.buf[:d.end], d.stack, d.memo.pages
	for pos+ahead <= len(buf) {
		b := buf[pos : pos+ahead : pos+ahead]
		size := 1
		switch b[0] {
		case opBinGet, opLongBinGet:
			i := uint32(b[1])
			size = 2
			if b[0] == opLongBinGet {
				i = binary.LittleEndian.Uint32(b[1:])
				size = 5
			}
			if page := int(i / pageLen); page < len(memo) && memo[page] != nil {
				if v := Value(memo[page][i%pageLen]); v != 0 && !v.container() {
					stack = append(stack, v)
					break
				}
			}
			v, ok := d.recall(uint64(i))
			if !ok {
				size = 0
				break
			}
			stack = append(stack, v)
		case opBinInt1:
			stack = append(stack, value(Int, int(b[1])))
			size = 2
		case opBinInt2:
			stack = append(stack, value(Int, int(binary.LittleEndian.Uint16(b[1:]))))
			size = 3
		case opBinInt:
			stack = append(stack, value(Int, int(int32(binary.LittleEndian.Uint32(b[1:])))))
			size = 5
		case opLong1:
			n := int(b[1])
			if n == 0 || n > 8 {
				size = 0
				break
			}
			shift := 64 - 8*n
			stack = append(stack, d.number(int64(binary.LittleEndian.Uint64(b[2:])<<shift)>>shift))
			size = 2 + n
		case opMark:
			if len(d.marks) == maxNesting {
				size = 0
				break
			}
			d.marks = append(d.marks, len(stack))
		case opMemoize:
			d.opAt, d.stack = d.base+int64(pos), stack
			if err := d.put(uint64(d.memo.n)); err != nil {
				return err
			}
			memo = d.memo.pages
		case opLongBinPut, opEmptyDict, opAppends, opSetItems, opTuple2:
			d.opAt, d.pos, d.stack = d.base+int64(pos), pos+1, stack
			if err := d.step(b[0]); err != nil {
				return err
			}
			size, stack, memo = d.pos-pos, d.stack, d.memo.pages
		case opEmptyList:
			d.opAt, d.stack = d.base+int64(pos), stack
			n, err := d.list(buf[pos:])
			if err != nil {
				return err
			}
			size, stack, memo = n, d.stack, d.memo.pages
		default:
			size = 0
		}
		if size == 0 {
			break
		}
		pos += size
	}
	d.pos, d.stack = pos, stack
	return nil
}

// argBytes is the size of the integer behind an opcode: an argument, or the length of a string or number.
var argBytes = [256]int{
	opBinGet: 1, opBinPut: 1, opBinInt1: 1, opLong1: 1, opShortUnicode: 1, opShortBinString: 1, opShortBinBytes: 1, opProto: 1,
	opBinInt2: 2, opLongBinGet: 4, opLongBinPut: 4, opBinInt: 4, opLong4: 4, opBinUnicode: 4, opBinString: 4, opBinBytes: 4,
	opBinUnicode8: 8, opBinBytes8: 8, opBinFloat: 8, opFrame: 8,
}

func (d *Decoder) step(op byte) error {
	if width := argBytes[op]; width > 0 {
		b, err := d.take(width)
		if err != nil {
			return err
		}
		return d.withArg(op, b)
	}
	switch op {
	case opMemoize:
		return d.put(uint64(d.memo.n))
	case opMark:
		if len(d.marks) == maxNesting {
			return d.errorf("nested more than %d deep", maxNesting)
		}
		d.marks = append(d.marks, len(d.stack))
	case opEmptyDict, opEmptyList:
		return d.makeEmpty(op)
	case opAppends, opSetItems, opAppend, opSetItem:
		return d.addItems(op)
	case opList, opDict:
		return d.makeFull(op)
	case opEmptyTuple, opTuple1, opTuple2, opTuple3, opTuple:
		return d.makeTuple(op)
	case opNone:
		d.push(value(None, 0))
	case opNewTrue, opNewFalse:
		d.push(value(Bool, opNewFalse-int(op)))
	case opInt, opLong, opFloat, opUnicode, opPut, opGet:
		return d.textual(op)
	case opPop, opPopMark, opDup:
		return d.shuffle(op)
	default:
		return d.refuse(op)
	}
	return nil
}

func (d *Decoder) withArg(op byte, arg []byte) error {
	n := littleEndian(arg)
	switch op {
	case opBinGet, opLongBinGet:
		return d.get(n)
	case opBinPut, opLongBinPut:
		return d.put(n)
	case opBinInt1, opBinInt2:
		d.push(value(Int, int(n)))
	case opBinInt:
		d.push(value(Int, int(int32(n))))
	case opBinFloat:
		d.push(d.float(math.Float64frombits(binary.BigEndian.Uint64(arg))))
	case opLong1, opLong4:
		return d.binaryInteger(n)
	case opProto:
		if n > 5 {
			return d.errorf("pickle protocol %d is not known; the newest known is 5", n)
		}
	case opFrame: // only groups reads
	default: // strings
		s, err := d.long(n)
		if err != nil {
			return err
		}
		d.push(d.text(s))
	}
	return nil
}

// littleEndian returns an unsigned integer of at most 8 bytes.
func littleEndian(b []byte) (n uint64) {
	for i, c := range b {
		n |= uint64(c) << (8 * i)
	}
	return n
}

// binaryInteger pushes an integer of n bytes, little endian, two's complement.
func (d *Decoder) binaryInteger(n uint64) error {
	if n > maxDigits {
		return d.errorf("an integer of %d bytes", n)
	}
	b, err := d.take(int(n))
	if err != nil {
		return err
	}
	if n <= 8 {
		shift := 64 - 8*n
		d.push(d.number(int64(littleEndian(b)<<shift) >> shift))
		return nil
	}
	b = bytes.Clone(b)
	slices.Reverse(b)
	v := new(big.Int).SetBytes(b)
	if b[0] >= 0x80 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*n)))
	}
	d.push(d.bigNumber(v))
	return nil
}

// kindOf returns the kind of container that an opcode makes or fills.
func kindOf(op byte) Kind {
	switch op {
	case opEmptyDict, opDict, opSetItem, opSetItems:
		return Dict
	}
	return List
}

func (d *Decoder) makeEmpty(op byte) error {
	v, err := d.create(kindOf(op))
	d.push(v)
	return err
}

// makeFull runs LIST and DICT, which pop their items.
func (d *Decoder) makeFull(op byte) error {
	items, err := d.popMark()
	if err != nil {
		return err
	}
	v, err := d.create(kindOf(op))
	if err != nil {
		return err
	}
	if err := d.fill(v, items); err != nil {
		return err
	}
	d.push(v)
	return nil
}

// addItems runs the opcodes that add the top values to the list or dict below them.
func (d *Decoder) addItems(op byte) error {
	var items []Value
	var err error
	switch op {
	case opAppends, opSetItems:
		items, err = d.popMark()
	case opAppend:
		items, err = d.pop(1)
	case opSetItem:
		items, err = d.pop(2)
	}
	if err != nil {
		return err
	}
	into, err := d.top()
	if err != nil {
		return err
	}
	if into.Kind() != kindOf(op) {
		return d.errorf("items for a list or dict that is not on the stack")
	}
	return d.fill(into, items)
}

func (d *Decoder) makeTuple(op byte) error {
	var items []Value
	var err error
	switch op {
	case opTuple:
		items, err = d.popMark()
	case opTuple1, opTuple2, opTuple3:
		items, err = d.pop(int(op) - opTuple1 + 1)
	}
	if err != nil {
		return err
	}
	v, err := d.tuple(items)
	if err != nil {
		return err
	}
	d.push(v)
	return nil
}

// shuffle runs the opcodes that drop or repeat values of the stack.
func (d *Decoder) shuffle(op byte) error {
	switch {
	case op == opDup:
		v, err := d.top()
		if err == nil {
			d.push(v)
		}
		return err
	case op == opPopMark, len(d.marks) > 0 && len(d.stack) == d.floor():
		_, err := d.popMark()
		return err
	}
	_, err := d.pop(1)
	return err
}

// textual runs the opcodes of protocol 0 with a line of text.
func (d *Decoder) textual(op byte) error {
	line, err := d.line()
	if err != nil {
		return err
	}
	switch op {
	case opPut, opGet:
		i, err := strconv.ParseUint(string(line), 10, 32)
		switch {
		case err != nil:
			return d.errorf("%.40q is not a memo index", line)
		case op == opPut:
			return d.put(i)
		}
		return d.get(i)
	case opFloat:
		f, err := strconv.ParseFloat(string(line), 64)
		if err != nil && f == 0 {
			return d.errorf("%.40q is not a number", line)
		}
		d.push(d.float(f))
		return nil
	case opUnicode:
		d.push(d.text(rawUnicodeEscape(line)))
		return nil
	}
	if op == opInt && (string(line) == "00" || string(line) == "01") {
		d.push(value(Bool, int(line[1]-'0')))
		return nil
	}
	digits := bytes.TrimSuffix(line, []byte("L"))
	if n, err := strconv.ParseInt(string(digits), 10, 64); err == nil {
		d.push(d.number(n))
		return nil
	}
	if len(digits) > maxDigits {
		return d.errorf("an integer of %d digits", len(digits))
	}
	n, ok := new(big.Int).SetString(string(digits), 10)
	if !ok {
		return d.errorf("%.40q is not an integer", line)
	}
	d.push(d.bigNumber(n))
	return nil
}

// maxDigits bounds the digits or bytes of integers: the time to read one grows with the square of its length.
const maxDigits = 1024

// rawUnicodeEscape decodes Python's raw-unicode-escape: \uXXXX and \UXXXXXXXX are code
// points, all other bytes are Latin-1. A backslash after a backslash starts no escape.
func rawUnicodeEscape(s []byte) []byte {
	special := func(r rune) bool { return r == '\\' || r >= utf8.RuneSelf }
	if !bytes.ContainsFunc(s, special) {
		return s
	}
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			width := map[byte]int{'u': 4, 'U': 8}[s[i+1]]
			if width > 0 && i+2+width <= len(s) {
				if r, err := strconv.ParseUint(string(s[i+2:i+2+width]), 16, 32); err == nil {
					b = utf8.AppendRune(b, rune(r))
					i += 1 + width
					continue
				}
			}
			if s[i+1] == '\\' {
				b = append(b, '\\')
				i++
			}
		}
		b = utf8.AppendRune(b, rune(s[i]))
	}
	return b
}

// refused names the opcodes that are more than plain data, and what they would do.
var refused = map[byte]string{
	'R': "REDUCE: would call a function", 'b': "BUILD: would set an object's state", 'i': "INST", 'o': "OBJ: would make an object",
	'c': "GLOBAL", 0x93: "STACK_GLOBAL", 0x81: "NEWOBJ: would make an object", 0x92: "NEWOBJ_EX: would make an object",
	0x82: "EXT1: would load a registered object", 0x83: "EXT2: would load a registered object",
	0x84: "EXT4: would load a registered object",
	'P':  "PERSID: would load an external object", 'Q': "BINPERSID: would load an external object",
	'S': "STRING: is text of Python 2", 0x8f: "EMPTY_SET: makes a set", 0x90: "ADDITEMS: fills a set", 0x91: "FROZENSET: makes a set",
	0x96: "BYTEARRAY8: makes a bytearray", 0x97: "NEXT_BUFFER: would load an external buffer",
	0x98: "READONLY_BUFFER: changes an external buffer",
}

// refuse returns the error for an opcode that is not executed.
func (d *Decoder) refuse(op byte) error {
	name, known := refused[op]
	if !known {
		return d.errorf("byte 0x%02x is not a pickle opcode", op)
	}
	name, does, _ := strings.Cut(name, ": ")
	switch op {
	case 'c', 'i':
		// The names may be truncated or too long, which does not change the refusal.
		module, _ := d.line()
		does = "would import " + clean(module)
		object, _ := d.line()
		does += "." + clean(object)
	case 0x93:
		does = "would import an object"
		if n := len(d.stack); n >= 2 {
			does = "would import " + clean([]byte(d.Str(d.stack[n-2]))) + "." + clean([]byte(d.Str(d.stack[n-1])))
		}
	}
	return &Error{fmt.Sprintf("opcode %s at byte %d %s: refused, not executed", name, d.opAt, does), true}
}

// clean makes a name from an untrusted file safe for an error message: short, and without control characters.
func clean(name []byte) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, fmt.Sprintf("%.80s", name))
}
