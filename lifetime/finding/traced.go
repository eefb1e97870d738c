package finding

import (
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// graphBuilding is the range in which TensorFlow traces a tf.function
// (tensorflow/python/eager/polymorphic_function/tracing_compilation.py).
const graphBuilding = "tf.function-graph_building"

// traceOf returns the name of a trace of a tf.function, such as "__inference_step_217", without the number of the trace
// (tensorflow/python/eager/polymorphic_function/concrete_function.py); ok is false for other names.
func traceOf(name string) (function string, ok bool) {
	if !slices.ContainsFunc([]string{"__inference_", "__forward_", "__backward_"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return "", false
	}
	function = strings.TrimRight(name, "0123456789")
	return function, len(function) < len(name) && strings.HasSuffix(function, "_")
}

// callers returns the number of distinct stacks of some sites. Traces of one tf.function are one: TensorFlow numbers
// them, so each would be another caller.
func (p *Pass) callers(sites []lifetime.SiteID) int {
	distinct := map[int]bool{}
	for _, site := range sites {
		distinct[p.traced.number(&p.Tables, p.Sites[site].Stack, func(f *frame.Frame) (string, bool) {
			if function, ok := traceOf(f.Function); ok {
				return function, true
			}
			return f.Function, true
		})] = true
	}
	return len(distinct)
}

// ofRetracing reports whether each leak of a group is of new traces of a tf.function: allocated while it is traced, or
// by its traces, several of which retain buffers.
func (p *Pass) ofRetracing(g *causeGroup) bool {
	return !slices.ContainsFunc(g.findings, func(f *Finding) bool {
		traces := map[string]bool{}
		for _, site := range f.Sites {
			if p.anyFrame(site, func(f *frame.Frame) bool { return f.Function == graphBuilding }) {
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
