package category

import (
	_ "embed"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime/purpose"
)

// Tried is how often a rule was right on programs that it was not made from.
type Tried struct {
	Programs int     // in which it decided about a buffer at the peak
	Right    float64 // sum over these programs of the share of the bytes about which it was right
}

// Confidence returns the mean of the beta distribution with these counts: a rule that was never tried gets 0.5.
func (t Tried) Confidence() float32 { return float32((t.Right + 1) / (float64(t.Programs) + 2)) }

// confidences is a line for each rule: name, programs, right. TestMeasured writes it.
//
//go:embed confidence.tsv
var confidences string

// Measured is how often each rule was right, by its name.
var Measured = func() map[string]Tried {
	all := map[string]Tried{}
	for line := range strings.Lines(confidences) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] == "rule" {
			continue
		}
		programs, _ := strconv.Atoi(fields[1])
		right, _ := strconv.ParseFloat(fields[2], 64)
		all[fields[0]] = Tried{programs, right}
	}
	return all
}()

// measured is the confidence of each rule, by ruleID.
var measured = func() []float32 {
	all := make([]float32, repeats+1)
	for i := range Rules {
		if all[i+1] = Measured[Rules[i].Name].Confidence(); Rules[i].Evidence == purpose.FromRecord {
			all[i+1] = 1 // it was written, not inferred
		}
	}
	all[repeats] = Measured[Repeats].Confidence()
	return all
}()
