package torchsnap_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/torchsnap"
	"github.com/memlane/memlane/internal/pickletest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
)

// recorded is an event of a snapshot with the offset after it.
type recorded struct {
	end    int
	action string
}

// recordedEvents returns the events of a snapshot in order, and the offsets of the
// pickle's frames. It decodes only the opcodes that captures use.
func recordedEvents(t *testing.T, data []byte) (events []recorded, frames []int) {
	t.Helper()
	type node struct {
		text  string
		mark  bool
		event int // index into events, from 1 on
	}
	fixed := map[byte]int{'J': 4, 'K': 1, 'M': 2, 'h': 1, 'j': 4, 'q': 1, 'r': 4, 'G': 8, 0x80: 1, 0x95: 8}
	counted := map[byte]int{'X': 4, 0x8a: 1, 0x8c: 1}
	var stack []*node // by reference: the memo holds dicts before they are filled
	memo := map[int]*node{}
	toMark := func() []*node {
		i := len(stack) - 1
		for !stack[i].mark {
			i--
		}
		items := stack[i+1:]
		stack = stack[:i]
		return items
	}
	fill := func(items []*node, end int) {
		into := stack[len(stack)-1]
		for i := 0; i < len(items); i += 2 {
			if items[i].text == "action" {
				events = append(events, recorded{action: items[i+1].text})
				into.event = len(events)
			}
		}
		if into.event > 0 {
			events[into.event-1].end = end
		}
	}
	number := func(b []byte) (n int) {
		for i := len(b) - 1; i >= 0; i-- {
			n = n<<8 | int(b[i])
		}
		return n
	}
	for at := 0; ; {
		op, arg, from := data[at], "", at
		at++
		index := 0 // of the memo
		switch {
		case strings.IndexByte("VILFpg", op) >= 0:
			n := bytes.IndexByte(data[at:], '\n')
			arg, at = string(data[at:at+n]), at+n+1
			index, _ = strconv.Atoi(arg)
		case counted[op] > 0:
			n := number(data[at : at+counted[op]])
			at += counted[op] + n
			arg = string(data[at-n : at])
		default:
			at += fixed[op]
			index = number(data[at-fixed[op] : at])
		}
		switch op {
		case '.':
			return events, frames
		case 0x95:
			frames = append(frames, from)
		case 0x80:
		case '(':
			stack = append(stack, &node{mark: true})
		case 'h', 'j', 'g':
			stack = append(stack, memo[index])
		case 'q', 'r', 'p':
			memo[index] = stack[len(stack)-1]
		case 0x94:
			memo[len(memo)] = stack[len(stack)-1]
		case 'e':
			toMark()
		case 'l', 't', 'd':
			toMark()
			stack = append(stack, &node{})
		case 'a':
			stack = stack[:len(stack)-1]
		case 's':
			items := stack[len(stack)-2:]
			stack = stack[:len(stack)-2]
			fill(items, at)
		case 'u':
			fill(toMark(), at)
		case 0x85, 0x86, 0x87:
			stack = append(stack[:len(stack)-int(op-0x84)], &node{})
		case 'X', 'V', 0x8c:
			stack = append(stack, &node{text: arg})
		case '}', ']', ')', 'N', 0x88, 0x89, 0x8a, 'G', 'I', 'L', 'F', 'J', 'K', 'M':
			stack = append(stack, &node{})
		default:
			t.Fatalf("opcode %#x at %d", op, from)
		}
	}
}

// TestTruncated cuts the captures, the smaller ones at every byte. The result passes
// Check, has a Truncated loss and contains exactly the events before the cut. The last
// event may be missing: if items come one by one, nothing marks the end of a dict.
func TestTruncated(t *testing.T) {
	files, err := filepath.Glob(captures + "/*.pickle")
	if err != nil || len(files) == 0 {
		t.Fatal("no captures", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			events, frames := recordedEvents(t, data)
			cuts := map[int]bool{}
			step := 1
			if len(data) > 1500 {
				step = len(data) / 150
			}
			for at := 0; at < len(data); at += step {
				cuts[at] = true
			}
			for _, at := range frames { // opcode and length have 9 bytes
				for d := -1; d <= 10; d++ {
					cuts[max(0, at+d)] = true
				}
			}
			last := 0
			for at := range data {
				if cuts[at] {
					last = checkCut(t, data[:at], events, last)
				}
			}
			if n := checkCut(t, data, events, last); n != countBefore(events, len(data)) {
				t.Errorf("%d events in the whole capture", n)
			}
		})
	}
}

