package native

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/purpose"
)

// First lines. Version 2 has stacks with callers.
const (
	magic   = "memlane native 2"
	magicV1 = "memlane native 1"
)

// Write writes c as native text.
func Write(w io.Writer, c *lifetime.Capture) error {
	n := &writer{w: bufio.NewWriter(w), c: c, frames: map[lifetime.FrameID]int{}, stacks: map[lifetime.StackID]int{},
		sites: map[lifetime.SiteID]int{}, notes: map[lifetime.NoteID]int{}, holders: map[lifetime.HolderID]int{}}
	fmt.Fprintln(n.w, magic)
	for _, s := range c.Sources {
		fmt.Fprintf(n.w, "source format=%q producer=%q\n", s.Format, s.Producer)
		for _, setting := range s.Settings {
			fmt.Fprintf(n.w, "setting %q %q\n", setting.Key, setting.Value)
		}
		for _, g := range s.Groups {
			fmt.Fprintf(n.w, "group %q %d %d\n", g.Name, g.Number, g.Of)
		}
	}
	for _, s := range c.Spaces {
		n.space(s)
	}
	n.calls()
	for _, o := range c.Operations {
		fmt.Fprintf(n.w, "operation %s %q %d time=%d", o.Kind, o.Name, o.Calls, o.Time)
		n.known("self_time", o.SelfTime)
		n.known("allocated", o.Host.Allocated)
		n.known("freed", o.Host.Freed)
		n.known("self_bytes", o.Host.SelfBytes)
		n.known("device_allocated", o.Device.Allocated)
		n.known("device_freed", o.Device.Freed)
		n.known("device_self_bytes", o.Device.SelfBytes)
		n.w.WriteByte('\n')
	}
	for _, l := range c.Losses {
		fmt.Fprintf(n.w, "loss %s count=%d bytes=%d first=%q\n", l.Reason, l.Count, l.Bytes, l.First)
	}
	return n.w.Flush() // a bufio.Writer keeps the first error
}

// writer numbers entries in order of first use; 0 = none.
type writer struct {
	w       *bufio.Writer
	c       *lifetime.Capture
	frames  map[lifetime.FrameID]int
	stacks  map[lifetime.StackID]int
	sites   map[lifetime.SiteID]int
	notes   map[lifetime.NoteID]int
	holders map[lifetime.HolderID]int
}

func (n *writer) space(s *lifetime.Space) {
	var b strings.Builder
	for _, f := range []struct{ key, value string }{
		{"host", s.Host}, {"process", s.Process}, {"device", s.Device}, {"memory", s.Memory}, {"allocator", s.Allocator}, {"module", s.Module},
		{"entry", s.Entry},
	} {
		if f.value != "" {
			fmt.Fprintf(&b, " %s=%q", f.key, f.value)
		}
	}
	fmt.Fprintf(n.w, "space source=%d%s axis=%q begin=%d end=+%d limit=%d base=%d allocations=%d frees=%d facts=%q", s.Source, b.String(),
		s.Axis.String(), s.Begin, s.End-s.Begin, s.Limit, s.Base, s.Allocations, s.Frees, strings.Join(s.Facts.Names(), ","))
	n.known("lifetime_peak", s.LifetimePeak)
	if s.OnlyOccupied {
		n.w.WriteString(" only_occupied=true")
	}
	n.named("target", s.Target)
	n.w.WriteByte('\n')
	for _, c := range s.Remedies {
		fmt.Fprintf(n.w, "change %q %d %d what=%q\n", c.Kind, c.Low, c.High, c.What)
	}
	for i := range s.Regions {
		r := &s.Regions[i]
		site := n.site(r.Site)
		fmt.Fprintf(n.w, "region +%d +%d %#x %d kind=%q stream=%d pool=%q site=%d edge=%s",
			r.Begin-s.Begin, r.End-s.Begin, r.Addr, r.Size, r.Kind, r.Stream, r.Pool, site, r.Edge)
		n.known("index", r.Index)
		n.named("uses", strings.Join(r.Uses.Names(), ","))
		if r.Small {
			n.w.WriteString(" small=true")
		}
		n.w.WriteByte('\n')
	}
	for i := range s.Buffers {
		n.buffer(s, i)
	}
	for i := range s.Values {
		v := &s.Values[i]
		site := n.site(v.Site)
		fmt.Fprintf(n.w, "value %d %+d %+d %d %d root=%d allocation=%d offset=%d site=%d\n",
			v.ID, v.Begin-s.Begin, v.End-s.Begin, v.Size, v.Requested, v.Root, v.Allocation, v.Offset, site)
	}
	for _, l := range s.Stack {
		fmt.Fprintf(n.w, "beside +%d %d\n", l.At-s.Begin, l.Bytes)
	}
	for _, t := range s.Totals {
		fmt.Fprintf(n.w, "total +%d %d %s", t.T-s.Begin, t.Bytes, t.Measure)
		if t.HasFragmentation {
			fmt.Fprintf(n.w, " fragmentation=%v", t.Fragmentation)
		}
		n.w.WriteByte('\n')
	}
	for _, m := range s.Marks {
		site := n.site(m.Site)
		fmt.Fprintf(n.w, "mark %+d %+d %s site=%d requested=%d free=%d text=%q", m.Begin-s.Begin, m.End-s.Begin, m.Kind, site, m.Requested,
			m.Free.Or(unknownFree(&m)), m.Text)
		n.known("stream", m.Stream)
		if m.Failure != nil {
			n.failure(m.Failure)
		}
		n.w.WriteByte('\n')
	}
}

