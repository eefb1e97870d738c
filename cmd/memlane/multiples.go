package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/render/chart"
	"github.com/memlane/memlane/render/plot"
)

// maxPanels is how many panels a picture of several captures has.
const maxPanels = 64

// ofOneCapture are the flags of svg that say how to draw buffers.
var ofOneCapture = []string{"layout", "color", "buffer", "max-blocks"}

// multiples is a picture of several captures. It keeps curves, no capture.
type multiples struct {
	ranks  *answer.Ranks
	panels []panel
	more   int  // panels that are left out
	chosen bool // a capture has several memory IDs, of which one is drawn
}

// panel is the usage of a rank, or else of a capture.
type panel struct {
	*chart.Miniature
	of memory
}

// memory is what a panel is of.
type memory struct{ rank, file, id string }

// drawMultiples draws several captures side by side.
func drawMultiples(c *cli.Context) error {
	if view := c.String("view"); c.IsSet("view") && view != "usage" {
		return usage("svg --view %s: want one capture, got %d: of several the usage is drawn", view, c.NArg())
	}
	for _, flag := range ofOneCapture {
		if c.IsSet(flag) {
			return usage("svg --%s: want one capture, got %d: of several the usage is drawn, not the buffers", flag, c.NArg())
		}
	}
	several, err := ranksOf(c)
	if err != nil {
		return err
	}
	want, err := selectionOf(c)
	if err != nil {
		return err
	}
	m := &multiples{ranks: several}
	err = captures(0).each(c, &want, func(capture *lifetime.Capture) error { return m.add(&want, capture) })
	if err != nil {
		return err
	}
	if m.chosen && !c.Bool("quiet") {
		fmt.Fprintln(c.App.ErrWriter, "memlane: drawing the memory ID with the highest peak of each capture; --space chooses another")
	}
	what, all := m.named()
	return writeOutput(c, func(w io.Writer) error {
		return chart.Multiples(w, what, all, m.more, chart.Options{Format: pictureFormat(c), Theme: themes[c.String("theme")]})
	})
}

// add takes a capture: a panel for each of its ranks.
func (m *multiples) add(want *lifetime.Selection, capture *lifetime.Capture) error {
	m.ranks.Add(capture.Outline(), leak.Find(capture, capture.Spaces, leak.Settings{}))
	spaces, _ := ofRuntime(want, capture.Spaces)
	ofRank := map[string][]*lifetime.Space{}
	var order []string
	for _, s := range spaces {
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

// addPanel adds the main one of the spaces of a rank.
func (m *multiples) addPanel(capture *lifetime.Capture, rank string, spaces []*lifetime.Space) error {
	if len(m.panels) == maxPanels {
		m.more++
		return nil
	}
	s, of := mainSpace(spaces)
	m.chosen = m.chosen || of > 1
	if s == nil {
		return &lifetime.NothingError{File: capture.Name(), Why: "no buffers: " + whyNoBuffers(spaces)}
	}
	drawn, err := chart.NewMiniature("", s)
	if err != nil {
		return nothing(capture, err)
	}
	m.panels = append(m.panels, panel{drawn, memory{rank, capture.Sources[s.Source].File, s.ID()}})
	return nil
}

// named names the panels and marks the outliers, and says what the panels are: ranks
// where each capture tells its own, and no two the same.
func (m *multiples) named() (what string, all []*chart.Miniature) {
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
	odd := m.outliers()
	for i, name := range plot.Apart(files) {
		p := m.panels[i]
		p.Name = name
		if what == "ranks" {
			p.Name = p.of.rank
		}
		p.Outlier, p.Why = odd[p.of].measure, odd[p.of].why
		all = append(all, p.Miniature)
	}
	return what, all
}

// outlier is how memory of a rank differs from that of the others.
type outlier struct{ measure, why string }

// outliers returns the memory that differs.
func (m *multiples) outliers() map[memory]outlier {
	odd := map[memory]outlier{}
	for _, f := range m.ranks.Outliers() {
		odd[memory{f.Text(leak.FigRank), f.Text(leak.FigFile), f.Space.ID()}] = outlier{f.Text(leak.FigMeasure), f.Description}
	}
	return odd
}
