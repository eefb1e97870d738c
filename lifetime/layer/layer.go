// Package layer finds the modules of a network that buffers belong to, and the layers of these modules.
//
// Its place in the pipeline: after the model, and after package category, which may infer a module that was not
// recorded. Answers and groups by module or layer ask it.
package layer

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// Layers tells the modules of a capture and their layers. It asks each stack once: calls inside calls would otherwise
// take the square of their depth.
type Layers struct {
	t        *lifetime.Tables
	tree     map[step]int      // the number of each module, by its path
	siblings map[step]int      // modules that differ in a number only, by their path without it; nil until needed
	paths    map[string]string // of modules that are known by their last name: "Linear_3"; "" = several
	known    map[string]string // layers of modules that were asked for: several sites have one module

	calls, scopes []lifetime.StackID // see inside; nil until a module is asked for
}

// step is a name in the path of a module, below the module with a number. Paths as texts would take the square of their depth.
type step struct {
	below int
	name  string
}

// Of returns the modules and layers of a capture.
func Of(t *lifetime.Tables) *Layers { return &Layers{t: t} }

// findSiblings finds all modules.
func (l *Layers) findSiblings() {
	t := l.t
	l.tree, l.siblings, l.paths, l.known = map[step]int{}, map[step]int{}, map[string]string{}, map[string]string{}
	add := func(module string) {
		parts, _ := splitModule(module)
		at := 0
		for _, part := range parts {
			next, ok := l.tree[step{at, part}]
			if !ok {
				next = len(l.tree) + 1
				l.tree[step{at, part}] = next
				if number.MatchString(part) { // nobody asks for siblings of others
					l.siblings[step{at, number.ReplaceAllString(part, "#")}]++
				}
			}
			at = next
		}
	}
	for i := range t.Sites {
		if module := l.ModuleOf(lifetime.SiteID(i), 0); module != "" && t.Sites[i].Instr == "" {
			add(module)
			parts, _ := splitModule(module)
			last := parts[len(parts)-1]
			if known, ok := l.paths[last]; ok && known != module {
				l.paths[last] = ""
			} else {
				l.paths[last] = module
			}
		}
	}
	for i := range t.Purposes {
		if module := t.Purposes[i].Module; module != "" {
			add(module)
		}
	}
}

// number is the number of a module in a name: Block_3, layers[3].
var number = regexp.MustCompile(`\d+\]?$`)

// key is a name in the path of an argument in the tree of a JAX program: params['layers_0']['mlp']['kernel'].
// (jax/_src/tree_util.py, keystr)
var key = regexp.MustCompile(`\['([^']+)'\]|\.(\w+)`)

// OfBuffer returns the layer of a buffer. In compiled programs it is that of the scope without transformations, such as
// jvp, and of arguments that of their path: the name of the weight is its last part.
func (l *Layers) OfBuffer(site lifetime.SiteID, purpose lifetime.PurposeID) string {
	s := &l.t.Sites[site]
	if s.Instr == "" {
		return l.Of(l.ModuleOf(site, purpose))
	}
	if module := l.t.Purpose(purpose).Module; module != "" {
		return l.Of(module)
	}
	var path []string
	for _, m := range key.FindAllStringSubmatch(s.Op, -1) {
		path = append(path, m[1]+m[2])
	}
	for len(path) > 0 && path[0] == "params" {
		path = path[1:]
	}
	return l.Of(strings.Join(path[:max(len(path)-1, 0)], "/"))
}

// Of returns the layer of a module: its path up to the first module that is one of several which differ in a number only or, if there is
// none, that has a number, without the number that PyTorch's profiler gives to the root. "" = the path has none.
func (l *Layers) Of(module string) string {
	if l.siblings == nil {
		l.findSiblings()
	}
	layer, ok := l.known[module]
	if !ok {
		layer = l.find(module)
		l.known[module] = layer
	}
	return layer
}

