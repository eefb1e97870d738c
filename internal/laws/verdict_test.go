package laws

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/purpose"
)

// verdict is what memlane says of a snapshot: the laws of evidence compare two.
type verdict struct {
	*judge.Capture
	spaces []string // memory IDs
	steps  map[string]stepCount
	leaks  []leak
	at     map[where][]judgedBuffer // in order
}

// where is an address of a memory ID.
type where struct {
	space string
	addr  uint64
}

// judgedBuffer is a buffer with the name of its category.
type judgedBuffer struct {
	*lifetime.Buffer
	category string
}

// stepCount is a number of steps, 0 = not known.
type stepCount struct {
	n        int
	inferred bool
}

func (n stepCount) String() string {
	switch {
	case n.n == 0:
		return "none"
	case n.inferred:
		return fmt.Sprint(n.n, " inferred")
	}
	return fmt.Sprint(n.n, " recorded")
}

// codeLine is the line of the program that a finding names.
type codeLine struct {
	function, file string
	number         int
}

// leak is a finding of a rule that looks for leaks, confirmed or not.
type leak struct {
	*finding.Finding
	space   string
	at      codeLine
	sure    float64 // confidence as answers round it
	perStep int64   // 0 = not known
}

func (l *leak) String() string {
	if l == nil {
		return "none"
	}
	return fmt.Sprintf("%s %.3f %s (%s:%d), %d buffers, %d B", l.Severity, l.sure, l.at.function, l.at.file, l.at.number, l.Amount.Count, l.Amount.Bytes)
}

// judge returns what memlane says of a snapshot that is written in some way.
func (s *snapshot) judge(how writing) (*verdict, error) {
	c, err := formats.Open("snapshot.pickle", inMemory(s.pickle(how)))
	if err != nil {
		return nil, err
	}
	return verdictOf(judge.New(c, finding.Settings{})), nil
}

// verdictOf returns what memlane says of a capture that is judged.
func verdictOf(c *judge.Capture) *verdict {
	v := &verdict{Capture: c, steps: map[string]stepCount{}, at: map[where][]judgedBuffer{}}
	for _, s := range c.Spaces {
		id, steps := s.ID(), c.Program().Steps(s)
		v.spaces = append(v.spaces, id)
		v.steps[id] = stepCount{len(steps.Begins), steps.Inferred()}
		for i := range s.Buffers {
			b := &s.Buffers[i]
			v.at[where{id, b.Addr}] = append(v.at[where{id, b.Addr}], judgedBuffer{b, c.Purpose(s.PurposeOf(i)).Name()})
		}
	}
	for i := range c.Findings() {
		if f := &c.Found[i]; f.Rule == "leak" || f.Rule == "growing_buffer" {
			v.leaks = append(v.leaks, leak{f, f.Space.ID(), v.lineOf(f.Place()), math.Round(f.Confidence*1000) / 1000, int64(math.Round(f.BytesPerStep))})
		}
	}
	return v
}

// lineOf returns the line that answers name for a site.
func (v *verdict) lineOf(site lifetime.SiteID) codeLine {
	p := v.PlaceOf(site)
	name := p.Frame.Function
	if name == "" && p.Frame.File == "" {
		f, _ := v.FrameOf(site)
		return codeLine{cmp.Or(f.Function, p.Op, v.Sites[site].Op), f.File, f.Line}
	}
	if p.Node != "" || p.Unseen {
		name, _ = p.Parts()
	}
	return codeLine{name, p.Frame.File, p.Frame.Line}
}

// alive reports whether the recording ends while a buffer lives.
func alive(b *lifetime.Buffer) bool { return b.Edge&lifetime.EndOpen != 0 }

// kept returns the buffers whose stack has the line of a leak, perhaps of another verdict, and that live at the end.
func (v *verdict) kept(l *leak) (all []*lifetime.Buffer) {
	through, space := map[lifetime.StackID]bool{}, v.Spaces[slices.Index(v.spaces, l.space)]
	for i := range space.Buffers {
		b := &space.Buffers[i]
		if !alive(b) {
			continue
		}
		stack := v.Sites[b.Site].Stack
		in, known := through[stack]
		if !known {
			for f := range v.FramesOf(stack) {
				in = in || codeLine{f.Function, f.File, f.Line} == l.at
			}
			through[stack] = in
		}
		if in {
			all = append(all, b)
		}
	}
	return all
}

// warned returns the leaks that memlane warns of.
func warned(leaks []leak) (all []*leak) {
	for i := range leaks {
		if leaks[i].Severity > finding.Info {
			all = append(all, &leaks[i])
		}
	}
	return all
}

// breach is a violation of a law.
type breach struct {
	kind, detail string
	weight       float64 // share of the bytes whose category differs; 1 for other kinds
}

func (b breach) String() string { return fmt.Sprintf("%s: %s", b.kind, b.detail) }

// alike says in what two verdicts may differ. The zero value allows nothing.
type alike struct {
	space func(string) string // the memory ID of the second for one of the first; nil = the same
	addr  func(uint64) uint64

	fromEnd  bool     // pairs the buffers of an address from the last one
	forget   bool     // what had a category may have none
	learn    bool     // what had no category may have one
	leaveOut []string // categories that are not compared

	moreLeaks bool // leaks of the second may be more, and worse
	moreBytes bool // and may have other bytes
	unnamed   bool // leaks have other names: they are paired by their buffers and bytes
}

func (a *alike) spaceOf(id string) string {
	if a.space == nil {
		return id
	}
	return a.space(id)
}

// compare returns how the second verdict differs from the first.
func (a alike) compare(x, y *verdict) []breach {
	return slices.Concat(a.categories(x, y), a.steps(x, y), a.leaks(x, y))
}

