package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/lifetime/loss"
)

// choice is which spaces the flags of a command ask for.
type choice struct {
	glob        string // --space, "" for all
	module      string // --module, "" for all
	memorySpace string // --memory-space as Space.Memory has it, "" for all
	from, to    string // --from and --to, "" for the ends of the window

	minSize  int64          // --min-size, 0 for all buffers
	category string         // --category, "" for all
	function *regexp.Regexp // --function of commands that show buffers, nil for all
}

func choiceOf(c *cli.Context) (choice, error) {
	want := choice{glob: c.String("space"), module: c.String("module")}
	if cuts := func(f cli.Flag) bool { return f.Names()[0] == "from" }; slices.ContainsFunc(c.Command.Flags, cuts) {
		want.from, want.to = c.String("from"), c.String("to")
	}
	if _, err := path.Match(want.glob, ""); err != nil {
		return want, fail(statusUsage, "--space %q: want a pattern, as 'cuda:*'; a [ needs its ], and a \\ what it stands before", want.glob)
	}
	if text := c.String("min-size"); text != "" {
		n, err := units.ParseBytes(text)
		if err != nil || n < 0 {
			return want, fail(statusUsage, "--min-size %q: want a size, as 1MiB", text)
		}
		want.minSize = n
	}
	want.category = c.String("category")
	if text := c.String("function"); text != "" && c.String("rules") == "" { // the rules have their own way with functions
		re, err := patternOf("function", text)
		if err != nil {
			return want, err
		}
		want.function = re
	}
	if text := c.String("memory-space"); text != "" {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return want, fail(statusUsage, "--memory-space %q: want a number, as 0", text)
		}
		want.memorySpace = memorySpacePrefix + strconv.FormatUint(n, 10)
	}
	return want, nil
}

// whole reports whether all buffers of the spaces are asked for, and none for its
// own sake: their peak and end are then those of the capture.
func (w choice) whole() bool {
	return w.from == "" && w.to == "" && w.minSize == 0 && w.category == "" && w.function == nil
}

// static reports whether a space is one of a compiled program.
func static(s *lifetime.Space) bool { return s.Axis == lifetime.ProgramOrder }

// memorySpacePrefix stands before the number of a memory space in Space.Memory.
const memorySpacePrefix = "space"

// memorySpace returns the number of the memory space of a compiled program.
func memorySpace(s *lifetime.Space) (n int64, ok bool) {
	number, ok := strings.CutPrefix(s.Memory, memorySpacePrefix)
	if !ok || !static(s) {
		return 0, false
	}
	n, err := strconv.ParseInt(number, 10, 64)
	return n, err == nil
}

// has reports whether s is asked for. --module and --memory-space ask for
// compiled programs.
func (w choice) has(s *lifetime.Space) bool {
	if (w.module != "" || w.memorySpace != "") && !static(s) {
		return false
	}
	name, _, _ := strings.Cut(s.Module, "(")
	return (w.module == "" || w.module == s.Module || w.module == name) &&
		(w.memorySpace == "" || w.memorySpace == s.Memory) &&
		(w.glob == "" || globMatches(w.glob, s.ID()) || s.Host != "" && globMatches(w.glob, strings.TrimPrefix(s.ID(), s.Host+"/")))
}

// globMatches is path.Match, but "*" matches a "/" too: memory IDs are no paths.
func globMatches(glob, id string) bool {
	ok, _ := path.Match(strings.ReplaceAll(glob, "/", "\x00"), strings.ReplaceAll(id, "/", "\x00"))
	return ok
}

// String returns what was asked for, for error messages.
func (w choice) String() string {
	if w.module == "" && w.memorySpace == "" {
		return strconv.Quote(w.glob)
	}
	var flags []string
	for _, f := range []struct{ name, value string }{
		{"--space", w.glob}, {"--module", w.module}, {"--memory-space", strings.TrimPrefix(w.memorySpace, memorySpacePrefix)},
	} {
		if f.value != "" {
			flags = append(flags, fmt.Sprintf("%s %q", f.name, f.value))
		}
	}
	return strings.Join(flags, " and ")
}

