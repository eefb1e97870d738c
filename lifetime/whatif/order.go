package whatif

import (
	"cmp"
	"slices"
)

// moment is a place in the order of what happens: an event, or a place right before or after it.
type moment struct {
	event     int   // its number
	rank      rank  // before or after that event
	round     int32 // among equal ranks: of what runs several times there
	inner     int   // among equal rounds: the event that it stands for, or its number
	innerRank rank  // before or after that
}

// noEvent is the number of what does not happen, and never its moment: buffers that are not freed end there. It is larger than any event, and so
// much smaller than the largest number that events can be added to it.
const noEvent = 1 << 30

var never = at(noEvent)

// rank orders what edits do at an event. Those of one edit are in the order in which the program does it; those of different edits never meet.
type rank int8

const (
	// Before the event.

	comesBack           rank = iota - 21 // what was kept on the host is copied back for the next node
	weightComesBack                      // so is a weight
	before                               // what an operation used last is freed; what is repeated runs; what is older is there
	freesHalfLoss                        // autocast: the 16 bits before a loss are freed
	castsWeight                          // autocast: weights, and results that a later node takes, are copied
	castsOperand                         // autocast: operands are copied, or freed as they have been copied
	gathers                              // sharding: a unit gets memory for what the ranks send
	unshards                             // sharding: parameters of the unit before are freed, those of this one are whole
	hasGathered                          // sharding: what the ranks sent is freed
	makesStates                          // an optimizer makes its states
	steps                                // an optimizer steps
	gradientOfScaled                     // LoRA, backward: the gradient of what was scaled
	gradientOfInner                      // LoRA, backward: that of what is between the factors
	gradientOfSecond                     // LoRA, backward: that of the second factor
	freesScaledGradient                  // LoRA, backward: the first of these is freed
	freesInner                           // LoRA, backward: what is between the factors is freed
	gradientOfInput                      // LoRA, backward: the further gradient of the input
	gradientOfFirst                      // LoRA, backward: that of the first factor
	freesInnerGradient                   // LoRA, backward: what it was made from is freed
	freesInput                           // LoRA, backward: the input is freed
	frees                                // what the program freed later is freed

	itself // the event: 0

	// After the event.

	released           // what ended without a free of its own: added to another gradient, replaced, or dropped with a pass that was cut off
	sums               // scratch of a sum over many rows is there and freed
	recomputes         // a unit is computed again
	repeats            // passes, or parts of a loss, run again
	operandOfParts     // what all parts of a loss made is freed
	addsFactors        // LoRA: factors of a weight
	makesInner         // LoRA, forward: the input times the first factor
	makesResult        // LoRA, forward: times the second one
	scales             // LoRA, forward: scaled
	freesResult        // LoRA, forward: what was scaled is freed
	addsResult         // LoRA, forward: the sum with the recorded result
	freesScaled        // LoRA, forward: what was added is freed
	freesRecorded      // LoRA, forward: the recorded result is freed
	addsInputGradients // LoRA, backward: the sum of both gradients of the input
	freesInputSum      // LoRA, backward: it takes the place of the recorded one
	freesInputGradient // LoRA, backward: the further one is freed
	hasReduced         // sharding: what the unit before reduced is freed
	reduces            // sharding: gradients of a unit are put together and reduced
	hasShard           // sharding: what is left of a gradient
	freesWhole         // sharding: the whole gradient is freed
	shardsAgain        // sharding: whole parameters are freed
	gathersAhead       // sharding: the next unit gathers while this one runs backward
	unshardsAgain      // sharding: its parameters are whole
	hasGatheredAhead   // sharding: what the ranks sent is freed
	hasCast            // autocast: an operand that nothing saves is freed; a loss has its 32 bits
	freesOperand       // autocast: what was cast is freed, as the copy is saved in its place
	after              // what an operation used last is freed; a block runs backward again; a part of a loss takes its operand
	freesWeightCopy    // autocast: the copy of a weight
	castsGradient      // autocast: the gradient of a weight in 32 bits
	leastGradient      // autocast: it ends here at the earliest
	freesHalfGradient  // autocast: that gradient in 16 bits
	freesProduct       // a part of a loss: what its product made for the gradient is freed
	addsContribution   // the contributions of two parts are added
	freesContribution  // a contribution is freed
)

func at(event int) moment          { return moment{event: event} }
func (r rank) at(event int) moment { return moment{event: event, rank: r} }

// by orders moments of equal ranks.
func (m moment) by(inner int) moment {
	m.inner = inner
	return m
}

// in is by of what runs several times.
func (m moment) in(round, inner int) moment {
	m.round, m.inner = int32(round), inner
	return m
}

func (m moment) compare(o moment) int {
	return cmp.Or(cmp.Compare(m.event, o.event), cmp.Compare(m.rank, o.rank), cmp.Compare(m.round, o.round),
		cmp.Compare(m.inner, o.inner), cmp.Compare(m.innerRank, o.innerRank))
}

func (m moment) later(o moment) moment   { return slices.MaxFunc([]moment{m, o}, moment.compare) }
func (m moment) earlier(o moment) moment { return slices.MinFunc([]moment{m, o}, moment.compare) }
