package chrometrace

import (
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
)

// timelineCategories are the categories of torch.profiler's memory timeline.
var timelineCategories = [...]string{"parameter", "optimizer state", "input", "temporary", "activation", "gradient",
	"autograd detail", "unknown"}

// Actions of rows of the raw memory timeline.
const (
	preexisting = 1
	create      = 2
	newVersion  = 3
	destroy     = 4
)

// timeline is one of the forms of export_memory_timeline:
//
//   - raw: rows [nanoseconds or -1, action, bytes, category];
//   - sums: a list of microseconds, then a row for each: 0, and a sum of bytes for
//     each category.
type timeline struct {
	row   []int64 // so far
	rows  int
	raw   [][4]int64
	times []int64 // of the form of sums
	sums  [][]int64
	bad   int64 // rows of another form

	moving []moved // buffers whose new version follows
}

// row gets numbers of a row, see scan.Handler.
func (r *reader) row(numbers []int64, whole bool) {
	if r.timeline == nil {
		r.timeline = &timeline{}
	}
	t := r.timeline
	if !whole {
		t.bad++
		return
	}
	t.row = append(t.row, numbers...)
}

func (r *reader) rowEnd() {
	t := r.timeline
	if t == nil {
		return
	}
	n := len(t.row)
	switch {
	case n == 4 && len(t.times) == 0:
		t.raw = append(t.raw, [4]int64(t.row))
	case t.rows == 0:
		t.times = append(t.times, t.row...)
	case n == len(timelineCategories)+1 && len(t.sums) < len(t.times):
		t.sums = append(t.sums, append([]int64(nil), t.row[1:]...))
	default:
		t.bad++
	}
	t.rows++
	t.row = t.row[:0]
}

func (t *timeline) feed(r *reader) {
	if t == nil {
		return
	}
	if t.bad > 0 {
		r.b.Lose(loss.IncompleteRecord, t.bad, 0, "rows that no memory timeline has")
	}
	if len(t.raw) > 0 {
		t.feedRaw(r)
	}
	t.feedSums(r)
}

// version is a buffer of the timeline. Only its size and category are recorded.
type version struct{ size, category int64 }

// moved is a buffer whose next version follows.
type moved struct {
	number   uint64
	category int64
}

// feedRaw adds the buffers of the raw form. Of several equal buffers it ends the oldest,
// as the file does not identify them. The usage is the same.
func (t *timeline) feedRaw(r *reader) {
	ref := r.addSpace(lifetime.SpaceInfo{Memory: "timeline"})
	r.b.Numbered(ref)
	alive := map[version][]uint64{} // numbers of the buffers, instead of addresses
	next := uint64(1)
	begin := int64(0)
	if i := slices.IndexFunc(t.raw, func(row [4]int64) bool { return row[0] >= 0 }); i >= 0 {
		begin = t.raw[i][0] - 1
	}
	for _, row := range t.raw {
		instant, v := row[0], version{row[2], row[3]}
		if v.size < 0 {
			v.size = max(-v.size, 0) // the least int64 has no counterpart
		}
		if instant < 0 {
			instant = begin
		}
		report := sized(0, v.size)
		switch action := row[1]; {
		case action == preexisting || action == create:
			report.Addr = next
			report.Site = r.b.Site(lifetime.Site{Region: category(v.category)})
			alive[v] = append(alive[v], next)
			next++
		case action == newVersion && row[2] >= 0: // after the row of its old version
			if len(t.moving) == 0 {
				continue
			}
			old := t.moving[0]
			t.moving = t.moving[1:]
			alive[v] = append(alive[v], old.number)
			if old.category != v.category { // a buffer has one category: another one continues it
				report.Addr, report.Free = old.number, true
				r.b.Report(ref, instant, &report)
				report.Free, report.Site = false, r.b.Site(lifetime.Site{Region: category(v.category)})
				r.b.Report(ref, instant, &report)
			}
			continue
		case action != newVersion && action != destroy:
			r.b.Lose(loss.UnknownAction, 1, 0, "")
			continue
		case len(alive[v]) == 0:
			r.b.Lose(loss.StateMismatch, 1, v.size, "a row frees a buffer that was not allocated")
			continue
		case action == newVersion: // its new version follows
			t.moving = append(t.moving, moved{alive[v][0], v.category})
			alive[v] = alive[v][1:]
			continue
		default:
			report.Addr, report.Free = alive[v][0], true
			alive[v] = alive[v][1:]
		}
		r.b.Report(ref, instant, &report)
	}
}

func category(n int64) string {
	if n < 0 || n >= int64(len(timelineCategories)) {
		return "unknown"
	}
	return timelineCategories[n]
}

// feedSums adds a space for the sums, and one for each category with bytes. Only their usage is recorded.
func (t *timeline) feedSums(r *reader) {
	t.feedUsage(r, "timeline", func(sums []int64) (bytes int64) {
		for _, n := range sums {
			bytes += n
		}
		return bytes
	})
	for i, name := range timelineCategories {
		t.feedUsage(r, "timeline/"+name, func(sums []int64) int64 { return sums[i] })
	}
}

func (t *timeline) feedUsage(r *reader, name string, usage func(sums []int64) int64) {
	first := slices.IndexFunc(t.sums, func(sums []int64) bool { return usage(sums) != 0 })
	if first < 0 {
		return
	}
	ref := r.addSpace(lifetime.SpaceInfo{Memory: name})
	for i := first; i < len(t.sums); i++ {
		r.b.Total(ref, lifetime.Total{T: t.times[i] * 1000, Bytes: usage(t.sums[i]), Measure: lifetime.Occupied})
	}
}