// choose returns the capture with only the spaces that are asked for. That there
// is none is an error, which says what there is.
func (w choice) choose(capture *lifetime.Capture) (*lifetime.Capture, error) {
	file := captureName(capture)
	part := capture.Only(w.has)
	var ids []string
	for _, s := range capture.Spaces {
		ids = append(ids, s.ID())
	}
	switch {
	case len(ids) == 0:
		return nil, fail(statusNoMemory, "%s: holds no memory data: %s", file, whyEmpty(capture))
	case len(part.Spaces) == 0:
		why := ""
		if missing := noEvents(capture); missing != "" && w.module == "" && w.memorySpace == "" {
			why = "; " + missing
		}
		return nil, fail(statusNoMemory, "%s: no memory ID matches %s; there are: %s%s", file, w, shortened(ids), why)
	}
	part, err := w.cut(part)
	if err != nil {
		return nil, err
	}
	return w.filter(part)
}

// filter returns the capture with the buffers that are asked for. That there is
// none is an error.
func (w choice) filter(capture *lifetime.Capture) (*lifetime.Capture, error) {
	if w.minSize == 0 && w.category == "" && w.function == nil {
		return capture, nil
	}
	matches := leak.Matcher(capture, w.function)
	categories := map[string]bool{}
	n, all := 0, 0
	part := capture.Filter(func(s *lifetime.Space, b *lifetime.Buffer) bool {
		row := lifetime.Row{Kind: b.Kind}
		of := category(s, &row, &capture.Sites[b.Site])
		categories[of] = true
		all++
		asked := b.Size >= w.minSize && (w.category == "" || of == w.category) && (w.function == nil || matches(b.Site))
		if asked {
			n++
		}
		return asked
	})
	if n == 0 && all > 0 {
		why := ""
		if w.category != "" {
			delete(categories, "")
			why = "; its categories: " + strings.Join(slices.Sorted(maps.Keys(categories)), ", ")
		}
		return nil, fail(statusNoMemory, "%s: none of %s is of those that --min-size, --category and --function ask for%s", captureName(capture),
			count(all, "buffer"), why)
	}
	return part, nil
}

// cut returns the part of a capture between --from and --to. Durations count from
// the beginning of the earliest window: spaces of a capture share a clock.
func (w choice) cut(capture *lifetime.Capture) (*lifetime.Capture, error) {
	if w.from == "" && w.to == "" {
		return capture, nil
	}
	begin, end, any := int64(0), int64(0), false
	for _, s := range capture.Spaces {
		if static(s) {
			continue
		}
		if !any || s.Begin < begin {
			begin = s.Begin
		}
		end, any = max(end, s.End), true
	}
	if !any {
		return nil, fail(statusUsage, "%s: --from and --to cut windows of time; compiled programs have none", captureName(capture))
	}
	at := func(flag, text string, otherwise int64) (int64, error) {
		if text == "" {
			return otherwise, nil
		}
		if d, err := time.ParseDuration(text); err == nil && d >= 0 {
			return lifetime.AddSat(begin, int64(d)), nil
		}
		t, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fail(statusUsage, "--%s %q: want a duration from the beginning, as 20ms, or an instant as JSON has it", flag, text)
		}
		return t, nil
	}
	from, err := at("from", w.from, begin)
	if err != nil {
		return nil, err
	}
	to, err := at("to", w.to, end)
	if err != nil {
		return nil, err
	}
	if from >= to || from >= end || to <= begin {
		return nil, fail(statusUsage, "%s: nothing lies between --from and --to: the window is %d to %d, %s long", captureName(capture), begin, end-1,
			units.Span(end-begin, capture.Spaces[0].Axis.Unit()))
	}
	inside := capture.Only(func(s *lifetime.Space) bool { return static(s) || s.Begin < to && s.End > from })
	return inside.Slice(func(*lifetime.Space) int64 { return from }, func(*lifetime.Space) int64 { return to }), nil
}

