package torchsnap_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/formats/torchsnap"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/internal/pickletest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/region"
)

const captures = "../../testdata/torchsnap"

func open(t testing.TB, file string) *lifetime.Capture {
	t.Helper()
	c, err := formats.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return c
}

func space(c *lifetime.Capture, device string) *lifetime.Space {
	for _, s := range c.Spaces {
		if s.Device == device {
			return s
		}
	}
	return nil
}

// all returns the captures in testdata, and those below the folder MEMLANE_CAPTURES.
func all(t *testing.T) []string {
	files, _ := filepath.Glob(captures + "/*.pickle")
	if len(files) == 0 {
		t.Fatal("no captures")
	}
	if dir := os.Getenv("MEMLANE_CAPTURES"); dir != "" {
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if strings.HasSuffix(path, ".pickle") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// replay is the result of an independent reconstruction, backwards from the end state
// (see testdata/README.md).
type replay struct {
	Events                 map[string]int
	ReservedEnd            int64 `json:"reserved_end"`
	AllocatedEnd           int64 `json:"allocated_end"`
	RequestedEnd           int64 `json:"requested_end"`
	ActiveEnd              int64 `json:"active_end"`
	RequestedActiveEnd     int64 `json:"requested_active_end"`
	LiveBlocksEnd          int64 `json:"live_blocks_end"`
	PendingBlocksEnd       int64 `json:"pending_blocks_end"`
	InactiveBytesEnd       int64 `json:"inactive_bytes_end"`
	RequestedActivePeak    int64 `json:"requested_active_peak"`
	ReservedPeak           int64 `json:"reserved_peak"`
	LiveWithoutAllocEvents int64 `json:"live_blocks_without_alloc_event"`
	OOM                    []struct {
		Size       int64
		DeviceFree int64 `json:"device_free"`
	}
}

// TestReplay compares every capture with the independent reconstruction.
func TestReplay(t *testing.T) {
	files, _ := filepath.Glob(captures + "/*.replay.json")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".replay.json")
		t.Run(name, func(t *testing.T) {
			var want []replay
			readJSON(t, file, &want)
			c := open(t, filepath.Join(captures, name+".pickle"))
			for d, w := range want {
				s := space(c, fmt.Sprintf("cuda:%d", d))
				if s == nil {
					if w.Events != nil || w.ReservedEnd != 0 {
						t.Errorf("device %d is missing", d)
					}
					continue
				}
				if w.Events == nil {
					w.Events = map[string]int{}
				}
				checkReplay(t, s, w)
			}
		})
	}
}

func checkReplay(t *testing.T, s *lifetime.Space, w replay) {
	t.Helper()
	sum := s.Summary()
	reserved, reservedPeak := region.Reserved(s)
	free := region.FreeAt(s, s.AtEnd()).Total
	older, ooms := int64(0), 0
	for i := range s.Buffers {
		b := &s.Buffers[i]
		if b.Edge&lifetime.BeginUnseen != 0 && b.Edge&lifetime.EndOpen != 0 && b.Edge&lifetime.Pending == 0 {
			older++
		}
	}
	for _, m := range s.Marks {
		if m.Kind == lifetime.OOM {
			if m.Requested != w.OOM[ooms].Size || m.Free != failure.BytesOf(w.OOM[ooms].DeviceFree) {
				t.Errorf("oom %d: %+v, want %+v", ooms, m, w.OOM[ooms])
			}
			ooms++
		}
	}
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"allocations", int64(s.Allocations), int64(w.Events["alloc"])},
		{"frees", int64(s.Frees), int64(w.Events["free_completed"])},
		{"active bytes", sum.Live.Bytes, w.ActiveEnd},
		{"allocated bytes", sum.Live.Bytes - sum.Pending.Bytes, w.AllocatedEnd},
		{"requested active bytes", sum.Live.Requested, w.RequestedActiveEnd},
		{"requested bytes", sum.Live.Requested - sum.Pending.Requested, w.RequestedEnd},
		{"live blocks", sum.Live.Count - sum.Pending.Count, w.LiveBlocksEnd},
		{"pending blocks", sum.Pending.Count, w.PendingBlocksEnd},
		{"requested peak", sum.PeakRequested.Bytes, w.RequestedActivePeak},
		{"reserved", reserved, w.ReservedEnd},
		{"reserved peak", reservedPeak, w.ReservedPeak},
		{"free inside reserved", free, w.InactiveBytesEnd},
		{"older blocks alive", older, w.LiveWithoutAllocEvents},
		{"ooms", int64(ooms), int64(len(w.OOM))},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s: %d, want %d", s.ID(), c.what, c.got, c.want)
		}
	}
}

