package xplane

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// rootLevels are events that are roots of groups by their name, and their
// level: XProf's group_events.
var rootLevels = map[string]int64{
	"TraceContext": 1, "BatchingSessionRun": 1, "ProcessBatch": 2, "OrbaxServing::ProcessBatch": 2,
}

// groups are XProf's step ids: the rules of its group_events, which only its
// own outputs need.
//
// A root is an event with the statistic _r, whose value is its level, or one of
// rootLevels. A group spreads from its root to what is nested in its members
// and, over links, to what consumes what they produce. Not followed are loops
// of TensorFlow's executor, which XProf takes for the steps of programs that
// train inside one, and its links by the names of TPU requests.
type groups struct {
	nodes     []node // the events that a group starts or spreads from
	producers []gate
	consumers []gate
	members   []int32 // of each report of the host, in order of the file, the node it is nested in
}

// node is an event that matters for groups. What else is nested in it has its
// group.
type node struct {
	parent int32 // node it is nested in; -1 = none
	group  int32 // -1 = none
}

// gate is one side of a link.
type gate struct {
	link link
	node int32
}

// root is a node that may open a group.
type root struct {
	node  int32
	level int64
	at    instant
}

// nested is an event on the stack of a line.
type nested struct {
	begin, end int64
	node       int32
}

// groupsOf finds the groups of the whole file.
func (r *reader) groupsOf() (*groups, error) {
	g := &groups{}
	var hosts []*host
	any := false
	for i := range r.planes {
		p := &r.planes[i]
		if strings.HasPrefix(p.name, tpuPrefix) {
			continue // roots there do not count
		}
		s, err := r.schema(p)
		if err != nil {
			return nil, err
		}
		h := &host{r: r, p: p, schema: s}
		h.decoder.stats = &h.stats
		if s.loops || p.name == hostPlane && s.grouped {
			return g, nil
		}
		hosts = append(hosts, h)
		any = any || s.roots
	}
	if !any {
		return g, nil
	}
	var roots []root
	for _, h := range hosts {
		for i, l := range h.lines() {
			found, err := g.read(l)
			if err != nil {
				return nil, fmt.Errorf("%s: lines[%d]: %w", h.p.name, i, err)
			}
			roots = append(roots, found...)
		}
	}
	g.spread(roots)
	return g, nil
}

// read takes in the events of a line, in the order of the file. It returns the
// roots.
func (g *groups) read(l *line) ([]root, error) {
	l.window(windowBytes)
	if err := l.open(); err != nil {
		return nil, err
	}
	isHost := l.h.p.name == hostPlane
	var stack []nested
	var roots []root
	for {
		at := l.w.at()
		b, ok := l.nextBody()
		if !ok {
			return roots, l.h.r.settle(&l.w, &l.cut)
		}
		e := &l.event
		if !l.h.decoder.decode(b, e) {
			return nil, &damage{at, "an event cannot be read"}
		}
		end := lifetime.AddSat(e.offset, e.duration)
		parent, async := int32(-1), e.number(isAsync, 0) != 0
		if !async {
			for len(stack) > 0 && (stack[len(stack)-1].begin > e.offset || stack[len(stack)-1].end < end) {
				stack = stack[:len(stack)-1]
			}
			if len(stack) > 0 {
				parent = stack[len(stack)-1].node
			}
		}
		id := parent
		level, named := l.h.rootNames[e.meta]
		if e.is(isRoot) {
			level = e.stats[isRoot]
		}
		if e.is(isRoot) || named || e.is(producerID) || e.is(consumerID) {
			id = g.add(e, parent)
		}
		if e.is(isRoot) || named {
			roots = append(roots, root{id, level, after(l.stamp, e.offset)})
		}
		if !async {
			stack = append(stack, nested{e.offset, end, id})
		}
		if isHost && l.h.reports(e) {
			g.members = append(g.members, id)
		}
	}
}

func (g *groups) add(e *event, parent int32) int32 {
	id := int32(len(g.nodes))
	g.nodes = append(g.nodes, node{parent, -1})
	if e.is(producerID) && e.is(producerType) {
		g.producers = append(g.producers, gate{link{e.stats[producerType], e.stats[producerID]}, id})
	}
	if e.is(consumerID) && e.is(consumerType) {
		g.consumers = append(g.consumers, gate{link{e.stats[consumerType], e.stats[consumerID]}, id})
	}
	return id
}

