package whatif

// off is how far predictions of an edit were off on programs that it was not made from, as shares: the recorded peaks were at most so
// much below and above the predicted ones. The widths are those with the least interval score (width and 40 times what lies outside), and
// docs/evidence/rules.md has the programs.
type off struct {
	below, above float64
	exact        bool // alone: to the byte in all programs
	inPasses     bool // it changes nothing that steps of optimizers need
	inSteps      bool // it changes no size and no order of what passes make
	ofOperations bool // it asks where operations of a pass end, which operators tell
}

// add puts errors together.
func (o *off) add(by off) { o.below, o.above = o.below+by.below, o.above+by.above }

var (
	offMiddle     = off{below: .02, above: .02}  // beside all, of recordings that begin in the middle, or that the allocator's rules do not predict: unsplit remainders
	offUnnamed    = off{below: .015, above: .02} // beside those in passes, where operators are not recorded
	offNextStep   = off{below: .0001, above: .0001, inSteps: true}
	offOptimizer  = off{below: .0001, above: .0001, inSteps: true}
	offGradients  = off{below: .002, above: .0125, inSteps: true} // others move the peak to where gradients are added
	offAccumulate = off{below: .0125, above: .002, inSteps: true} // what variables hold between passes is inferred
	offClosure    = off{below: .03, above: .01}                   // beside offAccumulate, where the optimizer calls the passes
	offCut        = off{below: .01, above: .01}                   // beside offAccumulate, where a failed request cuts off a pass
	offDrop       = off{exact: true}                              // by definition
	offForEach    = off{below: .003, above: .001, inSteps: true}
	offFreeEarly  = off{below: .03, above: .03} // where in the pass the program frees it is open
	offBatch      = off{below: .025, above: .03, inPasses: true}
	offSequence   = off{below: .03, above: .03, inPasses: true}
	offCache      = off{below: .01, above: .01} // beside what may grow with it
	offChunks     = off{below: .03, above: .03, inPasses: true}
	offCheckpoint = off{below: .05, above: .05, inPasses: true, ofOperations: true}
	offOffload    = off{below: .03, above: .03, inPasses: true, ofOperations: true}
	offLayers     = off{below: .01, above: .02, inSteps: true}
	offFreeze     = off{below: .10, above: .05, ofOperations: true}
	offLora       = off{below: .10, above: .05}
	offPrecision  = off{below: .02, above: .02}
	offHalves     = off{above: .02}               // beside offPrecision, in 16 bits as a whole
	offAutocast   = off{below: .02, above: .025}  // beside offPrecision
	offOwn        = off{below: .015, above: .025} // beside offAutocast, of programs with several formulas that compute in 32 bits: casts that change nothing in 32 bits are not recorded
	offShard      = off{below: .05, above: .05}
	offNoGrad     = off{below: .035, above: .045, ofOperations: true}
)

// How far reserved bytes were off, beside what other programs that the recording leaves open reserve: how blocks fit into segments is erratic. They were
// chosen on 501 changes of 46 programs, of which 96 % are in range; with widths from the other programs alone 94 % are. A part in segments gained nothing.
var (
	reservedSizes     = off{below: .08, above: .03} // in passes, of sizes alone
	reservedPasses    = off{below: .09, above: .20} // in passes, of what lives when
	reservedPrecision = off{below: .10, above: .15}
)

// reserved returns how far reserved bytes were off: of several changes, the most.
func (e *Engine) reserved(s Scenario) (all off) {
	for _, edit := range s {
		of := reservedPasses
		switch is := edit.kind.off; {
		case edit.Name == "precision":
			of = reservedPrecision
		case e.OneStep || !e.known(): // the layout is that of another step, or began before the recording
		case is.inSteps || is.exact: // the replay has all
			continue
		case is.inPasses && !is.ofOperations:
			of = reservedSizes
		}
		all.below, all.above = max(all.below, of.below), max(all.above, of.above)
	}
	return all
}

// offFits is the same for the capacity with which a program just runs, beside its peak.
var (
	offFits      = off{below: .05, above: .05}
	offFitsSteps = off{below: .02, above: .02} // of edits in steps
)

// FitsShare is how many programs fit, as a share, by what Fits said where it was not sure: of six programs at ten capacities 28 of 34 and 4 of 28, each
// run where its real peaks left it open (testdata/whatif/fits.tsv, TestFits); of 22 others 133 of 158 and 22 of 191.
var FitsShare = map[bool]float64{true: .84, false: .12}