// TestCounters compares the captures with torch.cuda.memory_stats just before the dump.
func TestCounters(t *testing.T) {
	files, _ := filepath.Glob(captures + "/*.stats.json")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".stats.json")
		t.Run(name, func(t *testing.T) {
			var stats map[string]map[string]int64
			readJSON(t, file, &stats)
			c := open(t, filepath.Join(captures, name+".pickle"))
			for d, want := range stats {
				s := space(c, "cuda:"+d)
				if s == nil || len(want) == 0 {
					continue
				}
				sum := s.Summary()
				reserved, reservedPeak := region.Reserved(s)
				got := map[string]int64{
					"active_bytes.all.current":    sum.Live.Bytes,
					"allocated_bytes.all.current": sum.Live.Bytes - sum.Pending.Bytes,
					"requested_bytes.all.current": sum.Live.Requested,
					"allocation.all.current":      sum.Live.Count - sum.Pending.Count,
					"reserved_bytes.all.current":  reserved,
					"requested_bytes.all.peak":    sum.PeakRequested.Bytes,
					"reserved_bytes.all.peak":     reservedPeak,
				}
				if name == "mode_off" { // no history: the peak is not in the file
					delete(got, "requested_bytes.all.peak")
				}
				for k, v := range got {
					if w, ok := want[k]; ok && v != w {
						t.Errorf("cuda:%s: %s = %d, want %d", d, k, v, w)
					}
				}
			}
		})
	}
}

// TestAllRead reads every capture and checks the invariants.
func TestAllRead(t *testing.T) {
	for _, file := range all(t) {
		c := open(t, file)
		for _, s := range c.Spaces {
			free := region.FreeAt(s, s.AtEnd())
			t.Logf("%s %s: %d buffers, peak %d, free %d, hole %d, %v", filepath.Base(file), s.ID(), len(s.Buffers), s.Peak(lifetime.Occupied).Bytes, free.Total, free.Largest, s.Facts.Names())
		}
		for _, l := range c.Losses {
			t.Logf("  %s", l)
		}
	}
}

// TestProtocols compares the models of one snapshot in all pickle protocols.
func TestProtocols(t *testing.T) {
	want := nativetest.Text(t, open(t, captures+"/leak_4mib_20steps.pickle"))
	for _, p := range []int{0, 2, 3, 5} {
		got := nativetest.Text(t, open(t, fmt.Sprintf("%s/proto%d_leak_4mib_20steps.pickle", captures, p)))
		if got != want {
			t.Errorf("protocol %d gives another model", p)
		}
	}
}

// TestNativeRoundTrip writes every capture as text and reads it back.
func TestNativeRoundTrip(t *testing.T) {
	for _, file := range all(t) {
		want := nativetest.Text(t, open(t, file))
		copied := filepath.Join(t.TempDir(), "copy.native")
		if err := os.WriteFile(copied, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := nativetest.Text(t, open(t, copied)); got != want {
			t.Errorf("%s: the text changes when it is read and written again", file)
		}
	}
}

func readJSON(t testing.TB, file string, v any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// TestSteps checks that ranges with usual names of iterations are steps, and other ranges
// annotations.
func TestSteps(t *testing.T) {
	note := func(stage, name string, device, t int) dict {
		return dict{"stage", stage, "name", name, "device", device, "time_us", t}
	}
	var notes list
	for i, name := range []string{"ProfilerStep#0", "## step 1 ##", "train_step: 2", "Optimizer.step#SGD.step", "forward"} {
		notes = append(notes, note("START", name, 0, 10*i), note("END", name, 0, 10*i+5))
	}
	history := func(size int) list {
		return list{event("alloc", 4096, size, 1), event("free_completed", 4096, size, 60)}
	}
	c, err := readBytes(t, pickletest.Pickle(dict{"segments", list{}, "device_traces", list{history(512), history(1024)}, "external_annotations", notes}))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"step step step annotation annotation", "step step step"} {
		var kinds []string
		for _, m := range c.Spaces[i].Marks {
			kinds = append(kinds, m.Kind.String())
		}
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("%s: %s, want %s", c.Spaces[i].ID(), got, want)
		}
	}
}

