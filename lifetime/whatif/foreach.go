package whatif

import (
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

var forEachKind = Kind{
	Name: "foreach", Values: "off|fused", Doc: "no temporaries of all parameters at once", check: isOneOf("off", "fused"), off: offForEach,
	apply: (*model).foreach,
}

// stepsOnAll reports whether a step of an optimizer on all parameters at once was recorded.
func (m *model) stepsOnAll() bool {
	stacks := program.StacksOf(m.t)
	defer stacks.Done()
	return m.any(func(b *buffer) bool {
		return b.phase == purpose.OptimizerPhase && b.category == purpose.TemporaryData &&
			stacks.Of(m.t.Sites[b.site].Stack).All&program.ForEach != 0
	})
}

// foreach steps the optimizer one parameter after the other, or with one kernel that needs no temporaries.
func (m *model) foreach(how string) string {
	switch {
	case !m.stepsOnAll():
		return "no step of an optimizer on all parameters at once was recorded"
	case how == "off":
		return m.optimizer(nil, forLoop)
	}
	if refused := m.optimizer(nil, none); refused != "" {
		return refused
	}
	m.settle()
	// A fused optimizer keeps the number of steps on the device for each parameter.
	parameters, first := m.trained()
	m.addStates(parameters, makesStates.at(m.rounds[first].optimizer), func(*buffer) []int64 { return []int64{scalar} })
	return ""
}
