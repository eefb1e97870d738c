package holders

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Entry is a live tensor.
type Entry struct {
	Device  int64
	Address uint64
	Bytes   int64  // of the tensor, which may be a part of its buffer
	Stack   string // digest of the lines of its stack, where there are no addresses
	Holder  holder.Holder
}

// version is the version that Read knows. Later ones may have more columns.
const version = 1

// table is the text. A column may be missing; one that is there has an entry for each tensor.
type table struct {
	Version   int      `json:"version"`
	Note      string   `json:"note"` // what the recorder could not name; "" = nothing
	Texts     []string `json:"texts"`
	Device    []int64  `json:"device"`
	Address   []uint64 `json:"address"`
	Bytes     []int64  `json:"bytes"`
	Others    []int64  `json:"others"`
	Kind      []int64  `json:"kind"`
	Role      []int64  `json:"role"`
	Name      []int64  `json:"name"`
	Path      []int64  `json:"path"`
	Where     []int64  `json:"where"`
	Owner     []int64  `json:"owner"`
	Container []int64  `json:"container"`
	Node      []int64  `json:"node"`
	Tensor    []int64  `json:"tensor"`
	Stack     []int64  `json:"stack"`
}

// Read calls take with each tensor of a text, in order, and counts in b what it cannot read.
func Read(text string, b *build.Builder, take func(e *Entry)) {
	var t table
	err := json.Unmarshal([]byte(text), &t)
	_, mismatch := errors.AsType[*json.UnmarshalTypeError](err) // the rest was read
	if err != nil {
		b.Lose(loss.IncompleteRecord, 1, 0, "names of tensors")
	}
	switch {
	case err != nil && !mismatch:
		return
	case t.Version > version:
		b.Lose(loss.NamesIncomplete, 1, 0, fmt.Sprintf("version %d", t.Version))
	case t.Note != "":
		b.Lose(loss.NamesIncomplete, 1, 0, fmt.Sprintf("%.200q", t.Note))
	}
	for i := range t.Address {
		e, ok := t.entry(i)
		if !ok {
			b.Lose(loss.IncompleteRecord, 1, 0, fmt.Sprintf("named tensor %d", i+1))
			continue
		}
		take(&e)
	}
}

// entry returns a tensor. ok is false if a column is too short or refers to a text that does not exist.
func (t *table) entry(i int) (e Entry, ok bool) {
	ok = true
	number := func(column []int64) int64 {
		switch {
		case len(column) == 0: // of an older version
			return 0
		case i >= len(column):
			ok = false
			return 0
		}
		return column[i]
	}
	text := func(column []int64) string {
		n := number(column)
		if n == 0 {
			return ""
		}
		if n < 0 || n >= int64(len(t.Texts)) {
			ok = false
			return ""
		}
		return t.Texts[n]
	}
	kind, known := holder.ParseKind(text(t.Kind))
	e = Entry{number(t.Device), t.Address[i], number(t.Bytes), text(t.Stack), holder.Holder{
		Kind: kind, Category: purpose.CategoryOf(text(t.Role)), Name: text(t.Name), Path: text(t.Path),
		Where: text(t.Where), Owner: text(t.Owner),
		Container: text(t.Container), Node: text(t.Node), Tensor: text(t.Tensor), Others: max(0, number(t.Others)),
	}}
	return e, ok && known && kind != holder.None
}
