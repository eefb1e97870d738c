package selection

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/layer"
	"github.com/memlane/memlane/lifetime/region"
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
	ByName     By = "name"   // of the tensor in the program, if the recorder found it; indexes are folded
	ByHolder   By = "holder" // what keeps it alive, as the recorder found it
)

// Bys lists all groups.
var Bys = []By{ByLine, ByFunction, ByFile, ByStack, ByOp, ByModule, ByLayer, ByShape, ByCategory, ByPhase, ByPool,
	ByStream, ByName, ByHolder}

// GroupBy returns a copy of the capture in which each group of buffers has one site, so that all answers and pictures
// are by group. It fails with a *NothingError if the capture has no group of this kind. Sites of regions, marks and
// frees do not change.
func GroupBy(c *lifetime.Capture, by By) (*lifetime.Capture, error) {
	if by == ByLine {
		return c, nil
	}
	g := groupsBy(c, by, false)
	if g.found || len(c.Spaces) == 0 {
		return g.c, nil
	}
	var others []string
	for _, other := range Bys {
		if other == ByLine || other != by && groupsBy(c, other, true).found {
			others = append(others, string(other))
		}
	}
	return nil, &NothingError{c.Name(), fmt.Sprintf("no buffer has a recorded %s; use --by %s", by, strings.Join(others, ", "))}
}

type groups struct {
	from   *lifetime.Capture
	c      *lifetime.Capture
	by     By
	sites  map[lifetime.Site]lifetime.SiteID // the groups
	stacks map[call]lifetime.StackID         // of groups
	frames map[frame.Frame]lifetime.FrameID  // of stacks
	layers *layer.Layers                     // for ByModule and ByLayer
	texts  map[lifetime.FrameID]string       // for ByStack, of frames
	found  bool                              // a buffer belongs to a recorded group
	ask    bool                              // only found is asked for
}

type call struct {
	frame  lifetime.FrameID
	caller lifetime.StackID
}

func groupsBy(c *lifetime.Capture, by By, ask bool) *groups {
	grouped := *c
	grouped.Sites, grouped.Stacks, grouped.Frames = slices.Clip(c.Sites), slices.Clip(c.Stacks), slices.Clip(c.Frames)
	grouped.Spaces = nil
	g := &groups{from: c, c: &grouped, by: by, ask: ask, layers: layer.Of(&c.Tables),
		sites: map[lifetime.Site]lifetime.SiteID{}, stacks: map[call]lifetime.StackID{},
		frames: map[frame.Frame]lifetime.FrameID{}, texts: map[lifetime.FrameID]string{}}
	for _, s := range c.Spaces {
		grouped.Spaces = append(grouped.Spaces, g.space(s))
	}
	return g
}

