package fleet

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Outlier is a memory of a capture that differs from the others.
type Outlier struct {
	finding.Finding
	Record *Record
	Memory int // index into its memories
	member *member
}

// Measure returns the figure that differs, as in rank_outlier.
func (o *Outlier) Measure() string { return o.Text(finding.FigMeasure) }

// OutlierGroup is the outliers with one cause: the same figure is off in the same direction, because of the same
// leak, category or place.
type OutlierGroup struct {
	Measure  string // as in rank_outlier
	Severity string
	Outliers []Outlier // by rank
	Ranks    []string
	Role     string // what its ranks have in common: "pipeline stage 3"; "" if nothing is known
	OfRole   int    // memories that have this role
	Value    int64  // the median of the outliers, in bytes
	Others   int64  // the median of all memories that were compared, also these

	Excess // the medians of the outliers less those of the others

	Leak *Group // the leak that explains it: most outliers have it, few others do; nil if none does

	WhatIf *WhatIf // nil if no change is known, and if the peaks are not what is too high
}

// Excess is what differs at the peaks, in bytes. Both lists are sorted by size, and end at a tenth of the largest.
type Excess struct {
	Categories []CategoryExcess `json:"categories"`
	Places     []PlaceExcess    `json:"places"`
}

// CategoryExcess is what a category differs by, and the layers that make most of it.
type CategoryExcess struct {
	Category string   `json:"name"`
	Layers   []string `json:"layers"` // in ranges: "layers[24-31]"; empty if no layer is known
	Bytes    int64    `json:"bytes"`
}

// PlaceExcess is what a place differs by.
type PlaceExcess struct {
	Place string `json:"place"`
	Bytes int64  `json:"bytes"`
}

// Outliers compares the memories of all captures that were read as a whole, as finding.CompareRanks does: a capture
// that ends early is not judged. Where ranks have roles with memory of their own, each is compared with its peers
// first.
func (f *Fleet) Outliers(given *Roles) []OutlierGroup {
	g := &grouping{f: f, roles: f.rolesOf(given)}
	var all []finding.RankFigures
	bySpace := map[*lifetime.Space]*member{}
	growths := map[string][]int64{} // by kind, without those of programs that ended in the middle of a step
	for m := range f.members() {
		if m.k.Damaged() {
			continue
		}
		space := m.Space()
		all = append(all, finding.RankFigures{
			Rank: m.who, File: m.k.Name, Peak: m.Peak, End: m.AtEnd, Growth: m.Growth, Leaked: m.Leaked, Idle: m.idle(),
			Space: space, Categories: m.Categories,
		})
		bySpace[space] = m
		g.members = append(g.members, m)
		if m.Failed == "" {
			growths[m.kind] = append(growths[m.kind], m.Growth)
		}
	}
	for i, m := range g.members {
		if m.Failed != "" && len(growths[m.kind]) > 0 {
			all[i].Growth = medianOf(growths[m.kind])
		}
	}
	var found []Outlier
	for _, one := range g.compare(all) {
		m := bySpace[one.Space]
		m.off = true
		found = append(found, Outlier{one, &m.k.Record, m.number, m})
	}
	if len(found) == 0 {
		return nil
	}
	g.leaks = f.leaks()
	g.describe()
	return g.groups(found)
}

// idle returns the bytes that were reserved at most beyond the peak, 0 if reserved memory is unknown.
func (m *Memory) idle() int64 { return max(0, m.ReservedPeak-m.Peak) }

// segment is what PyTorch reserves at once for requests of 1 to 10 MiB: one more or less is rounding, not another use
// of memory.
const segment = 20 << 20

// compare returns the outliers among peers, and those among all that are none there.
func (g *grouping) compare(all []finding.RankFigures) (found []finding.Finding) {
	type what struct {
		space *lifetime.Space
		idle  bool
	}
	seen := map[what]bool{}
	add := func(some []finding.Finding) {
		for _, one := range some {
			w := what{one.Space, one.Text(finding.FigMeasure) == finding.IdleReserved}
			if w.idle && (one.Severity == finding.Info || one.Amount.Bytes <= segment) { // who uses more has less idle
				continue
			}
			if !seen[w] {
				seen[w] = true
				found = append(found, one)
			}
		}
	}
	if axis := g.roles.peers(); axis >= 0 {
		peers := map[string][]finding.RankFigures{}
		for _, r := range all {
			if value := g.roles.value(r.Rank, axis); value != "" {
				peers[value] = append(peers[value], r)
			}
		}
		for _, value := range slices.Sorted(maps.Keys(peers)) {
			add(finding.CompareRanks(peers[value]))
		}
	}
	add(finding.CompareRanks(all))
	return found
}

