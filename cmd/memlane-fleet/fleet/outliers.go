package fleet

import (
	"cmp"
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
}

// Measure returns the figure that differs, as in rank_outlier.
func (o *Outlier) Measure() string { return o.Text(finding.FigMeasure) }

// OutlierGroup is the outliers with one cause: the same figure is off in the same direction, because of the same leak,
// category or place.
type OutlierGroup struct {
	Measure  string // as in rank_outlier
	Severity string
	Outliers []Outlier // by rank
	Ranks    []string
	Role     string // what its ranks have in common: "pipeline stage 3"; "" if nothing is known
	OfRole   int    // memories that have this role
	Value    int64  // the median of the outliers, in bytes
	Others   int64  // the median of all memories that were compared, also these

	// What differs at the peak, in bytes: the medians of the outliers less those of the others. Both are sorted by
	// size, and end at a tenth of the largest.
	Categories []CategoryExcess
	Places     []PlaceExcess

	Leak *Group // the leak that explains it: most outliers have it, few others do; nil if none does

	WhatIf *WhatIf // nil if no change is known, and if the peaks are not what is too high
}

// CategoryExcess is what a category differs by, and the layers that make most of it.
type CategoryExcess struct {
	Category string
	Layers   []string // in ranges: "layers[24-31]"; empty if no layer is known
	Bytes    int64
}

// PlaceExcess is what a place differs by.
type PlaceExcess struct {
	Place string
	Bytes int64
}

// Outliers compares the memories of all captures that were read as a whole, as finding.CompareRanks does: a capture
// that ends early is not judged. Where ranks have roles with memory of their own, each is compared with its peers
// first.
func (f *Fleet) Outliers(given *Roles) []OutlierGroup {
	roles := f.rolesOf(given)
	var all []finding.RankFigures
	members := map[*lifetime.Space]*member{}
	for _, k := range f.inOrder() {
		if k.Damaged() {
			continue
		}
		for i := range k.Memories {
			m := &k.Memories[i]
			space := m.Space()
			all = append(all, finding.RankFigures{
				Rank: k.RankOf(i), File: k.Name, Peak: m.Peak, End: m.AtEnd, Growth: m.Growth, Leaked: m.Leaked, Idle: m.idle(), Space: space, Categories: m.Categories,
			})
			members[space] = &member{k: k, memory: i, kind: finding.KindOf(space)}
		}
	}
	for kind, usual := range usualGrowth(members) {
		for i := range all {
			if m := members[all[i].Space]; m.kind == kind && m.of().Failed != "" { // in the middle of a step
				all[i].Growth = usual
			}
		}
	}
	found := f.compare(all, roles)
	if len(found) == 0 {
		return nil
	}
	for i := range found {
		members[found[i].Space].off = true
	}
	g := &grouping{f: f, roles: roles, leaks: f.leaks()}
	for _, r := range all {
		g.members = append(g.members, members[r.Space])
	}
	g.describe()
	return g.groups(found, members)
}

// usualGrowth returns the median growth of the memories of each kind in which no allocation ended the program.
func usualGrowth(members map[*lifetime.Space]*member) map[string]int64 {
	growths := map[string][]int64{}
	for _, m := range members {
		if m.of().Failed == "" {
			growths[m.kind] = append(growths[m.kind], m.of().Growth)
		}
	}
	usual := map[string]int64{}
	for kind, values := range growths {
		usual[kind] = medianOf(values, len(values))
	}
	return usual
}

// idle returns the bytes that were reserved at most beyond the peak, 0 if reserved memory is unknown.
func (m *Memory) idle() int64 { return max(0, m.ReservedPeak-m.Peak) }

// segment is what PyTorch reserves at once for requests of 1 to 10 MiB: one more or less is rounding, not another use
// of memory.
const segment = 20 << 20

