package gpumemprof

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/loss"
)

// isList reports whether a member of the top-level object may be a list of records.
func isList(key json.Token) bool {
	return key == "results" || key == "events" || key == "input"
}

// reader passes the records of a file to a Builder.
type reader struct {
	b   *build.Builder
	dec *json.Decoder

	devices  map[device]*usage
	order    []*usage // in order of first use
	lists    int      // of records
	records  int      // complete ones
	stormlog bool     // stormlog wrote the file
}

// Read reads the results and events in in. It fails if the file has no list of records, or is damaged before
// the first record.
func Read(file string, in io.Reader, b *build.Builder) error {
	r := &reader{b: b, dec: json.NewDecoder(in), devices: map[device]*usage{}}
	r.dec.UseNumber() // skipped members may not fit a float64
	if err := r.file(); err != nil {
		if err = r.cut(err); err != nil {
			return err
		}
	}
	if r.lists == 0 {
		return fmt.Errorf("byte %d: no results and no events before this byte; "+
			"expected a list of them, or an object with one under \"results\", \"events\" or \"input\"", r.dec.InputOffset())
	}
	producer := "gpumemprof"
	if r.stormlog {
		producer = "stormlog"
	}
	source := b.Source(lifetime.Source{File: file, Format: "gpumemprof", Producer: producer})
	for _, u := range r.order {
		u.describe(b, source)
	}
	return nil
}

// cut handles the error that ended reading. If the file ends or is damaged after the beginning of a list,
// everything before that is used.
func (r *reader) cut(err error) error {
	ends := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	_, damaged := errors.AsType[*json.SyntaxError](err)
	where := fmt.Sprintf("byte %d", r.dec.InputOffset())
	switch {
	case !ends && !damaged:
		return err // of the input
	case r.records > 0 || ends && r.lists > 0:
		if damaged {
			where += ": " + err.Error()
		}
		r.b.Lose(loss.Truncated, 1, 0, where)
		return nil
	case ends:
		return fmt.Errorf("%s: the file ends before its results and events", where)
	}
	return fmt.Errorf("%s: %w: this is not the JSON of gpumemprof; write the file again with json.dump", where, err)
}

func (r *reader) file() error {
	t, err := r.dec.Token()
	if err != nil {
		return err
	}
	switch t {
	case json.Delim('['):
		return r.list("")
	case json.Delim('{'):
		return r.object()
	}
	return nil
}

func (r *reader) object() error {
	for r.dec.More() {
		key, err := r.dec.Token()
		if err != nil {
			return err
		}
		value, err := r.dec.Token()
		if err != nil {
			return err
		}
		if isList(key) && value == json.Delim('[') {
			err = r.list(key.(string))
		} else {
			err = skipRest(r.dec, value)
		}
		if err != nil {
			return err
		}
	}
	_, err := r.dec.Token()
	return err
}

// skipRest skips the rest of a value that began with t.
func skipRest(dec *json.Decoder, t json.Token) (err error) {
	for depth := 0; ; {
		switch t {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
		if depth <= 0 {
			return nil
		}
		if t, err = dec.Token(); err != nil {
			return err
		}
	}
}

// list reads records up to the end of their list.
func (r *reader) list(key string) error {
	r.lists++
	for i := 0; r.dec.More(); i++ {
		var rec record
		err := r.dec.Decode(&rec)
		_, mismatch := errors.AsType[*json.UnmarshalTypeError](err)
		if err != nil && !mismatch {
			return err
		}
		r.records++
		why, ok := loss.IncompleteRecord, false
		if !mismatch {
			why, ok = r.take(&rec)
		}
		if !ok {
			r.b.Lose(why, 1, 0, fmt.Sprintf("%s[%d]", key, i))
		}
	}
	_, err := r.dec.Token()
	return err
}

// take passes a record on. If the record cannot be used, why is the reason.
func (r *reader) take(rec *record) (why loss.Reason, ok bool) {
	switch {
	case rec.FunctionName != "" && rec.MemoryBefore.Allocated.known && rec.MemoryAfter.Allocated.known:
		return loss.TooManySpaces, r.result(rec)
	case rec.TimestampNS.known && (rec.Allocated.known || rec.Reserved.known || rec.DeviceUsed.known):
		return loss.TooManySpaces, r.event(rec)
	}
	return loss.IncompleteRecord, false
}

// result adds a call. It returns false if there are too many devices.
func (r *reader) result(rec *record) bool {
	u := r.usageOf(device{kind: "cuda", id: rec.MemoryAfter.DeviceID.int})
	if u == nil {
		return false
	}
	before, after, peak := &rec.MemoryBefore, &rec.MemoryAfter, &rec.MemoryPeak
	frame := r.b.Frame(frame.Frame{Function: rec.FunctionName, Kind: frame.User})
	r.b.FunctionCall(u.space, lifetime.Call{
		Site:  r.b.Site(lifetime.Site{Stack: r.b.Stack([]lifetime.FrameID{frame})}),
		Begin: before.Timestamp.float, End: after.Timestamp.float, Seconds: rec.ExecutionTime.float,
		Before: before.Allocated.int, After: after.Allocated.int, Peak: peak.Allocated.int, Reserved: after.Reserved.int,
		Inactive: after.Inactive.int, Allocated: rec.MemoryAllocated.int, Freed: rec.MemoryFreed.int,
	})
	for _, s := range []*snapshot{before, peak, after} {
		if s.Timestamp.known {
			u.totals(r.b, units.Whole(s.Timestamp.float*1e9), s.Allocated, s.Reserved)
		}
	}
	return true
}

// event adds a sample. It returns false if there are too many devices.
func (r *reader) event(rec *record) bool {
	r.stormlog = r.stormlog || strings.HasPrefix(rec.Collector, "stormlog")
	u := r.usageOf(deviceOf(rec))
	if u == nil {
		return false
	}
	r.b.Sample(u.space, lifetime.Sample{
		T: rec.TimestampNS.int, Regular: strings.EqualFold(strings.TrimSpace(rec.EventType), "sample"),
		Allocated: rec.Allocated.bytes(), Reserved: rec.Reserved.bytes(), Inactive: rec.fragmented().bytes(),
		DeviceUsed: rec.DeviceUsed.bytes(), DeviceTotal: rec.DeviceTotal.bytes(),
	})
	u.limit = max(u.limit, rec.DeviceTotal.int)
	u.totals(r.b, rec.TimestampNS.int, rec.Allocated, rec.Reserved)
	return true
}
