package category

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/internal/interned"
	"github.com/memlane/memlane/lifetime/purpose"
)

// scope is what the name of an operation of JAX or TensorFlow says: "jit(f)/transpose(jvp(Model))/layer_3/dot_general".
type scope struct {
	module        string // "Model/layer_3"
	phase         purpose.Phase
	differentiate bool // it is part of a pass with derivatives
}

// transformations wrap the names of scopes in JAX. (jax/_src/interpreters, name stacks)
var transformations = map[string]purpose.Phase{
	"jit": purpose.UnknownPhase, "pjit": purpose.UnknownPhase, "vmap": purpose.UnknownPhase, "remat": purpose.UnknownPhase,
	"checkpoint": purpose.UnknownPhase, "custom_jvp": purpose.UnknownPhase, "custom_vjp": purpose.UnknownPhase,
	"jvp": purpose.Forward, "transpose": purpose.Backward,
}

// structure are parts of names that control flow and calls add.
var structure = []string{"while", "body", "cond", "closed_call", "core_call", "checkpoint", "rematted_computation",
	"remat", "pjit", "branch_0_fun", "branch_1_fun", "shard_map", "custom_vjp_call", "custom_jvp_call"}

// updates are the scopes of optimizers in TensorFlow, and what people call the update in JAX.
var updates = []string{"Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Adadelta", "Adamax", "Nadam", "Ftrl", "Adafactor",
	"Lion", "Lamb", "optimizer",
	"apply_updates", "optax"}

// isUpdate reports whether a scope is that of an optimizer: "Adam", or the third one, "Adam_2".
func isUpdate(name string) bool {
	if base := strings.TrimRight(name, "0123456789"); base != name && strings.HasSuffix(base, "_") {
		name = base[:len(base)-1]
	}
	return slices.Contains(updates, name)
}

// gradientScopes begin the names of operations of the backward pass in TensorFlow. (tensorflow/python/eager/backprop.py)
var gradientScopes = []string{"gradient_tape", "gradients"}

// scopeOf reads the name of an operation. Its last part is the operation itself.
func scopeOf(op string) (s scope) {
	op, _, _ = strings.Cut(op, ";") // of a fusion, the first operation counts
	parts := splitScope(op)
	var path []string
	for i, part := range parts {
		name := part
		for {
			outer, inner, ok := strings.Cut(name, "(")
			phase, known := transformations[outer]
			if !ok || !known || !strings.HasSuffix(inner, ")") {
				break
			}
			s.phase = max(s.phase, phase)
			s.differentiate = s.differentiate || phase != purpose.UnknownPhase
			name = strings.TrimSuffix(inner, ")")
			if outer == "jit" || outer == "pjit" { // the name of a function, not of a scope
				name = ""
			}
		}
		switch {
		case i == 0 && slices.Contains(gradientScopes, name):
			s.phase, s.differentiate = purpose.Backward, true
			continue
		case i < len(parts)-1 && isUpdate(name):
			s.phase = purpose.OptimizerPhase
		}
		if name != "" && i < len(parts)-1 && !slices.Contains(structure, name) {
			path = append(path, name)
		}
	}
	s.module = strings.Join(path, "/")
	return s
}

// splitScope splits a name at each / outside of parentheses.
func splitScope(op string) (parts []string) {
	depth, from := 0, 0
	for i := range len(op) {
		switch op[i] {
		case '(':
			depth++
		case ')':
			depth--
		case '/':
			if depth <= 0 {
				parts = append(parts, op[from:i])
				from = i + 1
			}
		}
	}
	return append(parts, op[from:])
}

// argumentNames tell what JAX programs call their arguments: the name of a function's parameter, and the path into it.
var argumentNames = []struct {
	category purpose.Category
	name     *regexp.Regexp
}{
	{purpose.OptimizerState,
		regexp.MustCompile(`(?i)(^|[.\[\]'_])(opt|optimizer|opt_state|optimizer_state|optim|mu|nu|momentum|velocity)($|[.\[\]'_])`)},
	{purpose.ModelBuffer, regexp.MustCompile(`(?i)(^|[.\[\]'])(batch_stats|running_(mean|var)|buffers)($|[.\[\]'])`)},
	{purpose.Cache, regexp.MustCompile(`(?i)(^|[.\[\]'_])(kv_?cache|cache|caches)($|[.\[\]'_])`)},
	{purpose.Gradient, regexp.MustCompile(`(?i)(^|[.\[\]'])(grads?|gradients?)($|[.\[\]'])`)},
	{purpose.ModelParameter, regexp.MustCompile(`(?i)(^|[.\[\]'_])(params?|parameters?|weights?)($|[.\[\]'_])`)},
	{purpose.Input, regexp.MustCompile(`(?i)^(batch|inputs?|x|xs|y|ys|images?|labels?|tokens?|targets?|ids|input_ids|data)($|[.\[])`)},
}

func argument(name string) purpose.Category {
	for _, a := range argumentNames {
		if a.name.MatchString(name) {
			return a.category
		}
	}
	return purpose.UnknownCategory
}

