"""big_trace.py MB OUT.json: a large trace as torch.profiler writes it, from a seed, without PyTorch. One event in twenty is a
[memory] event; operators and Python calls nest."""
import random
import sys

megabytes, out = int(sys.argv[1]), sys.argv[2]
r = random.Random(1)
ops = ["aten::empty", "aten::addmm", "aten::linear", "aten::copy_", "aten::mul", "aten::native_layer_norm", "aten::transpose"]
f = open(out, "w")
f.write('{\n  "schemaVersion": 1,\n  "profile_memory": 1, "with_stack": 1, "record_shapes": 1,\n  "displayTimeUnit": "ms",\n'
        '  "baseTimeNanoseconds": 1752000000000000000,\n  "traceEvents": [')
written = live = number = 0
now, addr, blocks, first = 5_000_000_000, 139_800_000_000_000, [], True


def event(ph, cat, name, ns, dur, args):
    global written, first
    s = "" if first else ","
    first = False
    s += f'\n  {{\n    "ph": "{ph}", "cat": "{cat}", "name": "{name}", "pid": 48211, "tid": 48211,\n    "ts": {ns // 1000}.{ns % 1000:03d}'
    if dur is not None:
        s += f', "dur": {dur // 1000}.{dur % 1000:03d}'
    s += ",\n    \"args\": {\n      " + args + "\n    }\n  }"
    written += f.write(s)


def memory(ns):
    global live, addr
    if blocks and (len(blocks) > 4000 or r.random() < 0.5):
        i = r.randrange(len(blocks))
        blocks[i], blocks[-1] = blocks[-1], blocks[i]
        a, size = blocks.pop()
        size = -size
    else:
        size = 512 << r.randrange(18)
        addr += size
        a = addr
        blocks.append((a, size))
    live += size
    event("i", "cpu_instant_event", "[memory]", ns, None,
          f'"Total Reserved": {live + (1 << 30)}, "Total Allocated": {live}, "Bytes": {size}, "Addr": {a}, "Device Id": 0, "Device Type": 1, "Ev Idx": {number}')


while written < megabytes * 1_000_000:
    # One call of a module: a chain of Python functions, in it operators, in some of them an allocation.
    depth, length = r.randrange(4, 12), 400_000
    parent = 0
    for d in range(depth):
        number += 1
        event("X", "python_function", f"model/layers/block_{r.randrange(40)}.py({d * 37}): forward_{r.randrange(30)}", now + d * 100, length - d * 300,
              f'"Python parent id": {parent or "null"}, "Python id": {number}, "Ev Idx": {number}')
        parent = number
    at = now + depth * 100
    for _ in range(depth):
        number += 1
        n = r.randrange(1, 4096)
        event("X", "cpu_op", r.choice(ops), at, 9_000,
              f'"External id": {number},"Record function id": 0, "Concrete Inputs": ["", "", ""], "Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar"], '
              f'"Input Strides": [[{n}, 1], [1, {n}], []], "Input Dims": [[128, {n}], [{n}, 128], []], "Ev Idx": {number}')
        if r.random() < 0.1:
            memory(at + 4_000)
        event("X", "kernel", "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_64x3_tn_align8>(Params)", at + 2_000, 30_000,
              f'"External id": {number},"queued": 0, "device": 0, "context": 1,\n      "stream": 7, "correlation": {number},\n      "grid": [{n}, 8, 1], "block": [128, 1, 1]')
        at += 10_000
    now += length + 1_000
f.write('\n  ],\n  "traceName": "trace.json"\n}\n')
