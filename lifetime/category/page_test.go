package category_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/purpose"
)

var update = flag.Bool("update", false, "rewrite the table of rules in the manual")

// TestRulesPage: the manual has the table of rules.
func TestRulesPage(t *testing.T) {
	const page = "../../docs/manual/categories.md"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), "<!-- rules: generated -->\n")
	_, after, ended := strings.Cut(rest, "<!-- end -->")
	if !ok || !ended {
		t.Fatal("no place for the table")
	}
	var b strings.Builder
	b.WriteString("| rule | confidence | reason |\n|---|---|---|\n")
	seen := map[string]bool{category.Repeats: true}
	for _, r := range category.Rules {
		if seen[r.Name] || r.Reason == "" {
			t.Errorf("rule %s is there twice or incomplete", r.Name)
		}
		seen[r.Name] = true
		confidence := category.Measured[r.Name].Confidence()
		if r.Evidence == purpose.FromRecord {
			confidence = 1
		}
		fmt.Fprintf(&b, "| `%s` | %.2f | %s |\n", r.Name, confidence, r.Reason)
	}
	want := before + "<!-- rules: generated -->\n" + b.String() + "<!-- end -->" + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if want != string(data) {
		t.Error("the table of rules is not that of the package; run go test ./lifetime/category -update")
	}
}
