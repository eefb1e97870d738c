package native

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Sniff reports whether head begins with the first line of native text.
func Sniff(head []byte) bool {
	first, _, whole := bytes.Cut(head, []byte("\n"))
	return whole && isMagic(string(first))
}

func isMagic(line string) bool { return line == magic || line == magicV1 }

// Read reads native text into b. Errors have the line number.
func Read(file string, in io.Reader, b *build.Builder) error {
	n := &reader{b: b, file: file, frames: []lifetime.FrameID{0}, stacks: []lifetime.StackID{0}, sites: []lifetime.SiteID{0}, notes: []lifetime.NoteID{0}, holders: []lifetime.HolderID{0}}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, math.MaxInt) // names and notes may have any length, and quoting makes them longer
	number := 1
	for ; lines.Scan(); number++ {
		line := lines.Text()
		var err error
		if number == 1 {
			if !isMagic(line) {
				err = fmt.Errorf("want %q", magic)
			}
		} else if line != "" {
			err = n.line(line)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if n.sources == 0 {
		return errors.New("no source: the text ends early")
	}
	if len(n.spaces) > 0 {
		n.b.Describe(n.space, n.desc)
	}
	return nil
}

// reader builds the model from text. Numbers in the text are indexes into its tables.
type reader struct {
	b      *build.Builder
	file   string
	spaces []placed
	space  build.SpaceRef // the last one
	desc   lifetime.SpaceInfo

	sources int
	frames  []lifetime.FrameID
	stacks  []lifetime.StackID
	sites   []lifetime.SiteID
	notes   []lifetime.NoteID
	holders []lifetime.HolderID
}

// placed is a space that calls and samples may refer to.
type placed struct {
	ref   build.SpaceRef
	begin int64
}

// fields of a line: positions first, then key=value.
type fields struct {
	at  []string
	key map[string]string
	err error
}

// split cuts a line at spaces, keeping quoted strings whole.
func split(line string) (f fields, err error) {
	f.key = map[string]string{}
	for rest := line; rest != ""; rest = strings.TrimLeft(rest, " ") {
		key := ""
		if i := strings.IndexAny(rest, "= \""); i > 0 && rest[i] == '=' {
			key, rest = rest[:i], rest[i+1:]
		}
		var word string
		if strings.HasPrefix(rest, `"`) {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return f, fmt.Errorf("bad quoted text at %.40q", rest)
			}
			rest = rest[len(quoted):]
			if word, err = strconv.Unquote(quoted); err != nil {
				return f, fmt.Errorf("bad quoted text %.40q", quoted)
			}
		} else {
			word, rest, _ = strings.Cut(rest, " ")
		}
		if key != "" {
			f.key[key] = word
		} else {
			f.at = append(f.at, word)
		}
	}
	return f, nil
}

// number reads an integer. It keeps the first error of a line.
func (f *fields) number(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimPrefix(s, "+"), 0, 64)
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("%.40q is not a number", s)
	}
	return n
}

func (f *fields) int(key string) int64 { return f.number(f.or(key, "0")) }

// or returns the value of a key, or the usual one if the line has no such key.
func (f *fields) or(key, usual string) string {
	if s, ok := f.key[key]; ok {
		return s
	}
	return usual
}

// named reads the name of a value. It keeps the first error of a line.
func named[T any](f *fields, what, name string, parse func(name string) (T, bool)) T {
	v, ok := parse(name)
	if !ok && f.err == nil {
		f.err = fmt.Errorf("unknown %s %.40q", what, name)
	}
	return v
}

// seconds reads a finite time.
func (f *fields) seconds(s string) float64 {
	t, err := strconv.ParseFloat(s, 64)
	if (err != nil || math.IsNaN(t) || math.IsInf(t, 0)) && f.err == nil {
		f.err = fmt.Errorf("%.40q is not a time in seconds", s)
	}
	return t
}

// index reads a reference to an entry of a table with n entries.
func (f *fields) index(s string, n int) int {
	i := f.number(s)
	if i < 0 || i >= int64(n) {
		if f.err == nil {
			f.err = fmt.Errorf("%d is not defined before this line", i)
		}
		return 0
	}
	return int(i)
}

