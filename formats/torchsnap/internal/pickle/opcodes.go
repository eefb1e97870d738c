package pickle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
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

// ahead is how many bytes the fast loop wants in the window: the longest
// opcode that it runs has 10 (LONG1 with 8 bytes).
const ahead = 16

// run executes opcodes up to STOP, which leaves one value on the stack.
func (d *Decoder) run() error {
	for {
		if err := d.more(1); err != nil {
			return err
		}
		if d.end-d.pos < ahead {
			d.more(ahead) // near the end of the file there is less, which step bears
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

// fast runs the opcodes that make up nearly all of a snapshot, as long as the
// window has enough bytes. It stops in front of any other opcode, and in front
// of one that goes wrong: step says what. The reading position and the stack
// are kept in local variables meanwhile, which is worth a third of the time.
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
		case opLongBinPut:
			d.opAt, d.stack = d.base+int64(pos), stack
			if err := d.put(uint64(binary.LittleEndian.Uint32(b[1:]))); err != nil {
				return err
			}
			memo = d.memo.pages
			size = 5
		case opEmptyDict, opEmptyList:
			d.opAt, d.stack = d.base+int64(pos), stack
			if err := d.makeEmpty(b[0]); err != nil {
				return err
			}
			stack = d.stack
		case opAppends, opSetItems:
			d.opAt, d.stack = d.base+int64(pos), stack
			if err := d.addItems(b[0]); err != nil {
				return err
			}
			stack = d.stack
		case opTuple2:
			d.opAt, d.stack = d.base+int64(pos), stack
			if err := d.makeTuple(b[0]); err != nil {
				return err
			}
			stack = d.stack
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

// step runs any one opcode but STOP.
func (d *Decoder) step(op byte) error {
	switch op {
	case opBinGet, opLongBinGet, opBinInt1, opBinInt2, opBinInt, opLong1:
		return d.fixed(op)
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
	default:
		return d.rare(op)
	}
	return nil
}

// fixed runs the opcodes that push a number or a memo entry from a few bytes.
func (d *Decoder) fixed(op byte) error {
	width := 1
	switch op {
	case opLongBinGet, opBinInt:
		width = 4
	case opBinInt2:
		width = 2
	}
	b, err := d.take(width)
	if err != nil {
		return err
	}
	switch op {
	case opBinGet:
		return d.get(uint64(b[0]))
	case opLongBinGet:
		return d.get(uint64(binary.LittleEndian.Uint32(b)))
	case opBinInt1:
		d.push(value(Int, int(b[0])))
	case opBinInt2:
		d.push(value(Int, int(binary.LittleEndian.Uint16(b))))
	case opBinInt:
		d.push(value(Int, int(int32(binary.LittleEndian.Uint32(b)))))
	case opLong1:
		return d.long1(int(b[0]))
	}
	return nil
}

// long1 pushes an integer of n bytes, little endian, two's complement.
func (d *Decoder) long1(n int) error {
	b, err := d.take(n)
	if err != nil {
		return err
	}
	if n <= 8 {
		var u uint64
		for i := n - 1; i >= 0; i-- {
			u = u<<8 | uint64(b[i])
		}
		shift := 64 - 8*n
		d.push(d.number(int64(u<<shift) >> shift))
		return nil
	}
	be := make([]byte, n)
	for i, c := range b {
		be[n-1-i] = c
	}
	v := new(big.Int).SetBytes(be)
	if be[0] >= 0x80 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*n)))
	}
	d.push(d.bigNumber(v))
	return nil
}

func (d *Decoder) makeEmpty(op byte) error {
	kind := List
	if op == opEmptyDict {
		kind = Dict
	}
	v, err := d.create(kind)
	d.push(v)
	return err
}

// makeFull runs LIST and DICT, which take their items from the stack.
func (d *Decoder) makeFull(op byte) error {
	items, err := d.popMark()
	if err != nil {
		return err
	}
	kind := List
	if op == opDict {
		kind = Dict
	}
	v, err := d.create(kind)
	if err != nil {
		return err
	}
	if err := d.fill(v, items); err != nil {
		return err
	}
	d.push(v)
	return nil
}

