package preset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mathext"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
)

// Optimization is the result of generate_optimization_report, with the JSON keys of the original.
type Optimization struct {
	Summary            Summary          `json:"summary"`
	CriticalIssues     []Pattern        `json:"critical_issues"`
	HighImpactInsights []Insight        `json:"high_impact_insights"`
	AllPatterns        []Pattern        `json:"all_patterns"`
	AllInsights        []Insight        `json:"all_insights"`
	Recommendations    []Recommendation `json:"recommendations"`
	OptimizationScore  Score            `json:"optimization_score"`

	GapAnalysis []GapFinding `json:"gap_analysis,omitzero"` // nil without samples
}

// Summary counts the calls behind a report.
type Summary struct {
	TotalFunctionsAnalyzed int    `json:"total_functions_analyzed"`
	TotalFunctionCalls     int    `json:"total_function_calls"`
	TotalMemoryAllocated   int64  `json:"total_memory_allocated"` // bytes
	TotalExecutionTime     Float  `json:"total_execution_time"`   // seconds
	AnalysisTimestamp      *Float `json:"analysis_timestamp"`     // end of the last call, seconds; null without calls
}

// Pattern is a wasteful way of using memory.
type Pattern struct {
	PatternType       string   `json:"pattern_type"` // the name of its rule
	Description       string   `json:"description"`
	Severity          string   `json:"severity"` // critical, warning, info
	AffectedFunctions []string `json:"affected_functions"`
	Metrics           Figures  `json:"metrics"`
	Suggestions       []string `json:"suggestions"`
}

// Insight is an observation about the times and the memory of calls.
type Insight struct {
	Category        string   `json:"category"`
	Title           string   `json:"title"`
	Description     string   `json:"description"`
	Impact          string   `json:"impact"`     // high, medium
	Confidence      Float    `json:"confidence"` // 0 to 1
	Data            Figures  `json:"data"`
	Recommendations []string `json:"recommendations"`

	rule string
}

// Recommendation is advice with a priority.
type Recommendation struct {
	Priority    string   `json:"priority"` // high, medium
	Category    string   `json:"category"`
	Description string   `json:"description"`
	Suggestions []string `json:"suggestions"`
}

// Score grades the whole report.
type Score struct {
	Score       int    `json:"score"` // 0 to 100
	Grade       string `json:"grade"` // A, B, C, D, F
	Description string `json:"description"`
	IssuesFound int    `json:"issues_found"`
}

// GapFinding is a finding about the gap between the memory in use on a device and the memory reserved by the allocator.
type GapFinding struct {
	Classification string   `json:"classification"` // the name of its rule
	Severity       string   `json:"severity"`       // critical, warning
	Confidence     Float    `json:"confidence"`     // 0 to 1
	Evidence       Figures  `json:"evidence"`
	Description    string   `json:"description"`
	Remediation    []string `json:"remediation"`

	*Moment // stormlog only
}

// Moment identifies the sample of a finding of stormlog.
type Moment struct {
	EvidenceTimestampNS int64     `json:"evidence_timestamp_ns"`
	PhaseAttribution    *struct{} `json:"phase_attribution"` // always null: phases are not read
}

// Figures are named values in the order of the original; in JSON, an object.
type Figures []Figure

// Figure is a named value.
type Figure struct {
	Name  string
	Value any // int64, int, Float, string or a list of these
}

// MarshalJSON returns an object.
func (f Figures) MarshalJSON() ([]byte, error) {
	members := make([]string, len(f))
	for i, figure := range f {
		value, err := json.Marshal(figure.Value)
		if err != nil {
			return nil, err
		}
		members[i] = strconv.Quote(figure.Name) + ":" + string(value)
	}
	return []byte("{" + strings.Join(members, ",") + "}"), nil
}

// Float is a number that is null in JSON if it is not finite.
type Float float64

