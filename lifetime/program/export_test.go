package program

// For TestMeasured.
var (
	Measured     = measured
	ConfidenceOf = confidenceOf
)
