package oom

type measure struct {
	from string
	why  Reason
}

// measured says how often a reason was right, and how often it was given: for captures of testdata, and for others with a truth (see
// TestMeasured). Failures with the same figures count once.
var measured = map[measure][2][2]int{
	{"host", "host"}:                      {{2, 2}, {2, 2}},
	{"near_limit", "leak"}:                {{1, 1}, {0, 0}},
	{"plan", "other_process"}:             {{0, 0}, {1, 1}},
	{"recording", "exhausted"}:            {{4, 4}, {1, 2}},
	{"recording", "fragmented"}:           {{9, 9}, {13, 13}},
	{"recording", "larger_than_device"}:   {{1, 1}, {0, 0}},
	{"recording", "leak"}:                 {{1, 1}, {10, 10}},
	{"recording", "private_pools"}:        {{1, 1}, {0, 0}},
	{"recording", "survived"}:             {{2, 2}, {0, 0}},
	{"tensorflow", "exhausted"}:           {{1, 1}, {1, 1}},
	{"tensorflow", "fragmented"}:          {{1, 1}, {0, 0}},
	{"tensorflow", "not_granted"}:         {{1, 1}, {1, 1}},
	{"tensorflow", "survived"}:            {{1, 1}, {0, 0}},
	{"torch", "exhausted"}:                {{10, 10}, {14, 14}},
	{"torch", "fragmented"}:               {{4, 4}, {8, 8}},
	{"torch", "larger_than_device"}:       {{2, 2}, {3, 3}},
	{"torch", "limit"}:                    {{3, 3}, {1, 1}},
	{"torch", "not_granted"}:              {{2, 2}, {6, 6}},
	{"torch", "other_process"}:            {{1, 1}, {1, 1}},
	{"torch", "outside"}:                  {{1, 1}, {5, 5}},
	{"torch", "private_pools"}:            {{1, 1}, {1, 1}},
	{"torch-library", "outside"}:          {{2, 2}, {0, 0}},
	{"xla-compile", "larger_than_device"}: {{4, 4}, {9, 9}},
	{"xla-compile", "padding"}:            {{1, 1}, {1, 1}},
	{"xla-run", "exhausted"}:              {{3, 3}, {5, 5}},
	{"xla-run", "fragmented"}:             {{1, 1}, {0, 0}},
	{"xla-run", "outside"}:                {{0, 0}, {1, 1}},
}

// confidenceOf returns the expected share of failures for which a reason is right: (right + 1) / (all + 2), so one half for a reason
// that no capture has shown.
func confidenceOf(from string, r Reason) float64 {
	if r == Unknown {
		return 0
	}
	n := measured[measure{from, r}]
	return float64(n[0][0]+n[1][0]+1) / float64(n[0][1]+n[1][1]+2)
}
