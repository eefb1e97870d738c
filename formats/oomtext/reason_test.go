package oomtext_test

import (
	"strings"
	"testing"
)

// reasonTest is a text with one failure, and parts of what is said about it.
type reasonTest struct{ name, text, reason, words, advice string }

func (test *reasonTest) run(t *testing.T) {
	t.Run(test.name, func(t *testing.T) {
		all := failuresOf(t, test.text)
		if len(all) != 1 {
			t.Fatalf("%d failures", len(all))
		}
		f := &all[0]
		if f.Reason != test.reason || !strings.Contains(f.Detail().Words, test.words) || !strings.Contains(f.Advice, test.advice) {
			t.Errorf("%s: %s\n%s\nwant %s: %s\n%s", f.Reason, f.Detail().Words, f.Advice, test.reason, test.words, test.advice)
		}
		if len(f.Advice) > 90 {
			t.Errorf("%d columns: %s", len(f.Advice), f.Advice)
		}
	})
}

// TestSingleRequest: a request that is larger than all that is live must be split; nothing else fills the memory.
func TestSingleRequest(t *testing.T) {
	const v2 = "CUDA out of memory. Tried to allocate 30.00 GiB. GPU 0 has a total capacity of 40.00 GiB of which 26.00 GiB is free. "
	for _, test := range []reasonTest{
		{"larger than what is live", v2 + "Of the allocated memory 13.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.", "exhausted", "larger than all live", "Split"},
		{"smaller", strings.ReplaceAll(v2, " 26.00", " 4.00") + "Of the allocated memory 35.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.", "exhausted", "full of live", "batch"},
		{"others hold the memory", strings.ReplaceAll(v2, " 26.00", " 4.00") + "Of the allocated memory 13.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.", "outside", "outside", "nvidia-smi"},
		{"TensorFlow", "Allocator (GPU_0_bfc) ran out of memory trying to allocate 64.00MiB (rounded to 67108864)requested by op Fill\nLimit: 67108864\nInUse: 20971520\n", "exhausted", "larger than all live", "Split"},
	} {
		test.run(t)
	}
}
