package mcp

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// maxPiece is the maximum number of bytes of a piece, so that a page has several.
const maxPiece = 1200

// piece is a value of a JSON document that fits into a page.
type piece struct {
	At    string          `json:"at"` // where it is, as a JSON pointer (RFC 6901); "" for the whole document
	Value json.RawMessage `json:"value"`
}

// page is a part of a JSON answer that is JSON too.
type page struct {
	Command string  `json:"command"`
	Next    *call   `json:"next_call,omitempty"` // what "next" of the answer is as a call of a tool
	Cursor  int     `json:"cursor,omitempty"`    // of the next page; 0 for the last
	Pieces  int     `json:"pieces"`              // of the whole answer
	Parts   []piece `json:"parts"`
}

type call struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
}

// pageOf returns the page that begins at a piece of an answer in JSON, in at most maxAnswer bytes. ok is false if it is
// no JSON.
func (s *Server) pageOf(q question, text string) (p page, ok bool) {
	var whole bytes.Buffer
	if json.Compact(&whole, []byte(text)) != nil {
		return page{}, false
	}
	var of struct{ Next string }
	_ = json.Unmarshal(whole.Bytes(), &of) // without next there is no call
	pieces := piecesOf("", whole.Bytes(), nil)
	from := min(max(q.part.Cursor, 0), len(pieces))
	p = page{Command: q.command, Pieces: len(pieces), Parts: []piece{}}
	size := 200 // of the page without pieces and call
	if p.Next = s.callOf(of.Next); p.Next != nil {
		size += len(of.Next) + 100
	}
	for i, piece := range pieces[from:] {
		size += len(piece.At) + len(piece.Value) + len(`{"at":"","value":},`)
		if i > 0 && size > maxAnswer {
			p.Cursor = from + i
			break
		}
		p.Parts = append(p.Parts, piece)
	}
	return p, true
}

// String returns the page as JSON.
func (p *page) String() string {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(p)
	return strings.TrimSuffix(text.String(), "\n")
}

// piecesOf appends the pieces of a compact value. A value that is too long is split into its members, and a text loses
// its middle.
func piecesOf(path string, value json.RawMessage, to []piece) []piece {
	if len(value) <= maxPiece {
		return append(to, piece{path, value})
	}
	if value[0] == '"' {
		return append(to, piece{path, shortened(value)})
	}
	d := json.NewDecoder(bytes.NewReader(value))
	_, _ = d.Token() // the value is valid, so that nothing below fails
	for i := 0; d.More(); i++ {
		key := strconv.Itoa(i)
		if value[0] == '{' {
			name, _ := d.Token()
			key = strings.NewReplacer("~", "~0", "/", "~1").Replace(name.(string))
		}
		var member json.RawMessage
		_ = d.Decode(&member)
		to = piecesOf(path+"/"+key, member, to)
	}
	return to
}

// shortened returns a JSON text without its middle.
func shortened(value json.RawMessage) json.RawMessage {
	var text string
	_ = json.Unmarshal(value, &text)
	const end = maxPiece / 12 // a byte may be six in JSON
	if len(text) > 2*end {
		text = strings.ToValidUTF8(text[:end], "") + "…" + strings.ToValidUTF8(text[len(text)-end:], "")
	}
	short, _ := json.Marshal(text)
	return json.RawMessage(printable(string(short)))
}

// callOf returns the call of a tool that a command line stands for; nil if none does.
func (s *Server) callOf(command string) *call {
	words := wordsOf(command)
	if len(words) < 3 || words[0] != "memlane" {
		return nil
	}
	tools := map[string]string{"info": "summary", "oom": "why_oom", "leaks": "leaks", "peak": "peak", "tune": "tune",
		"whatif": "what_if"}
	c := &call{tools[words[1]], map[string]any{"path": s.shown(words[len(words)-1])}}
	for i := 2; i+2 < len(words); i += 2 {
		name, ok := strings.CutPrefix(words[i], "--")
		if !ok {
			return nil
		}
		c.Arguments[name] = words[i+1]
	}
	if c.Arguments["function"] != nil {
		c.Tool = "where"
		delete(c.Arguments, "by")
	}
	if c.Tool == "" {
		return nil
	}
	return c
}

// wordsOf splits a command line as answer.Quoted quotes its arguments.
func wordsOf(command string) (all []string) {
	var word strings.Builder
	quoted, escaped, any := false, false, false
	for _, r := range command {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\'':
			quoted, any = !quoted, true
		case r == '\\' && !quoted:
			escaped = true
		case r == ' ' && !quoted:
			if word.Len() > 0 || any {
				all = append(all, word.String())
			}
			word.Reset()
			any = false
		default:
			word.WriteRune(r)
		}
	}
	return append(all, word.String())
}