// compare returns the outliers among peers, and those among all that are none there.
func (f *Fleet) compare(all []finding.RankFigures, roles *Roles) (found []finding.Finding) {
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
	if axis := roles.peers(); axis >= 0 {
		peers := map[string][]finding.RankFigures{}
		for _, r := range all {
			if value := roles.of(r.Rank, axis); value != "" {
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

// member is a memory that is compared.
type member struct {
	k      *kept
	memory int
	kind   string
	off    bool // it is an outlier
	peers  string

	categories map[string]int64
	parts      map[Part]int64 // without bytes
	places     map[string]int64
}

// grouping finds the causes of outliers.
type grouping struct {
	f       *Fleet
	roles   *Roles
	members []*member
	leaks   map[[2]string]*Group // by rule and place
	usual   map[[2]string]*usual // of those that are no outliers, by kind and peers; "" = of all
	counts  map[string]int       // members by kind
}

// leaks returns the findings of leaks by rule and place.
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
		memory := &m.k.Memories[m.memory]
		m.categories, m.parts, m.places = map[string]int64{}, map[Part]int64{}, map[string]int64{}
		for _, c := range memory.Categories {
			m.categories[c.Name] = c.Bytes
		}
		for _, p := range memory.Parts {
			m.parts[Part{Category: p.Category, Layer: p.Layer}] = p.Bytes
		}
		for n, t := range g.f.totalsOf(m.k, m.memory) {
			if t.AtPeak.Bytes > 0 {
				m.places[names[n]] = units.AddSat(m.places[names[n]], t.AtPeak.Bytes)
			}
		}
		if axis >= 0 {
			m.peers = g.roles.of(m.k.RankOf(m.memory), axis)
		}
		if !m.off {
			g.usualOf(m.kind, m.peers).add(m)
			if m.peers != "" {
				g.usualOf(m.kind, "").add(m)
			}
		}
		g.counts[m.kind]++
	}
	for _, u := range g.usual {
		u.finish()
	}
}

// usual collects the figures of members, and then has their medians.
type usual struct {
	n          int
	categories map[string][]int64
	parts      map[Part][]int64
	places     map[string][]int64

	median struct {
		categories map[string]int64
		parts      map[Part]int64
		places     map[string]int64
	}
}

func newUsual() *usual {
	return &usual{categories: map[string][]int64{}, parts: map[Part][]int64{}, places: map[string][]int64{}}
}

// finish computes the medians. Who has nothing counts as 0.
func (u *usual) finish() *usual {
	u.median.categories, u.median.parts, u.median.places = mediansOf(u.categories, u.n), mediansOf(u.parts, u.n), mediansOf(u.places, u.n)
	return u
}

func (g *grouping) usualOf(kind, peers string) *usual {
	key := [2]string{kind, peers}
	if g.usual[key] == nil {
		g.usual[key] = newUsual()
	}
	return g.usual[key]
}

func (u *usual) add(m *member) {
	u.n++
	collect(u.categories, m.categories)
	collect(u.parts, m.parts)
	collect(u.places, m.places)
}

func collect[K comparable](all map[K][]int64, of map[K]int64) {
	for name, bytes := range of {
		all[name] = append(all[name], bytes)
	}
}

// medianOf returns the median of n values of which only some are given and the others are 0.
func medianOf(values []int64, n int) int64 {
	values = slices.Sorted(slices.Values(values))
	if at := n/2 - (n - len(values)); n > 0 && at >= 0 {
		return values[at]
	}
	return 0
}

// near returns what is usual for a member: among its peers if some of them are no outliers, else among all.
func (g *grouping) near(m *member) *usual {
	if u := g.usual[[2]string{m.kind, m.peers}]; u != nil {
		return u
	}
	return g.usualOf(m.kind, "")
}

// groups divides outliers by their causes.
func (g *grouping) groups(found []finding.Finding, members map[*lifetime.Space]*member) []OutlierGroup {
	type key struct{ kind, measure, severity, cause string }
	parts := map[key][]int{}
	leaks := map[key]*Group{}
	for i := range found {
		one := &found[i]
		m := members[one.Space]
		k := key{m.kind, "", one.Severity.String(), ""}
		if measure := one.Text(finding.FigMeasure); measure == finding.IdleReserved {
			k.measure = measure
		} else if leak := g.leakOf(m, one); leak != nil {
			k.cause = "leak " + leak.Rule + " " + leak.Place
			leaks[k] = leak
		} else {
			k.cause = g.causeOf(m, one)
		}
		parts[k] = append(parts[k], i)
	}
	var all []OutlierGroup
	for k, some := range parts {
		var outliers []Outlier
		var of []*member
		for _, i := range some {
			m := members[found[i].Space]
			outliers, of = append(outliers, Outlier{found[i], &m.k.Record, m.memory}), append(of, m)
		}
		group := g.groupOf(outliers, of, k.severity)
		group.Leak = leaks[k]
		if k.measure != finding.IdleReserved && k.severity != finding.Info.String() {
			group.WhatIf = worstOf(some, found, members)
		}
		all = append(all, group)
	}
	slices.SortFunc(all, func(a, b OutlierGroup) int {
		return cmp.Or(cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)), cmp.Compare(b.total(), a.total()),
			CompareRanks(a.Ranks[0], b.Ranks[0]), cmp.Compare(a.Measure, b.Measure), cmp.Compare(a.Value, b.Value))
	})
	return all
}

// worstOf returns the change for the one of some outliers that is furthest from the others.
func worstOf(some []int, found []finding.Finding, members map[*lifetime.Space]*member) *WhatIf {
	var worst *member
	most := int64(0)
	for _, i := range some {
		if m := members[found[i].Space]; m.of().Change.Saved > 0 && found[i].Amount.Bytes > most {
			worst, most = m, found[i].Amount.Bytes
		}
	}
	return whatIfOf(worst)
}

// total returns the bytes that all outliers of a group differ by.
func (g *OutlierGroup) total() (sum int64) {
	for i := range g.Outliers {
		sum = units.AddSat(sum, g.Outliers[i].Amount.Bytes)
	}
	return sum
}