// whyEmpty says why a capture has no space at all, and what to do. Damage comes
// first: what else is missing may have been in it.
func whyEmpty(capture *lifetime.Capture) string {
	damage := ""
	if lost, _ := loss.Worst(capture.Losses, loss.Damage); lost.Count > 0 {
		damage = lossText(lost) + "; "
	}
	if why := noEvents(capture); why != "" {
		return damage + why
	}
	why := damage + "neither a history nor the state at its end"
	if capture.Sources[0].Format == torchSnapshot {
		return why + "; call " + recordHistory + " before and _dump_snapshot() after the allocations"
	}
	return why + ", and no compiled program"
}

// noEvents returns why a profile has no memory events, "" when it has.
func noEvents(capture *lifetime.Capture) string {
	for _, l := range capture.Losses {
		switch l.Reason {
		case loss.NoMemoryEvents, loss.NoMemoryRecorded:
			return l.Reason.Doc()
		case loss.NotOfPyTorch:
			return l.Reason.Doc() + xplanesBeside(capture.Sources[0].File)
		}
	}
	return ""
}

// xplanesBeside names the XProf profile in the folder of a trace, or the folder
// where it has several: ": logs/host.xplane.pb", "" where there is none.
func xplanesBeside(trace string) string {
	if trace == "-" {
		return ""
	}
	dir := filepath.Dir(trace)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".xplane.pb") {
			names = append(names, e.Name())
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return ": " + filepath.Join(dir, names[0])
	}
	return ": memlane reads the whole folder " + dir
}

// torchSnapshot is the format of the captures that recordHistory makes.
const (
	torchSnapshot = "torch-snapshot"
	callProfile   = "gpumemprof"
	recordHistory = "torch.cuda.memory._record_memory_history()"
)

// maxIDs is how many memory IDs an error message lists.
const maxIDs = 12

func shortened(ids []string) string {
	if len(ids) <= maxIDs {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more (memlane info lists them)", strings.Join(ids[:maxIDs], ", "), len(ids)-maxIDs)
}

// chosen reports whether flags ask for spaces by name.
func chosen(c *cli.Context) bool {
	return c.String("space") != "" || c.String("module") != "" || c.String("memory-space") != ""
}

// ofRuntime returns the spaces of the program as it ran; where there are none,
// or the flags chose some, all of them. left is how many are left out.
func ofRuntime(c *cli.Context, spaces []*lifetime.Space) (some []*lifetime.Space, left int) {
	for _, s := range spaces {
		if !static(s) {
			some = append(some, s)
		}
	}
	if len(some) == 0 || chosen(c) {
		return spaces, 0
	}
	return some, len(spaces) - len(some)
}

// largest returns the space with the highest peak among those with buffers, and
// how many it was chosen from.
func largest(spaces []*lifetime.Space) (*lifetime.Space, int) {
	var best *lifetime.Space
	n, most := 0, int64(0)
	for _, s := range spaces {
		if s.UsageOnly() || len(s.Buffers) == 0 && s.Base == 0 && len(s.Stack) == 0 {
			continue
		}
		n++
		if bytes := s.Peak(lifetime.Occupied).Bytes; best == nil || bytes > most {
			best, most = s, bytes
		}
	}
	return best, n
}

// tellChoice says on w that a command takes one space of several.
func tellChoice(w io.Writer, doing string, s *lifetime.Space, of int) {
	others := "--space chooses another"
	if static(s) {
		others = "--module and --memory-space choose another"
	}
	fmt.Fprintf(w, "memlane: %s %s, the highest peak of %d memory IDs; %s\n", doing, printable(s.ID()), of, others)
}