type member struct {
	*Memory
	k      *kept
	number int    // index into its memories
	who    string // its rank, or the name of its capture
	kind   string

	off   bool           // it is an outlier
	peers string         // the role that it is compared within
	held  map[item]int64 // bytes at the peak
}

// members returns the memories of all captures, in the order of the captures.
func (f *Fleet) members() iter.Seq[*member] {
	return func(yield func(*member) bool) {
		for _, k := range f.inOrder() {
			for i := range k.Memories {
				m := &k.Memories[i]
				if !yield(&member{Memory: m, k: k, number: i, who: k.RankOf(i), kind: finding.KindOf(m.Space())}) {
					return
				}
			}
		}
	}
}

// item holds bytes at a peak: a category, a layer of it, or a place.
type item struct {
	place       bool
	name, layer string
}

type grouping struct {
	f       *Fleet
	roles   *Roles
	members []*member
	leaks   map[[2]string]*Group // by rule and place
	usual   map[[2]string]*usual // of those that are no outliers, by kind and peers; "" = of all
	counts  map[string]int       // members by kind
}

func (f *Fleet) leaks() map[[2]string]*Group {
	leaks := map[[2]string]*Group{}
	for _, g := range f.Findings() {
		if IsLeak(g.Rule) && g.Severity != finding.Info.String() {
			leaks[[2]string{g.Rule, g.Place}] = g
		}
	}
	return leaks
}

// IsLeak reports whether findings of a rule are leaks.
func IsLeak(rule string) bool {
	return slices.ContainsFunc(finding.LeakRules(), func(r finding.Rule) bool { return r.Name == rule })
}

// describe reduces each member to its categories and places, and computes what is usual.
func (g *grouping) describe() {
	names := g.f.placeNames()
	axis := g.roles.peers()
	g.usual, g.counts = map[[2]string]*usual{}, map[string]int{}
	for _, m := range g.members {
		m.held = map[item]int64{}
		for _, c := range m.Categories {
			m.held[item{name: c.Name}] = c.Bytes
		}
		for _, p := range m.Parts {
			if p.Layer != "" {
				m.held[item{name: p.Category, layer: p.Layer}] = p.Bytes
			}
		}
		for place, bytes := range g.f.placesOf(m, names) {
			m.held[item{place: true, name: place}] = bytes
		}
		if axis >= 0 {
			m.peers = g.roles.value(m.who, axis)
		}
		if !m.off {
			g.usualOf(m.kind, m.peers).add(m.held)
			if m.peers != "" {
				g.usualOf(m.kind, "").add(m.held)
			}
		}
		g.counts[m.kind]++
	}
}

type usual struct {
	n      int
	values map[item][]int64
	median map[item]int64 // nil: not computed yet
}

func (u *usual) add(held map[item]int64) {
	u.n++
	if u.values == nil {
		u.values = map[item][]int64{}
	}
	for what, bytes := range held {
		u.values[what] = append(u.values[what], bytes)
	}
}

// medians returns the median of each item. A member without it counts as 0.
func (u *usual) medians() map[item]int64 {
	if u.median == nil {
		u.median = map[item]int64{}
		for what, values := range u.values {
			u.median[what] = medianOf(append(make([]int64, u.n-len(values), u.n), values...)) // values may be negative
		}
	}
	return u.median
}

func (g *grouping) usualOf(kind, peers string) *usual {
	key := [2]string{kind, peers}
	if g.usual[key] == nil {
		g.usual[key] = &usual{}
	}
	return g.usual[key]
}

