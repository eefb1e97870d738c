package answer

import (
	"math"
	"path"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
)

// Finding is one place in the program and what is wrong with it.
type Finding struct {
	Rule           string         `json:"rule"`            // rule, as memlane leaks --list-rules lists it
	Severity       string         `json:"severity"`        // critical, warning or info
	Confidence     float64        `json:"confidence"`      // 0 to 1
	File           string         `json:"file"`            // capture
	Space          string         `json:"space"`           // memory ID
	Site           Site           `json:"site"`            // who allocated; empty where the finding is about a whole memory ID
	Bytes          int64          `json:"bytes"`           // occupied
	RequestedBytes int64          `json:"requested_bytes"` // requested by the program
	Count          int64          `json:"count"`           // buffers
	BytesPerStep   *int64         `json:"bytes_per_step"`  // growth per step; null without steps
	Description    string         `json:"description"`     // what was found, in sentences
	Evidence       map[string]any `json:"evidence"`        // figures of the rule by name; figures of other tools under their own names
	Suggestions    []string       `json:"suggestions"`     // what to do, one line each

	Level leak.Severity `json:"-"`
	Leak  bool          `json:"-"` // confirmed
	Name  string        `json:"-"` // of the place; "" for a finding about the whole space
	Text  string        `json:"-"` // the description without the place
	Cause string        `json:"-"` // place of the largest finding that one change may fix together with this one
	Code  Code          `json:"-"`

	// The stacks concerned, or the instruction of a compiled program and how many more
	// there are.
	Stacks           []Stack      `json:"-"`
	Instruction      *Instruction `json:"-"`
	MoreInstructions int          `json:"-"`
}

// Stack is who allocated some of the buffers of a finding.
type Stack struct {
	Op     string // that the stack does not begin with; "" where it does
	Frames []Frame
	None   bool // no stack was recorded
}

// Code is a line of the program: File is relative to the folder that all its files
// have in common, and "" where no line is known.
type Code struct {
	File string
	Line int
}

// FindingsOf returns findings of a capture, never nil.
func FindingsOf(c *lifetime.Capture, found []leak.Finding) []Finding {
	all, folder := []Finding{}, commonFolder(&c.Tables)
	for i := range found {
		all = append(all, findingOf(&c.Tables, &found[i], folder))
	}
	return all
}

// RankFindingsOf returns findings about ranks, which are of no single capture.
func RankFindingsOf(found []leak.Finding) []Finding {
	all := []Finding{}
	for i := range found {
		none := &lifetime.Tables{Sources: []lifetime.Source{{File: found[i].Text(leak.FigFile)}}, Sites: make([]lifetime.Site, 1), Stacks: make([]lifetime.Stack, 1)}
		all = append(all, findingOf(none, &found[i], ""))
	}
	return all
}

func findingOf(t *lifetime.Tables, f *leak.Finding, folder string) Finding {
	out := Finding{
		Rule: f.Rule, Severity: f.Severity.String(), Confidence: math.Round(f.Confidence*1000) / 1000,
		File: t.Sources[f.Space.Source].File, Space: f.Space.ID(), Site: siteOf(t, f.Place()),
		Bytes: f.Amount.Bytes, RequestedBytes: f.Amount.Requested, Count: f.Amount.Count,
		Description: f.Description, Evidence: map[string]any{}, Suggestions: append([]string{}, f.Suggestions...),
		Level: f.Severity, Leak: f.IsLeak(), Cause: f.Text(leak.FigCausePlace), Code: codeOf(t, f.Place(), folder),
		Text: strings.TrimPrefix(f.Description, t.PlaceOf(f.Place()).String()+": "),
	}
	if f.BytesPerStep > 0 {
		n := int64(math.Round(f.BytesPerStep))
		out.BytesPerStep = &n
	}
	for _, e := range f.Evidence {
		if out.Evidence[e.Name] = e.Value; e.Text != "" {
			out.Evidence[e.Name] = e.Text
		}
	}
	if len(f.Sites) == 0 {
		return out
	}
	out.Name = SiteName(t, &f.Space.SpaceInfo, f.Sites[0])
	if static(&f.Space.SpaceInfo) {
		i := instructionOf(t, f.Sites[0])
		out.Instruction, out.MoreInstructions = &i, len(f.Sites)-1
		return out
	}
	for _, site := range f.Sites {
		s := Stack{Frames: framesOf(t, t.Sites[site].Stack), None: t.Sites[site].Stack == 0}
		if op := t.Sites[site].Op; !s.None && s.Frames[0].Function != op {
			s.Op = op
		}
		out.Stacks = append(out.Stacks, s)
	}
	return out
}

// codeOf returns the line of the program that a site names.
func codeOf(t *lifetime.Tables, site lifetime.SiteID, folder string) Code {
	f, ok := t.UserFrame(site)
	if !ok || f.File == "" || f.Kind != lifetime.User {
		return Code{}
	}
	return Code{path.Clean(strings.TrimPrefix(slashed(f.File), folder)), max(f.Line, 1)} // "//x" would be the address of a host
}

func slashed(file string) string { return strings.ReplaceAll(file, `\`, "/") }

// commonFolder returns the folder in which all files of the program lie.
func commonFolder(t *lifetime.Tables) string {
	folder, any := "", false
	for _, f := range t.Frames {
		if f.Kind != lifetime.User || f.File == "" {
			continue
		}
		dir := path.Dir(slashed(f.File)) + "/"
		if !any {
			folder, any = dir, true
		}
		for !strings.HasPrefix(dir, folder) {
			folder = folder[:strings.LastIndexByte(strings.TrimSuffix(folder, "/"), '/')+1]
		}
	}
	return folder
}
