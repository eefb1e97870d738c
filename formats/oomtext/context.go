package oomtext

import (
	"bytes"
	"fmt"
)

// contexts are lines that other programs print about the memory that they plan or use. The last one before a failure says how much
// was left for it. Sources: vllm/v1/worker/gpu_worker.py and vllm/worker/worker.py, sglang/srt/mem_cache/memory_pool.py,
// megatron/training/utils.py (report_memory), deepspeed/runtime/utils.py (see_memory_usage),
// xla/hlo/transforms/simplifiers/hlo_rematerialization.cc.
var contexts = []struct {
	word string // part of the line
	text pattern
}{
	{"KV cache memory", lazily(`Available KV cache memory: [0-9.]+ GiB`)},
	{"reserved for KV Cache", lazily(`the rest of the memory reserved for KV Cache is [0-9.]+ ?GiB`)},
	{"KV Cache is allocated", lazily(`KV Cache is allocated\. .{1,100}`)},
	{"memory (MB) |", lazily(`memory \(MB\) \| allocated: [0-9.]+ \| max allocated: [0-9.]+ \| reserved: [0-9.]+ \| max reserved: [0-9.]+`)},
	{"by rematerialization", lazily(`Can't reduce memory use below [0-9.]+[KMGT]?i?B \([0-9]+ bytes\) by rematerialization; only reduced to [0-9.]+[KMGT]?i?B`)},
	{"Max_MA ", lazily(`MA [0-9.]+ GB +Max_MA [0-9.]+ GB +CA [0-9.]+ GB +Max_CA [0-9.]+ GB`)},
}

// context is such a line.
type context struct {
	writer string // its key
	line   int64
	text   string
}

// notice keeps a line without a failure, if it says something about the memory.
func (r *reader) notice(line []byte, number int64) {
	for i := range contexts {
		c := &contexts[i]
		if !bytes.Contains(line, []byte(c.word)) {
			continue
		}
		if text := c.text().Find(line); text != nil {
			w, _ := r.writerOf(line)
			found := context{w.key, number, string(bytes.Join(bytes.Fields(text), []byte(" ")))}
			r.last = found
			r.noticed[w.key] = found
		}
		return
	}
}

// contextOf returns what a process printed last about its memory, or any process; "" for none.
func (r *reader) contextOf(w *writer) string {
	c, ok := r.noticed[w.key]
	if !ok {
		c = r.last
	}
	if c.line == 0 {
		return ""
	}
	return fmt.Sprintf("line %d says: %s", c.line, c.text)
}
