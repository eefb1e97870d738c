package laws

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/finding"
)

// evidenceLaw changes a snapshot so that the right answer is known to stay, or to change in a known way. Two answers are compared, so no
// truth is needed.
type evidenceLaw struct {
	name, reason string
	cases        func(s *snapshot) iter.Seq[evidenceCase]
	bare         bool // the table of the recorder is left out, because the change makes it untrue

	on string // shipped capture that breaks it easily: the one that is tried without MEMLANE_DEEP=1
}

// evidenceCase is one change.
type evidenceCase struct {
	name    string
	changed *snapshot
	how     writing
	holds   func(before, after *verdict) []breach
}

// evidence are the laws that a rule is tried against before it is tried against truths. A law that is wrong is mended here, with its reason.
var evidence = []evidenceLaw{
	{name: "temporaries", on: "meaning/older/moved.pickle.zst", cases: temporaries,
		reason: "memory that is allocated and freed at once elsewhere says nothing about other buffers"},
	{name: "rename", on: "labelled/t02_loading.pickle.zst", cases: rename,
		reason: "names of folders and functions, and numbers of lines, do not say what memory is for"},
	{name: "scale", on: "torchsnap/held.pickle", cases: scale,
		reason: "float64 for float32: twice the bytes, the same program"},
	{name: "extend", on: "whatif/variable.pickle.zst", cases: extend, bare: true,
		reason: "a longer recording knows at least what a shorter one knew"},
	{name: "late", on: "meaning/older/moved.pickle.zst", cases: late, bare: true,
		reason: "a recording that began later knows no more than one that began earlier"},
	{name: "marks", on: "whatif/resume.pickle.zst", cases: marks,
		reason: "recorded marks of steps win against inference, and make no answer worse"},
	{name: "failure", on: "torchsnap/t215_leak_1mib_12steps.pickle", cases: failing,
		reason: "a history and its failure show at least what the history shows"},
	{name: "native", on: "meaning/principles/w02.pickle.zst", cases: withoutNative,
		reason: "Python's frames say which line of the program it was, with C++ frames or without"},
	{name: "relabel", on: "torchsnap/twodev.pickle", cases: relabel,
		reason: "numbers of devices and streams, versions of pickle and the order of keys mean nothing"},
	{name: "twin", on: "replay/b14.c2.oom.pickle.zst", cases: twin,
		reason: "two devices that do the same have the same answers"},
	{name: "again", on: "torchsnap/mode_pool.pickle", cases: again,
		reason: "a program that runs twice has twice the steps, and grows as much in each"},
	{name: "recordings", on: "whatif/gnn.pickle.zst", cases: recordings, bare: true,
		reason: "a program has one answer: of two recordings, the ranges of the one that knows less have the figures of the other"},
	{name: "names", on: "torchsnap/held.pickle", cases: recordedNames, bare: true,
		reason: "what the recorder saw hold a buffer holds it; inference has no say"},
	{name: "agree", on: "whatif/resume.pickle.zst", cases: agree,
		reason: "one capture has one peak, one count of steps, one verdict"},
}

// cases yields changes.
type cases = iter.Seq[evidenceCase]

func temporaries(s *snapshot) cases {
	return func(yield func(evidenceCase) bool) {
		if !s.hasStacks() {
			return
		}
		for _, p := range []struct {
			name         string
			n            int
			once, thread bool
			times        int
		}{
			{"thread, one", 20, true, true, 1}, {"thread, 1 in 8", 8, false, true, 1}, {"thread, 3 at each", 1, false, true, 3},
			{"called inside, 1 in 8", 8, false, false, 1}, {"called inside, 3 at each", 1, false, false, 3},
		} {
			if !yield(evidenceCase{name: p.name, changed: s.probed(p.n, p.once, p.thread, p.times), holds: alike{}.compare}) {
				return
			}
		}
	}
}

func rename(s *snapshot) cases {
	return func(yield func(evidenceCase) bool) {
		if !s.hasStacks() {
			return
		}
		like := alike{unnamed: true}
		_ = yield(evidenceCase{name: "folders", changed: s.withCalls(inFolders), holds: like.compare}) &&
			yield(evidenceCase{name: "functions", changed: s.withCalls(renamed), holds: like.compare}) &&
			yield(evidenceCase{name: "lines", holds: like.compare, changed: s.withCalls(func(f *call) {
				if f.ours() {
					f.line += 1000
				}
			})}) &&
			yield(evidenceCase{name: "project in site-packages", changed: s.withCalls(installed), holds: func(before, after *verdict) []breach {
				all := slices.Concat(like.categories(before, after), like.steps(before, after)) // another frame may name the leak
				if x, y := before.leakedBytes(), after.leakedBytes(); x != y {
					all = append(all, breach{"leak bytes", fmt.Sprintf("%d -> %d B in all", x, y), 1})
				}
				return all
			}})
	}
}

