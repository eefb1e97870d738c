package oomtext_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/oomtext"
	"github.com/memlane/memlane/lifetime/build"
)

// longLog returns a log of at least n bytes: two ranks at once, with time stamps and colours, lines about memory and about allocation,
// and five failures far apart, of which the end of the last is cut off. It also returns the lines of the failures.
func longLog(n int) (text []byte, lines []int64) {
	var b bytes.Buffer
	number := int64(0)
	line := func(rank int, format string, args ...any) {
		number++
		fmt.Fprintf(&b, "2026-05-28T07:02:44.%06dZ \x1b[36m[rank%d]: \x1b[0m"+format+"\n", append([]any{number % 1e6, rank}, args...)...)
	}
	for failures := 0; failures < 5; failures++ {
		for b.Len() < n/5*(failures+1)-10_000 {
			step := number
			line(int(step)%2, "step %d loss %.4f mem 71.3 GiB of 79.3 GiB, lr 1.0e-4, tokens/s 51234, grad norm 0.87", step, 1/float64(step+1))
			line(int(step+1)%2, "INFO dataloader: prefetching 8 batches; memory pinned: 1.25 GiB; allocated workers: 4")
			if step%50 == 0 {
				line(0, "WARNING: reserved memory is large; consider reducing the batch if you run out")
			}
		}
		rank := failures % 2
		line(rank, "Traceback (most recent call last):")
		line(1-rank, "step %d loss 0.1", number)
		line(rank, "  File \"/app/train.py\", line %d, in step", 40+failures)
		lines = append(lines, number+1)
		text := fmt.Sprintf("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %d.00 MiB. GPU %d has a total capacity of 79.32 GiB of which 8.94 MiB is free.", 100+2*failures, rank)
		if failures < 4 {
			text += " Including non-PyTorch memory, this process has 79.30 GiB memory in use. Of the allocated memory 77.60 GiB is allocated by PyTorch, and 17.20 MiB is reserved by PyTorch but unallocated."
		}
		line(rank, "%s", text)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), lines
}

// TestLongLog: the failures of a long log are found at their lines.
func TestLongLog(t *testing.T) {
	text, want := longLog(2 << 20)
	all := failuresOf(t, string(text))
	if len(all) != 5 {
		t.Fatalf("%d failures", len(all))
	}
	for i, f := range all {
		if *f.Line != want[i] || *f.RequestedBytes != int64(100+2*i)<<20 || *f.Rank != int64(i%2) || !strings.HasPrefix(f.Requester.Name, "step (train.py:4") {
			t.Errorf("%d: line %d by %q, want line %d", i, *f.Line, f.Requester.Name, want[i])
		}
	}
}

func BenchmarkLog100MB(b *testing.B) {
	text, _ := longLog(100_000_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if err := oomtext.Read("x.log", bytes.NewReader(text), build.New(build.Everything)); err != nil {
			b.Fatal(err)
		}
	}
}
