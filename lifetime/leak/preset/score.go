package preset

// Conclude fills in what follows from the patterns and insights: those that come
// first, what to do, and the score: 100 less what the issues cost.
func (r *Report) Conclude(cost int) {
	for _, p := range r.AllPatterns {
		if p.Severity == "critical" {
			r.CriticalIssues = append(r.CriticalIssues, p)
		}
	}
	for _, i := range r.AllInsights {
		if i.Impact == "high" {
			r.HighImpactInsights = append(r.HighImpactInsights, i)
		}
	}
	r.Recommendations = r.recommend()
	r.OptimizationScore = r.score(cost)
}

// recommend returns the first ten things to do: critical patterns, insights of
// high impact, then the other patterns but those that only inform.
func (r *Report) recommend() []Recommendation {
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

// penalties are what an issue takes off the score.
var penalties = map[string]int{"critical": 20, "warning": 10, "info": 5, "high": 15, "medium": 8}

// grades are the marks by the score that each needs at least.
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

// cost is what the issues of a report take off the original's score.
func (r *Report) cost() (points int) {
	for _, p := range r.AllPatterns {
		points += penalties[p.Severity]
	}
	for _, i := range r.AllInsights {
		points += penalties[i.Impact]
	}
	return points
}

func (r *Report) score(cost int) Score {
	s := ScoreOf(cost)
	s.IssuesFound = len(r.AllPatterns) + len(r.AllInsights)
	return s
}

// ScoreOf returns the score of issues that cost so many points, without their
// number.
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
