package mutants

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strconv"
)

// parseJSON reads values. A key and its value are one node, and so is the comma behind them.
func parseJSON(data []byte) (*node, bool) {
	if !json.Valid(data) {
		return nil, false
	}
	p := jsonParser{data}
	root := &node{kind: list, kids: []*node{p.value()}, tail: p.data}
	return root, true
}

// jsonParser takes values from the front of valid JSON.
type jsonParser struct{ data []byte }

// take returns the first n bytes and goes on behind them.
func (p *jsonParser) take(n int) []byte {
	taken := p.data[:n]
	p.data = p.data[n:]
	return taken
}

// blanks returns the number of blanks, commas and colons at the front.
func (p *jsonParser) blanks() int { return len(p.data) - len(bytes.TrimLeft(p.data, " \t\r\n,:")) }

func (p *jsonParser) value() *node {
	blanks := p.blanks()
	switch c := p.data[blanks]; c {
	case '{', '[':
		n := &node{kind: list, head: p.take(blanks + 1)}
		for {
			if end := p.blanks(); p.data[end] == c+2 { // '}' or ']'
				n.tail = p.take(end + 1)
				return n
			}
			if c == '[' {
				n.kids = append(n.kids, p.value())
			} else {
				n.kids = append(n.kids, &node{kind: list, kids: []*node{p.value(), p.value()}})
			}
		}
	default:
		head := p.take(blanks)
		end := 1
		for quoted := c == '"'; end < len(p.data); end++ {
			if quoted && p.data[end] == '\\' {
				end++
			} else if quoted && p.data[end] == '"' {
				end++
				break
			} else if !quoted && bytes.IndexByte([]byte(" \t\r\n,:]}"), p.data[end]) >= 0 {
				break
			}
		}
		return &node{head: head, data: p.take(end), extremes: otherValue}
	}
}

// otherValue returns a value of JSON, at times one that JSON does not have.
func otherValue(r *rand.Rand) []byte {
	switch r.IntN(4) {
	case 0:
		return strconv.AppendInt(nil, anyNumber(r), 10)
	case 1:
		return []byte([]string{"null", "true", "1.5e300", "-1e-300", "1e999", "NaN", "[]", "{}", "0.1", "01", "\"", "["}[r.IntN(12)])
	default:
		quoted, _ := json.Marshal(anyText(r)) // texts can be marshalled
		return quoted
	}
}

// parseText reads lines, and the words of each.
func parseText(data []byte) *node {
	root := &node{kind: list}
	for line := range bytes.Lines(data) {
		n := &node{kind: list}
		for word := range bytes.SplitAfterSeq(line, []byte(" ")) {
			n.kids = append(n.kids, &node{data: word, extremes: otherWord})
		}
		root.kids = append(root.kids, n)
	}
	return root
}

func otherWord(r *rand.Rand) []byte {
	if r.IntN(2) == 0 {
		return append(strconv.AppendInt(nil, anyNumber(r), 10), ' ')
	}
	return []byte(anyText(r) + " ")
}
