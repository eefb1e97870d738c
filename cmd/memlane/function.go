package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
)

// functionJSON is what the functions that --function matches changed in a space.
type functionJSON struct {
	File     string       `json:"file"`
	Space    string       `json:"space"`
	Inferred bool         `json:"steps_inferred"` // nothing marks the steps
	Steps    []changeJSON `json:"steps"`
}

// changeJSON is one step or, where calls were recorded, one call.
type changeJSON struct {
	Begin          int64 `json:"begin"`
	AllocatedBytes int64 `json:"allocated_bytes"`
	FreedBytes     int64 `json:"freed_bytes"`
	ChangeBytes    int64 `json:"change_bytes"`
}

// functionChanges returns the changes in a space by what --function matches.
func functionChanges(capture *lifetime.Capture, space int, r *rules) functionJSON {
	s := capture.Spaces[space]
	out := functionJSON{File: capture.Sources[s.Source].File, Space: s.ID(), Steps: []changeJSON{}}
	matches := leak.Matcher(capture, r.settings.Function)
	for i := range capture.Calls {
		if call := &capture.Calls[i]; call.Space == space && matches(call.Site) {
			out.Steps = append(out.Steps, changeJSON{int64(math.Round(call.Begin * 1e9)), call.Allocated, call.Freed, call.Change()})
		}
	}
	if len(capture.Calls) > 0 {
		return out
	}
	changes, inferred := leak.Changes(capture, s, r.settings)
	out.Inferred = inferred
	for _, c := range changes {
		out.Steps = append(out.Steps, changeJSON{c.Begin, c.Allocated.Bytes, c.Freed.Bytes, c.Bytes()})
	}
	return out
}

// functionsOf returns them of every space that has a history; nil without
// --function.
func functionsOf(capture *lifetime.Capture, r *rules) (all []functionJSON) {
	if r.settings.Function == nil {
		return nil
	}
	for i, s := range capture.Spaces {
		if f := functionChanges(capture, i, r); len(f.Steps) > 0 && !static(s) {
			all = append(all, f)
		}
	}
	return all
}

// maxChanges is how many steps people see: the first and the last ones.
const maxChanges = 12

// printFunctions prints what the functions that --function matches changed in each
// step.
func printFunctions(w io.Writer, capture *lifetime.Capture, r *rules) {
	for _, f := range functionsOf(capture, r) {
		sum := int64(0)
		for _, c := range f.Steps {
			sum = lifetime.AddSat(sum, c.ChangeBytes)
		}
		what, note := "step", ""
		switch {
		case len(capture.Calls) > 0:
			what = "call"
		case f.Inferred:
			note = "; nothing marks them, they are inferred"
		}
		fmt.Fprintf(w, "\n%s\n", wrap(fmt.Sprintf("%s on %s: %s in all, %s a %s (%s%s)", r.settings.Function, f.Space, units.Signed(sum),
			units.Signed(int64(math.Round(float64(sum)/float64(len(f.Steps))))), what, count(len(f.Steps), what), note), "  "))
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(t, "%s\tallocated\tfreed\tchange\t\n", what)
		for n, c := range f.Steps {
			if skipped := len(f.Steps) - maxChanges; skipped > 0 && n >= maxChanges/2 && n < maxChanges/2+skipped {
				if n == maxChanges/2 {
					fmt.Fprintf(t, "...\t\t\t\t\n")
				}
				continue
			}
			fmt.Fprintf(t, "%d\t%s\t%s\t%s\t\n", n, units.Bytes(c.AllocatedBytes), units.Bytes(c.FreedBytes), units.Signed(c.ChangeBytes))
		}
		t.Flush()
	}
}
