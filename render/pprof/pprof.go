package pprof

import (
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
)

// Instant selects the instant at which inuse_objects and inuse_space are taken.
type Instant uint8

const (
	Peak  Instant = iota // each space's own peak of occupied bytes
	End                  // the end of the window
	Fixed                // Options.Time
)

// Options selects the content of a profile. The zero value is every dynamic space at its peak.
type Options struct {
	// Spaces are the spaces to write. Nil means every dynamic space, or the static ones if no dynamic space has
	// buffers.
	Spaces []*lifetime.Space

	At   Instant
	Time int64 // with Fixed: in units of the axis of the spaces

	// Marks are the leaks, or nil. Their labels become labels of the samples, leaked_space sums their buffers,
	// and their comments precede Comments. Labels have no comma, because pprof parses the value of -tagfocus as
	// a list of regular expressions.
	Marks *finding.Marks

	// UserFrames removes the frames of libraries and the interpreter from stacks that have frames of the
	// program, so that the leaf is a frame of the program.
	UserFrames bool

	// Ranks finds the rank of a space. The zero value uses the capture, else the name of its file.
	Ranks finding.RankNames

	// Comments are lines that pprof prints above every text report, after the lines on files, spaces and losses.
	// pprof hides lines that begin with '#'.
	Comments []string

	byFunction bool // functions are named without lines, which move from one version of a program to the next
}

// ErrNoBuffers reports that the captures are readable but have no buffers for a heap profile. Errors that wrap
// it name the missing data.
var ErrNoBuffers = errors.New("no buffers")

// Write writes the spaces of captures as one gzipped profile.proto. Its memory does not grow with the stacks.
func Write(w io.Writer, captures []*lifetime.Capture, o Options) error {
	parts, err := choose(captures, o)
	if err != nil {
		return err
	}
	return write(w, o, func(b *builder) { b.addParts(parts) })
}

// Profile returns the profile that Write writes.
func Profile(captures []*lifetime.Capture, o Options) (*profile.Profile, error) {
	parts, err := choose(captures, o)
	if err != nil {
		return nil, err
	}
	b := newBuilder(o)
	b.addParts(parts)
	return b.profile, nil
}

// addParts adds all spaces of a profile, and what describes it as a whole.
func (b *builder) addParts(parts []part) {
	for _, p := range parts {
		b.shared[p.space.ID()]++
	}
	for _, p := range parts {
		if all := b.options.Marks.Buffers(p.space); len(all) > 0 {
			p.leaked = make([]bool, len(p.space.Buffers))
			for _, i := range all {
				p.leaked[i] = true
			}
		}
		b.addSpace(p)
	}
	b.addComments(parts)
	setTimes(b.profile, parts)
}

// WriteDiff writes after minus before, each with its own options, as one profile: the same numbers as pprof -diff_base.
func WriteDiff(w io.Writer, before, after *lifetime.Capture, ofBefore, ofAfter Options) error {
	ofBefore.byFunction, ofAfter.byFunction = true, true
	base, err := Profile([]*lifetime.Capture{before}, ofBefore)
	if err != nil {
		return err
	}
	p, err := Profile([]*lifetime.Capture{after}, ofAfter)
	if err != nil {
		return err
	}
	base, p = base.Copy(), p.Copy() // Merge takes profiles as they are read
	base.Scale(-1)
	d, err := profile.Merge([]*profile.Profile{p, base})
	if err != nil {
		return fmt.Errorf("comparing the profiles: %w", err)
	}
	d.DefaultSampleType, d.DocURL = p.DefaultSampleType, p.DocURL
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err == nil {
		err = errors.Join(d.WriteUncompressed(z), z.Close())
	}
	if err != nil {
		return fmt.Errorf("writing the profile: %w", err)
	}
	return nil
}

// part is one space of the profile.
type part struct {
	capture *lifetime.Capture
	space   *lifetime.Space
	at      int64
	inside  bool   // at is in the window; otherwise nothing is in use
	leaked  []bool // buffers that leak, by index; nil if none does
}

// choose returns the spaces of the profile, in the order of the captures.
func choose(captures []*lifetime.Capture, o Options) ([]part, error) {
	byAxis := func(static bool) func(*lifetime.Space) bool {
		return func(s *lifetime.Space) bool { return (s.Axis == lifetime.ProgramOrder) == static }
	}
	var parts []part
	if o.Spaces != nil {
		chosen := map[*lifetime.Space]bool{}
		for _, s := range o.Spaces {
			chosen[s] = true
		}
		parts = collect(captures, func(s *lifetime.Space) bool { return chosen[s] })
	} else {
		parts = collect(captures, byAxis(false))
		if !anyBuffers(parts) {
			parts = append(parts, collect(captures, byAxis(true))...)
		}
	}
	if !anyBuffers(parts) {
		return nil, noBuffers(parts)
	}
	parts = slices.DeleteFunc(parts, func(p part) bool {
		return p.space.UsageOnly() || len(p.space.Buffers) == 0 && p.space.Base == 0 && len(p.space.Stack) == 0
	})
	return parts, settle(parts, o)
}

