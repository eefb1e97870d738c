package build

import (
	"strings"

	"github.com/memlane/memlane/lifetime/frame"
)

// reclassifyInstalled makes the frames of an installed program frames of a program: those of packages that stacks begin
// in, behind a starter of Python or of the package. A thread may begin in any library.
func (b *Builder) reclassifyInstalled() {
	const starting, begun = 1, 2
	t := &b.capture.Tables
	at, own := make([]uint8, len(t.Stacks)), map[string]bool{}
	for id := 1; id < len(t.Stacks); id++ {
		f := &t.Frames[t.Stacks[id].Frame]
		at[id] = at[t.Stacks[id].Caller]
		if f.Kind > frame.Framework || at[id] == begun {
			continue
		}
		name, starts := packageOf(f.File), f.Function == "<module>" || f.Function == "_run_module_as_main"
		switch starter := f.Kind == frame.Framework || f.File == "<string>" || strings.Contains(f.File, "/bin/"); {
		case at[id] == 0 && !starts, name == "torch", name == "" && !starter:
			at[id] = begun
		case name == "":
			at[id] = starting
		default:
			at[id], own[name] = begun, true
		}
	}
	for i, f := range t.Frames {
		if len(own) > 0 && f.Kind == frame.Framework && own[packageOf(f.File)] {
			t.Frames[i].Kind = frame.User
		}
	}
}

// packageOf returns the installed package that a file belongs to, "" for none.
func packageOf(file string) string {
	_, inside, _ := strings.Cut(strings.ReplaceAll(file, `\`, "/"), "-packages/")
	return strings.Split(inside, "/")[0]
}
