package leak

import (
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// graphBuilding is the range in which TensorFlow traces a tf.function (tensorflow/python/eager/polymorphic_function/tracing_compilation.py).
const graphBuilding = "tf.function-graph_building"

// traceOf splits the name of a trace of a tf.function, such as "__inference_step_217", into the name of the function and the number
// of the trace (tensorflow/python/eager/polymorphic_function/concrete_function.py); ok is false for other names.
func traceOf(name string) (function string, ok bool) {
	if !slices.ContainsFunc([]string{"__inference_", "__forward_", "__backward_"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return "", false
	}
	function = strings.TrimRight(name, "0123456789")
	return function, len(function) < len(name) && strings.HasSuffix(function, "_")
}

// tracedPath is a call path in which all traces of one tf.function have one name.
type tracedPath struct {
	caller   int // number of the path; 0 = none
	function string
	file     string
	line     int
}

// tracedPaths numbers call paths. Stacks of deep recursion share most of their frames, so each frame is looked at once.
type tracedPaths struct {
	numbers map[tracedPath]int
	of      map[lifetime.StackID]int
}

// callers returns the number of distinct stacks of some sites. Traces of one tf.function are one: TensorFlow numbers them, so each would be
// another caller.
func (p *Pass) callers(sites []lifetime.SiteID) int {
	if p.paths == nil {
		p.paths = &tracedPaths{map[tracedPath]int{}, map[lifetime.StackID]int{}}
	}
	distinct := map[int]bool{}
	for _, site := range sites {
		distinct[p.pathOf(p.Sites[site].Stack)] = true
	}
	return len(distinct)
}

// pathOf returns the number of the path of a stack.
func (p *Pass) pathOf(stack lifetime.StackID) int {
	var unknown []lifetime.StackID
	for ; stack != 0 && p.paths.of[stack] == 0; stack = p.Stacks[stack].Caller {
		unknown = append(unknown, stack)
	}
	number := p.paths.of[stack]
	for _, stack := range slices.Backward(unknown) {
		f := &p.Frames[p.Stacks[stack].Frame]
		path := tracedPath{number, f.Function, f.File, f.Line}
		if function, ok := traceOf(f.Function); ok {
			path.function = function
		}
		if p.paths.numbers[path] == 0 {
			p.paths.numbers[path] = len(p.paths.numbers) + 1
		}
		number = p.paths.numbers[path]
		p.paths.of[stack] = number
	}
	return number
}

// ofRetracing reports whether each leak of a group is of new traces of a tf.function: allocated while it is traced, or by its traces,
// several of which retain buffers.
func (p *Pass) ofRetracing(g *causeGroup) bool {
	return !slices.ContainsFunc(g.findings, func(f *Finding) bool {
		traces := map[string]bool{}
		for _, site := range f.Sites {
			if p.anyFrame(site, func(f *lifetime.Frame) bool { return f.Function == graphBuilding }) {
				return false
			}
			for f := range p.FramesOf(p.Sites[site].Stack) {
				if _, ok := traceOf(f.Function); ok {
					traces[f.Function] = true
				}
			}
		}
		return len(traces) < minRises
	})
}