func (f *fields) ref(key string, n int) int {
	s, ok := f.key[key]
	if !ok {
		return 0
	}
	return f.index(s, n)
}

// positions is the number of words before the keys, by kind of line.
var positions = map[string]int{"source": 1, "setting": 3, "group": 4, "space": 1, "change": 4, "frame": 6, "site": 2, "note": 3, "holder": 2, "region": 5, "buffer": 6, "value": 6, "beside": 3, "total": 4, "mark": 4,
	"call": 5, "sample": 3, "operation": 4, "loss": 2}

func (n *reader) line(line string) error {
	f, err := split(line)
	if err != nil {
		return err
	}
	if len(f.at) == 0 {
		return errors.New("no word before the keys")
	}
	word := f.at[0]
	if want, ok := positions[word]; ok && len(f.at) != want || word == "stack" && len(f.at) < 3 {
		return fmt.Errorf("%s: %d fields without a key", word, len(f.at)-1)
	}
	switch word {
	case "source":
		n.sources++
		n.b.Source(lifetime.Source{File: n.file, Format: f.key["format"], Producer: f.key["producer"]})
	case "setting":
		if n.sources == 0 {
			return errors.New("setting before any source")
		}
		n.b.Setting(n.sources-1, lifetime.Setting{Key: f.at[1], Value: f.at[2]})
	case "group":
		if n.sources == 0 {
			return errors.New("group before any source")
		}
		n.b.Group(n.sources-1, lifetime.Group{Name: f.at[1], Number: int(f.number(f.at[2])), Of: int(f.number(f.at[3]))})
	case "space":
		err = n.addSpace(&f)
	case "frame", "stack", "site", "note", "holder":
		err = n.intern(&f)
	case "change":
		if len(n.spaces) == 0 {
			return fmt.Errorf("%s before any space", word)
		}
		n.desc.Remedies = append(n.desc.Remedies, compiled.Change{Kind: compiled.ChangeKind(f.at[1]), Low: f.number(f.at[2]), High: f.number(f.at[3]), What: f.key["what"]})
	case "region", "buffer", "value", "beside", "total", "mark":
		if len(n.spaces) == 0 {
			return fmt.Errorf("%s before any space", word)
		}
		err = n.fact(&f)
	case "call", "sample":
		n.call(&f)
	case "operation":
		if !slices.Contains(build.OperationKinds, f.at[1]) {
			return fmt.Errorf("unknown kind of operation %.40q", f.at[1])
		}
		n.b.Operations(lifetime.Operation{
			Name: f.at[2], Kind: f.at[1], Calls: f.number(f.at[3]), Time: f.int("time"), SelfTime: f.int("self_time"),
			Host:   lifetime.OperationBytes{Allocated: f.int("allocated"), Freed: f.int("freed"), SelfBytes: f.int("self_bytes")},
			Device: lifetime.OperationBytes{Allocated: f.int("device_allocated"), Freed: f.int("device_freed"), SelfBytes: f.int("device_self_bytes")},
		})
	case "loss":
		n.b.Lose(named(&f, "loss", f.at[1], loss.Parse), f.int("count"), f.int("bytes"), f.key["first"])
	default:
		return fmt.Errorf("unknown word %.40q", word)
	}
	return cmp.Or(f.err, err) // the error of a field is more specific
}

func (n *reader) addSpace(f *fields) error {
	if len(n.spaces) > 0 {
		n.b.Describe(n.space, n.desc)
	}
	axis := named(f, "axis", f.key["axis"], lifetime.Parse[lifetime.Axis])
	facts := named(f, "facts", f.key["facts"], lifetime.Parse[lifetime.Facts])
	n.space = n.b.Space()
	begin := f.int("begin")
	n.spaces = append(n.spaces, placed{n.space, begin})
	n.desc = lifetime.SpaceInfo{
		Source: f.ref("source", n.sources), Host: f.key["host"], Process: f.key["process"], Device: f.key["device"], Memory: f.key["memory"],
		Allocator: f.key["allocator"], Module: f.key["module"], Entry: f.key["entry"], Axis: axis,
		Begin: begin, End: begin + f.int("end"), Limit: f.int("limit"), Base: f.int("base"),
		LifetimePeak: f.int("lifetime_peak"), Allocations: int(f.int("allocations")), Frees: int(f.int("frees")), Facts: facts,
		OnlyOccupied: f.key["only_occupied"] == "true", Target: f.key["target"],
	}
	if n.desc.End <= n.desc.Begin {
		return errors.New("the space ends before it begins")
	}
	return nil
}

