package answer

import (
	"regexp"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/lifetime/selection"
)

// What is asked next is the field "next" of an answer: one command that tells more than the answer does.

// commandLine returns a command line of memlane, quoted for a shell.
func commandLine(args ...string) string {
	for i, arg := range args {
		args[i] = Quoted(arg)
	}
	return "memlane " + strings.Join(args, " ")
}

// plainArgument matches arguments that mean the same to every shell.
var plainArgument = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// Quoted returns an argument as a POSIX shell reads it.
func Quoted(arg string) string {
	if plainArgument.MatchString(arg) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// stacksOf returns the command that shows all stacks of the function or operation of a site at a moment, and "" if it
// has none.
func stacksOf(s *Site, at, file string) string {
	if s.Function == "" || s.Function != s.Op && !slices.ContainsFunc(s.Stack, func(f Frame) bool { return f.Function == s.Function }) {
		return ""
	}
	args := []string{"peak", "--by", string(selection.ByStack), "--function", "^" + regexp.QuoteMeta(s.Function) + "$"}
	if at != selection.AtPeak.String() {
		args = append(args, "--at", at)
	}
	return commandLine(append(args, file)...)
}

// NewInfo combines the contents of captures.
func NewInfo(captures []Capture, ranks []Rank) *Info {
	return &Info{Schema: schema, Captures: captures, Ranks: ranks, Next: afterInfo(captures)}
}

func afterInfo(captures []Capture) string {
	for _, next := range []struct {
		command string
		is      func(Space) bool
	}{
		{"oom", func(s Space) bool { return len(s.OOMs) > 0 }},
		{"leaks", func(s Space) bool { return slices.Contains(s.Facts, lifetime.History.Names()[0]) && s.Module == "" }},
		{"peak", func(Space) bool { return true }},
	} {
		if i := slices.IndexFunc(captures, func(c Capture) bool { return slices.ContainsFunc(c.Spaces, next.is) }); i >= 0 {
			return commandLine(next.command, captures[i].File)
		}
	}
	return ""
}

// afterFindings is what is asked after the findings of captures, most severe first.
func afterFindings(captures []CaptureLeaks, found []Finding, failures []Failure) string {
	if i := slices.IndexFunc(failures, func(f Failure) bool { return f.Reason != string(oom.Survived) }); i >= 0 {
		return commandLine("oom", failures[i].File)
	}
	replayed := func(file string) bool {
		return slices.ContainsFunc(captures, func(c CaptureLeaks) bool { return c.File == file && c.replayed })
	}
	for _, leaks := range []bool{true, false} {
		for i := range found {
			f := &found[i]
			if leaks && !f.Leak || f.File == "" || f.Level() == finding.Info {
				continue
			}
			if next := stacksOf(&f.Site, selection.AtEnd.String(), f.File); f.Leak && next != "" {
				return next
			}
			if _, inPieces := f.Evidence[finding.FigFragmentation.Name]; inPieces && replayed(f.File) {
				return commandLine("tune", f.File)
			}
			if next := stacksOf(&f.Site, selection.AtPeak.String(), f.File); next != "" {
				return next
			}
		}
	}
	if len(captures) == 0 {
		return ""
	}
	return commandLine("peak", captures[0].File)
}

// NewPeaks combines the breakdowns of memory IDs at a moment.
func NewPeaks(by selection.By, at selection.Moment, peaks []Peak) *Peaks {
	out := &Peaks{Schema: schema, By: string(by), Peaks: peaks}
	for i := range peaks {
		if out.Next = afterPeak(by, at, &peaks[i]); out.Next != "" {
			break
		}
	}
	return out
}

func afterPeak(by selection.By, at selection.Moment, p *Peak) string {
	switch {
	case by != selection.ByLine && by != selection.ByStack && at == selection.AtPeak:
		return commandLine("peak", p.File)
	case by != selection.ByLine && by != selection.ByStack:
		return commandLine("peak", "--at", at.String(), p.File)
	case p.Program != nil && len(p.Categories) == 0:
		return ""
	case p.Program != nil:
		return commandLine("peak", "--by", string(selection.ByCategory), p.File)
	case at == selection.AtOOM:
		return commandLine("oom", p.File)
	}
	return commandLine("leaks", p.File)
}

func afterDiff(d *Diff) string {
	for i := range d.Findings.New {
		if next := stacksOf(&d.Findings.New[i].Site, selection.AtEnd.String(), d.After.File); next != "" {
			return next
		}
	}
	for i := range d.Rows {
		r := &d.Rows[i]
		at := selection.AtPeak
		if r.DeltaPeakBytes == 0 {
			at = selection.AtEnd
		}
		if next := stacksOf(&r.Site, at.String(), d.After.File); next != "" &&
			(r.After.PeakBytes > 0 && at == selection.AtPeak || r.After.EndBytes > 0 && at == selection.AtEnd) {
			return next
		}
	}
	return commandLine("peak", d.After.File)
}

// afterTune is what is asked after settings were tried on the recording of a file.
func afterTune(t *Tune, file string) string {
	switch {
	case t.Leak != "":
		return commandLine("leaks", file)
	case t.Keep || t.Recommended == "":
		return commandLine("peak", file)
	}
	return "PYTORCH_CUDA_ALLOC_CONF=" + Quoted(t.Recommended) + ", record it again, then " + commandLine("diff", file, "AFTER")
}

// NewOps combines the operations of captures.
func NewOps(captures []CaptureOps) *Ops {
	out := &Ops{Schema: schema, Captures: captures}
	if len(captures) > 0 {
		out.Next = commandLine("peak", "--by", string(selection.ByOp), captures[0].File)
	}
	return out
}