func (v *verdict) leakedBytes() (n int64) {
	for _, l := range warned(v.leaks) {
		n += l.Amount.Bytes
	}
	return n
}

// bySize are categories that are known by absolute sizes, and workspaces those sizes: of cuBLAS.
var (
	bySize     = []string{"workspace", "bucket"}
	workspaces = []int64{8519680, 32 << 20}
)

func scale(s *snapshot) cases {
	return func(yield func(evidenceCase) bool) {
		for _, e := range s.events() {
			if e.action == "oom" || e.addr >= 1<<61 { // a failure depends on the device, which does not grow
				return
			}
		}
		double := func(n int64) int64 { return 2 * n }
		bigger := s.moved(moving{addr: double, size: double, requested: func(n int64) int64 {
			if n <= 16 || slices.Contains(workspaces, n) { // numbers stay numbers
				return n
			}
			return 2 * n
		}})
		yield(evidenceCase{name: "x2", changed: bigger, holds: alike{addr: func(a uint64) uint64 { return 2 * a },
			leaveOut: bySize, moreLeaks: true, moreBytes: true}.compare})
	}
}

// part is an instant within a recording.
type part struct {
	name string
	at   int64
}

// leastEvents is how many events a recording without marks must have to be cut.
const leastEvents = 40

func extend(s *snapshot) cases {
	s = s.unnamed()
	return func(yield func(evidenceCase) bool) {
		times, ends := s.times(), s.stepEnds()
		var parts []part
		switch n := len(times); {
		case n > 0 && ends != nil:
			k := len(ends)
			parts = []part{{"marked 1/2", ends[k/2-1]}, {"marked 3/4", ends[k*3/4-1]}, {"marked all", ends[k-1]}}
		case n >= leastEvents:
			parts = []part{{"unmarked 1/2", times[n/2]}, {"unmarked 3/4", times[n*3/4]}}
		}
		for _, p := range parts {
			short := s.endedAt(p.at)
			if short == nil {
				continue
			}
			n, _ := slices.BinarySearch(times, p.at+1)
			share := float64(n) / float64(len(times))
			if !yield(evidenceCase{name: p.name, changed: short, holds: func(full, short *verdict) []breach { return extended(full, short, share) }}) {
				return
			}
		}
	}
}

// extended compares a recording with its first part, which has a share of its events.
func extended(full, short *verdict, share float64) []breach {
	like := alike{forget: true, learn: true}
	all := like.categories(full, short)
	for _, l := range warned(short.leaks) {
		held, last := short.kept(l), int64(0)
		for _, b := range held {
			last = max(last, b.Begin)
		}
		sizes, old, more := map[int64]bool{}, 0, 0
		for _, b := range full.kept(l) {
			sizes[b.Size] = true
			if b.Begin <= last {
				old++
			} else {
				more++
			}
		}
		if len(held) == 0 || float64(old) < .9*float64(len(held)) || float64(more) < .5*float64(len(held))*(1-share)/share {
			continue // it was freed later, or stopped growing: the longer recording may know better
		}
		var best *leak
		for i := range full.leaks {
			if g := &full.leaks[i]; g.space == l.space && g.at.function == l.at.function && (best == nil || surer(g, best, l.at)) {
				best = g
			}
		}
		switch {
		case best == nil:
			all = append(all, breach{"leak lost by a longer recording", fmt.Sprintf("%v; then %d + %d alive", l, old, more), 1})
		case best.Severity == finding.Info || best.sure < l.sure-unsure:
			all = append(all, breach{"leak weaker by a longer recording", fmt.Sprintf("%v -> %v", l, best), 1})
		case len(sizes) == 1 && short.steps[l.space] != full.steps[l.space] && !growsAlike(l, best, short.steps[l.space].n):
			all = append(all, growth(short, l, full, best))
		}
	}
	return all
}