// medianOf returns the median of values, 0 if there are none.
func medianOf(values []int64) int64 {
	if len(values) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// near returns what is usual for a member: among its peers if some of them are no outliers, else among all.
func (g *grouping) near(m *member) map[item]int64 {
	if u := g.usual[[2]string{m.kind, m.peers}]; u != nil {
		return u.medians()
	}
	return g.usualOf(m.kind, "").medians()
}

func (g *grouping) groups(found []Outlier) []OutlierGroup {
	type key struct{ kind, measure, severity, cause string }
	parts := map[key][]Outlier{}
	leaks := map[key]*Group{}
	for _, one := range found {
		k := key{kind: one.member.kind, severity: one.Severity.String()}
		if one.Measure() == finding.IdleReserved {
			k.measure = one.Measure()
		} else if leak := g.leakOf(&one); leak != nil {
			k.cause = "leak " + leak.Rule + " " + leak.Place
			leaks[k] = leak
		} else {
			k.cause = g.causeOf(&one)
		}
		parts[k] = append(parts[k], one)
	}
	var all []OutlierGroup
	for k, outliers := range parts {
		group := g.groupOf(outliers, k.severity)
		group.Leak = leaks[k]
		all = append(all, group)
	}
	slices.SortFunc(all, func(a, b OutlierGroup) int {
		return cmp.Or(cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)),
			cmp.Compare(b.total(), a.total()), CompareRanks(a.Ranks[0], b.Ranks[0]), cmp.Compare(a.Measure, b.Measure),
			cmp.Compare(a.Value, b.Value))
	})
	return all
}

func (g *OutlierGroup) total() (sum int64) {
	for i := range g.Outliers {
		sum = units.AddSat(sum, g.Outliers[i].Amount.Bytes)
	}
	return sum
}

// leakOf returns the leak that makes at least half of what an outlier has more, if less than half of the members of its
// kind have it.
func (g *grouping) leakOf(one *Outlier) (largest *Group) {
	if one.Severity == finding.Info {
		return nil
	}
	most := int64(0)
	for _, found := range one.Record.Findings {
		leak, bytes := g.leaks[[2]string{found.Rule, found.Place}], found.Amount.Bytes
		if leak != nil && found.Memory == one.Memory && bytes > most && 2*bytes >= one.Amount.Bytes &&
			2*len(leak.Found) < g.counts[one.member.kind] {
			largest, most = leak, bytes
		}
	}
	return largest
}

// causeOf returns the category, or where it is unknown the place, that differs most, in the direction of the outlier.
func (g *grouping) causeOf(one *Outlier) string {
	e := excessOf(differences(g.near(one.member), one.member.held), signOf(one.Severity.String()))
	switch {
	case len(e.Categories) > 0 && e.Categories[0].Category != purpose.UnknownCategory.String():
		return "category " + e.Categories[0].Category
	case len(e.Places) > 0:
		return "place " + e.Places[0].Place
	}
	return "place "
}

// signOf returns 1 for outliers above the others, -1 for those below.
func signOf(severity string) int64 {
	if severity == finding.Info.String() {
		return -1
	}
	return 1
}

func (g *grouping) groupOf(outliers []Outlier, severity string) OutlierGroup {
	out := OutlierGroup{Severity: severity, Outliers: outliers}
	var members []*member
	var worst *member // that is furthest from the others, of those with a known change
	most := int64(0)
	measures := map[string]int{}
	for i := range outliers {
		o := &outliers[i]
		members = append(members, o.member)
		measures[o.Measure()]++
		if o.member.Change.Saved > 0 && o.Amount.Bytes > most {
			worst, most = o.member, o.Amount.Bytes
		}
	}
	slices.SortFunc(outliers, func(a, b Outlier) int {
		return cmp.Or(CompareRanks(a.member.who, b.member.who), cmp.Compare(a.Record.Name, b.Record.Name),
			cmp.Compare(a.Memory, b.Memory))
	})
	out.Measure = ByCount(measures)[0]
	var values, others []int64
	for i := range outliers {
		if o := &outliers[i]; o.Measure() == out.Measure {
			values = append(values, int64(o.Value(finding.FigValue)))
			others = append(others, int64(o.Value(finding.FigMedian)))
		}
		out.Ranks = append(out.Ranks, outliers[i].member.who)
	}
	out.Ranks = slices.Compact(out.Ranks)
	out.Value, out.Others = medianOf(values), medianOf(others)
	out.Role, out.OfRole = g.roleOf(members)
	if out.Measure == finding.IdleReserved { // the buffers do not differ
		return out
	}
	if severity != finding.Info.String() {
		out.WhatIf = whatIfOf(worst)
	}
	var group usual
	for _, m := range members {
		group.add(m.held)
	}
	out.Excess = excessOf(differences(g.near(members[0]), group.medians()), signOf(severity))
	return out
}

