package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/render/model"
)

// Located is a finding with what code hosts want to know of it.
type Located struct {
	Capture *lifetime.Capture
	Finding *leak.Finding
	State   string // against a baseline: new, unchanged, absent; "" without one
}

// All returns the findings of captures.
func (d *Data) All() (all []Located) {
	for i, found := range d.Findings {
		for j := range found {
			all = append(all, Located{d.Captures[i], &found[j], ""})
		}
	}
	return all
}

// Changes returns the findings of a comparison with their states.
func Changes(d *diff.Result) (all []Located) {
	for _, c := range d.New {
		all = append(all, Located{d.After, c.After, "new"})
	}
	for _, c := range d.Still {
		all = append(all, Located{d.After, c.After, "unchanged"})
	}
	for _, c := range d.Fixed {
		all = append(all, Located{d.Before, c.Before, "absent"})
	}
	return all
}

// place returns the file of a finding, relative to the folder that all files of the
// program have in common, and its line; "" where no file is known.
func (l *Located) place() (file string, line int) {
	f, ok := l.Capture.UserFrame(l.Finding.Place())
	if !ok || f.File == "" || f.Kind != lifetime.User {
		return "", 0
	}
	file = strings.TrimPrefix(slashed(f.File), commonFolder(l.Capture))
	return path.Clean(file), max(f.Line, 1) // "//x" would be the address of a host
}

// onDrive matches what is absolute on Windows.
var onDrive = regexp.MustCompile("^[A-Za-z]:/")

// address returns a place's file as URI: a relative reference, or that of an absolute
// path, as RFC 8089 has it.
func address(file string) string {
	u := url.URL{Path: file}
	if onDrive.MatchString(file) {
		u.Path = "/" + file
	}
	if path.IsAbs(u.Path) {
		u.Scheme = "file"
	}
	return u.String()
}

func slashed(file string) string { return strings.ReplaceAll(file, `\`, "/") }

// commonFolder returns the folder in which all files of the program lie.
func commonFolder(c *lifetime.Capture) string {
	folder, any := "", false
	for _, f := range c.Frames {
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

// The parts of SARIF 2.1.0 (docs.oasis-open.org/sarif/sarif/v2.1.0) that findings
// need.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name  string      `json:"name"`
		Rules []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID    string    `json:"id"`
		Short sarifText `json:"shortDescription"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID        string          `json:"ruleId"`
		Level         string          `json:"level"`
		Message       sarifText       `json:"message"`
		Locations     []sarifLocation `json:"locations,omitempty"`
		BaselineState string          `json:"baselineState,omitempty"`
		Properties    map[string]any  `json:"properties"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
)

// noEmbedded keeps a name from being a link in a message (SARIF 2.1.0, 3.11.6), or
// a placeholder in it (3.11.5).
var noEmbedded = strings.NewReplacer("](", "] (", "{", "{{", "}", "}}")

var sarifLevels = [...]string{leak.Info: "note", leak.Warning: "warning", leak.Critical: "error"}

// WriteSARIF writes findings as SARIF 2.1.0, which code hosts show beside the code.
func WriteSARIF(w io.Writer, all []Located) error {
	driver := sarifDriver{Name: "memlane", Rules: []sarifRule{}}
	for _, r := range leak.Rules {
		driver.Rules = append(driver.Rules, sarifRule{r.Name, sarifText{r.Doc}})
	}
	run := sarifRun{Tool: sarifTool{driver}, Results: []sarifResult{}}
	for i := range all {
		l := &all[i]
		f := l.Finding
		result := sarifResult{RuleID: f.Rule, Level: sarifLevels[f.Severity], Message: sarifText{noEmbedded.Replace(f.Description)}, BaselineState: l.State,
			Properties: map[string]any{"memory_id": f.Space.ID(), "bytes": f.Amount.Bytes, "confidence": f.Confidence}}
		if file, line := l.place(); file != "" {
			result.Locations = []sarifLocation{{sarifPhysical{sarifArtifact{address(file)}, sarifRegion{line}}}}
		}
		run.Results = append(run.Results, result)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", " ")
	if err := e.Encode(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}}); err != nil {
		return err
	}
	_, err := w.Write(model.Escape(b.Bytes()))
	return err
}

// commands are those of GitHub's workflow log.
var commands = [...]string{leak.Info: "notice", leak.Warning: "warning", leak.Critical: "error"}

// A command ends with its line; values of its properties end with a comma or colon.
var (
	ofMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	ofProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// WriteAnnotations writes findings as workflow commands of GitHub Actions, which
// annotate the lines of a pull request. What is fixed is a notice.
func WriteAnnotations(w io.Writer, all []Located) error {
	for i := range all {
		l := &all[i]
		f := l.Finding
		command, title := commands[f.Severity], f.Rule
		switch l.State {
		case "absent":
			command, title = commands[leak.Info], "fixed: "+title
		case "new":
			title = "new: " + title
		}
		where := ""
		if file, line := l.place(); file != "" {
			where = fmt.Sprintf("file=%s,line=%d,", ofProperty.Replace(Printable(file)), line)
		}
		if _, err := fmt.Fprintf(w, "::%s %stitle=%s::%s\n", command, where, ofProperty.Replace("memlane "+title),
			ofMessage.Replace(Printable(f.Description))); err != nil {
			return err
		}
	}
	return nil
}

// Printable replaces what does not print: a name must not move a cursor, change
// colours or turn the direction of writing around. Nor must it be a command to the
// log of a pipeline: to GitHub's runner each line is one that begins with "::"
// behind whatever blanks, or holds "##[" anywhere.
func Printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if text := strings.TrimLeft(s, " "); strings.HasPrefix(text, "::") {
		s = s[:len(s)-len(text)] + "?" + text[1:]
	}
	return strings.ReplaceAll(s, "##[", "##?")
}
