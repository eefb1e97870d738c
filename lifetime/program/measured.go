package program

// measured says for how many programs the inferred number of steps was right, and for how many it was given: for
// programs of testdata, and for others, whose steps were recorded too (see TestMeasured). Each program counts once, and
// is right if all of its captures are.
var measured = map[Source][2][2]int{
	Phases:     {{52, 52}, {51, 56}},
	Recurrence: {{31, 31}, {4, 6}},
}

// Confidence returns the expected share of programs whose number of steps is right: 1 if steps were recorded, 0 if none
// is known.
func (s *Steps) Confidence() float64 {
	switch {
	case len(s.Begins) == 0:
		return 0
	case s.Inferred():
		return confidenceOf(s.Source)
	}
	return 1
}

// confidenceOf returns (right + 1) / (all + 2).
func confidenceOf(source Source) float64 {
	n := measured[source]
	return float64(n[0][0]+n[1][0]+1) / float64(n[0][1]+n[1][1]+2)
}
