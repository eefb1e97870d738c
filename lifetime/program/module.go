package program

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// CallID is a chain of calls of modules in the source: which line calls what, from which chain. 0 = none.
type CallID uint32

// moduleCallSite is one element of a chain.
type moduleCallSite struct {
	line   lifetime.FrameID // that calls the module
	callee string           // file and function of its forward, or aHook: a line in a loop may call several classes
	caller CallID
}

// aHook stands for what a module calls before and after its forward.
const aHook = ""

// Same reports whether two calls may be of one run of a module: a line calls its hooks, then its forward.
func (r *Stacks) Same(x, y CallID) bool {
	a, b := &r.calls[x], &r.calls[y]
	return x == y || a.line == b.line && (a.callee == aHook || b.callee == aHook)
}

// Chain returns the calls of a chain, outermost first, the first maxDepth of them.
func (r *Stacks) Chain(id CallID) []CallID {
	if id == 0 || r.chains[id] != nil {
		return r.chains[id]
	}
	var chain []CallID
	for at := id; at != 0; at = r.calls[at].caller {
		chain = append(chain, at)
	}
	slices.Reverse(chain)
	r.chains[id] = slices.Clone(chain[:min(len(chain), maxDepth)])
	return r.chains[id]
}

// maxDepth bounds the names of modules.
const maxDepth = 48

// called returns the chain that a line and the function that it calls add to a chain.
func (r *Stacks) called(c moduleCallSite) CallID {
	id := intern(r.callIDs, c) + 1
	if int(id) == len(r.calls) {
		r.calls, r.chains = append(r.calls, c), append(r.chains, nil)
	}
	return id
}

// Calls returns how many chains are known; their IDs are below.
func (r *Stacks) Calls() int { return len(r.calls) }

// LineOf returns the line that makes the innermost call of a chain.
func (r *Stacks) LineOf(id CallID) lifetime.FrameID { return r.calls[id].line }

// classes are those of PyTorch's modules, by their file.
var classes = map[string]string{"activation": "Activation", "adaptive": "AdaptiveSoftmax", "batchnorm": "BatchNorm", "conv": "Conv", "dropout": "Dropout",
	"flatten": "Flatten", "fold": "Fold", "instancenorm": "InstanceNorm", "linear": "Linear", "loss": "Loss", "normalization": "Norm", "padding": "Pad",
	"pooling": "Pool", "rnn": "RNN", "sparse": "Embedding", "transformer": "Transformer", "upsampling": "Upsample"}

// ClassOf returns the class of the module that the innermost call of a chain is of, as far as its file tells; "" for one of the program.
func (r *Stacks) ClassOf(id CallID) string {
	_, file, _ := strings.Cut(r.calls[id].callee, "torch/nn/modules/")
	name, _, isModule := strings.Cut(file, ".py ")
	if !isModule {
		return ""
	}
	return classes[name]
}

// Inside returns the outermost frame of a path, inside of the caller of a root module, that does not only call modules.
func (r *Stacks) Inside(path, caller PathID) (line *frame.Frame) {
	for path != 0 && path != caller {
		if r.frames[r.lines[path]].flags&CallsModule == 0 {
			line = &r.t.Frames[r.lines[path]]
		}
		path = r.callers[path]
	}
	return line
}

// IsSequential reports whether that line is of a Sequential, which calls all its modules in it.
func (r *Stacks) IsSequential(id CallID) bool {
	return strings.HasSuffix(r.t.Frames[r.LineOf(id)].File, "torch/nn/modules/container.py")
}

// moduleCall begins the name of a call of a module: of the profiler's own events, and of annotations that hooks of a
// program make (docs/manual/pytorch.md).
const moduleCall = "nn.Module"

// ModuleName returns the module that an annotation or a frame names.
func ModuleName(text string) (string, bool) {
	name, ok := strings.CutPrefix(text, moduleCall)
	name = strings.TrimSpace(strings.TrimPrefix(name, ":"))
	return name, ok && name != ""
}

// NotedModule returns the module that the note of a buffer begins with: {"module":"Net.layers.0"}, as memlane's
// recorder writes it; "" if it names none. Annotations of the buffer follow.
func NotedModule(note string) string {
	var metadata struct{ Module string }
	if !strings.HasPrefix(note, "{") || json.NewDecoder(strings.NewReader(note)).Decode(&metadata) != nil {
		return ""
	}
	return metadata.Module
}
