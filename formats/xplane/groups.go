package xplane

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
)

// groupRule is the role of an event in groups. Its name determines the role, as in XProf's group_events.
type groupRule uint8

const (
	noRule     groupRule = iota
	opens                // a root of level 1
	opensOuter           // a root of level 2
	executes             // a run of TensorFlow's executor: one iteration of a loop
	fetches              // takes an element of a data set, for the run of the executor with the same id and iter_num
	prepares             // runs a function of tf.data: roots with its id open no group
)

var rootLevels = [...]int64{opens: 1, opensOuter: 2, prepares: 0}

var groupRules = map[string]groupRule{
	"TraceContext": opens, "BatchingSessionRun": opens, "ProcessBatch": opensOuter,
	"OrbaxServing::ProcessBatch": opensOuter, "ExecutorState::Process": executes,
	"IteratorGetNextOp::DoCompute": fetches, "IteratorGetNextAsOptionalOp::DoCompute": fetches,
	"InstantiatedCapturedFunction::Run": prepares, "InstantiatedCapturedFunction::RunAsync": prepares,
	"InstantiatedCapturedFunction::RunInstantiated": prepares, "InstantiatedCapturedFunction::RunWithBorrowedArgs": prepares,
}

// groups computes XProf's step ids by the rules of its group_events. Only the exports in XProf's own format need them.
//
// A root is an event with the statistic _r, whose value is its level, or an event that is one by name. A group
// spreads from its root to the events nested in its members and, over links, to the consumers of what its
// members produce. In a program that trains inside a loop of TensorFlow's executor, every iteration of the loop is a
// group, and roots open none. One rule of XProf is left out: links by the names of TPU requests.
type groups struct {
	nodes     []node // events that a group starts at or spreads from
	producers []gate
	consumers []gate
	members   []int32 // by report of the host in file order: the node it is nested in

	roots    []mark
	runs     []mark         // of TensorFlow's executor
	fetched  []mark         // events that take an element of a data set
	prepared map[int64]bool // ids of functions of tf.data
	edges    [][2]int32     // besides nesting and links: from a node to one of its group
}

// node is an event that matters for groups. Every other event belongs to the group of the node it is nested in.
type node struct {
	parent int32 // node it is nested in; -1: none
	group  int32 // -1: none
}

type gate struct {
	link link
	node int32
}

type mark struct {
	node     int32
	level    int64
	at       instant
	duration int64

	loop, iteration int64 // the statistics id and iter_num; -1: none
}

// compare orders marks by time; of those that begin together, the longest is first.
func (m *mark) compare(o *mark) int {
	return cmp.Or(m.at.compare(o.at), cmp.Compare(o.duration, m.duration))
}