func (g *groups) space(s *lifetime.Space) *lifetime.Space {
	grouped := *s
	grouped.Buffers, grouped.Ungrouped = slices.Clone(s.Buffers), s
	known := map[groupKey]lifetime.SiteID{}
	var pool func(buffer int) region.PoolID
	if g.by == ByPool || g.by == ByStream {
		pool = region.PoolsOfBuffers(s)
	}
	for i := range grouped.Buffers {
		if g.ask && g.found {
			break
		}
		b := &grouped.Buffers[i]
		k := groupKey{Row: lifetime.Row{Site: b.Site, Kind: b.Kind, Purpose: s.PurposeOf(i)}}
		switch g.by {
		case ByPool, ByStream:
			k = groupKey{pool: pool(i)}
		case ByName, ByHolder:
			if h := g.from.HolderOf(s, i); h != nil || s.Axis != lifetime.ProgramOrder {
				k = groupKey{holder: h}
			}
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

// groupKey is what the group of a buffer depends on: its row without an amount, its pool or its holder.
type groupKey struct {
	lifetime.Row
	pool   region.PoolID
	holder *holder.Holder
}

func (g *groups) group(s *lifetime.Space, k groupKey) lifetime.SiteID {
	var group lifetime.Site
	switch g.by {
	case ByPool:
		if !k.pool.NoRegion && !k.pool.Unknown {
			group.Op = k.pool.PoolName()
		}
	case ByStream:
		if !k.pool.NoRegion {
			group.Op = k.pool.StreamName()
		}
	case ByName:
		if k.holder != nil {
			group.Op = holder.FoldIndexes(k.holder.Label())
		} else {
			group.Op = holder.FoldIndexes(g.from.ArgumentOf(k.Kind, k.Site))
		}
	case ByHolder:
		if k.holder != nil {
			group.Op = holder.FoldIndexes(k.holder.Whole())
		}
	case ByCategory:
		group.Op = g.from.Category(&s.SpaceInfo, k.Kind, k.Site, k.Purpose)
	case ByPhase:
		if k.Purpose > 0 {
			group.Op = g.from.Purpose(k.Purpose).Phase.String()
		}
	case ByModule:
		group.Op = g.layers.ModuleOf(k.Site, k.Purpose)
	case ByLayer:
		group.Op = g.layers.OfBuffer(k.Site, k.Purpose)
		group.Module = group.Op // it tells the layer again
	default:
		group = g.ofSite(k.Site)
	}
	if group == (lifetime.Site{}) {
		group.Op = fmt.Sprintf("(no %s recorded)", g.by)
	} else {
		g.found = true
	}
	id, ok := g.sites[group]
	if !ok {
		id = lifetime.SiteID(len(g.c.Sites))
		g.c.Sites = append(g.c.Sites, group)
		g.sites[group] = id
	}
	return id
}

// ofSite returns the group of a site; the zero Site if it was not recorded.
func (g *groups) ofSite(id lifetime.SiteID) lifetime.Site {
	t, s := &g.from.Tables, &g.from.Sites[id]
	p := t.PlaceOf(id)
	switch g.by {
	case ByOp:
		return lifetime.Site{Op: s.Op}
	case ByShape:
		return lifetime.Site{Op: s.TypeAndShape()}
	case ByStack:
		if frames := g.stackShown(s, p); len(frames) > 0 {
			names := make([]string, 0, len(frames))
			for _, id := range frames {
				names = append(names, g.texts[id])
			}
			return lifetime.Site{Op: strings.Join(names, " ← "), Source: g.stack(frames...)} // its place is the whole stack
		}
	case ByFile:
		if p.Frame.File != "" && !p.Unseen {
			return lifetime.Site{Stack: g.stack(g.frame(frame.Frame{File: p.Frame.File, Kind: p.Frame.Kind}))}
		}
	case ByFunction:
		if p.Frame.Function != "" && p.Node == "" && !p.Unseen {
			return lifetime.Site{Stack: g.stack(g.frame(frame.Frame{Function: p.Frame.Function, File: p.Frame.File,
				Kind: p.Frame.Kind}))}
		}
		p.Frame = frame.Frame{}
	}
	switch name, _ := p.Parts(); {
	case g.by == ByStack && p != lifetime.Place{}:
		return lifetime.Site{Op: p.String()}
	default:
		return lifetime.Site{Op: name}
	}
}

// frame returns the number of a frame in a stack of a group. Equal frames have the same.
func (g *groups) frame(f frame.Frame) lifetime.FrameID {
	id, ok := g.frames[f]
	if !ok {
		id = lifetime.FrameID(len(g.c.Frames))
		g.c.Frames = append(g.c.Frames, f)
		g.frames[f], g.texts[id] = id, f.String()
	}
	return id
}

// stack returns a stack of frames, innermost first.
func (g *groups) stack(frames ...lifetime.FrameID) (id lifetime.StackID) {
	for _, f := range slices.Backward(frames) {
		level := call{f, id}
		known, ok := g.stacks[level]
		if !ok {
			known = lifetime.StackID(len(g.c.Stacks))
			g.stacks[level] = known
			g.c.Stacks = append(g.c.Stacks, lifetime.Stack{Frame: f, Caller: id})
		}
		id = known
	}
	return id
}

// stackShown returns the frames of a site that people read, innermost first; none if the place says more. Like outputs
// it leaves out the outer calls of deep stacks, which would grow with the square of their depth.
func (g *groups) stackShown(s *lifetime.Site, p lifetime.Place) (frames []lifetime.FrameID) {
	if p.Node != "" || p.Unseen || p.Op != "" {
		return nil
	}
	t := &g.from.Tables
	all, cut := t.Innermost(nil, s.Stack)
	shown, _ := frame.Fold(all, func(id lifetime.FrameID) frame.Kind { return t.Frames[id].Kind })
	for _, id := range shown {
		frames = append(frames, g.frame(t.Frames[id]))
	}
	if cut {
		frames = append(frames, g.frame(frame.Frame{Function: frame.OuterCalls, Kind: frame.Scope}))
	}
	return frames
}
