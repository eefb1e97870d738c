package scan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// trace makes a trace as the PyTorch profiler writes it, of about size bytes.
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

// cpu is the processor time that this program, or its children, used so far.
func cpu(who int) time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(who, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkScan reads every event of a generated trace. x-encoding/json and
// x-python-json are how many times the processor time encoding/json's Decoder
// and Python's json.load take for the same bytes, measured in this run.
func BenchmarkScan(b *testing.B) {
	data := trace(60_000_000)
	for _, layout := range []struct {
		name string
		data func() []byte
	}{{"indented", func() []byte { return data }}, {"compact", func() []byte {
		var c bytes.Buffer
		json.Compact(&c, data)
		return c.Bytes()
	}}} {
		b.Run(layout.name, func(b *testing.B) { benchmark(b, layout.data()) })
	}
}

func benchmark(b *testing.B, data []byte) {
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	events := 0
	handler := Handler{Event: func(*Event) { events++ }}
	before := cpu(syscall.RUSAGE_SELF)
	for b.Loop() {
		if t, err := Scan(bytes.NewReader(data), handler); err != nil || len(t.List) > 0 {
			b.Fatal(t, err)
		}
	}
	b.StopTimer()
	once := float64(cpu(syscall.RUSAGE_SELF)-before) / float64(b.N)
	b.ReportMetric(once/float64(events/b.N), "ns/event")
	before = cpu(syscall.RUSAGE_SELF)
	decode(b, data)
	b.ReportMetric(float64(cpu(syscall.RUSAGE_SELF)-before)/once, "x-encoding/json")
	if took := python(b, data); took > 0 {
		b.ReportMetric(float64(took)/once, "x-python-json")
	}
}

// decode reads a trace with encoding/json, one event at a time.
func decode(b *testing.B, data []byte) {
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		t, err := dec.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			b.Fatal(err)
		}
		if t != "traceEvents" {
			continue
		}
		dec.Token()
		for dec.More() {
			var e struct {
				Ph, Cat, Name string
				PID, TID      any
				TS, Dur       json.Number
				Args          struct {
					Bytes     int64
					Total     int64 `json:"Total Allocated"`
					Reserved  int64 `json:"Total Reserved"`
					Device    int64 `json:"Device Id"`
					Kind      int64 `json:"Device Type"`
					Addr      uint64
					EvIdx     int64           `json:"Ev Idx"`
					Parent    int64           `json:"Python parent id"`
					ID        int64           `json:"Python id"`
					Dims      json.RawMessage `json:"Input Dims"`
					InputType json.RawMessage `json:"Input type"`
				}
			}
			if err := dec.Decode(&e); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// python is the processor time of json.load, 0 without Python.
func python(b *testing.B, data []byte) time.Duration {
	if _, err := exec.LookPath("python3"); err != nil {
		return 0
	}
	name := filepath.Join(b.TempDir(), "trace.json")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		b.Fatal(err)
	}
	out, err := exec.Command("python3", "-c", "import json,sys,time\nt=time.process_time()\njson.load(open(sys.argv[1]))\nprint(time.process_time()-t)", name).Output()
	if err != nil {
		return 0
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(seconds * float64(time.Second))
}
