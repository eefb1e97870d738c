package oomtext_test

import (
	"strings"
	"testing"
)

// TestSurvived: what the writer of a failure prints later tells whether it went on.
func TestSurvived(t *testing.T) {
	const failed = "torch.OutOfMemoryError: " + figures + "\n"
	for _, test := range []struct {
		name, text, want string
	}{
		{"a batch is skipped", "WARNING " + figures + " -- skipping this batch\nstep 101 loss 2.2\n", "survived"},
		{"a later step", "step 100 loss 2.2\n" + failed + "step 101 loss 2.2\n", "survived"},
		{"after other lines", "step 100 loss 2.2\n" + failed + strings.Repeat("waiting\n", 1000) + "step 101 loss 2.2\n", "survived"},
		{"started again", "step 100 loss 2.2\n" + failed + "loading\nstep 0 loss 9.2\nstep 50 loss 3.1\n", "outside"},
		{"the summary of a run", "step 100 loss 2.2\n" + failed + "wandb: train/step 1200\nwandb: step 1200 loss 2.1\n", "outside"},
		{"another rank", "[rank0]: step 100 loss 2.2\n[rank1]: " + failed + "[rank0]: step 101 loss 2.2\n", "outside"},
		{"several attempts", failed + failed + strings.Replace(failed, "2.00 GiB", "1.00 GiB", 1) + "reducing the batch size to 8\n", "survived survived"},
		{"survived, then not", "step 1 loss 2\n" + failed + "step 2 loss 2\n" + failed, "outside survived"},
		{"a server", failed + `INFO: 127.0.0.1 - "POST /v1/completions HTTP/1.1" 200 OK` + "\n", "survived"},
		{"tests are skipped", failed + "1 failed, 3 skipped in 12.3s\n", "outside"},
	} {
		var got []string
		for _, f := range failuresOf(t, test.text) {
			got = append(got, f.Reason)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestOnce: a failure that is printed again in fewer words or digits is one.
func TestOnce(t *testing.T) {
	for name, text := range map[string]string{
		"pytest": "E       torch.OutOfMemoryError: " + figures + strings.Repeat("\n    x = y", 500) +
			"\nFAILED tests/test_unet.py::test_large - torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a tot...\n",
		"JAX": "2026-05-03 10:00:00.123456: W external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of memory trying to allocate 53.14GiB (rounded to 57058656768)requested by op\n" +
			"InUse:                        21.70GiB\n" +
			"E0503 10:00:00.127223 33 pjrt_stream_executor_client.cc:3326] Execution of replica 0 failed: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 57058656552 bytes.\n" +
			"Traceback (most recent call last):\n  File \"/srv/train.py\", line 301, in step\n    f(x)\n" +
			"jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 53.14GiB.: \n",
	} {
		if all := failuresOf(t, text); len(all) != 1 {
			t.Errorf("%s: %d failures", name, len(all))
		}
	}
}

// TestNoticedLater: what a program prints about its memory after a failure belongs to the next one.
func TestNoticedLater(t *testing.T) {
	failed := "torch.OutOfMemoryError: " + figures + "\n"
	all := failuresOf(t, failed+strings.Repeat("waiting\n", 20)+"INFO Available KV cache memory: 2.00 GiB\n"+strings.Repeat("waiting\n", 20)+
		strings.Replace(failed, "2.00 GiB.", "1.00 GiB.", 1))
	if len(all) != 2 || strings.Contains(all[0].Printed, "KV") || !strings.Contains(all[1].Printed, "Available KV cache memory: 2.00 GiB") {
		t.Errorf("%+v", all)
	}
}
