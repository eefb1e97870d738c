package oomtext_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/memlane/memlane/formats/oomtext"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/judge"
)

const captures = "../../testdata/oomtext/"

// contentOf returns the content of a capture.
func contentOf(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// read reads text and checks the properties of every capture.
func read(t testing.TB, in io.Reader) (*lifetime.Capture, error) {
	t.Helper()
	b := build.New(build.Everything)
	if err := oomtext.Read("x.log", in, b); err != nil {
		nativetest.Message(t, err, 300)
		return nil, err
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	return c, nil
}

func mustRead(t testing.TB, text string) *lifetime.Capture {
	t.Helper()
	c, err := read(t, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// failuresOf returns what is said about a text.
func failuresOf(t testing.TB, text string) []answer.Failure {
	t.Helper()
	c := mustRead(t, text)
	all, _ := answer.OOMsOf(judge.Of(c), c.Spaces)
	return all
}

// TestGolden compares the whole model of the captures with their native text.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(captures + "*.log")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		nativetest.Golden(t, mustRead(t, contentOf(t, file)), strings.TrimSuffix(file, ".log")+".native")
	}
}

// truth is what is known of a failure before it is read. Figures have a tolerance: texts round.
type truth struct {
	Line, Times, Rank                                                                              *int64
	Device, Reason                                                                                 string
	Requester                                                                                      *string
	Requested, Capacity, Free, Limit, Live, Reserved, Unallocated, Pools, Outside, Others, Largest *[2]int64
	Needed, Exceeded                                                                               *[2]int64
	Buffers                                                                                        []struct {
		Bytes     [2]int64
		Padding   *[2]int64
		Shape, Op string
	}
}

// TestTruth compares every figure, the place, the requester and the reason of each failure with its truth.
func TestTruth(t *testing.T) {
	files, err := filepath.Glob(captures + "*.truth.json")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		var want []truth
		if err := json.Unmarshal([]byte(contentOf(t, file)), &want); err != nil {
			t.Fatal(file, err)
		}
		slices.SortStableFunc(want, func(x, y truth) int { // what the program survived comes last
			return strings.Compare(strconv.FormatBool(x.Reason == "survived"), strconv.FormatBool(y.Reason == "survived"))
		})
		got := failuresOf(t, contentOf(t, strings.TrimSuffix(file, ".truth.json")+".log"))
		if len(got) != len(want) {
			t.Errorf("%s: %d failures, want %d", file, len(got), len(want))
			continue
		}
		for i := range want {
			for _, wrong := range want[i].compare(&got[i]) {
				t.Errorf("%s: failure %d (line %d): %s", filepath.Base(file), i, *got[i].Line, wrong)
			}
		}
	}
}

// compare returns what of an answer is not as in the truth.
func (w *truth) compare(got *answer.Failure) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, f := range []struct {
		name string
		got  *int64
		want *[2]int64
	}{
		{"requested", got.RequestedBytes, w.Requested}, {"capacity", got.CapacityBytes, w.Capacity}, {"free", got.FreeBytes, w.Free},
		{"limit", got.LimitBytes, w.Limit}, {"live", got.LiveBytes, w.Live}, {"reserved", got.ReservedBytes, w.Reserved},
		{"unallocated", got.UnallocatedBytes, w.Unallocated}, {"pools", got.PrivatePoolsBytes, w.Pools}, {"outside", got.OutsideBytes, w.Outside},
		{"others", got.OthersBytes, w.Others}, {"largest free", got.LargestFreeBytes, w.Largest}, {"needed", got.NeededBytes, w.Needed},
		{"exceeded", got.ExceededBytes, w.Exceeded},
	} {
		switch {
		case f.got == nil && f.want == nil, f.name == "requested" && w.Requested == nil: // more than 1 EB
		case f.got == nil || f.want == nil:
			say("%s is %v, want %v", f.name, f.got, f.want)
		case *f.got-f.want[0] > f.want[1] || f.want[0]-*f.got > f.want[1]:
			say("%s is %d, want %d within %d", f.name, *f.got, f.want[0], f.want[1])
		}
	}
	if w.Line != nil && *got.Line != *w.Line || got.Device != w.Device || got.Reason != w.Reason {
		say("line %d, %s, %s; want %d, %s, %s", *got.Line, got.Device, got.Reason, *w.Line, w.Device, w.Reason)
	}
	if w.Requester != nil && (got.Requester == nil || got.Requester.Name != *w.Requester) || w.Requester == nil && got.Requester != nil {
		say("asked by %+v", got.Requester)
	}
	if w.Times != nil && got.Times != *w.Times || w.Rank != nil && (got.Rank == nil || *got.Rank != *w.Rank) {
		say("%d times, rank %v", got.Times, got.Rank)
	}
	for i, b := range w.Buffers {
		if i >= len(got.Buffers) {
			say("%d buffers, want %d", len(got.Buffers), len(w.Buffers))
			break
		}
		g := &got.Buffers[i]
		off := func(got int64, want [2]int64) bool { return got-want[0] > want[1] || want[0]-got > want[1] }
		if off(g.Bytes, b.Bytes) || b.Padding != nil && off(*g.PaddingBytes, *b.Padding) || g.Shape != b.Shape || g.Op != b.Op {
			say("buffer %d is %+v, want %+v", i, *g, b)
		}
	}
	return wrong
}