// MarshalJSON returns a number or null.
func (f Float) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// conclude derives the rest of a report from its patterns and insights: the critical ones, at most ten recommendations and the
// score. Gaps get in order: critical ones first, then the most confident ones.
func (r *Optimization) conclude() {
	slices.SortStableFunc(r.GapAnalysis, func(x, y GapFinding) int {
		return cmp.Or(cmp.Compare(x.Severity, y.Severity), cmp.Compare(y.Confidence, x.Confidence)) // critical < warning
	})
	score := &r.OptimizationScore
	score.Score, score.IssuesFound = 100, len(r.AllPatterns)+len(r.AllInsights)
	high, medium := []Recommendation{}, []Recommendation{}
	for _, p := range r.AllPatterns {
		score.Score -= penalties[p.Severity]
		switch p.Severity {
		case "critical":
			r.CriticalIssues = append(r.CriticalIssues, p)
			high = append(high, Recommendation{"high", p.PatternType, p.Description, p.Suggestions})
		case "warning":
			medium = append(medium, Recommendation{"medium", p.PatternType, p.Description, p.Suggestions})
		}
	}
	for _, i := range r.AllInsights {
		score.Score -= penalties[i.Impact]
		if i.Impact == "high" {
			r.HighImpactInsights = append(r.HighImpactInsights, i)
			high = append(high, Recommendation{"high", i.Category, i.Description, i.Recommendations})
		}
	}
	r.Recommendations = append(high, medium...)
	r.Recommendations = r.Recommendations[:min(10, len(r.Recommendations))]
	score.Score = max(score.Score, 0)
	i := slices.IndexFunc([]int{90, 80, 70, 60, 0}, func(least int) bool { return score.Score >= least })
	score.Grade = "ABCDF"[i : i+1]
	score.Description = texts()["grade "+score.Grade].Description
}

// penalties are the points that an issue takes off the score, by severity and impact.
var penalties = map[string]int{"critical": 20, "warning": 10, "info": 5, "high": 15, "medium": 8}

// String returns the score in one line.
func (s Score) String() string {
	return fmt.Sprintf("%s, %d of 100: %s", s.Grade, s.Score, s.Description)
}

// Findings returns the report as findings of a capture. calls are those that the report is about.
func (r *Optimization) Findings(capture *lifetime.Capture, calls []lifetime.Call) (all []finding.Finding) {
	if len(capture.Spaces) == 0 {
		return nil
	}
	first := map[string]*lifetime.Call{}
	for i := range calls {
		if name := capture.FunctionName(calls[i].Site); first[name] == nil {
			first[name] = &calls[i]
		}
	}
	add := func(rule, severity string, confidence float64, names []string, figures Figures, description string, suggestions []string) {
		f := finding.Finding{Rule: rule, Confidence: confidence, Space: capture.Spaces[0], Description: description, Suggestions: suggestions}
		f.Severity, _ = finding.ParseSeverity(severity)
		for i, name := range names {
			if i == 0 {
				f.Space = capture.Spaces[first[name].Space]
			}
			f.Sites = append(f.Sites, first[name].Site)
		}
		for _, figure := range figures {
			f.Evidence = append(f.Evidence, evidenceOf(figure))
		}
		all = append(all, f)
	}
	for _, p := range r.AllPatterns {
		add(p.PatternType, p.Severity, 1, p.AffectedFunctions, p.Metrics, p.Description, p.Suggestions)
	}
	severities := map[string]string{"high": "critical", "medium": "warning", "low": "info"}
	for _, i := range r.AllInsights {
		add(i.rule, severities[i.Impact], float64(i.Confidence), nil, i.Data, i.Title+": "+i.Description, i.Recommendations)
	}
	for _, g := range r.GapAnalysis {
		add(g.Classification, g.Severity, float64(g.Confidence), nil, g.Evidence, g.Description, g.Remediation)
	}
	finding.Sort(all)
	return all
}

// evidenceOf converts a figure of a preset to evidence.
func evidenceOf(f Figure) finding.Evidence {
	e := finding.Evidence{Figure: finding.ForeignFigure(f.Name)}
	e.How = e.Figure.How
	switch v := f.Value.(type) {
	case Float:
		e.Value = float64(v)
	case int64:
		e.Value = float64(v)
	case int:
		e.Value = float64(v)
	default:
		e.Text = fmt.Sprint(v)
	}
	if math.IsNaN(e.Value) || math.IsInf(e.Value, 0) { // JSON cannot represent it
		e.Value, e.Text = 0, fmt.Sprint(e.Value)
	}
	return e
}

