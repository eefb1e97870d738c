package scan

import (
	"fmt"
	"math/rand/v2"
)

// trace returns a trace of about size bytes in the form of the PyTorch profiler.
func trace(size int) []byte {
	r := rand.New(rand.NewPCG(1, 1))
	b := make([]byte, 0, size+4096)
	b = append(b, `
{
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "A", "totalGlobalMem": 150754820096, "computeMajor": 9, "numSms": 132}
  ],
  "profile_memory": 1, "with_stack": 1, "record_shapes": 1,
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1752000000000000000,
  "traceEvents": [`...)
	ops := []string{"aten::empty", "aten::addmm", "aten::copy_", "aten::native_layer_norm", "aten::_scaled_dot_product_flash_attention", "autograd::engine::evaluate_function: AddmmBackward0", "Optimizer.step#AdamW.step"}
	var total int64
	ts := int64(4_358_455_275_612_370)
	head := func(ph, cat, name string, dur int) {
		b = fmt.Appendf(b, "\n  {\n    \"ph\": \"%s\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": 48211, \"tid\": 48211,\n    \"ts\": %d.%03d", ph, cat, name, ts/1000, ts%1000)
		if dur > 0 {
			d := r.IntN(dur)
			b = fmt.Appendf(b, ", \"dur\": %d.%03d", d/1000, d%1000)
		}
		b = append(b, ",\n    \"args\": {\n      "...)
	}
	for n := 0; len(b) < size; n++ {
		if n > 0 {
			b = append(b, ',')
		}
		ts += int64(r.IntN(4000)) + 300
		switch k := r.IntN(20); {
		case k == 0:
			bytes := int64(512 << r.IntN(18))
			if total > 1<<30 {
				bytes = -bytes
			}
			total += bytes
			head(`i", "s": "t`, "cpu_instant_event", "[memory]", 0)
			b = fmt.Appendf(b, `"Total Reserved": %d, "Total Allocated": %d, "Bytes": %d, "Addr": %d, "Device Id": 0, "Device Type": 1, "Ev Idx": %d`, total+1<<30, total, bytes, 139_800_000_000_000+r.Int64N(1<<30), n)
		case k < 9:
			head("X", "cpu_op", ops[r.IntN(len(ops))], 90_000)
			b = fmt.Appendf(b, `"External id": %d,"Record function id": 0, "Concrete Inputs": ["[%d, %d]", "6", "0", "", "False", ""], "Input type": ["ScalarList", "Scalar", "Scalar", "c10::BFloat16", "Scalar", "Scalar"], "Input Strides": [[], [], [], [%d, 1], [], []], "Input Dims": [[], [], [], [%d, %d], [], []], "Ev Idx": %d`, n, r.IntN(4096), r.IntN(4096), r.IntN(4096), r.IntN(4096), r.IntN(4096), n)
		case k < 17:
			head("X", "python_function", fmt.Sprintf("/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module_%d.py(%d): _call_impl", r.IntN(40), r.IntN(2000)), 9_000_000)
			b = fmt.Appendf(b, `"Python parent id": %d, "Python id": %d, "Ev Idx": %d`, n/2, n, n)
		default:
			head("X", "kernel", "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_64x3_tn_align8>(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_64x3_tn_align8::Params)", 9_000_000)
			b = fmt.Appendf(b, `"External id": %d,"queued": 0, "device": 0, "context": 1,
      "stream": 7, "correlation": %d,
      "registers per thread": 230, "shared memory": 98304, "blocks per SM": 1.939394, "warps per SM": 7.757576,
      "grid": [%d, 8, 1], "block": [128, 1, 1], "est. achieved occupancy %%": 12`, n, n, r.IntN(512))
		}
		b = append(b, "\n    }\n  }"...)
	}
	return append(b, "\n  ],\n  \"traceName\": \"trace.json\"\n}\n"...)
}
