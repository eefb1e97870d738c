package report

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/lifetime/finding"
)

// TestBundle compares the committed script and style with a new build of the sources.
func TestBundle(t *testing.T) {
	browser.CheckBundle(t, "report.go", regexp.MustCompile(`(?m)^//go:generate go (-C \.\./\.\./\.\. tool esbuild .*) --outfile=cmd/memlane-fleet/report/(\S+)$`))
}

// TestPage: the page does not depend on the order of captures, contains their texts only in
// base64, and names report.txt for readers without JavaScript.
func TestPage(t *testing.T) {
	evil := `</script><script>alert(1)</script>`
	var records []*fleet.Record
	for rank := range 9 {
		r := &fleet.Record{Name: fmt.Sprintf("rank%d%s", rank, evil), Losses: []fleet.Loss{{Reason: evil, Count: 1}}, Memories: []fleet.Memory{
			{Rank: "rank " + evil, Device: evil, Peak: int64(rank * rank), Usage: make([]int64, rank)}, {Device: evil, Host: evil},
		}}
		r.Findings = []fleet.Finding{{Rule: evil, Severity: "critical", Place: evil, Memory: 1}, {Rule: evil, Severity: evil}}
		if rank == 4 {
			r = &fleet.Record{Name: r.Name, State: fleet.Refused, Reason: evil}
		}
		records = append(records, r)
	}
	write := func() string {
		f := &fleet.Fleet{}
		for _, r := range records {
			f.Add(r)
		}
		var out bytes.Buffer
		if err := writePage(&out, Of(f, finding.RankNames{}, nil, func(string) string { return "//evil.example/" + evil })); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	html := write()
	if strings.Contains(html, "alert(1)") || strings.Contains(html, "evil.example") {
		t.Error("text of a capture is in the page without escapes")
	}
	if !strings.Contains(html, "<noscript>") || !strings.Contains(html, "report.txt") {
		t.Error("the page does not name report.txt for readers without JavaScript")
	}
	if !strings.Contains(html, `connect-src 'none'`) {
		t.Error("the page may ask others")
	}
	slices.Reverse(records)
	if write() != html {
		t.Error("the order of captures matters")
	}
}
