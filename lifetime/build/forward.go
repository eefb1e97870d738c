package build

import (
	"cmp"
	"container/heap"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/internal/spans"
)

// nameForward sets Source of the sites of backward passes: the stack of the forward pass that made the node. Snapshots do not record it. An operator makes
// one node each time that it runs, and a thread of the autograd engine runs the nodes that are ready in the reverse of the order in which they were made
// (ReadyQueue in torch/csrc/autograd/engine.cpp). So the last node of an operator belongs to its first call, if their numbers fit. If all calls are in one
// line, that is the line.
func (b *Builder) nameForward(s *lifetime.Space) {
	if !slices.ContainsFunc(b.capture.Frames, func(f frame.Frame) bool { return f.Kind == frame.Engine }) {
		return
	}
	n := forwardNames{b: b, calls: map[string]*nodeCalls{}}
	for i := range s.Buffers {
		if buffer := &s.Buffers[i]; buffer.Edge&lifetime.BeginUnseen == 0 {
			n.add(buffer)
		}
	}
	for _, op := range slices.Sorted(maps.Keys(n.calls)) { // it makes sites: in an order that the file gives
		n.settle(n.calls[op])
	}
}

type forwardNames struct {
	b     *Builder
	sites []tracked // by SiteID
	calls map[string]*nodeCalls
}

// tracked is what the site of an allocation says about operators and nodes.
type tracked struct {
	known   bool
	op      string           // operator or node, in one spelling; "" = neither, or unknown
	node    bool             // it is a node of a backward pass
	call    lifetime.StackID // of an operator: its call below autograd and all callers
	forward frame.Frame      // of an operator: its user frame
}

// nodeCalls are the calls of one operator since the last backward pass, and the buffers of its nodes.
type nodeCalls struct {
	first map[lifetime.StackID]lifetime.SiteID // the first site of each call path, which counts its calls
	calls []lifetime.SiteID
	nodes map[lifetime.SiteID][]*lifetime.Buffer
}

func (n *forwardNames) add(buffer *lifetime.Buffer) {
	t := n.of(buffer.Site)
	if t.op == "" {
		return
	}
	c := n.calls[t.op]
	if c == nil || !t.node && len(c.nodes) > 0 { // another forward pass
		if c != nil {
			n.settle(c)
		}
		c = &nodeCalls{first: map[lifetime.StackID]lifetime.SiteID{}, nodes: map[lifetime.SiteID][]*lifetime.Buffer{}}
		n.calls[t.op] = c
	}
	switch first, seen := c.first[t.call]; {
	case t.node:
		c.nodes[buffer.Site] = append(c.nodes[buffer.Site], buffer)
	case !seen:
		c.first[t.call] = buffer.Site
		c.calls = append(c.calls, buffer.Site)
	case first == buffer.Site:
		c.calls = append(c.calls, buffer.Site)
	}
}

func (n *forwardNames) settle(c *nodeCalls) {
	oneLine := true
	for _, site := range c.calls {
		oneLine = oneLine && n.of(site).forward == n.of(c.calls[0]).forward
	}
	for _, site := range slices.Sorted(maps.Keys(c.nodes)) {
		buffers := c.nodes[site]
		calls := c.each(len(buffers))
		for i, buffer := range buffers {
			switch {
			case len(calls) > 0:
				buffer.Site = n.made(site, calls[len(calls)-1-i*len(calls)/len(buffers)])
			case oneLine && len(buffers) < len(c.calls):
				buffer.Site = n.made(site, c.calls[0])
			}
		}
	}
}

// each returns the calls that made the nodes of n buffers, one site for each node, if their numbers fit: a node may
// allocate several buffers at one site, and so may a call, one after the other. Else it returns nil.
func (c *nodeCalls) each(n int) []lifetime.SiteID {
	switch all := len(c.calls); {
	case all == 0:
		return nil
	case n%all == 0:
		return c.calls
	case all%n != 0:
		return nil
	}
	var calls []lifetime.SiteID
	for run := range slices.Chunk(c.calls, len(c.calls)/n) {
		if slices.ContainsFunc(run, func(site lifetime.SiteID) bool { return site != run[0] }) {
			return nil
		}
		calls = append(calls, run[0])
	}
	return calls
}

func (n *forwardNames) made(node, operator lifetime.SiteID) lifetime.SiteID {
	site := n.b.capture.Sites[node]
	site.Source = n.b.capture.Sites[operator].Stack
	return n.b.Site(site)
}

