package web_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/fleet"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/render/report"
	"github.com/memlane/memlane/render/web"
)

// TestFleet: the page of a fleet is the same in whatever order captures come, has what
// they say in base64 alone, and says where to read without JavaScript.
func TestFleet(t *testing.T) {
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
		if err := web.WriteFleet(&out, report.FleetOf(f, leak.RankNames{}, func(string) string { return "//evil.example/" + evil })); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	html := write()
	if strings.Contains(html, "alert(1)") || strings.Contains(html, "evil.example") {
		t.Error("text of a capture stands in the page as it is")
	}
	if !strings.Contains(html, "<noscript>") || !strings.Contains(html, "report.txt") {
		t.Error("the page does not say where to read without JavaScript")
	}
	if !strings.Contains(html, `connect-src 'none'`) {
		t.Error("the page may ask others")
	}
	slices.Reverse(records)
	if write() != html {
		t.Error("the order of captures matters")
	}
}
