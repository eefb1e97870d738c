package report

import (
	"fmt"
	"io"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/text"
)

// Located is a finding and its state compared with a baseline: "new", "unchanged" or
// "absent", or "" without a baseline.
type Located struct {
	answer.Finding
	State string
}

// All returns findings without a baseline.
func All(found []answer.Finding) []Located { return withState(found, "") }

// Changes returns the findings of a comparison with their states.
func Changes(d *answer.Diff) []Located {
	return slices.Concat(withState(d.Findings.New, "new"), withState(d.Findings.Still, "unchanged"),
		withState(d.Findings.Fixed, "absent"))
}

func withState(found []answer.Finding, state string) (all []Located) {
	for _, f := range found {
		all = append(all, Located{f, state})
	}
	return all
}

// onDrive matches absolute paths on Windows.
var onDrive = regexp.MustCompile("^[A-Za-z]:/")

// address returns a file as URI: a relative reference, or a file URI (RFC 8089) for an absolute path.
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

// The used parts of SARIF 2.1.0 (docs.oasis-open.org/sarif/sarif/v2.1.0).
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool                `json:"tool"`
		Bases   map[string]sarifArtifact `json:"originalUriBaseIds,omitempty"`
		Results []sarifResult            `json:"results"`
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
		URI  string `json:"uri"`
		Base string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
)

// noEmbedded breaks links (SARIF 2.1.0, 3.11.6) and placeholders (3.11.5) in a message.
var noEmbedded = strings.NewReplacer("](", "] (", "{", "{{", "}", "}}")

var sarifLevels = [...]string{finding.Info: "note", finding.Warning: "warning", finding.Critical: "error"}

// rootID stands for the folder of the repository, as code hosts call it.
const rootID = "%SRCROOT%"

// WriteSARIF writes findings as SARIF 2.1.0, which code hosts show next to the code. Files of
// the repository are relative to it, others have the recorded path.
func WriteSARIF(w io.Writer, all []Located, in Repository) error {
	driver := sarifDriver{Name: "memlane", Rules: []sarifRule{}}
	for _, r := range finding.Rules() {
		driver.Rules = append(driver.Rules, sarifRule{r.Name, sarifText{r.Doc}})
	}
	run := sarifRun{Tool: sarifTool{driver}, Results: []sarifResult{}}
	files := in.files(all)
	for i := range all {
		f := &all[i]
		result := sarifResult{RuleID: f.Rule, Level: sarifLevels[f.Level()],
			Message: sarifText{noEmbedded.Replace(text.Bounded(f.Description))}, BaselineState: f.State,
			Properties: map[string]any{"memory_id": f.Space, "bytes": f.Bytes, "confidence": f.Confidence}}
		if f.Code.File != "" {
			artifact := sarifArtifact{URI: address(cleaned(f.Code.File))}
			if file := files[f.Code.File]; file != "" {
				artifact = sarifArtifact{address(file), rootID}
				run.Bases = map[string]sarifArtifact{rootID: {URI: strings.TrimSuffix(address(cleaned(in.Root)), "/") + "/"}}
			}
			result.Locations = []sarifLocation{{sarifPhysical{artifact, sarifRegion{f.Code.Line}}}}
		}
		run.Results = append(run.Results, result)
	}
	return model.WriteJSON(w, sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
}

// commands are the workflow commands of GitHub Actions, by severity.
var commands = [...]string{finding.Info: "notice", finding.Warning: "warning", finding.Critical: "error"}

// A command ends with its line; values of its properties end with a comma or colon.
var (
	ofMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	ofProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// WriteAnnotations writes findings as workflow commands of GitHub Actions, which annotate the lines of a pull request.
// Fixed findings are notices. Files outside the repository are not named: a pull request has no lines of them.
func WriteAnnotations(w io.Writer, all []Located, in Repository) error {
	files := in.files(all)
	for i := range all {
		f := &all[i]
		command, title := commands[f.Level()], f.Rule
		switch f.State {
		case "absent":
			command, title = commands[finding.Info], "fixed: "+title
		case "new":
			title = "new: " + title
		}
		where := ""
		if file := files[f.Code.File]; file != "" {
			where = fmt.Sprintf("file=%s,line=%d,", ofProperty.Replace(text.Printable(file)), f.Code.Line)
		}
		if _, err := fmt.Fprintf(w, "::%s %stitle=%s::%s\n", command, where, ofProperty.Replace("memlane "+title),
			ofMessage.Replace(text.Printable(text.Bounded(f.Description)))); err != nil {
			return err
		}
	}
	return nil
}
