package lifetime

import "fmt"

// Place is where buffers were allocated, for people and for comparisons: the innermost
// function of the program itself, or the operation and the shape of its result
// where there is no stack. It is comparable.
type Place struct {
	Frame     Frame
	Op, Shape string
}

// PlaceOf returns the place of a site.
func (t *Tables) PlaceOf(site SiteID) Place {
	f, ok := t.UserFrame(site)
	if !ok || f.Kind == Scope && f.File == "" { // a stack of operators: the innermost one does not tell who
		return Place{Op: t.Sites[site].Op, Shape: t.Sites[site].Shape}
	}
	return Place{Frame: f}
}

// String names a place: "step (train.py:12)".
func (p Place) String() string {
	switch {
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

// FunctionName returns the name of the function that allocated: that of the
// innermost frame of the program itself, or else the operation.
func (t *Tables) FunctionName(site SiteID) string {
	if f, ok := t.UserFrame(site); ok {
		return f.Function
	}
	return t.Sites[site].Op
}