// leakOf returns the leak that makes at least half of what a member has more, if less than half of the members of its
// kind have it.
func (g *grouping) leakOf(m *member, one *finding.Finding) (largest *Group) {
	if one.Severity == finding.Info {
		return nil
	}
	most := int64(0)
	for i := range m.k.Findings {
		of := &m.k.Findings[i]
		leak := g.leaks[[2]string{of.Rule, of.Place}]
		if leak == nil || of.Memory != m.memory || of.Amount.Bytes <= most || 2*of.Amount.Bytes < one.Amount.Bytes || 2*len(leak.Found) >= g.counts[m.kind] {
			continue
		}
		largest, most = leak, of.Amount.Bytes
	}
	return largest
}

// causeOf returns the category, or where it is unknown the place, that differs most, in the direction of the outlier.
func (g *grouping) causeOf(m *member, one *finding.Finding) string {
	u := g.near(m)
	sign := int64(1)
	if one.Severity == finding.Info {
		sign = -1
	}
	if name, ok := largestOf(differences(u.median.categories, m.categories), sign); ok && name != purpose.UnknownCategory.String() {
		return "category " + name
	}
	name, _ := largestOf(differences(u.median.places, m.places), sign)
	return "place " + name
}

func largestOf(all map[string]int64, sign int64) (name string, ok bool) {
	most := int64(0)
	for _, n := range slices.Sorted(maps.Keys(all)) {
		if bytes := sign * all[n]; bytes > most {
			name, most = n, bytes
		}
	}
	return name, most > 0
}

// groupOf describes outliers of one cause.
func (g *grouping) groupOf(outliers []Outlier, members []*member, severity string) OutlierGroup {
	slices.SortFunc(outliers, func(a, b Outlier) int {
		return cmp.Or(CompareRanks(a.Record.RankOf(a.Memory), b.Record.RankOf(b.Memory)), cmp.Compare(a.Record.Name, b.Record.Name), cmp.Compare(a.Memory, b.Memory))
	})
	out := OutlierGroup{Severity: severity, Outliers: outliers}
	measures := map[string]int{}
	for i := range outliers {
		measures[outliers[i].Measure()]++
	}
	out.Measure, _ = largestCount(measures)
	var values, others []int64
	for i := range outliers {
		if o := &outliers[i]; o.Measure() == out.Measure {
			values, others = append(values, int64(o.Value(finding.FigValue))), append(others, int64(o.Value(finding.FigMedian)))
		}
		out.Ranks = append(out.Ranks, outliers[i].Record.RankOf(outliers[i].Memory))
	}
	out.Ranks = slices.Compact(out.Ranks)
	out.Value, out.Others = medianOf(values, len(values)), medianOf(others, len(others))
	out.Role, out.OfRole = g.roleOf(members)
	if out.Measure == finding.IdleReserved { // the buffers do not differ
		return out
	}

	group := newUsual()
	for _, m := range members {
		group.add(m)
	}
	group.finish()
	u := g.near(members[0])
	sign := int64(1)
	if severity == finding.Info.String() {
		sign = -1
	}
	layers := differences(u.median.parts, group.median.parts)
	for _, e := range excesses(differences(u.median.categories, group.median.categories), sign) {
		out.Categories = append(out.Categories, CategoryExcess{e.Place, layersOf(e.Place, layers, sign), e.Bytes})
	}
	out.Places = excesses(differences(u.median.places, group.median.places), sign)
	return out
}

func largestCount(counts map[string]int) (name string, n int) {
	for _, each := range slices.Sorted(maps.Keys(counts)) {
		if counts[each] > n {
			name, n = each, counts[each]
		}
	}
	return name, n
}

// excesses returns what differs in the direction of sign, largest first, down to a tenth of the largest.
func excesses(all map[string]int64, sign int64) (out []PlaceExcess) {
	for name, bytes := range all {
		if sign*bytes > 0 {
			out = append(out, PlaceExcess{name, bytes})
		}
	}
	slices.SortFunc(out, func(a, b PlaceExcess) int {
		return cmp.Or(cmp.Compare(sign*b.Bytes, sign*a.Bytes), cmp.Compare(a.Place, b.Place))
	})
	end := slices.IndexFunc(out, func(e PlaceExcess) bool { return 10*sign*e.Bytes < sign*out[0].Bytes })
	if end >= 0 {
		out = out[:end]
	}
	return out
}

// layersOf returns the layers of a category that differ at least half as much as the one that differs most.
func layersOf(category string, parts map[Part]int64, sign int64) []string {
	most := int64(0)
	for p, bytes := range parts {
		if p.Category == category && p.Layer != "" {
			most = max(most, sign*bytes)
		}
	}
	var names []string
	for p, bytes := range parts {
		if p.Category == category && p.Layer != "" && most > 0 && 2*sign*bytes >= most {
			names = append(names, p.Layer)
		}
	}
	return ranges(names)
}

// ranges sorts names by their last numbers and joins those that follow each other: layers[24-31].
func ranges(names []string) (out []string) {
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
		ranks = append(ranks, m.k.RankOf(m.memory))
	}
	for _, m := range g.members {
		if m.kind != members[0].kind {
			continue
		}
		rank := m.k.RankOf(m.memory)
		all = append(all, rank)
		if !m.off || slices.Contains(members, m) {
			free = append(free, rank)
		}
	}
	return g.roles.common(ranks, free, all)
}
