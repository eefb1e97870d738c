// Package holder says what people call a live buffer, and what keeps it alive.
package holder

import (
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/purpose"
)

// Holder says what a live buffer is called in its program and what keeps it alive, as the recorder found it. Fields
// that do not apply are "".
type Holder struct {
	Kind      Kind
	Category  purpose.Category // that the program's libraries give it: parameter, gradient; UnknownCategory = none
	Name      string           // "model.layers.0.weight", "exp_avg of model.layers.0.weight"
	Path      string           // of the reference: "trainer.history[3]"; of a graph that of the tensor that keeps it; of a cycle its classes
	Where     string           // where Path begins: a module, or a call with file and line
	Owner     string           // the part of Path that holds as a whole: a model, an optimizer, a list
	Container string           // class of the innermost list, dict and so on of Path
	Node      string           // of a graph: the node that saved it, and as what
	Tensor    string           // type of its elements and shape
	Others    int64            // further references that were found
}

// Kind is what keeps a buffer alive.
type Kind uint8

const (
	None       Kind = iota
	ByVariable      // a variable leads to it
	ByGraph         // only the autograd graph of a tensor does
	ByCycle         // only objects do that refer to each other: they wait for the garbage collector
	Unreached       // nothing in Python does
)

var kindNames = [...]string{"", "variable", "graph", "cycle", "unreached"}

// String returns the name used in JSON and native text.
func (k Kind) String() string { return kindNames[k] }

// ParseKind is the inverse of String. ok is false for unknown text.
func ParseKind(text string) (k Kind, ok bool) {
	i := slices.Index(kindNames[:], text)
	return Kind(max(i, 0)), i >= 0
}

// Label returns what people call the buffer.
func (h *Holder) Label() string {
	switch {
	case h.Name != "":
		return h.Name
	case h.Kind == ByGraph:
		return h.Node + " in " + h.By()
	}
	return h.By()
}

// By returns what holds the buffer.
func (h *Holder) By() string {
	switch h.Kind {
	case ByGraph:
		return "the graph of " + h.Path
	case ByCycle:
		return "a reference cycle: " + h.Path
	case Unreached:
		if h.Path != "" {
			return "C++, through " + h.Path
		}
		return "C++ or a call that runs"
	}
	return h.Path
}

// Whole returns what holds the buffer as a whole, with the like of it: a model, a list, the variables of a call.
func (h *Holder) Whole() string {
	if h.Kind != ByVariable {
		return h.By()
	}
	if h.Owner == "" {
		return "variables of " + h.Where
	}
	return h.Owner
}

// maxLevels bounds Levels: a name may have any number of dots.
const maxLevels = 16

// Levels returns what leads to the buffer, outermost first, with "*" for indexes: "model", "layers.*", "weight".
func (h *Holder) Levels() []string {
	whole, rest := FoldIndexes(h.Whole()), FoldIndexes(h.Label())
	if h.Kind == ByGraph && h.Name == "" {
		return []string{whole, h.Node}
	}
	levels := []string{whole}
	rest = strings.TrimPrefix(rest, whole)
	if state, of, ok := strings.Cut(rest, " of "); ok && h.Category == purpose.OptimizerState {
		levels, rest = append(levels, state), of
	}
	depth, begin := 0, 0 // of brackets, of the level
	for i := 0; i <= len(rest) && len(levels) < maxLevels; i++ {
		switch {
		case i < len(rest) && strings.IndexByte("[(<", rest[i]) >= 0:
			depth++
		case i < len(rest) && strings.IndexByte("])>", rest[i]) >= 0:
			depth--
		case i == len(rest) || rest[i] == '.' && depth == 0:
			part := rest[begin:i]
			if len(levels) == maxLevels-1 {
				part = rest[begin:]
			}
			if begin = i + 1; part == "*" {
				levels[len(levels)-1] += ".*"
			} else if part != "" {
				levels = append(levels, part)
			}
		}
	}
	return levels
}

// FoldIndexes replaces the numbers that tell the members of a list, a dict or a chain of modules apart:
// "layers.3.items[12]" is "layers.*.items[*]".
func FoldIndexes(path string) string {
	if !strings.ContainsAny(path, "0123456789") {
		return path
	}
	var b strings.Builder
	depth := 0 // of brackets
	for i := 0; i < len(path); {
		end := i
		for end < len(path) && '0' <= path[end] && path[end] <= '9' {
			end++
		}
		switch {
		case end == i:
			end++
			switch path[i] {
			case '[':
				depth++
			case ']':
				depth--
			}
			b.WriteByte(path[i])
		case depth > 0, i > 0 && path[i-1] == '.' && (end == len(path) || path[end] == '.' || path[end] == ' '):
			b.WriteByte('*')
		default: // of a name
			b.WriteString(path[i:end])
		}
		i = end
	}
	return b.String()
}
