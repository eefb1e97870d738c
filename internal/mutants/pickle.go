package mutants

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
)

// arguments tells what follows an operation of a pickle, for those with an argument: so many bytes, or a length of so many
// bytes and the text of that length, or lines. (Python, Lib/pickletools.py)
var arguments = map[byte]struct{ fixed, length, lines int }{
	'\x80': {fixed: 1}, '\x82': {fixed: 1}, '\x83': {fixed: 2}, '\x84': {fixed: 4}, '\x95': {fixed: 8},
	'K': {fixed: 1}, 'M': {fixed: 2}, 'J': {fixed: 4}, 'G': {fixed: 8},
	'q': {fixed: 1}, 'r': {fixed: 4}, 'h': {fixed: 1}, 'j': {fixed: 4},
	'U': {length: 1}, 'C': {length: 1}, '\x8c': {length: 1}, '\x8a': {length: 1}, 'T': {length: 4}, 'X': {length: 4}, 'B': {length: 4}, '\x8b': {length: 4},
	'\x8d': {length: 8}, '\x8e': {length: 8}, '\x96': {length: 8},
	'I': {lines: 1}, 'L': {lines: 1}, 'F': {lines: 1}, 'S': {lines: 1}, 'P': {lines: 1}, 'V': {lines: 1}, 'p': {lines: 1}, 'g': {lines: 1},
	'c': {lines: 2}, 'i': {lines: 2},
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
	for at := 0; at < len(data); {
		n := lengthOf(data[at:])
		if n == 0 {
			return nil, false
		}
		top := open[len(open)-1]
		operation := &node{head: data[at : at+1], data: data[at+1 : at+n], extremes: otherArgument(data[at : at+n])}
		switch {
		case data[at] == '(':
			group := &node{kind: list, head: data[at : at+1]}
			top.kids = append(top.kids, group)
			open = append(open, group)
		case bytes.IndexByte([]byte(closing), data[at]) >= 0 && len(open) > 1:
			top.tail = data[at : at+n]
			open = open[:len(open)-1]
		default:
			top.kids = append(top.kids, operation)
		}
		at += n
	}
	return root, true
}

// lengthOf returns the bytes of the first operation of data; 0 if it is cut.
func lengthOf(data []byte) int {
	of := arguments[data[0]]
	n := 1 + of.fixed + of.length
	if n > len(data) {
		return 0
	}
	for range of.lines {
		end := bytes.IndexByte(data[n:], '\n')
		if end < 0 {
			return 0
		}
		n += end + 1
	}
	if of.length > 0 {
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
	of := arguments[operation[0]]
	switch {
	case of.fixed > 0:
		return func(r *rand.Rand) []byte {
			return binary.LittleEndian.AppendUint64(nil, uint64(anyNumber(r)))[:of.fixed]
		}
	case of.length > 0:
		return func(r *rand.Rand) []byte {
			text := anyText(r)
			length := uint64(len(text))
			if r.IntN(4) == 0 {
				length = uint64(anyNumber(r)) // one that is not that of the text
			}
			return append(binary.LittleEndian.AppendUint64(nil, length)[:of.length], text...)
		}
	case of.lines > 0:
		return func(r *rand.Rand) []byte { return []byte(anyText(r) + "\n") }
	}
	return nil
}
