package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/chart"
	"github.com/memlane/memlane/render/figure"
	"github.com/memlane/memlane/render/plot"
)

// maxPanels is the maximum number of panels in a picture of several captures.
const maxPanels = 64

// multiples is a picture of several captures. It keeps their curves, not the captures.
type multiples struct {
	ranks  *answer.Ranks
	panels []panel
	more   int  // omitted panels
	chosen bool // a panel shows one of several memory IDs

	byEvent bool // --axis event
}

// panel is the usage of a rank, or of a capture without ranks.
type panel struct {
	*chart.Miniature
	of memory
}

// memory identifies the space that a panel shows.
type memory struct{ rank, file, id string }

func drawMultiples(c *cli.Context, files []string) error {
	for _, flag := range []string{"view", "layout", "color", "buffer", "height"} {
		if c.IsSet(flag) && c.String(flag) != "usage" {
			return usage("svg --%s %s takes one capture (got %d); several captures are drawn as usage, in panels of one height", flag, c.String(flag), len(files))
		}
	}
	ranks, err := ranksOf(c)
	if err != nil {
		return err
	}
	ranks.Judged = true
	selection, err := selectionOf(c)
	if err != nil {
		return err
	}
	m := &multiples{ranks: ranks, byEvent: axes[c.String("axis")] == figure.Events}
	err = captures(0).eachOf(c, files, &selection, func(capture *judge.Capture) error { return m.add(&selection, capture) })
	if err != nil {
		return err
	}
	if m.chosen && !c.Bool("quiet") {
		fmt.Fprintln(c.App.ErrWriter,
			"memlane: drawing the memory ID with the highest peak of each capture; select another with --space")
	}
	what, all := m.miniatures()
	return writeOutput(c, func(w io.Writer) error { return chart.Multiples(w, what, all, m.more, chartOptions(c)) })
}

func (m *multiples) add(selection *selection.Selection, capture *judge.Capture) error {
	m.ranks.Add(capture.Outline())
	ofRank := map[string][]*lifetime.Space{}
	var order []string
	for _, s := range runtimeSpaces(selection, capture.Spaces) {
		rank := m.ranks.RankOf(&capture.Tables, &s.SpaceInfo)
		if ofRank[rank] == nil {
			order = append(order, rank)
		}
		ofRank[rank] = append(ofRank[rank], s)
	}
	for _, rank := range order {
		if err := m.addPanel(capture, rank, ofRank[rank]); err != nil {
			return err
		}
	}
	return nil
}

func (m *multiples) addPanel(capture *judge.Capture, rank string, spaces []*lifetime.Space) error {
	if len(m.panels) == maxPanels {
		m.more++
		return nil
	}
	s, of, _ := figure.Main(capture, spaces)
	m.chosen = m.chosen || of > 1
	if s == nil {
		return noBuffers(capture)
	}
	if m.byEvent {
		s = selection.ByEvent(s)
	}
	drawn, err := chart.NewMiniature("", s)
	if err != nil {
		return nothingError(capture, err)
	}
	m.panels = append(m.panels, panel{drawn, memory{rank, capture.Sources[s.Source].File, s.ID()}})
	return nil
}

// miniatures returns the panels with names and outliers marked. what is "ranks" if every
// capture has its own rank, else "captures".
func (m *multiples) miniatures() (what string, all []*chart.Miniature) {
	var files []string
	seen := map[string]bool{}
	for _, p := range m.panels {
		files = append(files, p.of.file)
		seen[p.of.rank] = true
	}
	what = "captures"
	if m.ranks.Known() && len(seen) == len(m.panels) {
		what = "ranks"
	}
	outliers := map[memory]finding.Finding{}
	for _, f := range m.ranks.Outliers() {
		outliers[memory{f.Text(finding.FigRank), f.Text(finding.FigFile), f.Space.ID()}] = f
	}
	for i, name := range plot.Apart(files) {
		p := m.panels[i]
		p.Name = name
		if what == "ranks" {
			p.Name = p.of.rank
		}
		outlier := outliers[p.of]
		p.Outlier, p.Why = outlier.Text(finding.FigMeasure), outlier.Description
		all = append(all, p.Miniature)
	}
	return what, all
}
