package laws

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
)

// list and dict are containers of a pickle. A pickle may refer to one several times, so they are pointers.
type (
	list struct{ items []any }
	dict struct{ items []any } // key, value, key, value ...

	tuple []any
)

// unpickle returns the data of a pickle in protocols 2 to 5, as CPython writes snapshots.
func unpickle(data []byte) (v any, err error) {
	defer func() {
		if p := recover(); p != nil { // of an index or a type
			err = fmt.Errorf("not a plain pickle of protocol 2 or later: %v", p)
		}
	}()
	u := unpickler{data: data}
	for len(u.data) > 0 {
		op := u.take(1)[0]
		if op == '.' {
			return u.pop(), nil
		}
		u.step(op)
	}
	return nil, fmt.Errorf("the pickle has no end")
}

type unpickler struct {
	data  []byte
	stack []any
	marks []int
	memo  []any
}

func (u *unpickler) take(n int) (b []byte) {
	b, u.data = u.data[:n], u.data[n:]
	return b
}

// number takes a little-endian number of n bytes.
func (u *unpickler) number(n int) int {
	var b [8]byte
	copy(b[:], u.take(n))
	return int(binary.LittleEndian.Uint64(b[:]))
}

func (u *unpickler) push(v any) { u.stack = append(u.stack, v) }

func (u *unpickler) pop() any { return u.cut(len(u.stack) - 1)[0] }

// cut takes all from an index of the stack.
func (u *unpickler) cut(from int) []any {
	all := slices.Clone(u.stack[from:])
	u.stack = u.stack[:from]
	return all
}

// marked takes all since the last mark.
func (u *unpickler) marked() []any {
	from := u.marks[len(u.marks)-1]
	u.marks = u.marks[:len(u.marks)-1]
	return u.cut(from)
}

func (u *unpickler) remember(i int) {
	for len(u.memo) <= i {
		u.memo = append(u.memo, nil)
	}
	u.memo[i] = u.stack[len(u.stack)-1]
}

// add adds items to the container on the stack.
func (u *unpickler) add(items []any) {
	switch to := u.stack[len(u.stack)-1].(type) {
	case *list:
		to.items = append(to.items, items...)
	case *dict:
		to.items = append(to.items, items...)
	}
}

func (u *unpickler) step(op byte) {
	switch op {
	case 0x80: // protocol
		u.take(1)
	case 0x95: // frame
		u.take(8)
	case '}':
		u.push(&dict{})
	case ']':
		u.push(&list{})
	case ')':
		u.push(tuple{})
	case '(':
		u.marks = append(u.marks, len(u.stack))
	case 't':
		u.push(tuple(u.marked()))
	case 0x85, 0x86, 0x87:
		u.push(tuple(u.cut(len(u.stack) - int(op-0x84))))
	case 'u', 'e':
		u.add(u.marked())
	case 's':
		u.add(u.cut(len(u.stack) - 2))
	case 'a':
		u.add(u.cut(len(u.stack) - 1))
	case 0x94:
		u.remember(len(u.memo))
	case 'q':
		u.remember(u.number(1))
	case 'r':
		u.remember(u.number(4))
	case 'h':
		u.push(u.memo[u.number(1)])
	case 'j':
		u.push(u.memo[u.number(4)])
	default:
		u.push(u.scalar(op))
	}
}

func (u *unpickler) scalar(op byte) any {
	switch op {
	case 0x8c:
		return string(u.take(u.number(1)))
	case 'X':
		return string(u.take(u.number(4)))
	case 0x8d:
		return string(u.take(u.number(8)))
	case 'K':
		return int64(u.number(1))
	case 'M':
		return int64(u.number(2))
	case 'J':
		return int64(int32(u.number(4)))
	case 0x8a:
		b := slices.Clone(u.take(u.number(1)))
		slices.Reverse(b)
		n := new(big.Int).SetBytes(b)
		if len(b) > 0 && b[0] >= 0x80 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		if n.IsInt64() {
			return n.Int64()
		}
		return n
	case 'G':
		return math.Float64frombits(binary.BigEndian.Uint64(u.take(8)))
	case 'N':
		return nil
	case 0x88, 0x89:
		return op == 0x88
	}
	panic(fmt.Sprintf("opcode %q", op))
}