// spread opens the groups: roots of the highest level first, then by time. A
// root that has a group already, or that descends from a root of its own
// level, opens none.
func (g *groups) spread(roots []root) {
	slices.SortStableFunc(roots, func(x, y root) int { return cmp.Or(cmp.Compare(y.level, x.level), x.at.compare(y.at)) })
	edges := g.join()
	down, up := adjacent(len(g.nodes), edges, 0, 1), adjacent(len(g.nodes), edges, 1, 0)
	levels := map[int32]int64{}
	for _, r := range roots {
		levels[r.node] = r.level
	}
	next := int32(0)
	seen := make([]int32, len(g.nodes)) // by the root that looked last, from 1
	for i, r := range roots {
		if g.nodes[r.node].group >= 0 || descends(up, r, levels, seen, int32(i+1)) {
			continue
		}
		todo := []int32{r.node}
		for len(todo) > 0 {
			id := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if g.nodes[id].group >= 0 {
				continue
			}
			g.nodes[id].group = next
			todo = append(todo, down.of(id)...)
		}
		next++
	}
}

// descends reports whether an ancestor of r is a root of the same level; r is
// one when it consumes what it produces itself.
func descends(up adjacency, r root, levels map[int32]int64, seen []int32, mark int32) bool {
	todo := slices.Clone(up.of(r.node))
	for _, id := range todo {
		if slices.Contains(up.of(id), r.node) {
			return true
		}
	}
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[id] == mark || id == r.node {
			continue
		}
		seen[id] = mark
		if level, ok := levels[id]; ok && level == r.level {
			return true
		}
		todo = append(todo, up.of(id)...)
	}
	return false
}

// adjacency lists the neighbours of every node.
type adjacency struct{ from, to []int32 }

func (a adjacency) of(id int32) []int32 { return a.to[a.from[id]:a.from[id+1]] }

// join adds a node for every link that has both sides: producers are its
// parents and consumers its children, so that edges stay as many as events.
func (g *groups) join() (edges [][2]int32) {
	byLink := func(x, y gate) int {
		return cmp.Or(cmp.Compare(x.link.kind, y.link.kind), cmp.Compare(x.link.id, y.link.id))
	}
	slices.SortStableFunc(g.producers, byLink)
	slices.SortStableFunc(g.consumers, byLink)
	for p, c := 0, 0; p < len(g.producers) && c < len(g.consumers); {
		switch order := byLink(g.producers[p], g.consumers[c]); {
		case order < 0:
			p++
		case order > 0:
			c++
		default:
			from, to := sameLink(g.producers[p:]), sameLink(g.consumers[c:])
			p, c = p+len(from), c+len(to)
			if len(from) >= maxLinked && len(to) >= maxLinked {
				continue
			}
			id := int32(len(g.nodes))
			g.nodes = append(g.nodes, node{-1, -1})
			for _, gate := range from {
				edges = append(edges, [2]int32{gate.node, id})
			}
			for _, gate := range to {
				edges = append(edges, [2]int32{id, gate.node})
			}
		}
	}
	for id, n := range g.nodes {
		if n.parent >= 0 {
			edges = append(edges, [2]int32{n.parent, int32(id)})
		}
	}
	return edges
}

// maxLinked is how many producers of a link may meet as many consumers: XProf
// takes more of both for numbers that were used again.
const maxLinked = 64

// sameLink returns the gates at the beginning of sorted ones that have the same
// link.
func sameLink(gates []gate) []gate {
	n := 1
	for n < len(gates) && gates[n].link == gates[0].link {
		n++
	}
	return gates[:n]
}

// adjacent lists the ends of the edges of n nodes by their beginnings.
func adjacent(n int, edges [][2]int32, from, to int) adjacency {
	a := adjacency{from: make([]int32, n+1), to: make([]int32, len(edges))}
	for _, e := range edges {
		a.from[e[from]+1]++
	}
	for i := range n {
		a.from[i+1] += a.from[i]
	}
	filled := slices.Clone(a.from)
	for _, e := range edges {
		a.to[filled[e[from]]] = e[to]
		filled[e[from]]++
	}
	return a
}

// of returns the group of a report; -1 = none.
func (g *groups) of(i int) int32 {
	if g.members[i] < 0 {
		return -1
	}
	return g.nodes[g.members[i]].group
}

// keepReports reads the events of allocators in the order of the file.
func (h *host) keepReports() error {
	g, err := h.r.groupsOf()
	if err != nil {
		return err
	}
	n := 0
	for i, l := range h.lines() {
		l.window(windowBytes)
		if err := l.open(); err != nil {
			return fmt.Errorf("lines[%d]: %w", i, err)
		}
		for {
			more, err := l.scan()
			if err != nil {
				return fmt.Errorf("lines[%d]: %w", i, err)
			}
			if !more {
				break
			}
			if !h.reports(&l.event) {
				continue
			}
			step := int32(l.event.number(groupID, -1))
			if n < len(g.members) {
				step = g.of(n)
			}
			n++
			h.report(&l.event, l.at.ns, step)
		}
	}
	return h.describe()
}
