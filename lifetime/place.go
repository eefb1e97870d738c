package lifetime

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Place is the place of an allocation in the program: the innermost user frame, or,
// without a stack, the operation and the shape of its result. Places can be compared.
type Place struct {
	Frame     Frame
	Op, Shape string
}

// PlaceOf returns the place of a site.
func (t *Tables) PlaceOf(site SiteID) Place {
	f, ok := t.UserFrame(site)
	if !ok || f.Kind == Scope && f.File == "" { // a stack of operators, which has no place in the program
		return Place{Op: t.Sites[site].Op, Shape: t.Sites[site].Shape}
	}
	return Place{Frame: f}
}

// String returns the place for people: "step (train.py:12)".
func (p Place) String() string {
	switch {
	case p.Frame.File != "" && p.Frame.Function == "":
		return p.Frame.Place()
	case p.Frame.File != "":
		return fmt.Sprintf("%s (%s)", p.Frame.Function, p.Frame.Place())
	case p.Frame.Function != "":
		return p.Frame.Function
	case p.Op != "" && p.Shape != "":
		return p.Op + " " + p.Shape
	case p.Op != "":
		return p.Op
	}
	return "code without a recorded stack"
}

// FunctionName returns the function of UserFrame or, without a stack, the operation.
func (t *Tables) FunctionName(site SiteID) string {
	if f, ok := t.UserFrame(site); ok {
		return f.Function
	}
	return t.Sites[site].Op
}

// Place returns the file name and the line of a frame: "leak.py:8". It leaves out a line
// that is not known, and is "" without a file.
func (f Frame) Place() string {
	if f.File == "" {
		return ""
	}
	place := path.Base(strings.ReplaceAll(f.File, `\`, "/"))
	if f.Line > 0 {
		place += ":" + strconv.Itoa(f.Line)
	}
	return place
}
