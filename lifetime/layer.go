package lifetime

import (
	"regexp"
	"strings"
)

// Layers tells the layers of the modules of a capture.
type Layers struct {
	siblings map[string]int    // modules that differ in a number only, by their path without it
	paths    map[string]string // of modules that are known by their last name: "Linear_3"; "" = several
}

// Layers finds the modules of a capture.
func (t *Tables) Layers() *Layers {
	l := &Layers{siblings: map[string]int{}, paths: map[string]string{}}
	seen := map[string]bool{}
	add := func(module string) {
		parts, _ := splitModule(module)
		for i := range parts {
			if path := strings.Join(parts[:i+1], "/"); !seen[path] {
				seen[path] = true
				l.siblings[siblingsOf(parts, i)]++
			}
		}
	}
	for i := range t.Sites {
		if module := t.ModuleOf(SiteID(i), 0); module != "" && t.Sites[i].Instr == "" {
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
	return l
}

// number is the number of a module in a name: Block_3, layers[3].
var number = regexp.MustCompile(`\d+\]?$`)

// key is a name in the path of an argument in the tree of a JAX program: params['layers_0']['mlp']['kernel'].
// (jax/_src/tree_util.py, keystr)
var key = regexp.MustCompile(`\['([^']+)'\]|\.(\w+)`)

// OfBuffer returns the layer of a buffer. In compiled programs it is that of the scope without transformations, such as jvp, and of
// arguments that of their path: the name of the weight is its last part.
func (l *Layers) OfBuffer(t *Tables, site SiteID, purpose PurposeID) string {
	s := &t.Sites[site]
	if s.Instr == "" {
		return l.Of(t.ModuleOf(site, purpose))
	}
	if module := t.Purpose(purpose).Module; module != "" {
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

// Of returns the layer of a module: its path up to the first module that is one of several which differ in a number only or, if there
// is none, LayerOf.
func (l *Layers) Of(module string) string {
	if path := l.paths[module]; path != "" {
		module = path
	}
	parts, separator := splitModule(module)
	for i, part := range parts {
		if numbered.MatchString(part) && l.siblings[siblingsOf(parts, i)] > 1 {
			return strings.Join(parts[:i+1], separator)
		}
	}
	return LayerOf(module)
}

// siblingsOf returns what the paths of modules have in common that differ in the number of part i.
func siblingsOf(parts []string, i int) string {
	return strings.Join(parts[:i], "/") + "/" + number.ReplaceAllString(parts[i], "#")
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