// TestAnnotations checks that an annotation is on its device, or else on the first one,
// and lasts at least 1 ns. Many steps are not copied to many devices.
func TestAnnotations(t *testing.T) {
	history := list{event("alloc", 4096, 512, 1), event("free_completed", 4096, 512, 60)}
	notes := list{}
	for _, note := range []dict{{"name", "on 3", "device", 3}, {"name", "on 0", "device", 0}, {"name", "anywhere"}} {
		notes = append(notes, append(dict{"stage", "START", "time_us", 5}, note...), append(dict{"stage", "END", "time_us", 5}, note...))
	}
	c, err := readBytes(t, pickletest.Pickle(append(snapshot(list{}, list{}, list{}, history, history), "external_annotations", notes)))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"anywhere", "on 3"} {
		s := c.Spaces[i]
		if len(s.Marks) != 1 || s.Marks[0].Text != want || s.Marks[0].Begin != 5000 || s.Marks[0].End != 5001 {
			t.Errorf("%s: %+v, want %q", s.ID(), s.Marks, want)
		}
	}
	segments, steps := list{}, list{}
	for i := range 1000 {
		segments = append(segments, segment(i, 4096, 512))
	}
	for i := range 550 {
		steps = append(steps, note("START", "step 1", i), note("END", "step 1", i))
	}
	b := build.New(build.Everything)
	if err := torchsnap.Read("", bytes.NewReader(pickletest.Pickle(append(snapshot(segments, history), "external_annotations", steps))), b); err != nil {
		t.Fatal(err)
	}
	if c, err = b.Finish(); err != nil || len(c.Spaces[0].Marks) != 550 || len(c.Spaces[1].Marks) != 0 {
		t.Errorf("%d and %d marks, %v", len(c.Spaces[0].Marks), len(c.Spaces[1].Marks), err)
	}
}

// TestFields checks the optional fields of events.
func TestFields(t *testing.T) {
	alloc := func(n int, more ...any) dict { return event("alloc", 4096*n, 512, n, more...) }
	c, err := readBytes(t, pickletest.Pickle(snapshot(list{segment(0, 16384, 1024, block(16384, 512, 0, "active_allocated"))}, list{
		alloc(1, "compile_context", "0/1"), alloc(2, "compile_context", "N/A"), alloc(3, "compile_context", ""), event("oom", 0, 99, 4), event("oom", 0, 99, 5, "device_free", 7)})))
	if err != nil {
		t.Fatal(err)
	}
	s := c.Spaces[0]
	for _, b := range s.Buffers {
		want := ""
		if b.Addr == 4096 {
			want = "0/1"
		}
		if have := c.Sites[b.Site].Module; have != want {
			t.Errorf("the buffer at %#x is of graph %q, want %q", b.Addr, have, want)
		}
		if b.Addr == 16384 && b.Requested != 0 {
			t.Errorf("%d bytes were requested, want 0", b.Requested)
		}
	}
	if len(s.Marks) != 2 || s.Marks[0].Free.Known() || s.Marks[1].Free.Or(0) != 7 {
		t.Errorf("%+v, want the free bytes unknown, then 7", s.Marks)
	}
}

// TestFullRing checks that a number of events that looks like a limit is reported as a
// possible ring buffer overflow.
func TestFullRing(t *testing.T) {
	for n, want := range map[int]bool{10: false, 49: false, 50: true, 51: false, 64: true, 75: true, 80: true, 84: false, 100: true, 105: false, 128: true, 150: true, 160: false,
		1 << 10: true, 1000: true, 1100: false, 1500: true, 1010: false} {
		events := list{event("free_completed", 512, 512, 0)}
		for len(events) < n {
			action := "alloc"
			if len(events)%2 == 0 {
				action = "free_completed"
			}
			events = append(events, event(action, 4096, 512, len(events)))
		}
		c, err := readBytes(t, pickletest.Pickle(snapshot(list{}, events)))
		if err != nil {
			t.Fatal(err)
		}
		if have := lossCounts(c)[loss.RingOverflow] > 0; have != want {
			t.Errorf("%d events: full %t", n, have)
		}
	}
}

// TestSharedHistory reads two devices whose blocks have the same history object, as a pickle may share it.
func TestSharedHistory(t *testing.T) {
	shared := pickletest.Share(dict{"addr", 4096, "real_size", 500, "frames", stackOf("f")})
	of := func(device int) dict {
		return segment(device, 4096, 512, dict{"size", 512, "state", "active_allocated", "history", list{shared}})
	}
	c, err := readBytes(t, pickletest.Pickle(snapshot(list{of(0), of(1)})))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Spaces) != 2 {
		t.Fatalf("%d spaces, want 2", len(c.Spaces))
	}
	for _, s := range c.Spaces {
		b := &s.Buffers[0]
		if frames := slices.Collect(c.FramesOf(c.Sites[b.Site].Stack)); b.Requested != 500 || len(frames) != 1 {
			t.Errorf("%s: %d B requested from %d functions, want 500 B from one", s.ID(), b.Requested, len(frames))
		}
	}
}
