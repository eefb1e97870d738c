package whatif

import (
	"math"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime/replay"
)

// remedies are the changes that Search combines, in order of what they cost: each costs more than all before it together. Of those with
// equal letters it takes one.
var remedies = [...]struct{ edits, instead string }{
	{"foreach=fused", "o"},           // nothing
	{"loss.chunks=8", "l"},           // the product before the loss twice
	{"batch=0.5,accumulate=2", "b"},  // smaller kernels
	{"batch=0.25,accumulate=4", "b"}, // still smaller ones
	{"checkpoint=blocks", "a"},       // a forward pass more
	{"optimizer=adam8bit", "o"},      // other states: training may converge otherwise
	{"offload=activations", "a"},     // copies in each pass
	{"optimizer.device=host", "o"},   // a step on the host
}

// Plan is a scenario that fits.
type Plan struct {
	Scenario        Scenario
	Batch, Sequence Room
}

// Room is how far the batch or the length of sequences can grow before a scenario does not fit any more: factors; 0 if it changes the batch
// itself, or the recording does not tell. It fits with Low also if the prediction is as much too low as the worst that was measured.
type Room struct{ Low, High float64 }

// maxPlans is how many plans Search returns at most.
const maxPlans = 5

// Search returns scenarios that fit a device of capacity bytes, the cheapest first, none with a change that it does not need. If the
// recorded program fits, the others are those that leave room for a larger batch. It is empty if no combination fits. stop ends it with an
// error.
func (e *Engine) Search(capacity int64, stop func() error) ([]Plan, error) {
	var plans []Plan
	var fitting []int
next:
	for mask := range 1 << len(remedies) {
		if len(plans) == maxPlans {
			break
		}
		for _, of := range fitting {
			if mask&of == of {
				continue next
			}
		}
		var edits []string
		taken := ""
		for i, r := range remedies {
			if mask>>i&1 == 0 {
				continue
			}
			if strings.Contains(taken, r.instead) {
				continue next
			}
			edits, taken = append(edits, r.edits), taken+r.instead
		}
		if err := stop(); err != nil {
			return nil, err
		}
		p := Plan{}
		text := strings.Join(edits, ",")
		if mask > 0 {
			var err error
			if p.Scenario, err = Parse(text); err != nil {
				return nil, err
			}
		}
		if !e.fits(p.Scenario, capacity) {
			continue
		}
		if mask > 0 {
			fitting = append(fitting, mask)
		}
		if !strings.Contains(taken, "b") {
			p.Batch, p.Sequence = e.room(text, "batch", capacity), e.room(text, "sequence", capacity)
		}
		if len(plans) > 0 && len(plans[0].Scenario) == 0 && p.Batch.High <= plans[0].Batch.High {
			continue
		}
		plans = append(plans, p)
	}
	return plans, nil
}

// fits reports whether the program finds memory for all of its requests.
func (e *Engine) fits(s Scenario, capacity int64) bool {
	r := e.Run(s, replay.Device{Capacity: capacity})
	return r.Refused == "" && !r.OOM
}

// Largest factor that is looked for, and how close the result is, as a share.
const (
	maxGrowth   = 64
	closeGrowth = 1.01
)

// room returns how far the batch or the sequences of a scenario can grow.
func (e *Engine) room(edits, of string, capacity int64) Room {
	low, high := e.largest(edits, of, int64((1-offBatch.above)*float64(capacity))), e.largest(edits, of, capacity)
	return Room{min(low, high), high} // what fits does not always grow with the capacity: blocks fall otherwise
}

// largest returns the largest factor with which a scenario fits, rounded down to a hundredth; 0 if there is none from 1 on.
func (e *Engine) largest(edits, of string, capacity int64) float64 {
	fits := func(f float64) bool {
		s, err := Parse(strings.Trim(edits+","+of+"="+strconv.FormatFloat(f, 'f', -1, 64), ","))
		return err == nil && e.fits(s, capacity)
	}
	if !fits(1) {
		return 0
	}
	low, high := 1.0, 2.0
	for high <= maxGrowth && fits(high) {
		low, high = high, 2*high
	}
	for high/low > closeGrowth && high <= maxGrowth {
		if middle := math.Sqrt(low * high); fits(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return math.Floor(low*100) / 100
}
