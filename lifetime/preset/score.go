package preset

// conclude derives the rest of a report from its patterns and insights: the critical ones, the recommendations and the
// score.
func (r *Optimization) conclude() {
	cost := 0
	for _, p := range r.AllPatterns {
		cost += penalties[p.Severity]
		if p.Severity == "critical" {
			r.CriticalIssues = append(r.CriticalIssues, p)
		}
	}
	for _, i := range r.AllInsights {
		cost += penalties[i.Impact]
		if i.Impact == "high" {
			r.HighImpactInsights = append(r.HighImpactInsights, i)
		}
	}
	r.Recommendations = r.recommend()
	r.OptimizationScore = ScoreOf(cost)
	r.OptimizationScore.IssuesFound = len(r.AllPatterns) + len(r.AllInsights)
}

// recommend returns at most ten recommendations: critical patterns, insights of high impact, then patterns that are
// warnings.
func (r *Optimization) recommend() []Recommendation {
	all := []Recommendation{}
	for _, p := range r.CriticalIssues {
		all = append(all, Recommendation{"high", p.PatternType, p.Description, p.Suggestions})
	}
	for _, i := range r.HighImpactInsights {
		all = append(all, Recommendation{"high", i.Category, i.Description, i.Recommendations})
	}
	for _, p := range r.AllPatterns {
		if p.Severity == "warning" {
			all = append(all, Recommendation{"medium", p.PatternType, p.Description, p.Suggestions})
		}
	}
	return all[:min(10, len(all))]
}

// penalties are the points that an issue takes off the score, by severity and impact.
var penalties = map[string]int{"critical": 20, "warning": 10, "info": 5, "high": 15, "medium": 8}

// grades are the grades by minimum score.
var grades = []struct {
	least              int
	grade, description string
}{
	{90, "A", "Excellent memory usage patterns"},
	{80, "B", "Good memory usage with minor issues"},
	{70, "C", "Acceptable memory usage with some optimization potential"},
	{60, "D", "Poor memory usage patterns requiring attention"},
	{0, "F", "Critical memory usage issues requiring immediate attention"},
}

// ScoreOf returns the score after a deduction of cost points, without the number of issues.
func ScoreOf(cost int) Score {
	s := Score{Score: max(100-cost, 0)}
	for _, g := range grades {
		if s.Score >= g.least {
			s.Grade, s.Description = g.grade, g.description
			break
		}
	}
	return s
}
