package whatif

// off is how far predictions of an edit were off on programs that it was not made from, as shares: the recorded peaks were at most so
// much below and above the predicted ones. docs/evidence/rules.md has the programs.
type off struct {
	below, above float64
	exact        bool // alone: to the byte in all programs
	inPasses     bool // it changes nothing that steps of optimizers need
}

var (
	offNextStep   = off{below: .0001, above: .0001}
	offOptimizer  = off{below: .0001, above: .0001}
	offGradients  = off{below: .01, above: .003} // others move the peak to where gradients are added
	offAccumulate = off{below: .04, above: .005} // what variables hold between passes is inferred
	offClosure    = off{below: .03, above: .01}  // beside offAccumulate, where the optimizer calls the passes
	offCut        = off{below: .01, above: .01}  // beside offAccumulate, where a failed request cuts off a pass
	offElsewhere  = off{below: .05}              // beside both, where what is saved is on the host: when gradients are added is not known
	offDrop       = off{exact: true}             // by definition
	offForEach    = off{below: .02, above: .01}
	offFreeEarly  = off{below: .03, above: .03} // where in the pass the program frees it is open
	offBatch      = off{below: .04, above: .05, inPasses: true}
	offSequence   = off{below: .04, above: .04, inPasses: true}
	offCache      = off{below: .01, above: .01} // beside what may grow with it
	offChunks     = off{below: .03, above: .03, inPasses: true}
	offCheckpoint = off{below: .08, above: .10, inPasses: true}
	offOffload    = off{below: .10, above: .10, inPasses: true}
	offLayers     = off{below: .03, above: .03}
	offFreeze     = off{below: .10, above: .05}
	offLora       = off{below: .10, above: .05}
	offPrecision  = off{below: .05, above: .05}
	offAutocast   = off{below: .10, above: .20} // beside offPrecision; casts that change nothing in 32 bits are not recorded
	offShard      = off{below: .05, above: .05}
	offNoGrad     = off{below: .16, above: .25}
)

// offSteps is the same for what steps of optimizers need if only passes are changed: other blocks are not split.
var offSteps = off{below: .03, above: .04}

// offReserved is the same for reserved bytes of all edits: how blocks fit into segments is erratic.
var offReserved = off{below: .20, above: .25}

// offFits is the same for the capacity with which a program just runs, beside its peak.
var offFits = off{below: .05, above: .05}
