package text_test

import (
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/render/text"
)

// TestHeadline checks the answer about a failure, a leak, categories, places and totals.
func TestHeadline(t *testing.T) {
	for file, want := range map[string]string{
		"torchsnap/frag_oom.pickle": "Use few sizes, and allocate long-lived buffers first.\n" +
			"Out of memory: 60.0 MiB by big_request (frag.py:16), called by <module> (frag.py:20); enough is reserved and free, but in smaller pieces.\n" +
			"Held: <listcomp> (frag.py:12) 108 MiB in 18 buffers.",
		"torchsnap/twodev.pickle": "Find what still refers to them (gc.get_referrers); clear or bound it.\n" +
			"Leak in cuda:1: leaky_step (twodev.py:11): 10 buffers (10.0 MiB) were never freed; it grows until the recording ends.\n" +
			"The peak of cuda:1 is 14.0 MiB; the largest: 10.0 MiB leaky_step (twodev.py:11), 4.00 MiB leaky_step (twodev.py:10).",
		"torchsnap/healthy.pickle":        "The peak of cuda:0 is 17.6 MiB: 8.13 MiB workspace, 3.26 MiB optimizer state, 2.00 MiB temporary, 1.63 MiB parameter, 1.13 MiB gradient, 1.50 MiB others (inferred).",
		"gpumemprof/spike.json":           "The peak of h/cuda:0 is 4.00 GiB.",
		"jaxprof/leak_before.memory.prof": "At the end cpu:0 has 256 KiB in use; the largest: 256 KiB <module> (gen_jax.py:146), 8 B <module> (gen_jax.py:18).",
	} {
		c, err := judged.Open("../../testdata/"+file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		failures, _ := answer.OOMsOf(c, c.Spaces)
		got := text.Headline(c, failures)
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", file, got, want)
		}
	}
}
