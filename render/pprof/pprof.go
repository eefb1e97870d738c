package pprof

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
)

// Instant says at which instant of a space inuse_objects and inuse_space are
// taken.
type Instant uint8

const (
	Peak  Instant = iota // the peak of occupied bytes, of each space its own
	End                  // the end of the window
	Fixed                // Options.Time
)

// Options says what goes into a profile. The zero value is every dynamic space
// at its peak.
type Options struct {
	// Spaces are the spaces to write. Nil means every dynamic space, or the
	// static ones where no dynamic space has buffers.
	Spaces []*lifetime.Space

	At   Instant
	Time int64 // with Fixed: in units of the axis of the spaces

	// Marks are what leaks: its labels become those of the samples, leaked_space sums
	// its buffers up, and its comments stand before Comments. nil: none. pprof reads the
	// value of -tagfocus as a list of regular expressions, so labels have no comma.
	Marks *answer.Marks

	// UserFrames leaves the frames of libraries and the interpreter out of stacks that
	// have frames of the program itself, so that the leaf is the program's.
	UserFrames bool

	// Comments are lines that pprof prints above every text report, after the
	// package's own: files, spaces, losses. It hides those that begin with '#'.
	Comments []string
}

// ErrNoBuffers says that the captures can be read but hold nothing to make a
// heap profile of. The errors that wrap it name what is missing.
var ErrNoBuffers = errors.New("no buffers")

// Write writes the spaces of captures as one gzipped profile.proto.
func Write(w io.Writer, captures []*lifetime.Capture, o Options) error {
	p, err := Profile(captures, o)
	if err != nil {
		return err
	}
	return compress(w, p)
}

// compress writes a profile. Profile.Write compresses harder: three times as long,
// to save a seventh.
func compress(w io.Writer, p *profile.Profile) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err == nil {
		err = errors.Join(p.WriteUncompressed(z), z.Close())
	}
	if err != nil {
		return fmt.Errorf("writing the profile: %w", err)
	}
	return nil
}

// Profile returns what Write writes. Samples share their stacks and maps of
// labels, so a caller that changes one must copy the profile first.
func Profile(captures []*lifetime.Capture, o Options) (*profile.Profile, error) {
	parts, err := choose(captures, o)
	if err != nil {
		return nil, err
	}
	b := newBuilder(o)
	for _, p := range parts {
		b.shared[p.space.ID()]++
	}
	for _, p := range parts {
		if all := o.Marks.Buffers(p.space); len(all) > 0 {
			p.leaked = make([]bool, len(p.space.Buffers))
			for _, i := range all {
				p.leaked[i] = true
			}
		}
		b.addSpace(p)
	}
	b.addComments(parts)
	setTimes(b.profile, parts)
	return b.profile, nil
}

// WriteDiff writes after less before, each with its own options: what pprof
// -diff_base shows of their profiles, as one that needs no base.
func WriteDiff(w io.Writer, before, after *lifetime.Capture, ofBefore, ofAfter Options) error {
	base, err := Profile([]*lifetime.Capture{before}, ofBefore)
	if err != nil {
		return err
	}
	p, err := Profile([]*lifetime.Capture{after}, ofAfter)
	if err != nil {
		return err
	}
	base = base.Copy() // samples share maps of labels
	base.Scale(-1)
	d, err := profile.Merge([]*profile.Profile{p.Copy(), base})
	if err != nil {
		return fmt.Errorf("comparing the profiles: %w", err)
	}
	d.DefaultSampleType, d.DocURL = p.DefaultSampleType, p.DocURL
	return compress(w, d)
}

// part is one space of the profile.
type part struct {
	capture *lifetime.Capture
	space   *lifetime.Space
	at      int64
	inside  bool   // at lies in the window; else nothing is in use
	leaked  []bool // buffers that leak, by index; nil where none does
}

// alive tells whether b is in use at the instant of the part.
func (p *part) alive(b *lifetime.Buffer) bool {
	return p.inside && b.Begin <= p.at && (b.End > p.at || b.Edge&lifetime.EndOpen != 0)
}

// base returns the bytes in use that were never seen one by one.
func (p *part) base() int64 {
	if !p.inside {
		return 0
	}
	return p.space.Base
}

// stack returns the bytes in use beside the heap.
func (p *part) stack() int64 {
	if !p.inside {
		return 0
	}
	return p.space.StackAt(p.at)
}

// choose returns the spaces that go into the profile, in the order of the
// captures.
func choose(captures []*lifetime.Capture, o Options) ([]part, error) {
	wanted := func(static bool) func(*lifetime.Space) bool {
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
		parts = collect(captures, wanted(false))
		if !anyBuffers(parts) {
			parts = append(parts, collect(captures, wanted(true))...)
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
			// One past the last instant, where only buffers without an end live:
			// one whose free was lost may end with the window, but is not alive.
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
	return fmt.Errorf("time %d lies in the window of no space; that of %s is [%d, %d)", o.Time, name(s), s.Begin, s.End)
}

// noBuffers says what stands in place of buffers.
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
	if len(parts) == 1 {
		return fmt.Errorf("%w in %s, which has %s: a heap profile needs a history of allocations, or the blocks alive at the end", ErrNoBuffers, name(parts[0].space), has)
	}
	return fmt.Errorf("%w in %d spaces, which have %s: a heap profile needs a history of allocations, or the blocks alive at the end",
		ErrNoBuffers, len(parts), has)
}

// name is the ID of s for messages and comments.
func name(s *lifetime.Space) string {
	if id := s.ID(); id != "" {
		return id
	}
	return "(unnamed)"
}
