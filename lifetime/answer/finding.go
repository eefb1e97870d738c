package answer

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
)

// Finding is one problem, at one place of the program or in a whole memory ID.
type Finding struct {
	Rule           string            `json:"rule"`            // rule; memlane leaks --list-rules lists all
	Severity       string            `json:"severity"`        // critical, warning or info
	Leak           bool              `json:"leak"`            // a confirmed leak; the severity of a small one is info
	Confidence     float64           `json:"confidence"`      // 0 to 1: how often such findings were right; 1 if nothing is inferred
	How            string            `json:"how"`             // how it is known: recorded, derived from recorded facts by arithmetic or an exact replay, or inferred
	File           string            `json:"file"`            // capture
	Space          string            `json:"space"`           // memory ID
	Site           Site              `json:"site"`            // call site; empty for a finding about a whole memory ID
	Bytes          int64             `json:"bytes"`           // occupied
	RequestedBytes int64             `json:"requested_bytes"` // requested by the program
	Count          int64             `json:"count"`           // buffers
	BytesPerStep   *int64            `json:"bytes_per_step"`  // growth per step, occupied; null if steps are unknown
	Description    string            `json:"description"`     // the problem, as text
	Evidence       map[string]any    `json:"evidence"`        // figures of the rule by name; figures of other tools under their own names
	EvidenceHow    map[string]string `json:"evidence_how"`    // how each of these is known: recorded, derived or inferred; of cause, how it is known that both have one
	Suggestions    []string          `json:"suggestions"`     // advice, one line each
	HeldBy         []HeldBy          `json:"held_by"`         // what holds the buffers of a leak, most first; empty if the recorder wrote no names

	Name     string `json:"-"` // of the place; "" for a finding about the whole space
	Advice   string `json:"-"` // the first suggestion, which says whose buffers it means; "" if there is none
	Probable bool   `json:"-"` // a leak that may be a cache that is still filling
	Cause    string `json:"-"` // place of the largest finding that one change may fix together with this one
	Code     code   `json:"-"`

	Failure bool `json:"-"` // about a failed allocation, which a Failure answers

	// Call stacks or, for a compiled program, the first instruction and the number of others.
	Stacks           []Stack      `json:"-"`
	Instruction      *Instruction `json:"-"`
	MoreInstructions int          `json:"-"`

	place string // with which the description may begin
}

// HeldBy is what holds buffers of a leak, as the recorder found it.
type HeldBy struct {
	Name      string `json:"name"`      // reference, with * for indexes: "trainer.history[*]"
	Kind      string `json:"kind"`      // variable, graph or cycle
	Where     string `json:"where"`     // module or call in which the reference begins; empty for a cycle
	Container string `json:"container"` // class of the list or dict that it leads through; empty if it leads through none
	Count     int64  `json:"count"`     // buffers that it holds
	Of        int64  `json:"of"`        // buffers of the leak that are alive at the end
	How       string `json:"how"`       // how it is known: recorded, derived from recorded facts by arithmetic or an exact replay, or inferred
}

// Level returns the severity.
func (f *Finding) Level() finding.Severity {
	level, _ := finding.ParseSeverity(f.Severity)
	return level
}

// WithoutPlace returns the description without the place.
func (f *Finding) WithoutPlace() string { return strings.TrimPrefix(f.Description, f.place+": ") }

// Stack is a call stack that allocated buffers of a finding.
type Stack struct {
	Op     string // operation; "" if the stack begins with it
	Frames []Frame
	None   bool // no stack was recorded
}

// code is a line of the program. File is as recorded; "" if unknown.
type code struct {
	File string
	Line int
}

// FindingsOf converts the findings of a capture, or of a series of which it is the last. The result is never nil.
func FindingsOf(c *lifetime.Capture, found []finding.Finding) []Finding {
	all := []Finding{}
	for i := range found {
		all = append(all, findingOf(cmp.Or(found[i].Of, &c.Tables), &found[i]))
	}
	return all
}

// rankFindingsOf converts findings about ranks or a series, which do not belong to a single capture.
func rankFindingsOf(found []finding.Finding) []Finding {
	all := []Finding{}
	for i := range found {
		none := &lifetime.Tables{Sources: []lifetime.Source{{File: found[i].Text(finding.FigFile)}},
			Sites: make([]lifetime.Site, 1), Stacks: make([]lifetime.Stack, 1)}
		all = append(all, findingOf(cmp.Or(found[i].Of, none), &found[i]))
	}
	return all
}

func findingOf(t *lifetime.Tables, f *finding.Finding) Finding {
	out := Finding{
		Rule: f.Rule, Severity: f.Severity.String(), Confidence: math.Round(f.Confidence*1000) / 1000, How: f.How().String(),
		File: t.Sources[f.Space.Source].File, Space: f.Space.ID(), Site: siteOf(t, &f.Space.SpaceInfo, f.Place()),
		Bytes: f.Amount.Bytes, RequestedBytes: f.Amount.Requested, Count: f.Amount.Count,
		Description: f.Description, Evidence: map[string]any{}, EvidenceHow: map[string]string{}, Suggestions: append([]string{}, f.Suggestions...),
		HeldBy: []HeldBy{}, Leak: f.IsLeak(), Cause: f.Text(finding.FigCausePlace), Code: codeOf(t, f.Place()),
		place: t.PlaceOf(f.Place()).String(), Failure: f.Kind == finding.KindFailure, Advice: f.Advice(t), Probable: f.Probable(),
	}
	for _, h := range f.Held {
		out.HeldBy = append(out.HeldBy, HeldBy{h.By, h.Kind.String(), h.Where, h.Container, int64(h.Count), int64(h.Of), h.How.String()})
	}
	if f.BytesPerStep > 0 {
		n := int64(math.Round(f.BytesPerStep))
		out.BytesPerStep = &n
	}
	for _, e := range f.Evidence {
		if out.Evidence[e.Name] = e.Value; e.Text != "" {
			out.Evidence[e.Name] = e.Text
		}
		out.EvidenceHow[e.Name] = e.How.String()
	}
	if len(f.Sites) == 0 {
		return out
	}
	out.Name = siteName(t, &f.Space.SpaceInfo, f.Sites[0])
	if static(&f.Space.SpaceInfo) {
		i := instructionOf(t, f.Sites[0])
		out.Instruction, out.MoreInstructions = &i, len(f.Sites)-1
		return out
	}
	for _, site := range f.Sites {
		s := Stack{Frames: framesOf(t, t.Sites[site].Stack), None: t.Sites[site].Stack == 0}
		op := t.Sites[site].Op
		if !s.None && !slices.ContainsFunc(s.Frames, func(f Frame) bool { return f.Function == op }) {
			s.Op = op
		}
		out.Stacks = append(out.Stacks, s)
	}
	return out
}

func codeOf(t *lifetime.Tables, site lifetime.SiteID) code {
	f, ok := t.FrameOf(site)
	if !ok || f.File == "" || f.Kind != frame.User {
		return code{}
	}
	return code{f.File, max(f.Line, 1)}
}