// countBefore counts the allocations and frees that are complete at an offset.
func countBefore(events []recorded, at int) int {
	n := 0
	for _, e := range events {
		if e.end <= at && (e.action == "alloc" || e.action == "free_completed") {
			n++
		}
	}
	return n
}

// checkCut reads a truncated capture and returns the number of its events; last is the
// number at the previous cut.
func checkCut(t *testing.T, data []byte, events []recorded, last int) int {
	t.Helper()
	want := countBefore(events, len(data))
	b := build.New(build.Everything)
	if err := torchsnap.Read("cut", bytes.NewReader(data), b); err != nil {
		if want > 0 || strings.Contains(err.Error(), "\n") {
			t.Errorf("cut at %d, after %d events: %v", len(data), want, err)
		}
		return 0
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatalf("cut at %d: %v", len(data), err)
	}
	if err := c.Check(); err != nil {
		t.Errorf("cut at %d: %v", len(data), err)
	}
	if whole := data[len(data)-1] == '.' && lossCounts(c)[loss.Truncated] == 0; !whole && lossCounts(c)[loss.Truncated] != 1 {
		t.Errorf("cut at %d: losses %v", len(data), c.Losses)
	}
	n := eventCount(c)
	if n > want || n < want-1 || n < last-1 {
		t.Errorf("cut at %d: %d events of %d, %d before", len(data), n, want, last)
	}
	return max(n, last)
}

// eventCount returns the number of recorded allocations and frees of a capture.
func eventCount(c *lifetime.Capture) int {
	n := 0
	for _, s := range c.Spaces {
		n += s.Allocations + s.Frees
	}
	return n
}

// TestCutSegments cuts snapshots whose segments come last, and checks that missing
// segments do not end buffers.
func TestCutSegments(t *testing.T) {
	const mib = 1 << 20
	of := func(base int64) dict { return segment(0, base, mib, block(base, mib, mib, "active_allocated")) }
	history, segments := list{event("alloc", 16*mib, mib, 1), event("alloc", 32*mib, mib, 2)}, list{of(16 * mib), of(32 * mib)}
	for name, whole := range map[string]dict{
		"a device":    {"device_traces", list{history}, "segments", segments},
		"host memory": {"segments", list{}, "device_traces", list{}, "host_traces", history, "host_segments", segments},
	} {
		data := pickletest.Pickle(whole)
		some := false
		for n := range data {
			c, err := readBytes(t, data[:n])
			if err != nil {
				continue
			}
			if lost := lossCounts(c)[loss.LostFree]; lost > 0 {
				t.Errorf("%s, cut at %d: %d lost frees", name, n, lost)
			}
			some = some || len(c.Spaces) > 0 && len(c.Spaces[0].Regions) == 1
		}
		if !some {
			t.Errorf("%s: no cut leaves one segment of two", name)
		}
	}
}

// TestCutBetweenBatches cuts a long history between two of Python's batches. The history
// is truncated, so blocks of the end state without an allocation are not older than it.
func TestCutBetweenBatches(t *testing.T) {
	blocks, first := []any{}, list{}
	for i := range 10 {
		blocks = append(blocks, block(512*(i+1), 512, 512, "active_allocated"))
		first = append(first, event("alloc", 512*(i+1), 512, i))
	}
	blocks[9] = block(512*20, 512, 512, "active_allocated")
	whole := pickletest.Pickle(snapshot(list{segment(0, 512, 1<<20, blocks...)}, first))
	c, err := readBytes(t, whole[:len(whole)-len("eu.")]) // of the list of devices, of the snapshot, of the pickle
	if err != nil {
		t.Fatal(err)
	}
	want := map[loss.Reason]int64{loss.Truncated: 1, loss.EndStateAfterCut: 1}
	if got := lossCounts(c); len(got) != len(want) || got[loss.EndStateAfterCut] != 1 || got[loss.Truncated] != 1 {
		t.Errorf("losses %v, want %v", c.Losses, want)
	}
}

