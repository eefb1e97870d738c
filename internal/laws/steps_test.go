package laws

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	did "github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/render/web"
)

// stepsLaw counts answers about steps.
type stepsLaw struct {
	spaces, answers int
	known           map[did.Source]int
}

// check checks that every answer has the same steps: findings, phases, info, a comparison, the page and all devices of a process.
func (l *stepsLaw) check(t *testing.T, subject *subject) {
	c, file, findings, compared, info := subject.Capture, subject.file, subject.Findings(), subject.diff(), subject.info()
	of, page := did.Of(c.Capture), stepsOfPage(t, subject)
	for i, s := range c.Spaces {
		steps := of.Steps(s)
		want := len(steps.Begins)
		l.spaces++
		l.known[steps.Source]++
		check := func(who string, got int) {
			t.Helper()
			if l.answers++; got != want {
				t.Errorf("%s: %s: %s has %d steps, not %d (%v)", file, s.ID(), who, got, want, steps.Source)
			}
		}
		if !slices.IsSorted(steps.Begins) || len(steps.Ends) != want {
			t.Errorf("%s: %s: steps %v", file, s.ID(), steps)
		}
		check("a program of its own", len(did.Of(c.Capture).Timeline(s).Steps.Begins))
		if s.Axis != lifetime.ProgramOrder {
			said := answer.Steps{}
			if info.Spaces[i].Steps != nil {
				said = *info.Spaces[i].Steps
			}
			check("info", said.Count)
			if want > 0 && (said.Inferred != steps.Inferred() || said.Inferred == (said.Confidence == 1)) {
				t.Errorf("%s: %s: info says %+v of steps by %v", file, s.ID(), said, steps.Source)
			}
		}
		check("the page", page[i])
		for _, o := range c.Spaces {
			if s.Axis == lifetime.Time && o.Axis == s.Axis && o.Source == s.Source && o.Host == s.Host && o.Process == s.Process {
				check(o.ID(), len(of.Steps(o).Begins))
			}
		}
		for k := range findings {
			f := &findings[k]
			if f.Space == s && slices.ContainsFunc(f.Evidence, func(e finding.Evidence) bool { return e.Name == finding.FigSteps.Name }) {
				check(f.Rule, int(f.Value(finding.FigSteps)))
			}
			if text := stepOf.FindStringSubmatch(f.Description); f.Space == s && text != nil && steps.Lost == 0 {
				n, _ := strconv.Atoi(strings.ReplaceAll(text[1], ",", ""))
				check("the text of "+f.Rule, n)
			}
		}
		for k := range compared.Pairs {
			for _, side := range []*diff.Side{compared.Pairs[k].Before, compared.Pairs[k].After} {
				if side != nil && side.Space == s {
					check("diff", side.Steps)
				}
			}
		}
	}
}

// stepOf matches a step in the text of a finding.
var stepOf = regexp.MustCompile(`began at step [0-9,]+ of ([0-9,]+)`)

// stepsOfPage returns the number of steps that the page of two captures has, by space. It reads no further than the first capture.
func stepsOfPage(t *testing.T, of *subject) (steps []int) {
	t.Helper()
	read := errors.New("read")
	err := web.Parts([]*judge.Capture{of.Capture, of.Capture}, func(p web.Part) error {
		if p.ID != "capture-0" {
			return nil
		}
		var document struct {
			Spaces []struct {
				StepTimes []int64 `json:"stepTimes"`
			} `json:"spaces"`
		}
		if err := json.Unmarshal(p.Data, &document); err != nil {
			return err
		}
		for _, s := range document.Spaces {
			steps = append(steps, len(s.StepTimes))
		}
		return read
	}, func() {})
	if err != read {
		t.Fatal(err)
	}
	return steps
}
