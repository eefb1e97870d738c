package oom

// Count is how often a reason was right, by the kind of evidence.
type Count = measure

var (
	Measured     = measured
	ConfidenceOf = confidenceOf
)

func (d *Diagnosis) Count() Count { return Count{d.evidence(), d.Reason} }

func (c measure) From() string   { return c.from }
func (c measure) Reason() Reason { return c.why }
