package oom

type measure struct {
	from   string
	reason Reason
}

var measured = map[measure][2][2]int{}

func confidenceOf(from string, r Reason) float64 {
	if r == Unknown {
		return 0
	}
	n := measured[measure{from, r}]
	return float64(n[0][0]+n[1][0]+1) / float64(n[0][1]+n[1][1]+2)
}
