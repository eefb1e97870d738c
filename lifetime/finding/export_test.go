package finding

// Evidences are the numbers of steps from which the confidence of leaks differs.
var Evidences = func() (all []string) {
	for i := len(bands) - 1; i >= 0; i-- {
		all = append(all, bands[i].name)
	}
	return all
}()
