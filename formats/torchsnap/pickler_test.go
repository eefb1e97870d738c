package torchsnap_test

import (
	"bytes"
	"math/big"
	"testing"

	"github.com/memlane/memlane/formats/torchsnap"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/internal/pickletest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/native"
)

// Python data for tests.
type (
	dict   = pickletest.Dict
	list   = pickletest.List
	tuple  = pickletest.Tuple
	raw    = pickletest.Raw
	shared = pickletest.Shared
)

// power returns 2^n.
func power(n uint) *big.Int { return new(big.Int).Lsh(big.NewInt(1), n) }

// event returns a trace event; more are further keys and values.
func event(action string, addr, size any, us any, more ...any) dict {
	return append(dict{"action", action, "addr", addr, "size", size, "stream", 0, "time_us", us}, more...)
}

// stackOf returns a list of frames, one per function.
func stackOf(functions ...string) list {
	l := list{}
	for i, f := range functions {
		l = append(l, dict{"name", f, "filename", "train.py", "line", i + 1})
	}
	return l
}

// segment returns a segment with its blocks in order.
func segment(device, addr any, size any, blocks ...any) dict {
	return dict{"device", device, "address", addr, "total_size", size, "allocated_size", size, "active_size", size, "stream", 0,
		"segment_type", "large", "segment_pool_id", tuple{0, 0}, "is_expandable", false, "frames", list{}, "blocks", list(blocks)}
}

func block(addr, size, requested any, state string) dict {
	return dict{"address", addr, "size", size, "requested_size", requested, "state", state, "frames", list{}}
}

// snapshot returns a snapshot; traces are lists of events, one per device.
func snapshot(segments list, traces ...any) dict {
	return dict{"segments", segments, "device_traces", list(traces)}
}

// readBytes reads a snapshot like formats.Open. It checks that the result passes Check,
// is the same in a second read, and the same after conversion to native text and back.
func readBytes(t testing.TB, data []byte) (*lifetime.Capture, error) {
	t.Helper()
	var texts []string
	var c *lifetime.Capture
	for range 2 {
		b := build.New(build.Everything)
		if err := torchsnap.Read("test.pickle", bytes.NewReader(data), b); err != nil {
			return nil, err
		}
		var err error
		if c, err = b.Finish(); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, nativetest.Text(t, c))
	}
	if err := c.Check(); err != nil {
		t.Errorf("check: %v", err)
	}
	if texts[0] != texts[1] {
		t.Errorf("two reads of one file differ:\n%s\n%s", texts[0], texts[1])
	}
	b := build.New(build.Everything)
	if err := native.Read("test.native", bytes.NewReader([]byte(texts[0])), b); err != nil {
		t.Errorf("native: %v\n%.3000s", err, texts[0])
		return c, nil
	}
	again, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Check(); err != nil {
		t.Errorf("check after native: %v", err)
	}
	if text := nativetest.Text(t, again); text != texts[0] {
		t.Errorf("native text changes when it is read and written again:\n%s\n%s", texts[0], text)
	}
	return c, nil
}