// addItems runs the opcodes that add what lies on top of the stack to the list
// or dict below.
func (d *Decoder) addItems(op byte) error {
	var items []Value
	var err error
	kind := List
	switch op {
	case opAppends:
		items, err = d.popMark()
	case opSetItems:
		items, err = d.popMark()
		kind = Dict
	case opAppend:
		items, err = d.pop(1)
	case opSetItem:
		items, err = d.pop(2)
		kind = Dict
	}
	if err != nil {
		return err
	}
	into, err := d.top()
	if err != nil {
		return err
	}
	if into.Kind() != kind {
		return d.errorf("items for a list or dict, but there is none on the stack")
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

// rare runs the opcodes that stand a few times in a file, and refuses the rest.
func (d *Decoder) rare(op byte) error {
	switch op {
	case opShortUnicode, opBinUnicode, opBinUnicode8, opBinString, opShortBinString, opBinBytes, opShortBinBytes, opBinBytes8:
		return d.counted(op)
	case opInt, opLong, opFloat, opUnicode, opPut, opGet:
		return d.textual(op)
	case opBinPut, opLongBinPut:
		return d.binPut(op)
	case opBinFloat:
		b, err := d.take(8)
		if err != nil {
			return err
		}
		d.push(d.float(math.Float64frombits(binary.BigEndian.Uint64(b))))
		return nil
	case opLong4:
		b, err := d.take(4)
		if err != nil {
			return err
		}
		n := binary.LittleEndian.Uint32(b)
		if n > 1024 {
			return d.errorf("an integer of %d bytes", n)
		}
		return d.long1(int(n))
	case opProto:
		b, err := d.take(1)
		if err == nil && b[0] > 5 {
			err = d.errorf("pickle protocol %d is not known; the newest known is 5", b[0])
		}
		return err
	case opFrame:
		_, err := d.take(8) // frames only group reads
		return err
	case opPop:
		if len(d.marks) > 0 && len(d.stack) == d.floor() {
			_, err := d.popMark()
			return err
		}
		_, err := d.pop(1)
		return err
	case opPopMark:
		_, err := d.popMark()
		return err
	case opDup:
		v, err := d.top()
		if err == nil {
			d.push(v)
		}
		return err
	}
	return d.refuse(op)
}

func (d *Decoder) binPut(op byte) error {
	width := 1
	if op == opLongBinPut {
		width = 4
	}
	b, err := d.take(width)
	if err != nil {
		return err
	}
	if width == 1 {
		return d.put(uint64(b[0]))
	}
	return d.put(uint64(binary.LittleEndian.Uint32(b)))
}

// counted pushes a string whose length stands before it.
func (d *Decoder) counted(op byte) error {
	width := 4
	switch op {
	case opShortUnicode, opShortBinString, opShortBinBytes:
		width = 1
	case opBinUnicode8, opBinBytes8:
		width = 8
	}
	b, err := d.take(width)
	if err != nil {
		return err
	}
	var n uint64
	for i := width - 1; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	s, err := d.long(n)
	if err != nil {
		return err
	}
	d.push(d.text(s))
	return nil
}

// textual runs the opcodes of protocol 0 that carry a line of text.
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
			return d.errorf("%.40q is no memo index", line)
		case op == opPut:
			return d.put(i)
		}
		return d.get(i)
	case opFloat:
		f, err := strconv.ParseFloat(string(line), 64)
		if err != nil && f == 0 {
			return d.errorf("%.40q is no number", line)
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
		return d.errorf("%.40q is no integer", line)
	}
	d.push(d.bigNumber(n))
	return nil
}

// maxDigits bounds integers: reading one takes time with the square of its
// length.
const maxDigits = 1024

// rawUnicodeEscape decodes Python's raw-unicode-escape: \uXXXX and \UXXXXXXXX
// stand for code points, all other bytes for Latin-1. A backslash before
// another one begins no escape.
func rawUnicodeEscape(s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 && isASCII(s) {
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

func isASCII(s []byte) bool {
	for _, c := range s {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// refused names the opcodes that plain data has no use for, and what they ask
// for.
var refused = map[byte]string{
	'R': "REDUCE: asks to call a function", 'b': "BUILD: asks to set an object's state", 'i': "INST", 'o': "OBJ: asks to make an object",
	'c': "GLOBAL", 0x93: "STACK_GLOBAL", 0x81: "NEWOBJ: asks to make an object", 0x92: "NEWOBJ_EX: asks to make an object",
	0x82: "EXT1: asks for a registered object", 0x83: "EXT2: asks for a registered object", 0x84: "EXT4: asks for a registered object",
	'P': "PERSID: asks for an outside object", 'Q': "BINPERSID: asks for an outside object",
	'S': "STRING: is text of Python 2", 0x8f: "EMPTY_SET: makes a set", 0x90: "ADDITEMS: fills a set", 0x91: "FROZENSET: makes a set",
	0x96: "BYTEARRAY8: makes a bytearray", 0x97: "NEXT_BUFFER: asks for an outside buffer", 0x98: "READONLY_BUFFER: changes an outside buffer",
}

// refuse returns the error for an opcode that is not executed.
func (d *Decoder) refuse(op byte) error {
	name, known := refused[op]
	if !known {
		return d.errorf("byte 0x%02x is no pickle opcode", op)
	}
	name, asks, _ := strings.Cut(name, ": ")
	switch op {
	case 'c', 'i':
		// The names may be cut or endless: the refusal stands either way.
		module, _ := d.line()
		asks = "asks to import " + clean(module)
		object, _ := d.line()
		asks += "." + clean(object)
	case 0x93:
		asks = "asks to import an object"
		if n := len(d.stack); n >= 2 {
			asks = "asks to import " + clean([]byte(d.Str(d.stack[n-2]))) + "." + clean([]byte(d.Str(d.stack[n-1])))
		}
	}
	return &Error{d.opAt, fmt.Sprintf("opcode %s at byte %d %s: refused, not executed", name, d.opAt, asks), true}
}

// clean makes a name from an untrusted file fit for an error message: short,
// and nothing that a terminal acts on.
func clean(name []byte) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, fmt.Sprintf("%.80s", name))
}
