package whatif

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/replay"
)

// Plan is a scenario that fits; without edits, nothing needs to be changed.
type Plan struct {
	Scenario        Scenario
	Batch, Sequence Room
}

// Room is how far the batch or the length of sequences can grow before a scenario does not fit any more: factors; 0 if it changes the batch
// itself, or the recording does not tell. It fits with Low also if the prediction is as much too low as the worst that was measured;
// 0 if that is not known.
type Room struct{ Low, High float64 }

// maxPlans is how many plans Search returns at most.
const maxPlans = 5

// combinations calls fits for combinations of at most most remedies, the cheapest first, until it returns an error. It leaves out those with
// a change that they do not need.
func (e *Engine) combinations(most int, fits func(s Scenario, of []Remedy) (bool, error)) error {
	all := e.Remedies()
	var fitting []uint
next:
	for mask := range uint(1) << len(all) {
		if bits.OnesCount(mask) > most || slices.ContainsFunc(fitting, func(of uint) bool { return mask&of == of }) {
			continue
		}
		var edits []string
		var of []Remedy
		for i, r := range all {
			if mask>>i&1 == 0 {
				continue
			}
			if slices.ContainsFunc(of, func(other Remedy) bool { return other.instead == r.instead }) {
				continue next
			}
			edits, of = append(edits, r.edits), append(of, r)
		}
		s := e.Start()
		if mask > 0 {
			var err error
			if s, err = Parse(strings.Join(edits, ",")); err != nil {
				return err
			}
		}
		is, err := fits(s, of)
		if err != nil {
			return err
		}
		if is && mask > 0 {
			fitting = append(fitting, mask)
		}
	}
	return nil
}

// errEnough ends combinations, ErrLong a search.
var (
	errEnough = errors.New("enough")
	ErrLong   = errors.New("the search took long")
)

// mostEvents is how many events a search replays, about 30 seconds of CPU, before it tries no other combination.
const mostEvents = 50_000_000

// Search returns scenarios that fit a device of capacity bytes, the cheapest first, none with a change that it does not need. If the
// recorded program fits, the others are those that leave room for a larger batch. It is empty if no combination fits. stop ends it with an
// error. With ErrLong, others may fit, too.
func (e *Engine) Search(capacity int64, stop func() error) ([]Plan, error) {
	var plans []Plan
	e.replayed = 0
	err := e.combinations(maxRemedies, func(s Scenario, of []Remedy) (bool, error) {
		switch {
		case len(plans) == maxPlans:
			return false, errEnough
		case e.replayed > mostEvents:
			return false, ErrLong
		}
		if err := stop(); err != nil || !e.fits(s, capacity) {
			return false, err
		}
		var p Plan
		if len(of) > 0 {
			p.Scenario = s
		}
		if !slices.ContainsFunc(of, func(r Remedy) bool { return r.instead == "b" }) {
			p.Batch = e.room(p.Scenario.String(), "batch", capacity)
			if e.base.any(func(b *buffer) bool {
				return e.base.does(b, program.OpEmbedding|program.OpAttention|program.OpRecurrent)
			}) {
				p.Sequence = e.room(p.Scenario.String(), "sequence", capacity)
			}
		}
		if len(plans) == 0 || len(plans[0].Scenario) > 0 || p.Batch.High > plans[0].Batch.High {
			plans = append(plans, p)
		}
		return true, nil
	})
	if err != errEnough {
		return plans, err
	}
	return plans, nil
}

// Past returns the cheapest change with which a program that ran out of memory finds memory for all recorded requests, and what to do for
// it; nil if there is none, or if the replay of the recorded program does not run out.
func (e *Engine) Past() (past Scenario, advice string) {
	capacity := e.Capacity()
	if capacity == 0 || e.fits(nil, capacity) {
		return nil, ""
	}
	// An error only ends the search.
	_ = e.combinations(maxPast, func(s Scenario, of []Remedy) (bool, error) {
		if len(of) == 0 || !e.fits(s, capacity) || !e.Lowers(e.Run(s, replay.Device{}).High) {
			return false, nil
		}
		var texts []string
		for _, r := range of {
			texts = append(texts, r.Advice)
		}
		past, advice = s, strings.Join(texts, " ")
		return true, errEnough
	})
	return past, advice
}

// Most remedies that are combined.
const (
	maxRemedies = 16
	maxPast     = 2
)

// fits reports whether the program finds memory for all of its requests.
func (e *Engine) fits(s Scenario, capacity int64) bool {
	r := e.Run(s, replay.Device{Capacity: capacity})
	return r.Refused == "" && !r.OOM
}

// MaxGrowth is the largest factor that is looked for.
const MaxGrowth = 64

// closeGrowth is how close the result is, as a share.
const closeGrowth = 1.01

// room returns how far the batch or the sequences of a scenario can grow.
func (e *Engine) room(edits, of string, capacity int64) Room {
	with := func(f float64) Scenario {
		s, _ := Parse(strings.Trim(edits+","+of+"="+strconv.FormatFloat(f, 'f', -1, 64), ",")) // all edits are of Search
		return s
	}
	fits := func(f float64) bool { return e.fits(with(f), capacity) }
	high := largest(fits)
	if high == 0 {
		return Room{}
	}
	if high = larger(high, fits); e.Unfinished {
		return Room{0, high}
	}
	low := largest(func(f float64) bool {
		s := with(f)
		r := e.Run(s, replay.Device{})
		is, sure := e.Fits(s, &r, capacity)
		return is && sure
	})
	return Room{min(low, high), high} // what fits does not always grow with the capacity: blocks fall otherwise
}

// largest returns the largest factor that fits, rounded down to a hundredth; 0 if there is none from 1 on.
func largest(fits func(f float64) bool) float64 {
	if !fits(1) {
		return 0
	}
	low, high := 1.0, 2.0
	for high <= MaxGrowth && fits(high) {
		low, high = high, 2*high
	}
	for high/low > closeGrowth && high <= MaxGrowth {
		if middle := math.Sqrt(low * high); fits(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return math.Floor(low*100) / 100
}

// larger returns the largest factor above one that fits and is a multiple of an eighth, or of as much less: whole batches may fit where shares of
// samples do not, as blocks of other sizes fall otherwise. It is the one above if none is found.
func larger(than float64, fits func(f float64) bool) float64 {
	const further, eighth = 1.5, .125
	best, step := than, eighth*max(1, math.Ceil(than/4))
	for f := (math.Floor(than/step) + 1) * step; f <= min(further*than, MaxGrowth); f += step {
		if fits(f) {
			best = f
		}
	}
	return best
}