type opScope struct {
	module textID
	phase  purpose.Phase
}

// scopes returns what the names of operations say, by SiteID, and whether any is part of a pass with derivatives: of
// all sites, also those of buffers that an outline has left out.
func (r *reader) scopes() (all []opScope, differentiate bool) {
	if r.opScopes != nil {
		return r.opScopes, r.differentiates
	}
	r.opScopes = make([]opScope, len(r.t.Sites))
	var prefixes []string
	ids := interned.New[string, uint32](&prefixes)
	read := make([]opScope, 1) // by prefix
	for i := range r.t.Sites {
		op := r.t.Sites[i].Op
		if op == "" {
			continue
		}
		prefix := op
		if end := strings.LastIndexByte(op, '/'); end >= 0 && !strings.ContainsAny(op[end:], "();") {
			prefix = op[:end+1] // the operation itself tells nothing
		}
		id := ids.ID(prefix)
		if int(id) == len(read) {
			s := scopeOf(op)
			read = append(read, opScope{r.texts.ids.ID(s.module), s.phase})
			r.differentiates = r.differentiates || s.differentiate
		}
		r.opScopes[i] = read[id]
	}
	return r.opScopes, r.differentiates
}

// scopes finds the phases and modules of buffers by the names of operations.
func (a *analysis) scopes() {
	scopes, differentiates := a.r.scopes()
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if a.isArgument(b) {
			continue
		}
		s, p := scopes[b.Site], &a.out[i]
		p.Phase, p.Module, p.PhaseHow = s.phase, s.module, purpose.Recorded
		if p.Phase == purpose.UnknownPhase {
			p.PhaseHow = purpose.Inferred
		}
		// Of TensorFlow, only the backward pass has a scope of its own.
		if differentiates && p.Phase == purpose.UnknownPhase && p.Module != 0 {
			p.Phase, p.PhaseHow = purpose.Forward, purpose.Inferred
		}
	}
	a.firstBackward = a.beginOfBackward()
	if a.s.Axis == lifetime.ProgramOrder {
		a.nameArguments()
	}
}

// beginOfBackward returns the first allocation of the backward part of a compiled program; the end if it has none. The part begins where most temporaries
// of the forward part come before and most of the backward part after: the compiler moves a few of them, such as zeros.
func (a *analysis) beginOfBackward() int64 {
	before, best, begin := 0, 0, a.s.End
	for i := range a.s.Buffers { // by Begin
		b := &a.s.Buffers[i]
		switch {
		case b.Kind != lifetime.Temporary:
		case a.out[i].Phase == purpose.Forward:
			before++
		case a.out[i].Phase == purpose.Backward:
			if before > best || begin == a.s.End {
				best, begin = before, b.Begin
			}
			before--
		}
	}
	return begin
}

// isArgument reports whether a buffer is an argument of a compiled program, or a copy of one.
func (a *analysis) isArgument(b *lifetime.Buffer) bool {
	return b.Kind == lifetime.Parameter || a.t.Sites[b.Site].Role != ""
}

// nameArguments finds the categories of the arguments of a compiled program, by their names and, of m and v, by their shapes: Adam's moments have the tree
// and the shapes of a third argument, the parameters. It keeps the shapes of parameters.
func (a *analysis) nameArguments() {
	trees := map[string]map[string]bool{} // paths and shapes of an argument, by its name
	for i := range a.s.Buffers {
		site := &a.t.Sites[a.s.Buffers[i].Site]
		if name := argumentName.FindString(site.Op); a.s.Buffers[i].Kind == lifetime.Parameter && name != "" {
			if trees[name] == nil {
				trees[name] = map[string]bool{}
			}
			trees[name][site.Op[len(name):]+" "+arrayOf(site.Shape)] = true
		}
	}
	var like []string // what has the tree of the moments
	if m := trees["m"]; m != nil && maps.Equal(m, trees["v"]) {
		for name, tree := range trees {
			if name != "m" && name != "v" && argument(name) == purpose.UnknownCategory && maps.Equal(tree, m) {
				like = append(like, name)
			}
		}
	}
	a.arguments, a.shapes = map[string]purpose.Category{}, map[string]bool{}
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if !a.isArgument(b) {
			continue
		}
		site := &a.t.Sites[b.Site]
		category := argument(site.Op)
		switch name := argumentName.FindString(site.Op); {
		case len(like) != 1:
		case name == like[0]:
			category = purpose.ModelParameter
		case name == "m", name == "v":
			category = purpose.OptimizerState
		}
		a.arguments[site.Op] = category
		if category == purpose.ModelParameter || category == purpose.UnknownCategory && site.Role == compiled.Trained {
			a.shapes[arrayOf(site.Shape)] = true
		}
	}
}

// argumentName matches the name of a function's parameter.
var argumentName = regexp.MustCompile(`^\w+`)

// arrayOf returns a shape without its layout.
func arrayOf(shape string) string {
	array, _, _ := strings.Cut(shape, "{")
	return array
}