// failure writes what a text says about the failed allocation of a mark, without unknown figures.
func (n *writer) failure(f *failure.Failure) {
	fmt.Fprintf(n.w, " failure=%q", f.Source)
	figures := f.Figures()
	for _, key := range slices.Sorted(maps.Keys(figures)) {
		if v := *figures[key]; v >= 0 {
			fmt.Fprintf(n.w, " %s=%d", key, v)
		}
	}
	words := f.Words()
	for _, key := range slices.Sorted(maps.Keys(words)) {
		if *words[key] != "" {
			fmt.Fprintf(n.w, " %s=%q", key, *words[key])
		}
	}
	for _, flag := range f.Flags() {
		if *flag.Set {
			fmt.Fprintf(n.w, " %s=true", flag.Name)
		}
	}
}

// calls writes calls and samples with the number of their space, from 0. Times of calls are seconds with all digits.
func (n *writer) calls() {
	seconds := func(t float64) string { return strconv.FormatFloat(t, 'g', -1, 64) }
	for i := range n.c.Calls {
		call := &n.c.Calls[i]
		site := n.site(call.Site)
		fmt.Fprintf(n.w, "call %d %s %s %s site=%d before=%d after=%d", call.Space, seconds(call.Begin), seconds(call.End), seconds(call.Seconds),
			site, call.Before, call.After)
		n.known("peak", call.Peak)
		n.known("reserved", call.Reserved)
		n.known("inactive", call.Inactive)
		n.known("allocated", call.Allocated)
		n.known("freed", call.Freed)
		n.w.WriteByte('\n')
	}
	for i := range n.c.Samples {
		s := &n.c.Samples[i]
		fmt.Fprintf(n.w, "sample %d %+d allocated=%d reserved=%d inactive=%d device_used=%d device_total=%d regular=%t\n", s.Space,
			s.T-n.c.Spaces[s.Space].Begin, s.Allocated, s.Reserved, s.Inactive, s.DeviceUsed, s.DeviceTotal, s.Regular)
	}
}

// unknownFree returns what the text has for the free bytes of a mark if they are unknown.
func unknownFree(m *lifetime.Mark) int64 {
	if m.Kind == lifetime.OOM || m.Failure != nil {
		return -1
	}
	return 0
}

// known writes a number unless it is 0.
func (n *writer) known(key string, v int64) {
	if v != 0 {
		fmt.Fprintf(n.w, " %s=%d", key, v)
	}
}

// named writes a text unless it is "".
func (n *writer) named(key, v string) {
	if v != "" {
		fmt.Fprintf(n.w, " %s=%q", key, v)
	}
}