const leaked = "leaked" // a verdict, not a category

func quiet(category string) bool {
	return category == "" || category == purpose.UnknownCategory.String()
}

// vague reports whether a category says less than another one: nothing, or that a buffer is of a sum of which the other may be a part.
func vague(category, other string) bool {
	isSum := func(name string) bool {
		return name == purpose.ParametersAndStates || name == purpose.ParametersAndCopies
	}
	return quiet(category) || isSum(category) && (isSum(other) || strings.Contains(category, other))
}

// categories compares what buffers are for.
func (a *alike) categories(x, y *verdict) (all []breach) {
	type change struct{ from, to string }
	bytes, count, total := map[change]int64{}, map[change]int{}, int64(0)
	for at, old := range x.at {
		now := where{a.spaceOf(at.space), at.addr}
		if a.addr != nil {
			now.addr = a.addr(at.addr)
		}
		young := y.at[now]
		for i := range min(len(old), len(young)) {
			p, q := old[i], young[i]
			if a.fromEnd {
				p, q = old[len(old)-1-i], young[len(young)-1-i]
			}
			c := change{p.category, q.category}
			total += p.Size
			if c.from != c.to && c.from != leaked && c.to != leaked && !slices.Contains(a.leaveOut, c.from) && !slices.Contains(a.leaveOut, c.to) &&
				!(a.forget && vague(c.to, c.from)) && !(a.learn && vague(c.from, c.to)) {
				bytes[c] += p.Size
				count[c]++
			}
		}
	}
	for c, n := range bytes {
		all = append(all, breach{fmt.Sprintf("category %s -> %s", c.from, c.to), fmt.Sprintf("%d buffers, %d B of %d", count[c], n, total),
			float64(n) / float64(max(1, total))})
	}
	slices.SortFunc(all, func(x, y breach) int { return cmp.Or(cmp.Compare(y.weight, x.weight), strings.Compare(x.kind, y.kind)) })
	return all
}

// stepKind names a source of steps for kinds of breaches.
func (n stepCount) kind() string {
	switch {
	case n.n == 0:
		return "none"
	case n.inferred:
		return "inferred"
	}
	return "marked"
}

// steps compares the numbers of steps.
func (a *alike) steps(x, y *verdict) (all []breach) {
	for _, id := range x.spaces {
		if n, m := x.steps[id], y.steps[a.spaceOf(id)]; n.n != m.n {
			all = append(all, breach{"steps " + n.kind() + " change", fmt.Sprintf("%s: %s -> %s", id, n, m), 1})
		}
	}
	return all
}

// unsure is how much a confidence may fall: answers round it.
const unsure = .005

// leaks compares the leaks of at least one warning.
func (a *alike) leaks(x, y *verdict) (all []breach) {
	type group struct {
		space string
		of    any
	}
	key := func(l *leak, id string) group {
		if a.unnamed {
			return group{id, amountOf(l)}
		}
		return group{id, l.at}
	}
	var keys []group
	old, young := map[group][]*leak{}, map[group][]*leak{}
	add := func(to map[group][]*leak, l *leak, id string) {
		k := key(l, id)
		if old[k] == nil && young[k] == nil {
			keys = append(keys, k)
		}
		to[k] = append(to[k], l)
	}
	for i := range x.leaks {
		add(old, &x.leaks[i], a.spaceOf(x.leaks[i].space))
	}
	for i := range y.leaks {
		add(young, &y.leaks[i], y.leaks[i].space)
	}
	for _, k := range keys {
		p, q := worst(old[k]), worst(young[k])
		from, to := rank(p), rank(q)
		say := fmt.Sprintf("%v -> %v", p, q)
		switch {
		case from != to && (from > 0 || to > 0) && !(a.moreLeaks && to > from):
			kind := "leak severity"
			if p == nil {
				kind = "leak new"
			} else if q == nil {
				kind = "leak lost"
			}
			all = append(all, breach{kind, say, 1})
		case p == nil || q == nil:
		case max(from, to) > 0 && q.sure < p.sure-unsure:
			all = append(all, breach{"leak confidence falls", say, 1})
		case !a.moreBytes && !slices.Equal(amounts(old[k]), amounts(young[k])):
			all = append(all, breach{"leak bytes", say, 1})
		}
	}
	return all
}

func worst(leaks []*leak) *leak {
	if len(leaks) == 0 {
		return nil
	}
	return slices.MaxFunc(leaks, func(x, y *leak) int { return cmp.Compare(x.Severity, y.Severity) })
}

// rank is -1 for none, 0 for one that is no warning.
func rank(l *leak) int {
	if l == nil {
		return -1
	}
	return int(l.Severity - finding.Info)
}

// amount is a number of buffers and their bytes.
type amount [2]int64

func amountOf(l *leak) amount { return amount{l.Amount.Count, l.Amount.Bytes} }

func amounts(leaks []*leak) (all []amount) {
	for _, l := range leaks {
		all = append(all, amountOf(l))
	}
	slices.SortFunc(all, func(x, y amount) int { return slices.Compare(x[:], y[:]) })
	return all
}

// growsAlike reports whether two leaks grow as much in each step: to 5 %, and to two buffers more or less in the shorter recording, which has
// steps steps.
func growsAlike(short, long *leak, steps int) bool {
	if short.perStep == 0 || long.perStep == 0 || steps == 0 {
		return true
	}
	edge := 2 * float64(short.Amount.Bytes) / float64(short.Amount.Count) / float64(steps)
	return math.Abs(float64(short.perStep-long.perStep)) <= .05*float64(long.perStep)+edge
}
