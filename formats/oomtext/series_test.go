package oomtext_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/oomtext"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
)

// linesOf returns a line for each figure, with other lines between them.
func linesOf(format string, figures ...float64) string {
	var all strings.Builder
	for i, figure := range figures {
		fmt.Fprintf(&all, format+"\n", figure)
		fmt.Fprintf(&all, "step %d loss %.3f\n", i, 3/float64(i+1))
	}
	return all.String()
}

// TestSeries: memory that grows between lines with the same words is a finding, and its lines are the evidence.
func TestSeries(t *testing.T) {
	const smi = "|   0  NVIDIA H100 | Memory-Usage |\n| N/A   45C    P0    70W / 300W |  %5.0fMiB / 81559MiB |     98%%      Default |"
	for name, text := range map[string]string{
		"sleep":           linesOf("INFO 02-25 19:13:26 worker.py:133] Sleep mode freed 40.1 GiB memory, %.2f GiB memory is still in use.", 4, 12, 25),
		"reserved":        linesOf("INFO ServerX reserved: %.0f", 20480, 30720, 40960, 51200, 61440),
		"nvidia-smi":      linesOf(smi, 10000, 11000, 12000, 13000, 14000, 15000, 16000),
		"nvidia-smi, csv": linesOf("0, %.0f MiB, 81559 MiB", 10000, 11000, 12000, 13000, 14000, 15000, 16000),
		"PyTorch":         linesOf("[rank3]: memory allocated: %.2f GB, lr 1e-4", 10, 11, 12, 13, 14, 15, 16),
		"with its unit":   linesOf("After update, memory allocated (GB): %.2f, memory reserved (GB): 70.1", 10, 11, 12, 13, 14, 15, 16),
		"summaries":       tableOf(0, 3000, 8000, 10) + "x\n" + tableOf(0, 4000, 8000, 10) + "x\n" + tableOf(0, 5000, 8000, 10) + "x\n" + tableOf(0, 6000, 8000, 10),
	} {
		c := mustRead(t, text)
		j := judge.Of(c)
		var found []finding.Finding
		for _, f := range j.Findings() {
			if f.Rule == "trend" {
				found = append(found, f)
			}
		}
		if len(found) != 1 || !strings.Contains(found[0].Description, "in line 1") {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// TestNoSeries: a log of a healthy run has nothing to say.
func TestNoSeries(t *testing.T) {
	for name, text := range map[string]string{
		"level":      linesOf("Sleep mode freed 40.1 GiB memory, %.2f GiB memory is still in use.", 4, 4.1, 4.1, 4.1),
		"a warm-up":  linesOf("memory allocated: %.2f GB", 10, 14, 15, 15, 15, 15, 15, 15, 15, 15),
		"highest":    linesOf("max memory allocated: %.2f GB", 10, 11, 12, 13, 14, 15, 16),
		"peak":       linesOf("peak_memory_allocated=%.2fGB", 10, 11, 12, 13, 14, 15, 16),
		"loading":    linesOf("Loading shard, memory allocated: %.2f GB", 10, 11, 12, 13, 14, 15, 16),
		"free":       linesOf("free memory: %.2f GB", 10, 11, 12, 13, 14, 15, 16),
		"two places": linesOf("memory allocated: %.2f GB", 10, 15, 10, 15, 10, 15, 10, 15),
	} {
		if c, err := read(t, strings.NewReader(text)); !errors.Is(err, oomtext.ErrNone) {
			t.Errorf("%s: %v %v", name, c, err)
		}
	}
}

// TestGrewBefore: a failure has what grew before it.
func TestGrewBefore(t *testing.T) {
	const oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 50.00 MiB is free. Of the allocated memory 79.00 GiB is allocated by PyTorch, and 20.00 MiB is reserved by PyTorch but unallocated.\n"
	f := failuresOf(t, linesOf("reserved: %.0f", 20480, 30720, 40960, 51200, 61440)+oom)[0]
	if !strings.Contains(f.Printed, "line 9") || !strings.Contains(f.Advice, "between lines 7 and 9") {
		t.Errorf("%s; %s", f.Printed, f.Advice)
	}
	if f := failuresOf(t, linesOf("reserved: %.0f", 20480, 30720, 30720, 30720, 30720)+oom)[0]; f.Printed != "" {
		t.Error(f.Printed)
	}
}

// TestServers: advice to a server is its own setting, with the value with which the request fits.
func TestServers(t *testing.T) {
	const (
		oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 500.00 MiB is free. " +
			"Of the allocated memory 78.00 GiB is allocated by PyTorch, and 20.00 MiB is reserved by PyTorch but unallocated.\n"
		llama = "using device CUDA0 (NVIDIA GeForce RTX 3090) (0000:01:00.0) - 20000 MiB free\nprint_info: n_layer          = 39\n"
	)
	for name, test := range map[string]struct{ text, advice string }{
		"vLLM":               {"INFO gpu_memory_utilization=0.95, max_model_len=None\nINFO Available KV cache memory: 40.0 GiB\n" + oom, "Lower gpu_memory_utilization from 0.95 to 0.93"},
		"vLLM, by default":   {"INFO Available KV cache memory: 40.0 GiB\n" + oom, "Lower gpu_memory_utilization: the KV cache"},
		"SGLang":             {"ServerArgs(mem_fraction_static=0.9, enable_memory_saver=False)\nKV Cache is allocated. #tokens: 1, K size: 1 GB\n" + oom, "Lower mem_fraction_static from 0.9 to 0.88"},
		"SGLang, at start":   {"[TP0] Load weight begin. avail mem=80.00 GB\n[TP0] Load weight end. avail mem=12.00 GB, mem usage=68 GB.\nRuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n", "to at least 0.85"},
		"TPU":                {"config: gpu_memory_utilization=0.98\nRESOURCE_EXHAUSTED: Attempting to allocate 2.00G. That was not possible. There are 1.00G free.; (0x0x0_HBM0)", "Lower gpu_memory_utilization below 0.98: 1.00 GiB more"},
		"TensorRT-LLM":       {"[TensorRT-LLM][INFO] Allocated 40.53 GiB for max tokens in paged KV cache (395776).\n" + oom, "Lower kv_cache_free_gpu_memory_fraction"},
		"llama.cpp, layers":  {llama + "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 40000.00 MiB on device 0: cudaMalloc failed: out of memory\nllama_model_load: error loading model: unable to allocate CUDA0 buffer\n", "-ngl 20 at most"},
		"llama.cpp, context": {llama + "load_tensors: CUDA0 model buffer size = 10000.00 MiB\nllama_context: n_ctx = 65536\nallocating 20000.00 MiB on device 0: cudaMalloc failed: out of memory\nfailed to allocate buffer for kv cache\n", "-c 32768 at most"},
		"no server":          {"INFO gpu_memory_utilization=0.95\n" + oom, "smaller batch"},
	} {
		if all := failuresOf(t, test.text); len(all) != 1 || !strings.Contains(all[0].Advice, test.advice) {
			t.Errorf("%s: %d failures, %+v", name, len(all), all[0].Advice)
		}
	}
}