// buffer writes a buffer, without fmt because there may be millions.
func (n *writer) buffer(s *lifetime.Space, i int) {
	b := &s.Buffers[i]
	site := n.site(b.Site)
	freeSite, note, holder := 0, 0, 0
	if s.FreeSites != nil {
		freeSite = n.site(s.FreeSites[i])
	}
	if s.BufNotes != nil {
		note = number(n.notes, s.BufNotes[i], func(k int) { fmt.Fprintf(n.w, "note %d %q\n", k, n.c.Notes[s.BufNotes[i]]) })
	}
	if s.Holders != nil {
		holder = n.holder(s.Holders[i])
	}
	line := n.w.AvailableBuffer()
	line = appendInt(line, "buffer +", b.Begin-s.Begin)
	line = appendInt(line, " +", b.End-s.Begin)
	line = strconv.AppendUint(append(line, " 0x"...), b.Addr, 16)
	line = appendInt(line, " ", b.Size)
	line = appendInt(line, " ", b.Requested)
	line = appendInt(line, " site=", int64(site))
	line = append(append(line, " edge="...), b.Edge.String()...)
	if b.Kind != lifetime.Plain {
		line = append(append(line, " kind="...), b.Kind.String()...)
	}
	if freeSite != 0 {
		line = appendInt(line, " free=", int64(freeSite))
	}
	if note != 0 {
		line = appendInt(line, " note=", int64(note))
	}
	if holder != 0 {
		line = appendInt(line, " holder=", int64(holder))
	}
	if s.ValueIDs != nil {
		line = appendInt(line, " value=", s.ValueIDs[i])
	}
	if s.FreeRequests != nil && s.FreeRequests[i] < b.End {
		line = appendInt(line, " requested=+", s.FreeRequests[i]-s.Begin)
	}
	n.w.Write(append(line, '\n'))
}

func appendInt(line []byte, key string, v int64) []byte {
	return strconv.AppendInt(append(line, key...), v, 10)
}

// number returns the number of id; 0 = none. At its first use, id gets the next number and write writes its line.
func number[ID ~uint32](numbers map[ID]int, id ID, write func(i int)) int {
	if id == 0 {
		return 0
	}
	i, ok := numbers[id]
	if !ok {
		i = len(numbers) + 1
		numbers[id] = i
		write(i)
	}
	return i
}

func (n *writer) holder(id lifetime.HolderID) int {
	return number(n.holders, id, func(i int) {
		h := n.c.Holders[id]
		fmt.Fprintf(n.w, "holder %d kind=%s", i, h.Kind)
		if h.Category != purpose.UnknownCategory {
			fmt.Fprintf(n.w, " category=%s", h.Category)
		}
		for _, f := range holderTexts(&h) {
			n.named(f.key, *f.text)
		}
		n.known("others", h.Others)
		n.w.WriteByte('\n')
	})
}

type holderText struct {
	key  string
	text *string
}

// holderTexts are the texts of a holder with their keys.
func holderTexts(h *holder.Holder) []holderText {
	return []holderText{{"name", &h.Name}, {"path", &h.Path}, {"where", &h.Where}, {"owner", &h.Owner}, {"container", &h.Container}, {"node", &h.Node},
		{"tensor", &h.Tensor}}
}

func (n *writer) site(id lifetime.SiteID) int {
	return number(n.sites, id, func(i int) {
		s := n.c.Sites[id]
		stack, source := n.stack(s.Stack), n.stack(s.Source)
		fmt.Fprintf(n.w, "site %d stack=%d op=%q module=%q", i, stack, s.Op, s.Module)
		n.named("region", s.Region)
		n.named("shape", s.Shape)
		n.named("dtype", s.DType)
		n.named("instr", s.Instr)
		n.named("opcode", s.Opcode)
		n.named("split", s.Split)
		n.known("copies", s.Copies)
		n.named("role", string(s.Role))
		n.known("source", int64(source))
		if s.Unseen {
			n.known("unseen", 1)
		}
		n.w.WriteByte('\n')
	})
}

// stack writes a stack after its callers, outermost first. It does not recurse, because there may be very many.
func (n *writer) stack(id lifetime.StackID) int {
	var calls []lifetime.StackID
	for at := id; at != 0 && n.stacks[at] == 0; at = n.c.Stacks[at].Caller {
		calls = append(calls, at)
	}
	for _, at := range slices.Backward(calls) {
		call := n.c.Stacks[at]
		number(n.stacks, at, func(i int) {
			fmt.Fprintf(n.w, "stack %d %d", i, n.frame(call.Frame))
			n.known("caller", int64(n.stacks[call.Caller]))
			n.w.WriteByte('\n')
		})
	}
	return n.stacks[id]
}

func (n *writer) frame(id lifetime.FrameID) int {
	return number(n.frames, id, func(i int) {
		f := n.c.Frames[id]
		fmt.Fprintf(n.w, "frame %d %s %q %q %d", i, f.Kind, f.Function, f.File, f.Line)
		n.known("column", int64(f.Column))
		n.w.WriteByte('\n')
	})
}