// of returns what a site says. It looks at each site once.
func (n *forwardNames) of(id lifetime.SiteID) *tracked {
	for int(id) >= len(n.sites) {
		n.sites = append(n.sites, tracked{})
	}
	t := &n.sites[id]
	if t.known {
		return t
	}
	t.known = true
	c := n.b.capture
	p := c.PlaceOf(id)
	if p.Node != "" {
		if m := nodeName.FindStringSubmatch(p.Node); m != nil {
			t.op, t.node = spelling(m[1]), true
		}
		return t
	}
	for at := c.Sites[id].Stack; at != 0 && p.Frame.Kind == frame.User; at = c.Stacks[at].Caller {
		if m := belowAutograd.FindStringSubmatch(c.Frames[c.Stacks[at].Frame].Function); m != nil { // the outermost one counts
			t.op, t.call, t.forward = spelling(frame.WithoutOverload(m[1])), at, p.Frame
		}
	}
	return t
}

// belowAutograd matches the call of an operator from the kernel that made its node
// (torch/csrc/autograd/generated/VariableType*.cpp), which has no name itself where only exported functions have one.
var belowAutograd = regexp.MustCompile(`^at::_ops::(\w+)::redispatch\(`)

// nodeName matches the nodes that operators make.
var nodeName = regexp.MustCompile(`^(\w+)Backward[0-9]*$`)

// spelling returns the name of an operator or node for comparisons: "nativelayernorm" for native_layer_norm and NativeLayerNorm.
func spelling(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(name, "_forward"), "_", ""))
}

// handOver ends each buffer of a compiled program where another buffer takes over its memory, so that levels count the
// union of addresses. XLA lets an instruction write its result over an operand (an in-place fusion): both buffers then
// contain the instruction.
//
// A buffer inside another one begins where that one ends, and is dropped if it ends before. A buffer that overlaps
// another one only in part takes over all of it. The result is in no order.
func handOver(all []Interval) []Interval {
	first := &byBegin{all: all, order: make([]int, len(all))}
	for i := range all {
		first.order[i] = i
	}
	slices.SortFunc(first.order, first.compare)
	delayed := &byBegin{all: all}
	var live spans.Map[int] // indexes of all
	var over []spans.Span[int]
	for len(first.order)+len(delayed.order) > 0 {
		var i int
		if len(delayed.order) > 0 && (len(first.order) == 0 || first.compare(delayed.order[0], first.order[0]) < 0) {
			i = heap.Pop(delayed).(int)
		} else {
			i, first.order = first.order[0], first.order[1:]
		}
		v := &all[i]
		end := spans.End(v.Addr, v.Size)
		over = slices.AppendSeq(over[:0], live.Overlapping(v.Addr, end))
		if owner := around(v, over, all); owner != nil {
			if v.Begin = owner.End; v.Begin < v.End {
				heap.Push(delayed, i)
			}
			continue
		}
		for _, s := range over {
			if owner := &all[s.Val]; owner.End > v.Begin {
				owner.End, owner.Edge = v.Begin, owner.Edge&^lifetime.EndOpen
			}
			live.Cut(s.Lo, s.Hi)
		}
		live.Set(v.Addr, end, i)
	}
	return slices.DeleteFunc(all, func(v Interval) bool { return v.Begin >= v.End })
}

// around returns the live buffer that contains v, or nil. A buffer of the same size that ends first does not contain v: v takes over its memory.
func around(v *Interval, over []spans.Span[int], all []Interval) *Interval {
	if len(over) != 1 {
		return nil
	}
	s := over[0]
	owner := &all[s.Val]
	if owner.End > v.Begin && s.Lo <= v.Addr && s.Hi >= spans.End(v.Addr, v.Size) && (owner.Size > v.Size || owner.End >= v.End) {
		return owner
	}
	return nil
}

// byBegin is a queue of intervals by Begin. Of those that begin together, the largest is first, so that it contains the others.
type byBegin struct {
	all   []Interval
	order []int // indexes of all
}

func (q *byBegin) compare(i, j int) int {
	v, w := &q.all[i], &q.all[j]
	return cmp.Or(cmp.Compare(v.Begin, w.Begin), cmp.Compare(w.Size, v.Size), cmp.Compare(w.End, v.End), cmp.Compare(i, j))
}

func (q *byBegin) Len() int           { return len(q.order) }
func (q *byBegin) Less(i, j int) bool { return q.compare(q.order[i], q.order[j]) < 0 }
func (q *byBegin) Swap(i, j int)      { q.order[i], q.order[j] = q.order[j], q.order[i] }
func (q *byBegin) Push(i any)         { q.order = append(q.order, i.(int)) }

func (q *byBegin) Pop() any {
	last := len(q.order) - 1
	i := q.order[last]
	q.order = q.order[:last]
	return i
}
