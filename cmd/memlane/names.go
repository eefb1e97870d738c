package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// captureName returns what to call a capture: its file, or the folder of its
// files.
func captureName(capture *lifetime.Capture) string {
	file := capture.Sources[0].File
	if len(capture.Sources) > 1 {
		return filepath.Dir(file)
	}
	return file
}

// siteName returns what to call a site of a space in a table.
func siteName(capture *lifetime.Capture, s *lifetime.Space, id lifetime.SiteID) string {
	site := &capture.Sites[id]
	if f, ok := capture.UserFrame(id); ok {
		name := frameName(f)
		if caller := capture.Stacks[site.Stack].Caller; f.Kind == lifetime.Scope && caller != 0 && !static(s) {
			name += " in " + frameName(capture.Frames[capture.Stacks[caller].Frame]) // "aten::empty" alone tells little
		}
		return name
	}
	switch {
	case site.Op != "":
		return printable(strings.TrimSpace(site.Op + " " + tensorName(site)))
	case site.Instr != "":
		return printable(site.Instr)
	case s.Facts&lifetime.Stacks != 0 || capture.Sources[s.Source].Format == torchSnapshot:
		return "(no stack recorded)"
	}
	return printable(strings.TrimSpace("(no operation recorded) " + tensorName(site)))
}

// tensorName returns what an allocator was told of a tensor: "float [64,256],
// output".
func tensorName(s *lifetime.Site) string {
	name := strings.TrimSpace(s.DType + " " + s.Shape)
	if s.Region != "" && name != "" {
		return name + ", " + s.Region
	}
	return name + s.Region
}

// sourcePlace returns the place in the user's program that an instruction was
// compiled from: "train.py:42", "" where it is not known. The compiler may name
// a line of a library; the calls tell who called it.
func sourcePlace(capture *lifetime.Capture, site lifetime.SiteID) string {
	for f := range capture.FramesOf(capture.Sites[site].Source) {
		if f.Kind == lifetime.User {
			return printable(f.Place())
		}
	}
	f, _ := capture.UserFrame(site)
	return printable(f.Place())
}

// frameName returns "function (file:line)" with the base name of the file.
func frameName(f lifetime.Frame) string {
	name := f.Function
	if name == "" {
		name = "?"
	}
	if place := f.Place(); place != "" {
		name += " (" + place + ")"
	}
	return printable(name)
}

// ofOperation reports whether a frame stands for an operator or range of a trace
// and not for a function. "backward: MulBackward0" stands on the stack of the
// forward pass.
func ofOperation(f lifetime.Frame) bool {
	return f.Kind == lifetime.Scope || strings.HasPrefix(f.Function, "backward: ")
}

// sinceBegin returns an instant of a space for people.
func sinceBegin(s *lifetime.Space, t int64) string {
	switch {
	case static(s) && t < 0:
		return "the beginning" // before the first instruction
	case static(s):
		return fmt.Sprintf("instruction %s of %s", units.Count(t), units.Count(s.End))
	case s.Facts&lifetime.History == 0 && t == s.AtEnd():
		return "the end" // the only instant that is known
	case s.Axis == lifetime.Time:
		return "+" + units.Span(t-s.Begin, s.Axis.Unit())
	}
	return fmt.Sprintf("%s %s", s.Axis.Unit(), units.Count(t))
}

// cutMiddle shortens text to n characters: names of modules and operations tell
// most at their ends.
func cutMiddle(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	head := (n - 1) / 3
	return string(r[:head]) + "…" + string(r[len(r)-(n-1-head):])
}