func collect(captures []*lifetime.Capture, keep func(*lifetime.Space) bool) []part {
	var parts []part
	for _, c := range captures {
		for _, s := range c.Spaces {
			if keep(s) {
				parts = append(parts, part{capture: c, space: s})
			}
		}
	}
	return parts
}

func anyBuffers(parts []part) bool {
	return slices.ContainsFunc(parts, func(p part) bool { return len(p.space.Buffers) > 0 })
}

// settle sets the instant of every part.
func settle(parts []part, o Options) error {
	hit := false
	for i := range parts {
		p, s := &parts[i], parts[i].space
		switch o.At {
		case Peak:
			p.at, p.inside = s.Peak(lifetime.Occupied).At, true
		case End:
			// One past the last instant, only buffers without an end are alive. A buffer whose free was lost may
			// end with the window and must not count.
			p.at, p.inside = s.End, true
		default:
			p.at, p.inside = o.Time, s.Begin <= o.Time && o.Time < s.End
		}
		hit = hit || p.inside
	}
	if hit {
		return nil
	}
	s := parts[0].space
	return fmt.Errorf("time %d is outside every recording; the recording of %s is [%d, %d)", o.Time, name(s), s.Begin, s.End)
}

// noBuffers returns the error for parts without buffers. It names the data that they have.
func noBuffers(parts []part) error {
	if len(parts) == 0 {
		return fmt.Errorf("%w: the captures have none of the chosen spaces", ErrNoBuffers)
	}
	facts := lifetime.Facts(0)
	for _, p := range parts {
		facts |= p.space.Facts
	}
	has := "nothing else"
	if facts != 0 {
		has = "only " + strings.Join(facts.Names(), ", ")
	}
	spaces := fmt.Sprintf("%d spaces, which have", len(parts))
	if len(parts) == 1 {
		spaces = name(parts[0].space) + ", which has"
	}
	return fmt.Errorf("%w in %s %s: a heap profile needs a history of allocations, or the blocks alive at the end",
		ErrNoBuffers, spaces, has)
}

// name is the ID of s for messages and comments.
func name(s *lifetime.Space) string {
	return cmp.Or(s.ID(), "(unnamed)")
}

// Sum is the total of the buffers of one call site in several memories. Without frames, the operation replaces
// the stack.
type Sum struct {
	Frames           []frame.Frame // innermost first
	Site             lifetime.Site // operation, region, shape and type become labels
	Allocated, InUse lifetime.Amount
	Leaked           int64 // bytes
	Memories         int   // that have the site
}

// The stacks of bytes in use that no buffer represents.
var (
	BeforeWindow = []frame.Frame{{Function: beforeWindow}}
	OutsideHeap  = []frame.Frame{{Function: besideHeap}}
)

// WriteSums writes sums as one gzipped profile.proto with the sample types of captures, one sample each. Its
// numeric label "memories" is the number of memories that have the site. Equal sums give the same bytes.
func WriteSums(w io.Writer, sums []Sum, comments []string) error {
	return write(w, Options{}, func(b *builder) {
		for i := range sums {
			b.addSum(&sums[i])
		}
		b.profile.Comments = comments
	})
}

func (b *builder) addSum(s *Sum) {
	if s.Memories == 0 {
		b.extra([]uint64{b.location(s.Frames[0].Function, "", 0)}, s.InUse.Bytes, nil)
		return
	}
	var stack []uint64
	op := s.Site.Op
	for i := range s.Frames {
		stack = append(stack, b.locationOf(&s.Frames[i]))
	}
	if len(stack) == 0 {
		stack, op = []uint64{b.location(cmp.Or(op, noStack), "", 0)}, ""
	}
	b.emit(&sample{
		stack: stack,
		values: values{allocObjects: s.Allocated.Count, allocSpace: s.Allocated.Bytes,
			inuseObjects: s.InUse.Count, inuseSpace: s.InUse.Bytes, leakedSpace: s.Leaked},
		labels:  siteLabels{kind: "buffer", op: op, region: s.Site.Region, shape: s.Site.Shape, dtype: s.Site.DType}.on(nil),
		numbers: []number{{"memories", "count", int64(s.Memories)}},
	})
}
