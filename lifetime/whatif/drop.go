package whatif

import "slices"

var dropKind = Kind{
	Name: "drop", Values: "FILE:LINE|FUNCTION", Doc: "as if a line allocated nothing",
	check: isSomething, off: offDrop, apply: (*model).dropSite,
}

// dropSite removes what a line or a function allocated.
func (m *model) dropSite(name string) string {
	found := false
	m.drop(func(b *buffer) bool {
		is := slices.ContainsFunc(m.paths.Sites[b.site].Calls, func(i int32) bool {
			c := &m.paths.Calls[i]
			return c.Function == name || lineOf(c.File, c.Line) == name
		})
		found = found || is
		return is
	})
	if !found {
		return "no stack has this line or function"
	}
	return ""
}
