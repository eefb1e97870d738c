package lifetime

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// By is what buffers are summed up by.
type By string

// The groups of buffers. ByLine is the place of a site, the usual one.
const (
	ByLine     By = "line"
	ByFunction By = "function"
	ByFile     By = "file"
	ByStack    By = "stack"
	ByOp       By = "op"
	ByModule   By = "module"
	ByLayer    By = "layer"
	ByShape    By = "shape"
	ByCategory By = "category"
	ByPhase    By = "phase"
	ByPool     By = "pool"
	ByStream   By = "stream"
)

// Bys lists all groups.
var Bys = []By{ByLine, ByFunction, ByFile, ByStack, ByOp, ByModule, ByLayer, ByShape, ByCategory, ByPhase, ByPool, ByStream}

// GroupBy returns a copy of the capture in which each group of buffers has one site, so that all answers and pictures
// are by group. It fails with a *NothingError if the capture has no group of this kind. Sites of regions, marks and frees
// do not change.
func (c *Capture) GroupBy(by By) (*Capture, error) {
	if by == ByLine {
		return c, nil
	}
	g := c.groupsBy(by)
	if g.found || len(c.Spaces) == 0 {
		return g.c, nil
	}
	var others []string
	for _, other := range Bys {
		if other == ByLine || other != by && c.groupsBy(other).found {
			others = append(others, string(other))
		}
	}
	return nil, &NothingError{c.Name(), fmt.Sprintf("no buffer has a recorded %s; use --by %s", by, strings.Join(others, ", "))}
}

// groups replaces the sites of a capture by groups.
type groups struct {
	from   *Capture
	c      *Capture
	by     By
	sites  map[Site]SiteID   // the groups
	frames map[Frame]StackID // stacks of one frame
	layers *Layers           // for ByLayer
	found  bool              // a buffer belongs to a recorded group
}

func (c *Capture) groupsBy(by By) *groups {
	grouped := *c
	grouped.Sites, grouped.Stacks, grouped.Frames = slices.Clip(c.Sites), slices.Clip(c.Stacks), slices.Clip(c.Frames)
	grouped.Spaces = nil
	g := &groups{from: c, c: &grouped, by: by, sites: map[Site]SiteID{}, frames: map[Frame]StackID{}}
	for _, s := range c.Spaces {
		grouped.Spaces = append(grouped.Spaces, g.space(s))
	}
	return g
}

func (g *groups) space(s *Space) *Space {
	grouped := *s
	grouped.Buffers, grouped.Ungrouped = slices.Clone(s.Buffers), s
	known := map[groupKey]SiteID{}
	var pool func(buffer int) PoolID
	if g.by == ByPool || g.by == ByStream {
		pool = s.BufferPools()
	}
	for i := range grouped.Buffers {
		b := &grouped.Buffers[i]
		k := groupKey{Row{Site: b.Site, Kind: b.Kind, Purpose: s.PurposeOf(i)}, PoolID{}}
		if pool != nil {
			k = groupKey{pool: pool(i)}
		}
		id, ok := known[k]
		if !ok {
			id = g.group(s, k)
			known[k] = id
		}
		b.Site = id
	}
	return &grouped
}

// groupKey is what the group of a buffer depends on: its row without an amount, or its pool.
type groupKey struct {
	Row
	pool PoolID
}

// group returns the site of a group.
func (g *groups) group(s *Space, k groupKey) SiteID {
	var group Site
	switch g.by {
	case ByPool:
		if !k.pool.NoRegion && !k.pool.Unknown {
			group.Op = k.pool.PoolName()
		}
	case ByStream:
		if !k.pool.NoRegion {
			group.Op = k.pool.StreamName()
		}
	case ByCategory:
		group.Op = g.from.Category(&s.SpaceInfo, k.Kind, k.Site, k.Purpose)
	case ByPhase:
		if k.Purpose > 0 {
			group.Op = g.from.Purpose(k.Purpose).Phase.String()
		}
	case ByModule:
		group.Op = g.from.ModuleOf(k.Site, k.Purpose)
	case ByLayer:
		if g.layers == nil {
			g.layers = g.from.Layers()
		}
		group.Op = g.layers.OfBuffer(&g.from.Tables, k.Site, k.Purpose)
		group.Module = group.Op // it tells the layer again
	default:
		group = g.ofSite(k.Site)
	}
	if group == (Site{}) {
		group.Op = fmt.Sprintf("(no %s recorded)", g.by)
	} else {
		g.found = true
	}
	id, ok := g.sites[group]
	if !ok {
		id = SiteID(len(g.c.Sites))
		g.c.Sites = append(g.c.Sites, group)
		g.sites[group] = id
	}
	return id
}