// Answer is the report of another tool, with its rules and keys, plus the findings as memlane writes them.
type Answer struct {
	Schema string `json:"schema"` // "memlane/1"
	Next   string `json:"next"`   // command that tells more
	Rules  string `json:"rules"`  // gpumemprof or stormlog
	*Optimization
	Findings  []answer.Finding  `json:"findings"`            // most severe first
	Functions []answer.Function `json:"functions,omitempty"` // with --function
	Ranks     []answer.Rank     `json:"ranks,omitempty"`     // one for each rank, if there are several and every capture names its rank
}

// Answer returns the report with the findings of memlane's report about the same captures.
func (r *Optimization) Answer(of *answer.Report) Answer {
	return Answer{Schema: of.Schema, Next: of.Next, Rules: of.Rules, Optimization: r, Findings: of.Findings, Functions: of.Functions, Ranks: of.Ranks}
}

// exactMean returns the mean like Python's statistics.mean: the exact sum, rounded once, so that the mean of equal values
// is that value. It returns NaN without values, or if one is not finite.
func exactMean(values []float64) float64 {
	sum, _, ok := exactSums(values)
	if !ok {
		return math.NaN()
	}
	mean, _ := sum.Quo(sum, big.NewRat(int64(len(values)), 1)).Float64()
	return mean
}

// exactDeviation returns the sample standard deviation like Python's statistics.stdev: the root of the exact variance. It
// needs two values.
func exactDeviation(values []float64) float64 {
	sum, squares, ok := exactSums(values)
	if !ok {
		return math.NaN()
	}
	n := int64(len(values))
	squares.Sub(squares, sum.Quo(sum.Mul(sum, sum), big.NewRat(n, 1)))
	root := new(big.Float).SetPrec(200).SetRat(squares.Quo(squares, big.NewRat(n-1, 1)))
	deviation, _ := root.Sqrt(root).Float64()
	return deviation
}

// exactSums returns the exact sums of values and of their squares; ok is false without values, or if one is not finite.
func exactSums(values []float64) (sum, squares *big.Rat, ok bool) {
	sum, squares = new(big.Rat), new(big.Rat)
	for _, v := range values {
		x := new(big.Rat).SetFloat64(v)
		if x == nil {
			return nil, nil, false
		}
		sum.Add(sum, x)
		squares.Add(squares, x.Mul(x, x))
	}
	return sum, squares, len(values) > 0
}

// The functions from quantile to roundScaled return the same as NumPy 2, to the last bit, because the rules compare the results
// with thresholds. float64() around a product prevents the compiler from fusing it with a sum.

// quantile returns the q-quantile of values by the method "linear" of numpy.quantile: it interpolates between the two values
// around position (n-1)q of the sorted values.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	position := float64(len(sorted)-1) * q
	below := math.Floor(position)
	i := min(max(int(below), 0), len(sorted)-1)
	a, b := sorted[i], sorted[min(i+1, len(sorted)-1)]
	share := position - below
	if share >= 0.5 { // numpy interpolates from the upper end
		return b - float64((b-a)*(1-share))
	}
	return a + float64((b-a)*share)
}

// percentile returns the quantile like numpy.percentile(values, share*100).
func percentile(values []float64, share float64) float64 {
	return quantile(values, float64(share*100)/100)
}

// pairwiseSum sums like numpy.add.reduce: eight sums in parallel, and by halves above 128 values.
func pairwiseSum(v []float64) (sum float64) {
	n := len(v)
	switch {
	case n < 8:
		for _, x := range v {
			sum += x
		}
		return sum
	case n > 128:
		half := n / 2
		half -= half % 8
		return pairwiseSum(v[:half]) + pairwiseSum(v[half:])
	}
	r := [8]float64(v)
	i := 8
	for ; i < n-n%8; i += 8 {
		for k := range r {
			r[k] += v[i+k]
		}
	}
	sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
	for ; i < n; i++ {
		sum += v[i]
	}
	return sum
}