// surer reports whether f says more about a line than g.
func surer(f, g *leak, at codeLine) bool {
	there := func(l *leak) int {
		if l.at == at {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(there(f), there(g)), cmp.Compare(f.Severity, g.Severity), cmp.Compare(f.sure, g.sure)) > 0
}

// growth says that two recordings differ in what a leak takes in each step.
func growth(x *verdict, l *leak, y *verdict, m *leak) breach {
	return breach{"growth per step", fmt.Sprintf("%v: %d B in each of %v -> %d B in each of %v", l, l.perStep, x.steps[l.space], m.perStep, y.steps[m.space]), 1}
}

func late(s *snapshot) cases {
	s = s.unnamed()
	return func(yield func(evidenceCase) bool) {
		times := s.times()
		if len(times) < leastEvents {
			return
		}
		kind, at := "event", times
		if ends := s.stepEnds(); ends != nil {
			kind, at = "marked", ends
		}
		for _, p := range []part{{kind + " 1/4", at[len(at)/4]}, {kind + " 1/2", at[len(at)/2]}} {
			some := false
			cut := s.withNotes(func(n *note) bool { return n.time > p.at }).withEvents(func(_ int, trace []event) (all []event) {
				for _, e := range trace {
					if e.time > p.at {
						all = append(all, e)
					}
				}
				some = some || len(all) > 0
				return all
			})
			if some && !yield(evidenceCase{name: p.name, changed: cut, holds: begunLater}) {
				return
			}
		}
	}
}

// begunLater compares a recording with its last part. The function of a leak counts, not its line: the part may see it at another one.
func begunLater(full, cut *verdict) []breach {
	like := alike{fromEnd: true, forget: true, learn: true}
	all := like.categories(full, cut)
	for _, l := range warned(cut.leaks) {
		if !slices.ContainsFunc(full.leaks, func(f leak) bool { return f.space == l.space && f.at.function == l.at.function }) {
			all = append(all, breach{"leak only without the beginning", l.String(), 1})
		}
	}
	return all
}

func marks(s *snapshot) cases {
	return func(yield func(evidenceCase) bool) {
		none := s.withNotes(func(*note) bool { return false })
		rest := s.withNotes(func(n *note) bool {
			return !strings.HasPrefix(n.name, "ProfilerStep") && !strings.HasPrefix(n.name, "Optimizer.")
		})
		_ = (len(s.notes) == 0 || yield(evidenceCase{name: "none", changed: none, holds: unmarked})) &&
			(len(rest.notes) == 0 || len(rest.notes) == len(s.notes) || yield(evidenceCase{name: "no steps", changed: rest, holds: unmarked}))
	}
}

// unmarked compares a recording with the one without marks.
func unmarked(marked, bare *verdict) (all []breach) {
	for _, id := range marked.spaces {
		switch n, m := marked.steps[id], bare.steps[id]; {
		case m.n == 0:
		case n.n == 0:
			all = append(all, breach{"steps known only without marks", fmt.Sprintf("%s: %v", id, m), 1})
		case !n.inferred && n.n != m.n:
			all = append(all, breach{"steps inferred against marks", fmt.Sprintf("%s: %v, without marks %v", id, n, m), 1})
		}
	}
	like := alike{forget: true, moreLeaks: true, moreBytes: true}
	return slices.Concat(all, prefixed("without marks: ", like.categories(marked, bare)), prefixed("with marks: ", like.leaks(bare, marked)))
}

func prefixed(with string, all []breach) []breach {
	return each(all, func(b *breach) { b.kind = with + b.kind })
}

func failing(s *snapshot) cases {
	return func(yield func(evidenceCase) bool) {
		trace := s.traces[s.busiest()]
		if !slices.ContainsFunc(trace, func(e event) bool { return e.action == "alloc" }) || trace[len(trace)-1].action == "oom" ||
			slices.ContainsFunc(s.segments, func(g segment) bool { return g.expandable }) {
			return
		}
		holds := alike{moreLeaks: true, moreBytes: true}.compare
		piece := func(hole, _, last int64) int64 { return max(last, hole+512) }
		all := func(hole, reserved, _ int64) int64 { return hole + 2*reserved }
		_ = yield(evidenceCase{name: "a piece", changed: s.failing(piece), holds: holds}) && yield(evidenceCase{name: "all", changed: s.failing(all), holds: holds}) &&
			yield(evidenceCase{name: "1 in 8 tried again", changed: s.retried(8), holds: holds})
	}
}

// hasNative reports whether frames are of Python and of C++.
func (s *snapshot) hasNative() bool {
	kinds := map[bool]bool{}
	for _, e := range s.events() {
		if e.frames != nil {
			for _, f := range e.frames.of {
				kinds[f.native()] = true
			}
		}
	}
	return len(kinds) == 2
}

func (s *snapshot) withoutNative() *snapshot {
	return s.withStacks(func(c *callers) *callers { return &callers{slices.DeleteFunc(slices.Clone(c.of), (*call).native)} })
}

func withoutNative(s *snapshot) cases {
	return func(yield func(evidenceCase) bool) {
		if !s.hasNative() {
			return
		}
		yield(evidenceCase{name: "dropped", changed: s.withoutNative(), holds: func(before, after *verdict) (all []breach) {
			for _, b := range (alike{forget: true, moreBytes: true}).compare(before, after) {
				if b.kind != "category workspace -> temporary" { // one that is freed at once is both
					all = append(all, b)
				}
			}
			for at, old := range before.at {
				young := after.at[at]
				for i := range min(len(old), len(young)) {
					if u, v := before.ownLine(old[i]), after.ownLine(young[i]); u != v {
						return append(all, breach{"line of the program", fmt.Sprintf("%v -> %v", u, v), 1})
					}
				}
			}
			return all
		}})
	}
}

// ownLine returns the innermost line of the program that allocated a buffer.
func (v *verdict) ownLine(b judgedBuffer) codeLine {
	for f := range v.FramesOf(v.Sites[b.Site].Stack) {
		if c := (call{name: f.Function, file: f.File, line: int64(f.Line)}); c.ours() {
			return codeLine{f.Function, f.File, f.Line}
		}
	}
	return codeLine{}
}

// small is the size of a snapshot that is written with its keys in another order: that takes longest.
const small = 500_000

func relabel(s *snapshot) cases {
	return func(yield func(evidenceCase) bool) {
		swap := func(d int64) int64 {
			if d <= 1 {
				return 1 - d
			}
			return d
		}
		otherID := func(id string) string {
			if before, ok := strings.CutSuffix(id, ":0"); ok {
				return before + ":1"
			} else if before, ok := strings.CutSuffix(id, ":1"); ok {
				return before + ":0"
			}
			return id
		}
		swapped := *s
		swapped.traces = append(slices.Clone(s.traces), nil)[:max(2, len(s.traces))]
		swapped.traces[0], swapped.traces[1] = swapped.traces[1], swapped.traces[0]
		swapped.segments = each(s.segments, func(g *segment) { g.device = swap(g.device) })
		swapped.notes = each(s.notes, func(n *note) { n.device = swap(n.device) })
		stream := func(to *int64) {
			if *to != 0 {
				*to += 7
			}
		}
		moved := s.withEvents(func(_ int, trace []event) []event { return each(trace, func(e *event) { stream(&e.stream) }) })
		moved.segments = each(s.segments, func(g *segment) { stream(&g.stream) })
		_ = (s.names != "" || // its table has numbers of devices of its own
			yield(evidenceCase{name: "devices", changed: &swapped, holds: alike{space: otherID}.compare})) &&
			yield(evidenceCase{name: "streams", changed: moved, holds: alike{}.compare}) &&
			yield(evidenceCase{name: "protocol 2", changed: s, how: writing{old: true}, holds: alike{}.compare}) &&
			(s.bytes >= small || yield(evidenceCase{name: "order of keys", changed: s, how: writing{turned: true}, holds: alike{}.compare}))
	}
}

func twin(s *snapshot) cases {
	return func(yield func(evidenceCase) bool) {
		const apart = 1 << 44
		if len(s.traces) != 1 || s.names != "" {
			return
		}
		two := s.with(s.moved(moving{addr: func(a int64) int64 { return a + apart }, device: func(int64) int64 { return 1 }}))
		both := *two
		both.notes = nil
		for _, n := range s.notes {
			copied := n
			copied.device, copied.noDevice = 1, false
			both.notes = append(both.notes, n, copied)
		}
		holds := func(before, after *verdict) (all []breach) {
			for d, id := range []string{":0", ":1"} {
				like := alike{space: func(of string) string { return strings.Replace(of, ":0", id, 1) }, addr: func(a uint64) uint64 { return a + uint64(d)*apart }, moreLeaks: true}
				all = append(all, each(like.compare(before, after), func(b *breach) { b.detail = "cuda" + id + ": " + b.detail })...)
			}
			return all
		}
		_ = yield(evidenceCase{name: "copied", changed: &both, holds: holds}) &&
			len(s.notes) > 0 && yield(evidenceCase{name: "marks at device 0 only", changed: two, holds: holds}) // PyTorch marks the current device
	}
}

func again(s *snapshot) cases {
	return func(yield func(evidenceCase) bool) {
		if s.names != "" || s.times() == nil || slices.ContainsFunc(s.events(), func(e *event) bool { return e.action == "oom" }) {
			return
		}
		yield(evidenceCase{name: "twice", changed: s.twice(), holds: func(once, two *verdict) (all []breach) {
			for _, id := range once.spaces {
				n, m := once.steps[id], two.steps[id]
				edge := max(2, float64(n.n)/10) // steps at the seam are in part
				if n.n > 0 && (m.n > 0 && max(float64(m.n-2*n.n), float64(2*n.n-m.n)) > edge || m.n == 0 && !n.inferred) {
					all = append(all, breach{"steps " + n.kind() + " do not double", fmt.Sprintf("%s: %v -> %v", id, n, m), 1})
				}
			}
			for _, l := range warned(once.leaks) {
				i := slices.IndexFunc(two.leaks, func(m leak) bool { return m.at == l.at && m.space == l.space })
				if i < 0 {
					all = append(all, breach{"leak lost", l.String(), 1})
				} else if m := &two.leaks[i]; !growsAlike(l, m, once.steps[l.space].n) {
					all = append(all, growth(once, l, two, m))
				}
			}
			return all
		}})
	}
}

// recorded is what the recorder wrote of a buffer.
type recorded struct{ role, owner string }

// table reads the table of memlane's recorder.
func (s *snapshot) table() map[where]recorded {
	var t struct {
		Device, Role, Owner []int
		Address             []uint64
		Texts               []string
	}
	if err := json.Unmarshal([]byte(s.names), &t); err != nil {
		return nil
	}
	of := func(column []int, i int) string {
		if len(column) == 0 {
			return ""
		}
		return t.Texts[column[i]]
	}
	table := map[where]recorded{}
	for i, addr := range t.Address {
		table[where{fmt.Sprint("cuda:", t.Device[i]), addr}] = recorded{of(t.Role, i), of(t.Owner, i)}
	}
	return table
}

func recordedNames(s *snapshot) cases {
	return func(yield func(evidenceCase) bool) {
		if s.names == "" {
			return
		}
		table := s.table()
		yield(evidenceCase{name: "there", changed: s, holds: func(bare, named *verdict) []breach {
			like := alike{moreLeaks: true, moreBytes: true}
			return slices.Concat(named.against(table, "with names"), bare.against(table, "inferred"), named.heldOtherwise(table),
				prefixed("with names: ", like.leaks(bare, named)))
		}})
	}
}

// against returns the buffers of categories that contradict the recorded roles.
func (v *verdict) against(table map[where]recorded, who string) (all []breach) {
	wrong := map[string]int64{}
	for at, buffers := range v.at {
		b := buffers[len(buffers)-1]
		if role := table[at].role; alive(b.Buffer) && role != "" && b.category != role && b.category != leaked && !vague(b.category, role) {
			wrong[fmt.Sprintf("%s: recorded %s, said %s", who, role, b.category)] += b.Size
		}
	}
	for kind, n := range wrong {
		all = append(all, breach{kind, fmt.Sprint(n, " B"), 1})
	}
	return all
}

var (
	indexes  = regexp.MustCompile(`\d+`)
	variable = regexp.MustCompile(`^[^\[.]*`)
)

// heldOtherwise returns the leaks whose holders are not the recorded ones.
func (v *verdict) heldOtherwise(table map[where]recorded) (all []breach) {
	type cause struct{ space, text string }
	holders := map[cause]map[string]bool{}
	for i := range v.leaks {
		l := &v.leaks[i]
		owners, some := map[string]int{}, 0
		for _, b := range v.kept(l) {
			if owner := indexes.ReplaceAllString(table[where{l.space, b.Addr}].owner, "*"); owner != "" {
				owners[owner]++
				some++
			}
		}
		if len(l.Held) == 0 {
			if int64(some) > l.Amount.Count/2 {
				all = append(all, breach{"recorded holder not said", fmt.Sprintf("%v: %v", l, owners), 1})
			}
			continue
		}
		said, known := strings.TrimPrefix(l.Held[0].By, "the graph of "), false
		for owner := range owners {
			known = known || strings.HasPrefix(said, owner[:min(3, len(owner))])
		}
		if len(owners) > 0 && !known {
			all = append(all, breach{"holder is not the recorded one", fmt.Sprintf("%v: %s, recorded %v", l, said, owners), 1})
		}
		if c := (cause{l.space, l.Text(finding.FigCausePlace)}); c.text != "" {
			if holders[c] == nil {
				holders[c] = map[string]bool{}
			}
			holders[c][variable.FindString(said)] = true
		}
	}
	for c, of := range holders {
		if len(of) > 1 {
			all = append(all, breach{"one cause, several holders", fmt.Sprintf("%s: %v", c.text, of), 1})
		}
	}
	return all
}

// installed puts the program into an environment, as pip does.
func installed(f *call) {
	if f.ours() {
		f.file = "/opt/lib/python3.11/site-packages/proj/" + f.file[strings.LastIndex(f.file, "/")+1:]
	}
}
