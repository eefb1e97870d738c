package mutants

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
)

// arguments tells what follows an operation of a pickle, for those with an argument: so many bytes, or a length of so
// many bytes and the text of that length, or lines. (Python, Lib/pickletools.py)
var arguments = map[byte]struct{ fixed, length, lines int }{
	'\x80': {fixed: 1}, '\x82': {fixed: 1}, '\x83': {fixed: 2}, '\x84': {fixed: 4}, '\x95': {fixed: 8},
	'K': {fixed: 1}, 'M': {fixed: 2}, 'J': {fixed: 4}, 'G': {fixed: 8},
	'q': {fixed: 1}, 'r': {fixed: 4}, 'h': {fixed: 1}, 'j': {fixed: 4},
	'U': {length: 1}, 'C': {length: 1}, '\x8c': {length: 1}, '\x8a': {length: 1}, 'T': {length: 4}, 'X': {length: 4},
	'B': {length: 4}, '\x8b': {length: 4}, '\x8d': {length: 8}, '\x8e': {length: 8}, '\x96': {length: 8},
	'I': {lines: 1}, 'L': {lines: 1}, 'F': {lines: 1}, 'S': {lines: 1}, 'P': {lines: 1}, 'V': {lines: 1},
	'p': {lines: 1}, 'g': {lines: 1}, 'c': {lines: 2}, 'i': {lines: 2},
}

// closing are the operations that end what a mark began.
const closing = "tlduei\x90o1"

// parsePickle reads operations. Those from a mark to the operation that takes it are one node.
func parsePickle(data []byte) (*node, bool) {
	if len(data) < 2 || data[0] != '\x80' {
		return nil, false
	}
	root := &node{kind: list}
	open := []*node{root}
	for offset := 0; offset < len(data); {
		n := lengthOf(data[offset:])
		if n == 0 {
			return nil, false
		}
		top := open[len(open)-1]
		operation := &node{head: data[offset : offset+1], data: data[offset+1 : offset+n], extremes: otherArgument(data[offset : offset+n])}
		switch {
		case data[offset] == '(':
			group := &node{kind: list, head: data[offset : offset+1]}
			top.kids = append(top.kids, group)
			open = append(open, group)
		case bytes.IndexByte([]byte(closing), data[offset]) >= 0 && len(open) > 1:
			top.tail = data[offset : offset+n]
			open = open[:len(open)-1]
		default:
			top.kids = append(top.kids, operation)
		}
		offset += n
	}
	return root, true
}

// lengthOf returns the bytes of the first operation of data; 0 if it is cut.
func lengthOf(data []byte) int {
	form := arguments[data[0]]
	n := 1 + form.fixed + form.length
	if n > len(data) {
		return 0
	}
	for range form.lines {
		end := bytes.IndexByte(data[n:], '\n')
		if end < 0 {
			return 0
		}
		n += end + 1
	}
	if form.length > 0 {
		length := uint64(0)
		for i, b := range data[1:n] {
			length |= uint64(b) << (8 * i)
		}
		if length > uint64(len(data)-n) {
			return 0
		}
		n += int(length)
	}
	return n
}

// otherArgument returns a function that makes arguments of an operation; nil if it has none.
func otherArgument(operation []byte) func(r *rand.Rand) []byte {
	form := arguments[operation[0]]
	switch {
	case form.fixed > 0:
		return func(r *rand.Rand) []byte {
			return binary.LittleEndian.AppendUint64(nil, uint64(anyNumber(r)))[:form.fixed]
		}
	case form.length > 0:
		return func(r *rand.Rand) []byte {
			text := anyText(r)
			length := uint64(len(text))
			if r.IntN(4) == 0 {
				length = uint64(anyNumber(r)) // one that is not that of the text
			}
			return append(binary.LittleEndian.AppendUint64(nil, length)[:form.length], text...)
		}
	case form.lines > 0:
		return func(r *rand.Rand) []byte { return []byte(anyText(r) + "\n") }
	}
	return nil
}