// mean returns numpy.mean.
func mean(v []float64) float64 { return pairwiseSum(v) / float64(len(v)) }

// deviation returns numpy.std with ddof=1. It needs two values.
func deviation(v []float64) float64 {
	m := mean(v)
	squares := make([]float64, len(v))
	for i, x := range v {
		squares[i] = float64((x - m) * (x - m))
	}
	return math.Sqrt(pairwiseSum(squares) / float64(len(v)-1))
}

// roundScaled rounds like numpy.float64: it scales up, rounds half to even and scales down.
func roundScaled(x float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.RoundToEven(x*scale) / scale
}

// round rounds like Python: to the decimal number nearest to x.
func round(x float64, digits int) float64 {
	nearest, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', digits, 64), 64)
	if err != nil { // not finite
		return x
	}
	return nearest
}

// formatBytes formats a size like gpumemprof.utils.format_bytes: binary units with decimal names.
func formatBytes(size float64) string {
	if size == 0 {
		return "0 B"
	}
	i := 0
	for ; size >= 1024 && i < 5; i++ {
		size /= 1024
	}
	return fmt.Sprintf("%.2f %s", size, [...]string{"B", "KB", "MB", "GB", "TB", "PB"}[i])
}

// pearson returns the correlation coefficient of x and y; NaN if one of them is constant. Like scipy.stats.pearsonr, it
// checks that first: the rounding errors of a constant series correlate with anything.
func pearson(x, y []float64) float64 {
	if constant(x) || constant(y) {
		return math.NaN()
	}
	xx, yy, xy := squares(x, y)
	return min(max(xy/math.Sqrt(xx*yy), -1), 1)
}

// squares returns the sums of the squares of the distances of x and y from their means, and of their products. What the distances
// sum up to, which rounding makes differ from 0, corrects them.
// (Chan, Golub and LeVeque, Algorithms for computing the sample variance, formula 1.7)
func squares(x, y []float64) (xx, yy, xy float64) {
	n := float64(len(x))
	xMean, yMean := floats.Sum(x)/n, floats.Sum(y)/n
	var xSum, ySum float64
	for i := range x {
		dx, dy := x[i]-xMean, y[i]-yMean
		xx, yy, xy = xx+dx*dx, yy+dy*dy, xy+dx*dy
		xSum, ySum = xSum+dx, ySum+dy
	}
	return xx - xSum*xSum/n, yy - ySum*ySum/n, xy - xSum*ySum/n
}

func constant(v []float64) bool {
	return !slices.ContainsFunc(v, func(x float64) bool { return x != v[0] })
}

// line is a straight line through points.
type line struct {
	slope float64
	r     float64 // correlation coefficient
	p     float64 // p-value of a slope of 0: two-sided t-test with n-2 degrees of freedom
}

// regress fits a line like scipy.stats.linregress. ok is false for fewer than three points and if all x are equal, which is
// an error in SciPy.
func regress(x, y []float64) (l line, ok bool) {
	if len(x) < 3 || constant(x) {
		return line{}, false
	}
	xx, yy, xy := squares(x, y)
	n := float64(len(x) - 1)
	xx, yy, xy = xx/n, yy/n, xy/n // the variances and the covariance
	l.slope = xy / xx
	switch {
	case xx != 0 && yy != 0:
		l.r = min(max(xy/math.Sqrt(xx*yy), -1), 1)
	case xy == 0:
		l.r = math.NaN()
	}
	const tiny = 1e-20 // scipy's, against a division by 0
	freedom := float64(len(x) - 2)
	t := l.r * math.Sqrt(freedom/((1-l.r+tiny)*(1+l.r+tiny)))
	l.p = 2 * beyond(math.Abs(t), freedom)
	return l, true
}

// beyond returns the probability that Student's t exceeds t, which is not negative.
func beyond(t, freedom float64) float64 {
	if t == 0 {
		return 0.5
	}
	return 0.5 * mathext.RegIncBeta(freedom/2, 0.5, freedom/(t*t+freedom))
}
