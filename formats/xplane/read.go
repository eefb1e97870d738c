package xplane

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/memlane/memlane/formats/hlo"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
)

// Names of planes, from XProf's xplane_schema.
const (
	hostPlane     = "/host:CPU"
	metadataPlane = "/host:metadata"
	tpuPrefix     = "/device:TPU:"
	gpuPrefix     = "/device:GPU:"
)

// windowBytes is the size of a window, the part of the file that is held in memory at once.
const windowBytes = 256 << 10

// maxPlanes bounds the planes of a file.
const maxPlanes = 100_000

type reader struct {
	b      *build.Builder
	in     io.ReaderAt
	size   int64
	source int
	host   string

	look1, look2 window // look2 reads messages that look1 points to

	planes    []plane
	truncated bool
	messages  []string // errors and warnings of the profiler
	found     int      // spaces
	events    int      // of allocators
	ran       int64    // runs of programs
	nameless  bool     // the file ends before the names of the host's events
}

// ReadAt reads the XSpace in the first size bytes of in. Its errors name the byte offset. It fails if in is not
// an XSpace, or if it ends before anything usable.
func ReadAt(file string, in io.ReaderAt, size int64, b *build.Builder) error {
	r := &reader{b: b, in: in, size: size}
	r.look1, r.look2 = r.window(windowBytes), r.window(4<<10)
	err := r.top()
	if err == nil {
		producer := "XProf profiler"
		if kind := r.accelerator(); kind != "" {
			producer += " on " + kind
		}
		r.source = b.Source(lifetime.Source{File: file, Format: "xplane", Producer: producer})
		err = r.content()
	}
	if err == nil && !r.truncated {
		r.report()
		return nil
	}
	if at := converted(in, size); at >= 0 {
		err = fmt.Errorf("the file was converted as text: bytes that are not UTF-8 were replaced by U+FFFD, the first near byte %d; "+
			"they cannot be restored: copy the original file again in binary mode", at)
	}
	if err != nil {
		return err
	}
	r.report()
	if r.found == 0 {
		return fmt.Errorf("the file ends early at byte %d: the names of its events are stored after the events and are missing, "+
			"so nothing can be read", size)
	}
	return nil
}

func (r *reader) window(n int) window {
	return window{in: r.in, size: r.size, buf: make([]byte, 0, n)}
}

func (r *reader) top() error {
	w := r.window(windowBytes)
	w.open(span{0, r.size})
	for f, ok := w.next(); ok; f, ok = w.next() {
		if f.wire != bytesType {
			continue // a field of a newer version
		}
		s, ok := w.body(f)
		if !ok {
			break
		}
		if f.number > spaceHostnames {
			w.skip(s.end)
			continue
		}
		if f.number == spacePlanes {
			if len(r.planes) == maxPlanes {
				return fmt.Errorf("more than %d planes at byte %d: a profile has one per device and a few more", maxPlanes, f.at)
			}
			p, err := r.look(s)
			if err != nil {
				return fmt.Errorf("planes[%d]: %w", len(r.planes), err)
			}
			if uint64(s.end-s.at) < f.value { // look does not see a cut between two fields
				p.cut, r.truncated = true, true
			}
			r.planes = append(r.planes, p)
			w.skip(s.end)
			continue
		}
		text, ok := w.take(f, maxText)
		switch {
		case !ok:
		case f.number != spaceHostnames:
			r.messages = append(r.messages, string(text))
		case r.host == "":
			r.host = string(text)
		}
	}
	var cut bool
	return r.settle(&w, &cut)
}

// content reads the planes: allocator events, modules and runs.
func (r *reader) content() error {
	for i := range r.planes {
		p := &r.planes[i]
		var err error
		switch {
		case p.name == hostPlane:
			err = r.readHost(p)
		case p.name == metadataPlane:
			err = r.modules(p)
		case strings.HasPrefix(p.name, tpuPrefix) && r.b.Keeps(build.Reports):
			err = r.runs(p)
		}
		if err != nil {
			return fmt.Errorf("planes[%d] (%s): %w", i, p.name, err)
		}
	}
	return nil
}

func (r *reader) report() {
	if r.truncated {
		where := fmt.Sprintf("byte %d", r.size)
		if r.nameless {
			where += ", before the names of the host's events; without them the events cannot be read"
		}
		r.b.Lose(loss.Truncated, 1, 0, where)
	}
	if len(r.messages) > 0 {
		first := r.messages[0]
		r.b.Lose(loss.ProducerMessage, int64(len(r.messages)), 0, first[:min(len(first), 200)])
	}
	if r.events == 0 && !r.nameless {
		r.b.Lose(loss.NoMemoryEvents, 1, 0, "")
	}
}

// maxModule bounds the HloProto of a module, in bytes.
const maxModule = 1 << 30

// modules passes the compiled modules of the metadata plane to package hlo.
func (r *reader) modules(p *plane) error {
	protos := map[int64]bool{} // statistics that hold one
	err := r.entries(p, planeStatMeta, func(e entry, name []byte) error {
		if string(name) == "Hlo Proto" || string(name) == "hlo_proto" {
			protos[e.id] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	w := r.window(windowBytes)
	return r.entries(p, planeEventMeta, func(e entry, name []byte) error {
		module := string(name)
		proto := span{}
		w.open(e.body)
		for f, s, ok := w.nextBytes(); ok; f, s, ok = w.nextBytes() {
			if stat := r.protoOf(f, s, protos); stat.end > 0 {
				proto = stat
			}
			w.skip(s.end)
		}
		if err := r.settle(&w, &p.cut); err != nil || proto.end == 0 {
			return err // a bytes statistic need not be an HloProto
		}
		return r.module(module, proto)
	})
}

// protoOf returns where the HloProto of a statistic is, or the zero span if it has none.
func (r *reader) protoOf(f field, stat span, protos map[int64]bool) span {
	if f.number != metaStats {
		return span{}
	}
	w := &r.look2
	w.open(stat)
	found, is := span{}, false
	for f, ok := w.next(); ok; f, ok = w.next() {
		switch {
		case f.number == statMetadata && f.wire == varintType:
			is = protos[int64(f.value)]
		case f.wire == bytesType:
			s, ok := w.body(f)
			if ok && f.number == statBytes && uint64(s.end-s.at) == f.value {
				found = s
			}
			w.skip(s.end)
		}
	}
	if !is {
		return span{}
	}
	return found
}

// module adds one compiled module. A module that cannot be read is recorded as a loss, because the others may be whole.
func (r *reader) module(name string, where span) error {
	var err error
	if n := where.end - where.at; n > maxModule {
		err = fmt.Errorf("a module of %d bytes; the limit is %d", n, maxModule)
	} else {
		proto := make([]byte, n)
		if _, err := r.in.ReadAt(proto, where.at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		err = hlo.Add(r.b, hlo.Module{Name: name, Host: r.host, Source: r.source}, proto)
	}
	if err != nil {
		r.b.Lose(loss.DamagedModule, 1, 0, fmt.Sprintf("%s (byte %d): %v", name, where.at, err))
		return nil
	}
	r.found++
	return nil
}
