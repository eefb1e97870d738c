// Package mutants changes captures and keeps their structure: operations of pickles, fields of protocol buffers, values
// of JSON and lines of text are dropped, doubled, exchanged, nested and given extreme values. Mutants of bytes rarely
// get past the first check of a reader; these do.
//
// Its place in the pipeline: none; only tests import it.
package mutants

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
)

// kind is how the children of a node are written.
type kind uint8

const (
	leaf    kind = iota
	list         // one after the other
	message      // of a protocol buffer, in a field: its length comes first
)

// node is a part of a capture.
type node struct {
	kind kind
	head []byte // before the children: a tag, an opening bracket
	data []byte // of a leaf
	kids []*node
	tail []byte // after the children: a closing bracket

	extremes func(r *rand.Rand) []byte // other data; nil = none
}

// Of returns a mutant of a capture. The same numbers of r give the same mutant.
func Of(data []byte, r *rand.Rand) []byte {
	root := parse(data)
	for range 1 + r.IntN(4) {
		change(root, r)
	}
	out := root.append(nil)
	if r.IntN(16) == 0 {
		out = out[:r.IntN(len(out)+1)]
	}
	return out
}

// WithFields returns a capture of pickle or JSON in which each object has a further field, as a newer program may write it, and how many
// objects it has.
func WithFields(data []byte, name string) (newer []byte, objects int) {
	root := parse(data)
	for _, n := range root.parents() {
		if field := fieldOf(n, name); field != "" {
			n.tail = append([]byte(field), n.tail...)
			objects++
		}
	}
	return root.append(nil), objects
}

// fieldOf returns a further field of an object; "" if a node is none.
func fieldOf(n *node, name string) string {
	switch {
	case bytes.HasSuffix(n.head, []byte("{")) && bytes.HasSuffix(n.tail, []byte("}")):
		return fmt.Sprintf(`,%q:[7,{"a":"b"}]`, name)
	case string(n.tail) == "u": // the items of a dictionary
		return fmt.Sprintf("X%s%sK\a", binary.LittleEndian.AppendUint32(nil, uint32(len(name))), name)
	}
	return ""
}

// parse returns the structure of a capture: that of the first form that fits.
func parse(data []byte) *node {
	for _, form := range []func([]byte) (*node, bool){parsePickle, parseJSON, parseProto} {
		if root, ok := form(data); ok {
			return root
		}
	}
	return parseText(data)
}

// append writes the node after to.
func (n *node) append(to []byte) []byte {
	to = append(to, n.head...)
	if n.kind == message {
		var inner []byte
		for _, kid := range n.kids {
			inner = kid.append(inner)
		}
		return append(appendVarint(to, uint64(len(inner))), inner...)
	}
	to = append(to, n.data...)
	for _, kid := range n.kids {
		to = kid.append(to)
	}
	return append(to, n.tail...)
}

// parents returns all nodes that have children.
func (n *node) parents() (all []*node) {
	if len(n.kids) > 0 {
		all = append(all, n)
	}
	for _, kid := range n.kids {
		all = append(all, kid.parents()...)
	}
	return all
}

// depth is how often a node is put into itself at most, in one change.
const depth = 200

// change makes one change.
func change(root *node, r *rand.Rand) {
	parents := root.parents()
	if len(parents) == 0 {
		return
	}
	p := parents[r.IntN(len(parents))]
	i, j := r.IntN(len(p.kids)), r.IntN(len(p.kids))
	kid := p.kids[i]
	switch r.IntN(8) {
	case 0:
		p.kids = slices.Delete(p.kids, min(i, j), max(i, j))
	case 1:
		p.kids = slices.Insert(p.kids, j, kid)
	case 2:
		p.kids[i], p.kids[j] = p.kids[j], p.kids[i]
	case 3: // from another place
		q := parents[r.IntN(len(parents))]
		p.kids[i] = q.kids[r.IntN(len(q.kids))].copy()
	case 4:
		p.kids = slices.Insert(p.kids, j, slices.Repeat([]*node{kid}, 1+r.IntN(depth))...)
	case 5:
		nest(p, i, 1+r.IntN(depth))
	default: // most faults are values
		for range 8 {
			if kid.extremes != nil {
				kid.data = kid.extremes(r)
				return
			}
			q := parents[r.IntN(len(parents))]
			kid = q.kids[r.IntN(len(q.kids))]
		}
	}
}

// nest puts a child of p into copies of p, each in the next one.
func nest(p *node, i, times int) {
	inner := p.kids[i]
	for range times {
		inner = &node{kind: p.kind, head: p.head, tail: p.tail, kids: []*node{inner}}
	}
	p.kids[i] = inner
}

func (n *node) copy() *node {
	c := *n
	c.kids = make([]*node, len(n.kids))
	for i, kid := range n.kids {
		c.kids[i] = kid.copy()
	}
	return &c
}

// numbers are those at which computations overflow or tables end.
var numbers = []int64{0, 1, -1, 2, 127, 128, 255, 256, 511, 512, 1 << 15, 1<<16 - 1, 1 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 40, 1<<53 + 1, 1 << 62, 1<<63 - 1, -1 << 63}

// texts are names that break tables, pages and file names.
var texts = []string{"", " ", "\x00", "\"", "</script><script>alert(1)</script>", "../../etc/passwd", "\x1b[2J", "\u202eabc", "%s%n", "a|b\nc", "\xff\xfe", "NaN", "-0",
	"alloc", "free_completed", "oom", "cuda:0", "1e999", "0x", "${HOME}", "=1+1"}

func anyNumber(r *rand.Rand) int64 {
	if r.IntN(4) == 0 {
		return int64(r.Uint64())
	}
	return numbers[r.IntN(len(numbers))]
}

func anyText(r *rand.Rand) string {
	if r.IntN(8) == 0 {
		return string(bytes.Repeat([]byte("n"), 1<<r.IntN(14)))
	}
	return texts[r.IntN(len(texts))]
}