func (l *Layers) find(module string) string {
	parts, separator := splitModule(cmp.Or(l.paths[module], module))
	at, layer := 0, 0 // names up to the layer
	for i, part := range parts {
		if numbered.MatchString(part) {
			if l.siblings[step{at, number.ReplaceAllString(part, "#")}] > 1 {
				layer = i + 1
				break
			}
			if isRoot := i == 0 && len(parts) > 1 && separator == "/" && strings.HasSuffix(part, "_0"); !isRoot && layer == 0 {
				layer = i + 1
			}
		}
		next, ok := l.tree[step{at, part}]
		if at = next; !ok {
			at = -1 // no module
		}
	}
	return strings.Join(parts[:layer], separator)
}

// splitModule returns the names in the path of a module, and what separates them.
func splitModule(module string) (parts []string, separator string) {
	separator = "/"
	if !strings.Contains(module, separator) {
		separator = "."
		if strings.Contains(module, ".py:") { // a line
			return []string{module}, separator
		}
	}
	return strings.Split(module, separator), separator
}

// moduleCall begins the name of a call of a module in a trace of PyTorch.
const moduleCall = "nn.Module: "

// ModuleOf returns the modules that allocated a buffer, as recorded or, if they are not, as its purpose tells; "" = not
// known.
func (l *Layers) ModuleOf(site lifetime.SiteID, purpose lifetime.PurposeID) string {
	s := &l.t.Sites[site]
	return cmp.Or(l.modulesOf(s), s.Module, l.t.Purpose(purpose).Module)
}

// numbered matches the name of a module that is one of several: Block_3, h.3, layers[3], model.py:253[3].
var numbered = regexp.MustCompile(`(^|_)\d+$|\[\d+\]$|^\pL+\d+$`)

// modulesOf returns the modules whose calls enclose an allocation, outermost first: "Model_0/Block_3/Linear_1". Of
// compiled programs these are the scopes.
func (l *Layers) modulesOf(s *lifetime.Site) string {
	t := l.t
	if s.Instr != "" && areScopes(t, s.Op, s.Stack) {
		return s.Op
	}
	if l.calls == nil {
		l.calls, l.scopes = inside(t, isModule), inside(t, func(f *frame.Frame) bool { return f.Kind == frame.Scope || isModule(f) })
	}
	innermost := l.calls
	if s.Instr != "" {
		innermost = l.scopes
	}
	var modules []string
	for at := innermost[s.Stack]; at != 0; at = innermost[t.Stacks[at].Caller] {
		modules = append(modules, strings.TrimPrefix(t.Frames[t.Stacks[at].Frame].Function, moduleCall))
	}
	slices.Reverse(modules)
	return strings.Join(modules, "/")
}

func isModule(f *frame.Frame) bool { return strings.HasPrefix(f.Function, moduleCall) }

// inside returns for each stack the innermost one of itself and its callers whose frame is a module; 0 = none is.
func inside(t *lifetime.Tables, module func(*frame.Frame) bool) []lifetime.StackID {
	frames := make([]bool, len(t.Frames))
	for i := range frames {
		frames[i] = module(&t.Frames[i])
	}
	innermost := make([]lifetime.StackID, max(1, len(t.Stacks))) // a caller comes before the stacks that it calls
	for i := 1; i < len(innermost); i++ {
		s := t.Stacks[i]
		innermost[i] = innermost[s.Caller]
		if frames[s.Frame] {
			innermost[i] = lifetime.StackID(i)
		}
	}
	return innermost
}

// areScopes reports whether the parts of a path are the frames of a stack, which are all scopes.
func areScopes(t *lifetime.Tables, path string, stack lifetime.StackID) bool {
	for f := range t.FramesOf(stack) {
		at := strings.LastIndexByte(path, '/')
		if at == 0 || f.Kind != frame.Scope || path[at+1:] != f.Function || strings.HasPrefix(f.Function, moduleCall) {
			return false
		}
		path = path[:max(at, 0)]
	}
	return path == ""
}