// TestNothing: advice, source code and other logs are no failures.
func TestNothing(t *testing.T) {
	for _, text := range []string{contentOf(t, captures+"none_advice.txt"), contentOf(t, captures+"none_source.txt"), "all is well\n",
		"epoch 1 memory allocated 10 GB\n", "raise RuntimeError('CUDA error: out of memory')\n"} {
		if _, err := read(t, strings.NewReader(text)); !errors.Is(err, oomtext.ErrNone) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

// TestPieces: the result does not depend on how the input arrives.
func TestPieces(t *testing.T) {
	text := contentOf(t, captures+"wrapped.log") + contentOf(t, captures+"bfc_frag.log")
	want := nativetest.Text(t, mustRead(t, text))
	c, err := read(t, iotest.OneByteReader(strings.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	if got := nativetest.Text(t, c); got != want {
		t.Error("another result byte by byte")
	}
}

// TestPlace: a text far behind other lines is found at its line, also behind the end of a very long line, and with the
// line ends of Windows.
func TestPlace(t *testing.T) {
	text := contentOf(t, captures+"versions.log")
	first := *failuresOf(t, text)[0].Line
	for name, before := range map[string]string{
		"lines":     strings.Repeat("memory is fine\n", 300_000),
		"long line": strings.Repeat("x", 5<<20) + "\n",
		"progress":  strings.Repeat("\r 10% of memory", 300_000) + "\n",
	} {
		all := failuresOf(t, before+strings.ReplaceAll(text, "\n", "\r\n"))
		if want := first + int64(strings.Count(before, "\n")); *all[0].Line != want || len(all) != 22 {
			t.Errorf("%s: %d failures, the first in line %d, want %d", name, len(all), *all[0].Line, want)
		}
	}
}

// TestTwoDumps: chunks that two dumps have are one buffer; others begin or end between them.
func TestTwoDumps(t *testing.T) {
	dump := func(chunks string) string {
		return "Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.0KiB (rounded to 1024)requested by op Mul\nNext region of size 4096\n" + chunks +
			"2 Chunks of size 1024 totalling 2.0KiB\nLimit: 4096\n"
	}
	first := dump("InUse at 1000 of size 1024 next 1\nFree  at 1400 of size 1024 next 2\nInUse at 1800 of size 2048 next 3\n")
	second := dump("InUse at 1000 of size 1024 next 1\nInUse at 1400 of size 2048 next 2\nFree  at 1c00 of size 1024 next 3\n")
	s := mustRead(t, first+"OOM when allocating tensor with shape[256] and type float on /device:GPU:0 by allocator GPU_0_bfc\n"+second).Spaces[0]
	var got []string
	for _, b := range s.Buffers {
		got = append(got, fmt.Sprintf("%d-%d %#x %d %s", b.Begin, b.End, b.Addr, b.Size, b.Edge))
	}
	want := "0-2 0x1000 1024 begin-unseen+end-open, 0-1 0x1800 2048 begin-unseen+end-inferred, 1-2 0x1400 2048 begin-unseen+end-open"
	if s.ID() != "GPU_0_bfc/gpu:0" || len(s.Marks) != 2 || strings.Join(got, ", ") != want {
		t.Errorf("%s, %d failures: %s", s.ID(), len(s.Marks), strings.Join(got, ", "))
	}
}

// TestRepeats: a failure that is printed again is the same, unless another one was printed in between.
func TestRepeats(t *testing.T) {
	a := "RuntimeError: CUDA out of memory. Tried to allocate 1.72 GiB (GPU 0; 10.76 GiB total capacity; 4.01 GiB already allocated; 356.00 MiB free; 5.54 GiB cached)\n"
	b := strings.ReplaceAll(a, "4.01", "5.65")
	var got []string
	for _, text := range []string{a + a, a + b + a, "[rank0]: " + a + a, "[rank0]: " + a + "[rank1]: " + a, "(Worker pid=7) " + a + "(Worker pid=8) " + a} {
		var times []string
		for _, f := range failuresOf(t, text) {
			times = append(times, fmt.Sprint(f.Times))
		}
		got = append(got, strings.Join(times, "+"))
	}
	if want := "[2 1+1+1 2 1+1 2]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestHostile: what a hostile text claims costs no more than its bytes.
func TestHostile(t *testing.T) {
	huge := "CUDA out of memory. Tried to allocate 99999999999999999999.00 GiB. GPU 0 has a total capacity of 8191999999999.00 GiB of which 1.00 GiB is free.\n"
	frames := "Traceback (most recent call last):\n" + strings.Repeat("  File \"a.py\", line 7, in f\n    f()\n", 100_000) + strings.Split(contentOf(t, captures+"ray.log"), "0m ")[6]
	chunks := "Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.0KiB (rounded to 99999999999999999999)requested by op\n" +
		strings.Repeat("9223372036854775807 Chunks of size 9223372036854775807 totalling 8EiB\n", 100) +
		strings.Repeat("Next region of size 9223372036854775807\nInUse at ffffffffffffffff of size 9223372036854775807 next 3\n", 3)
	for name, text := range map[string]string{"sizes": huge, "frames": frames, "chunks": chunks} {
		var all []answer.Failure
		nativetest.Bounded(t, len(text), 64<<20, 100, func() { all = failuresOf(t, text) })
		if len(all) != 1 {
			t.Errorf("%s: %d failures", name, len(all))
		}
	}
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, "[rank%d]: %s", i, huge)
	}
	if c := mustRead(t, b.String()); len(c.Spaces) > build.MaxSpaces {
		t.Error(len(c.Spaces))
	}
}

// TestContext: what a process printed before about its memory is part of the answer, that of its own rank first.
func TestContext(t *testing.T) {
	oom := "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.32 GiB of which 8.94 MiB is free. Of the allocated memory 77.60 GiB is allocated by PyTorch, and 17.20 MiB is reserved by PyTorch but unallocated.\n"
	for text, want := range map[string]string{
		"(VllmWorker rank=0 pid=4121) INFO 07-22 10:02:11 [gpu_worker.py:227] Available KV cache memory: 8.11 GiB\nINFO x memory\n(VllmWorker rank=0 pid=4121) " + oom:                                   "line 1 says: Available KV cache memory: 8.11 GiB",
		"[rank0]: [x] MA 0.58 GB         Max_MA 26.38 GB         CA 26.71 GB         Max_CA 27 GB \n[rank1]: MA 9.58 GB         Max_MA 9.38 GB         CA 9.71 GB         Max_CA 9 GB \n[rank0]: " + oom: "line 1 says: MA 0.58 GB Max_MA 26.38 GB CA 26.71 GB Max_CA 27 GB",
		"[Rank 0] (after 10 iterations) memory (MB) | allocated: 3103.1 | max allocated: 4200.5 | reserved: 4608.0 | max reserved: 4608.0\n" + oom:                                                       "line 1 says: memory (MB) | allocated: 3103.1 | max allocated: 4200.5 | reserved: 4608.0 | max reserved: 4608.0",
		"nothing about it\n" + oom: "",
	} {
		all := failuresOf(t, text)
		if len(all) != 1 || all[0].Printed != want {
			t.Errorf("%.60q: %+v, want %q", text, all, want)
		}
	}
}