// differences returns the changes that are not 0.
func differences(was, is map[item]int64) map[item]int64 {
	out := map[item]int64{}
	for what, bytes := range is {
		if off := bytes - was[what]; off != 0 {
			out[what] = off
		}
	}
	for what, bytes := range was {
		if _, ok := is[what]; !ok {
			out[what] = -bytes
		}
	}
	return out
}

// excessOf returns what differs in the direction of sign.
func excessOf(all map[item]int64, sign int64) (e Excess) {
	for what, bytes := range all {
		switch {
		case sign*bytes <= 0 || what.layer != "":
		case what.place:
			e.Places = append(e.Places, PlaceExcess{what.name, bytes})
		default:
			e.Categories = append(e.Categories, CategoryExcess{what.name, nil, bytes})
		}
	}
	slices.SortFunc(e.Places, func(a, b PlaceExcess) int {
		return cmp.Or(cmp.Compare(sign*b.Bytes, sign*a.Bytes), cmp.Compare(a.Place, b.Place))
	})
	slices.SortFunc(e.Categories, func(a, b CategoryExcess) int {
		return cmp.Or(cmp.Compare(sign*b.Bytes, sign*a.Bytes), cmp.Compare(a.Category, b.Category))
	})
	e.Places = slices.DeleteFunc(e.Places, func(p PlaceExcess) bool { return 10*sign*p.Bytes < sign*e.Places[0].Bytes })
	e.Categories = slices.DeleteFunc(e.Categories, func(c CategoryExcess) bool {
		return 10*sign*c.Bytes < sign*e.Categories[0].Bytes
	})
	for i := range e.Categories {
		e.Categories[i].Layers = layersOf(e.Categories[i].Category, all, sign)
	}
	return e
}

// layersOf returns the layers of a category that differ at least half as much as the one that differs most.
func layersOf(category string, all map[item]int64, sign int64) []string {
	most := int64(0)
	for what, bytes := range all {
		if what.name == category && what.layer != "" {
			most = max(most, sign*bytes)
		}
	}
	var names []string
	for what, bytes := range all {
		if what.name == category && what.layer != "" && most > 0 && 2*sign*bytes >= most {
			names = append(names, what.layer)
		}
	}
	return ranges(names)
}

// ranges sorts names by their last numbers and joins those that follow each other: layers[24-31].
func ranges(names []string) []string {
	out := []string{}
	type name struct {
		before, after string
		number        int
	}
	var all []name
	for _, text := range names {
		end := strings.LastIndexAny(text, "0123456789") + 1
		begin := end
		for begin > 0 && text[begin-1] >= '0' && text[begin-1] <= '9' {
			begin--
		}
		number, err := strconv.Atoi(text[begin:end])
		if err != nil {
			all = append(all, name{text, "", -1})
			continue
		}
		all = append(all, name{text[:begin], text[end:], number})
	}
	slices.SortFunc(all, func(a, b name) int {
		return cmp.Or(strings.Compare(a.before, b.before), strings.Compare(a.after, b.after), cmp.Compare(a.number, b.number))
	})
	for i := 0; i < len(all); {
		first := all[i]
		last := first
		for i++; i < len(all) && all[i].before == first.before && all[i].after == first.after && all[i].number == last.number+1; i++ {
			last = all[i]
		}
		switch {
		case first.number < 0:
			out = append(out, first.before)
		case first.number == last.number:
			out = append(out, first.before+strconv.Itoa(first.number)+first.after)
		default:
			out = append(out, first.before+strconv.Itoa(first.number)+"-"+strconv.Itoa(last.number)+first.after)
		}
	}
	return out
}

// RankRanges returns the numbers of ranks in ranges: "3, 96-133"; ranks without one keep their names.
func RankRanges(ranks []string) []string {
	out := ranges(ranks)
	for i := range out {
		out[i] = strings.TrimPrefix(out[i], "rank ")
	}
	return out
}

// roleOf returns what members have in common, see Roles.common.
func (g *grouping) roleOf(members []*member) (name string, n int) {
	var ranks, free, all []string
	for _, m := range members {
		ranks = append(ranks, m.who)
	}
	for _, m := range g.members {
		if m.kind != members[0].kind {
			continue
		}
		all = append(all, m.who)
		if !m.off || slices.Contains(members, m) {
			free = append(free, m.who)
		}
	}
	return g.roles.common(ranks, free, all)
}
