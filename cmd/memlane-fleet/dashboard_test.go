package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestDashboard: the queries of the dashboard use metrics and labels that metrics.txt has, and its panels do not overlap.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile("engines/grafana_dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	type place struct{ X, Y, W, H int }
	var d struct {
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Panels []struct {
			ID      int
			Title   string
			GridPos place
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	metrics, err := os.ReadFile("report/testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string][]string{}
	for _, l := range regexp.MustCompile(`(?m)^(\w+)\{(.*)\} \d+$`).FindAllStringSubmatch(string(metrics), -1) {
		if labels[l[1]] == nil {
			for _, name := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(l[2], -1) {
				labels[l[1]] = append(labels[l[1]], name[1])
			}
		}
	}
	used := map[string]bool{}
	check := func(where, query string, more ...string) {
		for _, m := range regexp.MustCompile(`memlane_fleet_\w+`).FindAllString(query, -1) {
			used[m] = true
			for _, l := range more {
				if !slices.Contains(labels[m], l) {
					t.Errorf("%s: %s has no label %s in metrics.txt", where, m, l)
				}
			}
			for _, l := range regexp.MustCompile(`[{,](\w+)=`).FindAllStringSubmatch(query, -1) {
				if !slices.Contains(labels[m], l[1]) {
					t.Errorf("%s: %s has no label %s in metrics.txt", where, m, l[1])
				}
			}
		}
	}
	for _, v := range d.Templating.List {
		check(v.Name, v.Definition)
	}
	var taken []place
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			var more []string
			for _, l := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(q.LegendFormat, -1) {
				if l[1] != "kind" { // of label_replace
					more = append(more, l[1])
				}
			}
			check(p.Title, q.Expr, more...)
		}
		g := p.GridPos
		for _, o := range taken {
			if g.X < o.X+o.W && o.X < g.X+g.W && g.Y < o.Y+o.H && o.Y < g.Y+g.H {
				t.Errorf("%s overlaps another panel", p.Title)
			}
		}
		taken = append(taken, g)
	}
	for m := range labels {
		if !used[m] {
			t.Errorf("no panel has %s", m)
		}
	}
}