// manyEvents returns a snapshot of n events: allocations that are freed 50 events later.
// Each event has a stack of 12 frames: one of 20 shared lists, or a fresh list.
func manyEvents(n int, fresh bool) []byte {
	var frames []*shared
	for i := range 20 {
		frames = append(frames, pickletest.Share(dict{"name", "f" + string(rune('a'+i)), "filename", "train.py", "line", i}))
	}
	var stacks []list
	var sharedStacks []*shared
	for i := range 20 {
		l := list{}
		for k := range 12 {
			l = append(l, frames[(i+k*i)%20])
		}
		stacks = append(stacks, l)
		sharedStacks = append(sharedStacks, pickletest.Share(l))
	}
	keys := map[string]*shared{}
	key := func(s string) *shared {
		if keys[s] == nil {
			keys[s] = pickletest.Share(s)
		}
		return keys[s]
	}
	trace := list{}
	for i := range n {
		var stack any = sharedStacks[i%20]
		if fresh {
			stack = stacks[i%20]
		}
		action, place := "alloc", i/100*50+i%50
		if i%100 >= 50 {
			action = "free_completed"
		}
		trace = append(trace, dict{key("action"), key(action), key("addr"), 512 * (place%1000 + 1), key("size"), 512, key("stream"), 0,
			key("time_us"), i, key("frames"), stack})
	}
	return pickletest.Pickle(snapshot(list{}, trace))
}

// TestAllocations checks that the number of allocations depends on sites, batches and
// chunks, not on events.
func TestAllocations(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		allocations := func(n int) float64 {
			data := manyEvents(n, fresh)
			return testing.AllocsPerRun(2, func() {
				b := build.New(build.Everything)
				if err := torchsnap.Read("test", bytes.NewReader(data), b); err != nil {
					t.Fatal(err)
				}
				if c, err := b.Finish(); err != nil || eventCount(c) != n {
					t.Fatal(err, eventCount(c))
				}
			})
		}
		fixed, all := allocations(5000), allocations(25000)
		if perEvent := (all - fixed) / 20000; perEvent > 0.01 || fixed > 5000 {
			t.Errorf("fresh stacks %v: %.4f allocations per event, %.0f for the first 5000 events", fresh, perEvent, fixed)
		}
	}
}

// TestSnapshotBombs bounds the memory for small files with many devices, histories and
// annotations.
func TestSnapshotBombs(t *testing.T) {
	key := map[string]*shared{}
	for _, s := range []string{"action", "alloc", "addr", "size", "device", "address", "total_size", "stage", "name", "time_us", "START", "END"} {
		key[s] = pickletest.Share(s)
	}
	const n = 20000
	var traces, segments, notes list
	for i := range n {
		traces = append(traces, list{dict{key["action"], key["alloc"], key["addr"], i, key["size"], 512}})
		segments = append(segments, dict{key["device"], i, key["address"], i << 20, key["total_size"], 1 << 20})
		notes = append(notes, dict{key["stage"], key["START"], key["name"], key["name"], key["time_us"], i})
		notes = append(notes, dict{key["stage"], key["END"], key["name"], key["name"], key["time_us"], i + 1})
	}
	for _, c := range []struct {
		name string
		data any
	}{
		{"devices with one event", snapshot(list{}, traces...)},
		{"lists with one event", append(snapshot(list{}), "x", traces)},
		{"devices and annotations", append(snapshot(segments), "external_annotations", notes)},
	} {
		data := pickletest.Pickle(c.data)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b := build.New(build.Everything)
		err := torchsnap.Read("bomb", bytes.NewReader(data), b)
		if err == nil {
			_, err = b.Finish()
		}
		runtime.ReadMemStats(&after)
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.name, err)
		}
		if used, limit := after.TotalAlloc-before.TotalAlloc, uint64(64<<20+128*len(data)); used > limit {
			t.Errorf("%s: %d bytes allocated for %d bytes of input", c.name, used, len(data))
		}
	}
}