// intern adds an entry to one of the tables. Entries are numbered from 1.
func (n *reader) intern(f *fields) error {
	tables := map[string]int{"frame": len(n.frames), "stack": len(n.stacks), "site": len(n.sites), "note": len(n.notes), "holder": len(n.holders)}
	if i := f.number(f.at[1]); i != int64(tables[f.at[0]]) {
		return fmt.Errorf("%s %d, want %d", f.at[0], i, tables[f.at[0]])
	}
	switch f.at[0] {
	case "frame":
		kind := named(f, "kind of frame", f.at[2], frame.ParseKind)
		n.frames = append(n.frames, n.b.Frame(frame.Frame{Kind: kind, Function: f.at[3], File: f.at[4], Line: int(f.number(f.at[5])), Column: int(f.int("column"))}))
	case "stack": // its frames, innermost first; those of its caller follow
		id := n.stacks[f.ref("caller", len(n.stacks))]
		for _, s := range slices.Backward(f.at[2:]) {
			i := f.index(s, len(n.frames))
			if i == 0 && f.err == nil {
				return errors.New("0 is not a frame")
			}
			id = n.b.Call(n.frames[i], id)
		}
		n.stacks = append(n.stacks, id)
	case "site":
		n.sites = append(n.sites, n.b.Site(lifetime.Site{
			Stack: n.stacks[f.ref("stack", len(n.stacks))], Op: f.key["op"], Module: f.key["module"], Region: f.key["region"], Shape: f.key["shape"],
			DType: f.key["dtype"], Instr: f.key["instr"], Opcode: f.key["opcode"], Source: n.stacks[f.ref("source", len(n.stacks))],
			Unseen: f.int("unseen") != 0, Sharding: compiled.Sharding{Split: f.key["split"], Copies: f.int("copies")}, Role: compiled.Role(f.key["role"]),
		}))
	case "note":
		n.notes = append(n.notes, n.b.Note(f.at[2]))
	case "holder":
		kind := named(f, "kind of holder", f.key["kind"], holder.ParseKind)
		h := holder.Holder{Kind: kind, Category: purpose.CategoryOf(f.key["category"]), Others: f.int("others")}
		for _, t := range holderTexts(&h) {
			*t.text = f.key[t.key]
		}
		n.holders = append(n.holders, n.b.Holder(h))
	}
	return nil
}