// ofSite returns the group of a site; the zero Site if it was not recorded.
func (g *groups) ofSite(id SiteID) Site {
	t, s := &g.from.Tables, &g.from.Sites[id]
	p := t.PlaceOf(id)
	switch g.by {
	case ByOp:
		return Site{Op: s.Op}
	case ByShape:
		return Site{Op: strings.TrimSpace(s.DType + " " + s.Shape)}
	case ByStack:
		if text := t.stackText(s, p); text != "" {
			return Site{Op: text}
		}
	case ByFile:
		if p.Frame.File != "" && !p.Unseen {
			return Site{Stack: g.stack(Frame{File: p.Frame.File, Kind: p.Frame.Kind})}
		}
	case ByFunction:
		if p.Frame.Function != "" && p.Node == "" && !p.Unseen {
			return Site{Stack: g.stack(Frame{Function: p.Frame.Function, File: p.Frame.File, Kind: p.Frame.Kind})}
		}
		p.Frame = Frame{}
	}
	switch name, _ := p.Parts(); {
	case g.by == ByStack && p != Place{}:
		return Site{Op: p.String()}
	default:
		return Site{Op: name}
	}
}

// stack returns a stack of one frame.
func (g *groups) stack(f Frame) StackID {
	id, ok := g.frames[f]
	if !ok {
		id = StackID(len(g.c.Stacks))
		g.frames[f] = id
		g.c.Frames = append(g.c.Frames, f)
		g.c.Stacks = append(g.c.Stacks, Stack{Frame: FrameID(len(g.c.Frames) - 1)})
	}
	return id
}

// moduleCall begins the name of a call of a module in a trace of PyTorch.
const moduleCall = "nn.Module: "

// ModuleOf returns the modules that allocated a buffer, as recorded or, if they are not, as its purpose tells; "" = not known.
func (t *Tables) ModuleOf(site SiteID, purpose PurposeID) string {
	s := &t.Sites[site]
	return cmp.Or(t.modulesOf(s), s.Module, t.Purpose(purpose).Module)
}

// numbered matches the name of a module that is one of several: Block_3, h.3, layers[3], model.py:253[3].
var numbered = regexp.MustCompile(`(^|_)\d+$|\[\d+\]$|^\pL+\d+$`)

// LayerOf returns the layer of a module: its path up to the first module that has a number, without the number that PyTorch's
// profiler gives to the root. "" = the path has none.
func LayerOf(module string) string {
	parts, separator := splitModule(module)
	for i, part := range parts {
		isRoot := i == 0 && len(parts) > 1 && separator == "/" && strings.HasSuffix(part, "_0")
		if numbered.MatchString(part) && !isRoot {
			return strings.Join(parts[:i+1], separator)
		}
	}
	return ""
}

// modulesOf returns the modules whose calls enclose an allocation, outermost first: "Model_0/Block_3/Linear_1". Of compiled
// programs these are the scopes.
func (t *Tables) modulesOf(s *Site) string {
	if s.Instr != "" && t.areScopes(s.Op, s.Stack) {
		return s.Op
	}
	var modules []string
	for f := range t.FramesOf(s.Stack) {
		switch name, ok := strings.CutPrefix(f.Function, moduleCall); {
		case ok:
			modules = append(modules, name)
		case f.Kind == Scope && s.Instr != "":
			modules = append(modules, f.Function)
		}
	}
	slices.Reverse(modules)
	return strings.Join(modules, "/")
}

// areScopes reports whether the parts of a path are the frames of a stack, which are all scopes.
func (t *Tables) areScopes(path string, stack StackID) bool {
	for f := range t.FramesOf(stack) {
		at := strings.LastIndexByte(path, '/')
		if at == 0 || f.Kind != Scope || path[at+1:] != f.Function || strings.HasPrefix(f.Function, moduleCall) {
			return false
		}
		path = path[:max(at, 0)]
	}
	return path == ""
}

// stackText returns the frames of a site that people read, innermost first; "" without any, or if the place says more.
func (t *Tables) stackText(s *Site, p Place) string {
	if p.Node != "" || p.Unseen || p.Op != "" {
		return ""
	}
	var frames []*Frame
	for f := range t.FramesOf(s.Stack) {
		frames = append(frames, f)
	}
	shown, _ := Fold(frames, func(f *Frame) FrameKind { return f.Kind })
	var names []string
	for _, f := range shown {
		names = append(names, f.String())
	}
	return strings.Join(names, " ← ")
}