// groupsOf computes the groups of the whole file.
func (r *reader) groupsOf() (*groups, error) {
	g := &groups{prepared: map[int64]bool{}}
	var hosts []*host
	any := false
	for i := range r.planes {
		p := &r.planes[i]
		if strings.HasPrefix(p.name, tpuPrefix) {
			continue // XProf ignores roots on TPUs
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
	for _, h := range hosts {
		if err := h.eachLine(g.read); err != nil {
			return nil, fmt.Errorf("%s: %w", h.p.name, err)
		}
	}
	g.feed()
	g.spread(g.iterations())
	return g, nil
}

// read adds the events of a line, in file order.
func (g *groups) read(l *line) error {
	l.window(windowBytes)
	isHost := l.h.p.name == hostPlane
	var stack nesting
	e := &l.event
	return l.each(l.decodeNext, func() {
		end := units.AddSat(e.offset, e.duration)
		parent, async := int32(-1), e.number(isAsync, 0) != 0
		if !async {
			if outer := stack.enclosing(e.offset, end); outer != nil {
				parent = int32(outer.id)
			}
		}
		id := parent
		rule := l.h.groupRules[e.meta]
		if rule != noRule || e.is(isRoot) || e.is(producerID) || e.is(consumerID) {
			id = g.add(e, parent)
			g.mark(rule, e, mark{id, 0, after(l.stamp, e.offset), e.duration, e.number(loopID, -1), e.number(iterationNumber, -1)})
		}
		if !async {
			stack.open = append(stack.open, nested{e.offset, end, int64(id)})
		}
		if isHost && l.h.reports(e) {
			g.members = append(g.members, id)
		}
	})
}

// mark records an event according to its rule. The event may also be a root. TensorFlow's rules need statistics
// that the event may lack.
func (g *groups) mark(rule groupRule, e *event, m mark) {
	if m.level = e.number(isRoot, rootLevels[rule]); m.level != 0 || e.is(isRoot) {
		g.roots = append(g.roots, m)
	}
	numbered := e.is(loopID) && e.is(iterationNumber)
	switch {
	case rule == prepares && e.is(loopID):
		g.prepared[m.loop] = true
	case rule == executes && numbered:
		g.runs = append(g.runs, m)
	case rule == fetches && numbered:
		g.fetched = append(g.fetched, m)
	}
}

// feed adds each event that fetches a data set element to the group of the run that consumes it: the last run
// with the same numbers.
func (g *groups) feed() {
	runs := map[[2]int64]int32{}
	for _, m := range g.runs {
		runs[[2]int64{m.loop, m.iteration}] = m.node
	}
	for _, m := range g.fetched {
		if run, ok := runs[[2]int64{m.loop, m.iteration}]; ok {
			g.edges = append(g.edges, [2]int32{run, m.node})
		}
	}
}

// iterations returns the first run of every iteration of the executor's loops, in order of time, and adds the other
// runs of the iteration to its group. Functions of tf.data do not count, nor do loops whose only iteration is number 0.
func (g *groups) iterations() []mark {
	type iteration struct{ loop, number int64 }
	first := map[iteration]*mark{}
	looped := map[int64]bool{}
	runs := g.runs
	slices.SortStableFunc(runs, func(x, y mark) int { return x.compare(&y) })
	for i := range runs {
		m := &runs[i]
		at := iteration{m.loop, m.iteration}
		if first[at] == nil {
			first[at] = m
		}
		looped[m.loop] = looped[m.loop] || m.iteration != 0
	}
	var all []mark
	for i := range runs {
		m := &runs[i]
		switch f := first[iteration{m.loop, m.iteration}]; {
		case !looped[m.loop] || g.prepared[m.loop]:
		case f == m:
			all = append(all, *m)
		default:
			g.edges = append(g.edges, [2]int32{f.node, m.node})
		}
	}
	return all
}

func (g *groups) add(e *event, parent int32) int32 {
	id := int32(len(g.nodes))
	g.nodes = append(g.nodes, node{parent, -1})
	if of, ok := e.produces(); ok {
		g.producers = append(g.producers, gate{of, id})
	}
	if of, ok := e.consumes(); ok {
		g.consumers = append(g.consumers, gate{of, id})
	}
	return id
}

// spread opens a group for each iteration, if there are any. Otherwise roots open them: those of the highest
// level first, then by time. A root opens no group if it already has one, descends from a root of the same
// level, or has the id of a function of tf.data.
func (g *groups) spread(iterations []mark) {
	edges := g.join()
	down, up := adjacent(len(g.nodes), edges, 0, 1), adjacent(len(g.nodes), edges, 1, 0)
	for i, m := range iterations {
		g.open(down, m.node, int32(i))
	}
	if len(iterations) > 0 {
		return
	}
	roots := g.roots
	slices.SortStableFunc(roots, func(x, y mark) int { return cmp.Or(cmp.Compare(y.level, x.level), x.compare(&y)) })
	levels := map[int32]int64{}
	for _, r := range roots {
		levels[r.node] = r.level
	}
	next := int32(0)
	seen := make([]int32, len(g.nodes)) // number of the last root that visited the node, from 1
	for i, r := range roots {
		if g.nodes[r.node].group < 0 && !g.prepared[r.loop] && !descends(up, r, levels, seen, int32(i+1)) {
			g.open(down, r.node, next)
			next++
		}
	}
}

// open gives a group to a node and to all below it that have none.
func (g *groups) open(down adjacency, from, group int32) {
	for todo := []int32{from}; len(todo) > 0; {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if g.nodes[id].group < 0 {
			g.nodes[id].group = group
			todo = append(todo, down.of(id)...)
		}
	}
}

// descends reports whether an ancestor of r is a root of the same level. r counts as its own ancestor if it
// consumes what it produces.
func descends(up adjacency, r mark, levels map[int32]int64, seen []int32, mark int32) bool {
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

// join returns the edges between nodes. It adds one node for every link that has both sides, with producers as
// parents and consumers as children, so that there are no more edges than events.
func (g *groups) join() (edges [][2]int32) {
	byLink := func(x, y gate) int {
		return cmp.Or(cmp.Compare(x.link.kind, y.link.kind), cmp.Compare(x.link.id, y.link.id))
	}
	edges = g.edges
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

// maxLinked bounds links with many events on both sides: if a link has at least this many producers and
// consumers, its number was reused and it connects nothing. XProf allows more.
const maxLinked = 64

// sameLink returns the leading gates that have the same link. gates must be sorted and not empty.
func sameLink(gates []gate) []gate {
	n := 1
	for n < len(gates) && gates[n].link == gates[0].link {
		n++
	}
	return gates[:n]
}

// adjacent lists, for each of n nodes, the far ends of its edges.
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

// of returns the group of report i, or -1.
func (g *groups) of(i int) int32 {
	if g.members[i] < 0 {
		return -1
	}
	return g.nodes[g.members[i]].group
}

// keepReports reads the allocator events in file order.
func (h *host) keepReports() error {
	g, err := h.r.groupsOf()
	if err != nil {
		return err
	}
	n := 0
	err = h.eachLine(func(l *line) error {
		l.window(windowBytes)
		return l.each(l.scan, func() {
			if !h.reports(&l.event) {
				return
			}
			step := int32(l.event.number(groupID, -1))
			if n < len(g.members) {
				step = g.of(n)
			}
			n++
			h.report(&l.event, l.at.ns, h.site(&l.event, nil), step)
		})
	})
	if err != nil {
		return err
	}
	return h.describe()
}