func (n *reader) fact(f *fields) error {
	begin := n.desc.Begin + f.number(f.at[1])
	site := n.sites[f.ref("site", len(n.sites))]
	edge := named(f, "edge", f.or("edge", lifetime.Edge(0).String()), lifetime.Parse[lifetime.Edge])
	switch f.at[0] {
	case "region":
		uses := named(f, "uses", f.key["uses"], compiled.ParseUses)
		n.b.Region(n.space, lifetime.Region{
			Begin: begin, End: n.desc.Begin + f.number(f.at[2]), Addr: n.address(f, f.at[3]), Size: f.number(f.at[4]), Site: site, Edge: edge,
			Kind: f.key["kind"], Small: f.key["small"] == "true", Stream: f.int("stream"), Pool: f.key["pool"], Index: f.int("index"), Uses: uses,
		})
	case "buffer":
		kind := named(f, "kind of buffer", f.or("kind", lifetime.Plain.String()), lifetime.Parse[lifetime.Kind])
		v := build.Interval{Buffer: lifetime.Buffer{
			Begin: begin, End: n.desc.Begin + f.number(f.at[2]), Addr: n.address(f, f.at[3]), Size: f.number(f.at[4]), Requested: f.number(f.at[5]),
			Site: site, Edge: edge, Kind: kind,
		}, FreeSite: n.sites[f.ref("free", len(n.sites))], Note: n.notes[f.ref("note", len(n.notes))],
			Holder: n.holders[f.ref("holder", len(n.holders))]}
		if text, ok := f.key["value"]; ok {
			id := f.number(text)
			v.ValueID = &id
		}
		if text, ok := f.key["requested"]; ok {
			t := n.desc.Begin + f.number(text)
			v.FreeRequest = &t
		}
		n.b.Interval(n.space, v)
	case "value":
		n.b.Value(n.space, lifetime.Value{
			ID: f.number(f.at[1]), Begin: n.desc.Begin + f.number(f.at[2]), End: n.desc.Begin + f.number(f.at[3]), Size: f.number(f.at[4]),
			Requested: f.number(f.at[5]), Root: f.int("root"), Allocation: f.int("allocation"), Offset: f.int("offset"), Site: site,
		})
	case "beside":
		n.b.StackReserved(n.space, begin, f.number(f.at[2]))
	case "total":
		measure := named(f, "measure", f.at[3], lifetime.Parse[lifetime.Measure])
		t := lifetime.Total{T: begin, Bytes: f.number(f.at[2]), Measure: measure}
		if s, ok := f.key["fragmentation"]; ok {
			share, err := strconv.ParseFloat(s, 32)
			if err != nil {
				return fmt.Errorf("%.40q is not a fragmentation", s)
			}
			t.Fragmentation, t.HasFragmentation = float32(share), true
		}
		n.b.Total(n.space, t)
	case "mark":
		kind := named(f, "kind of mark", f.at[3], lifetime.Parse[lifetime.MarkKind])
		m := lifetime.Mark{Begin: begin, End: n.desc.Begin + f.number(f.at[2]), Kind: kind, Site: site, Text: f.key["text"], Requested: f.int("requested"),
			Failure: f.failure(), Stream: f.int("stream")}
		if _, ok := f.key["free"]; ok {
			m.Free = failure.BytesOf(f.int("free"))
		}
		n.b.Mark(n.space, m)
	}
	return nil
}

// failure returns what a text says about the failed allocation of a mark, nil if nothing.
func (f *fields) failure() *failure.Failure {
	source, ok := f.key["failure"]
	if !ok {
		return nil
	}
	failure := failure.Unknown(source)
	for key, words := range failure.Words() {
		*words = f.key[key]
	}
	for key, figure := range failure.Figures() {
		if _, ok := f.key[key]; ok && f.int(key) >= 0 { // else it is not known
			*figure = f.int(key)
		}
	}
	for _, flag := range failure.Flags() {
		*flag.Set = f.key[flag.Name] == "true"
	}
	return &failure
}

// call adds a call or a sample. Spaces are numbered from 0.
func (n *reader) call(f *fields) {
	i := f.index(f.at[1], len(n.spaces))
	if f.err != nil {
		return
	}
	space := n.spaces[i]
	if f.at[0] == "sample" {
		n.b.Sample(space.ref, lifetime.Sample{
			T: space.begin + f.number(f.at[2]), Regular: f.key["regular"] == "true", Allocated: f.int("allocated"), Reserved: f.int("reserved"),
			Inactive: f.int("inactive"), DeviceUsed: f.int("device_used"), DeviceTotal: f.int("device_total"),
		})
		return
	}
	n.b.FunctionCall(space.ref, lifetime.Call{
		Site: n.sites[f.ref("site", len(n.sites))], Begin: f.seconds(f.at[2]), End: f.seconds(f.at[3]), Seconds: f.seconds(f.at[4]),
		Before: f.int("before"), After: f.int("after"), Peak: f.int("peak"), Reserved: f.int("reserved"), Inactive: f.int("inactive"),
		Allocated: f.int("allocated"), Freed: f.int("freed"),
	})
}

func (n *reader) address(f *fields, s string) uint64 {
	a, err := strconv.ParseUint(s, 0, 64)
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("%.40q is not an address", s)
	}
	return a
}
