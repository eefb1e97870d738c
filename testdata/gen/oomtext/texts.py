"""Writes ../../oomtext/{versions,xla,wrapped}.log and their truths: texts of failed allocations, composed from the format strings of
the programs that print them, with figures that are made up here. The truth is written before any reader sees the text.

Format strings: c10/cuda/CUDACachingAllocator.cpp, c10/cuda/CUDAMallocAsyncAllocator.cpp, c10/xpu/XPUCachingAllocator.cpp,
aten/src/ATen/mps/MPSAllocator.mm of github.com/pytorch/pytorch; NPUCachingAllocator.cpp of github.com/Ascend/pytorch;
src/include/alloc.h of github.com/NVIDIA/nccl; xla/stream_executor/integrations/tf_allocator_adapter.cc and
xla/service/buffer_assignment.cc of github.com/openxla/xla; tensorflow/core/common_runtime/gpu/gpu_cudamallocasync_allocator.cc of
github.com/tensorflow/tensorflow.
"""
import json, os

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../oomtext/")
K, M, G = 1 << 10, 1 << 20, 1 << 30


class Size:
    """A size as a program prints it, and how far the print may be from it."""

    def __init__(self, text):
        self.text = text
        digits, unit = text.split(" ") if " " in text else (text.rstrip("KMGTiB"), text.lstrip("0123456789."))
        factor = {"b": 1, "": 1, "k": K, "m": M, "g": G, "t": 1 << 40}[unit[:1].lower()]
        self.bytes = round(float(digits) * factor)
        self.tol = 0 if factor == 1 else factor * 10 ** -len(digits.partition(".")[2]) / 2

    def __str__(self):
        return self.text


def figure(*sizes):
    """The sum of sizes as [bytes, tolerance]; a size with a minus sign is subtracted."""
    total, tol = 0, 0
    for s in sizes:
        sign = -1 if isinstance(s, tuple) else 1
        s = s[0] if isinstance(s, tuple) else s
        total, tol = total + sign * s.bytes, tol + s.tol
    return [total, int(tol) + 1]


class Log:
    def __init__(self):
        self.lines, self.truth = [], []

    def noise(self, n=3):
        for i in range(n):
            self.lines.append(f"node {len(self.lines)} of 1{i}: memory is fine, allocated 10.2 GB")

    def add(self, text, lines=1, **truth):
        """lines: how many of the last ones precede the text."""
        self.noise()
        self.lines += text.split("\n")
        truth["line"] = len(self.lines) - text.count("\n") + lines - 1
        self.truth.append(truth)

    def write(self, name):
        with open(OUT + name + ".log", "w") as f:
            f.write("\n".join(self.lines) + "\n")
        with open(OUT + name + ".truth.json", "w") as f:
            json.dump(self.truth, f, indent=1)
            f.write("\n")


S = Size
TRACE = 'Traceback (most recent call last):\n  File "train.py", line 88, in <module>\n    main()\n  File "train.py", line 61, in main\n    loss = model(batch).loss\n' \
        '  File "/opt/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 116, in forward\n    return F.linear(input, self.weight, self.bias)\n'
HINT = " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management"


def old(log, r, t, a, f, c, word, reason, prefix="RuntimeError: CUDA", unit="GPU", active="", allowed=None, trace=TRACE, tail=""):
    r, t, a, f, c = S(r), S(t), S(a), S(f), S(c)
    limit = f" {allowed} allowed;" if allowed else ""
    log.add(f"{trace}{prefix} out of memory. Tried to allocate {r} ({unit} 1; {t} total capacity; {a} already allocated;{active} {f} free;{limit} {c} {word}){tail}",
            lines=trace.count("\n") + 1, device=prefix.split()[-1].lower() + ":1", requested=figure(r), capacity=figure(t), free=figure(f), live=figure(a),
            limit=figure(S(allowed)) if allowed else None,
            reserved=figure(a, c) if word == "cached" else figure(c), unallocated=figure(c) if word == "cached" else figure(c, (a,)), reason=reason,
            requester="main (train.py:61)" if trace else None)


def new(log, r, t, f, x, n, reason, prefix="torch.OutOfMemoryError: CUDA", capacity="capacity", processes="", y=None, trace=TRACE, gpu=0, others=None, outside=None, hint=HINT, allowed=None,
        write=None):
    r, t, x, n = S(r), S(t), S(x), S(n)
    free = f" of which {f} is free" if f else ""
    pools = f" with {y} allocated in private pools (e.g., CUDA Graphs)," if y else ""
    limit = f"{allowed} allowed; " if allowed else ""
    text = f"{prefix} out of memory. Tried to allocate {r}. GPU {gpu} has a total {capacity} of {t}{free}. {processes}{limit}Of the allocated memory {x} is allocated by PyTorch,{pools} and {n} is reserved by PyTorch but unallocated.{hint}"
    (write or log.add)(trace + text, lines=trace.count("\n") + 1, device=f"{prefix.split()[-1].lower()}:{gpu}", requested=figure(r), capacity=figure(t), free=figure(S(f)) if f else None,
                       live=figure(x, (S(y),)) if y else figure(x), pools=figure(S(y)) if y else None, reserved=figure(x, n), unallocated=figure(n), limit=figure(S(allowed)) if allowed else None,
                       others=figure(*map(S, others)) if others is not None else None, outside=outside and figure(S(outside), (x,), (n,)), reason=reason,
                       requester="main (train.py:61)" if trace else None)


def versions():
    log = Log()
    # 1.0 to 1.3: what is cached is not allocated.
    old(log, "1.50 GiB", "7.79 GiB", "5.64 GiB", "1.12 GiB", "31.25 MiB", "cached", "exhausted", tail=" (malloc at /opt/conda/conda-bld/pytorch_1556653114079/work/c10/cuda/CUDACachingAllocator.cpp:267)")
    old(log, "1.50 GiB", "7.79 GiB", "3.64 GiB", "212.00 MiB", "3.01 GiB", "cached", "fragmented", trace="")
    # 1.4 to 2.0
    old(log, "256.00 MiB", "3.95 GiB", "3.02 GiB", "61.44 MiB", "3.14 GiB", "reserved in total by PyTorch", "exhausted")
    old(log, "20.00 MiB", "11.17 GiB", "4.05 GiB", "6.44 GiB", "4.14 GiB", "reserved in total by PyTorch", "not_granted", trace="",
        tail=" If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.")
    old(log, "512.00 MiB", "15.78 GiB", "3.66 GiB", "11.05 GiB", "3.81 GiB", "reserved in total by PyTorch", "limit", allowed="3.94 GiB", trace="")
    old(log, "2.21 GiB", "60.96 GiB", "40.15 GiB", "1.12 GiB", "55.75 GiB", "reserved in total by PyTorch", "fragmented", prefix="RuntimeError: NPU", unit="NPU", active=" 40.15 GiB current active;", trace="")
    # 2.1 and later
    new(log, "64.00 GiB", "15.77 GiB", "9.02 GiB", "5.11 GiB", "463.48 MiB", "larger_than_device", capacity="capacty", prefix="torch.cuda.OutOfMemoryError: CUDA")
    new(log, "3.00 GiB", "23.65 GiB", "1.44 GiB", "20.90 GiB", "194.87 MiB", "exhausted", processes="Including non-PyTorch memory, this process has 22.20 GiB memory in use. ", outside="22.20 GiB", others=[])
    new(log, "3.00 GiB", "23.65 GiB", "1.44 GiB", "9.90 GiB", "194.87 MiB", "other_process", others=["11.20 GiB"], outside="11.00 GiB",
        processes="Process 4121 has 11.20 GiB memory in use. Including non-PyTorch memory, this process has 11.00 GiB memory in use. ")
    # In a container the process does not know its own number.
    new(log, "2.00 MiB", "47.53 GiB", "1.31 MiB", "46.50 GiB", "140.10 MiB", "private_pools", y="44.02 GiB", processes="Process 1686436 has 47.21 GiB memory in use. ", outside="47.21 GiB", others=[])
    new(log, "6.00 GiB", "79.19 GiB", "812.00 MiB", "61.00 GiB", "15.50 GiB", "fragmented", processes="Including non-PyTorch memory, this process has 77.10 GiB memory in use. ", outside="77.10 GiB", others=[], gpu=3)
    new(log, "1.00 GiB", "16.00 GiB", "10.11 GiB", "3.71 GiB", "90.00 MiB", "limit", allowed="4.00 GiB", trace="")
    new(log, "1.00 GiB", "8.00 GiB", "0 bytes", "19.44 GiB", "3.16 MiB", "exhausted", trace="")  # Windows moved memory to the host
    new(log, "432.00 MiB", "15.92 GiB", "7.12 GiB", "8.08 GiB", "321.96 MiB", "not_granted", prefix="torch.OutOfMemoryError: HIP", trace="", hint="")
    new(log, "1.50 GiB", "15.91 GiB", None, "14.02 GiB", "412.00 MiB", "exhausted", prefix="torch.OutOfMemoryError: XPU", trace="",
        hint=" Please use `empty_cache` to release all unoccupied cached memory.")
    log.add("RuntimeError: MPS backend out of memory (MPS allocated: 7.23 GB, other allocations: 1.54 GB, max allowed: 9.07 GB). Tried to allocate 896.00 MB on private pool.",
            device="mps", requested=figure(S("896.00 MB")), live=figure(S("7.23 GB")), limit=figure(S("9.07 GB")), outside=figure(S("1.54 GB")), reason="limit", requester=None)
    log.add("torch.OutOfMemoryError: Allocation on device 2 would exceed allowed memory. (out of memory)\nCurrently allocated     : 13.74 GiB\nRequested               : 640.00 MiB\n"
            "Device limit            : 14.75 GiB\nFree (according to CUDA): 27.06 MiB\nPyTorch limit (set by user-supplied memory fraction)\n                        : 17179869184.00 GiB",
            device="cuda:2", requested=figure(S("640.00 MiB")), capacity=figure(S("14.75 GiB")), free=figure(S("27.06 MiB")), live=figure(S("13.74 GiB")), outside=figure(S("14.75 GiB"), (S("13.74 GiB"),), (S("27.06 MiB"),)), reason="exhausted", requester=None)
    log.add("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.", device="cuda", reason="larger_than_device", requester=None)
    log.add("RuntimeError: [enforce fail at alloc_cpu.cpp:73] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 116813856768 bytes. Error code 12 (Cannot allocate memory)",
            device="cpu", requested=[116813856768, 0], reason="host", requester=None)
    log.add("node-a:3063028:3066152 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n\nnode-a:3063028:3066152 [3] include/alloc.h:185 NCCL WARN Failed to CUDA calloc 6291456 bytes",
            device="cuda:3", requested=[6291456, 0], reason="outside", requester="NCCL")
    log.add(TRACE + "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", lines=8, device="cuda", reason="outside", requester="main (train.py:61)")
    # The end was cut off: what is there is used.
    log.add("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 4 has a total capacity of 79.10 GiB of wh", device="cuda:4", requested=figure(S("2.00 GiB")),
            capacity=figure(S("79.10 GiB")), reason="unknown", requester=None)
    log.write("versions")


def xla():
    log = Log()
    stats = """RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9031036208 bytes.
BufferAssignment OOM Debugging.
BufferAssignment stats:
             parameter allocation:    2.78GiB
              constant allocation:    38.6KiB
        maybe_live_out allocation:  436.99MiB
     preallocated temp allocation:    8.41GiB
                 total allocation:   11.62GiB
              total fragmentation:  324.96MiB (2.73%)
Peak buffers:
	Buffer 1:
		Size: 1.52GiB
		Operator: op_name="jit(step)/jit(main)/model/layer_norm/reduce_sum[axes=(2,)]" source_file="/app/model.py" source_line=1446
		XLA Label: fusion
		Shape: f32[5120,1248,64]
		==========================

	Buffer 2:
		Size: 384.0MiB
		Entry Parameter Subshape: f32[256,131072,3]
		==========================
"""
    log.add(stats, device="gpu", requested=[9031036208, 0], needed=figure(S("11.62GiB")), reason="exhausted", requester=None,
            buffers=[{"bytes": figure(S("1.52GiB")), "shape": "f32[5120,1248,64]", "op": "jit(step)/jit(main)/model/layer_norm/reduce_sum[axes=(2,)]"},
                     {"bytes": figure(S("384.0MiB")), "shape": "f32[256,131072,3]", "op": "parameter"}])
    log.add("RuntimeError: Resource exhausted: Failed to allocate request for 32.00MiB (33554432B) on device ordinal 2", device="gpu:2", requested=[33554432, 0], reason="unknown", requester=None)
    log.add("XlaRuntimeError: RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 4.39G. That was not possible. There are 2.30G free.; (0x1x0_HBM0)",
            device="tpu:0x1x0", requested=figure(S("4.39G")), free=figure(S("2.30G")), reason="exhausted", requester=None)
    log.add("XlaRuntimeError: RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 1.39G. That was not possible. There are 2.30G free.; (0x0x0_HBM0)",
            device="tpu:0x0x0", requested=figure(S("1.39G")), free=figure(S("2.30G")), reason="fragmented", requester=None)
    log.add("XlaRuntimeError: RESOURCE_EXHAUSTED: Error loading program 'jit_step': Attempting to reserve 29.49G at the bottom of memory. That was not possible. There are 147.64M free, 0B reserved, and 147.64M reservable.",
            device="tpu", requested=figure(S("29.49G")), free=figure(S("147.64M")), largest=figure(S("147.64M")), reason="exhausted", requester="load the program")
    log.add("ValueError: Allocation (size=21474836480) would exceed memory (size=17179869184) :: #allocation14167 [shape = 'f32[320,4096,4096]{1,2,0:T(8,128)}', space=hbm, size = 0xffffffffffffffff, tag = 'output of fusion.3@{}'] :: <no-hlo-instruction>",
            device="tpu", requested=[21474836480, 0], capacity=[17179869184, 0], reason="larger_than_device", requester=None,
            buffers=[{"bytes": [21474836480, 0], "shape": "f32[320,4096,4096]{1,2,0:T(8,128)}", "op": ""}])
    padded = """XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 17.60G of 15.75G hbm. Exceeded hbm capacity by 1.85G.

Total hbm usage >= 17.85G:
    reserved        258.00M 
    program          17.10G 
    arguments       512.00M 

Output size 0B; shares 0B with arguments.

Program hbm requirement 17.10G:
    HLO temp         17.10G (12.5% utilization: Unpadded (2.14G) Padded (17.10G), 0.0% fragmentation (1.0K))

  Largest program allocations in hbm:

  1. Size: 16.00G
     Operator: op_name="jit(one_hot)/jit(main)/eq" source_file="/app/one_hot.py" source_line=12
     Shape: f32[8192,32768,16]{2,1,0:T(8,128)}
     Unpadded size: 2.00G
     Extra memory due to padding: 14.00G (8.0x expansion)
     XLA label: fusion.3 = fusion(iota), kind=kLoop, calls=fused_computation
     Allocation type: HLO temp
     ==========================
"""
    log.add(padded, device="tpu", needed=figure(S("17.60G")), capacity=figure(S("15.75G")), exceeded=figure(S("1.85G")), reason="padding", requester=None,
            buffers=[{"bytes": figure(S("16.00G")), "padding": figure(S("14.00G")), "shape": "f32[8192,32768,16]{2,1,0:T(8,128)}", "op": "jit(one_hot)/jit(main)/eq"}])
    log.add("W tensorflow/core/common_runtime/bfc_allocator.cc:217] Ran out of memory trying to allocate 1.09GiB. The caller indicates that this is not a failure, but may mean that there could be performance gains if more memory is available.",
            device="gpu", requested=figure(S("1.09GiB")), reason="survived", requester=None)
    driver = "\n".join(f"2019-07-21 23:26:35.0{i}0216: E tensorflow/stream_executor/cuda/cuda_driver.cc:828] failed to allocate {n / M:.2f}M ({n} bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory"
                       for i, n in enumerate([167444480, 150700032, 135630080, 122067200]))
    log.add(driver, device="gpu", requested=[167444480, 0], reason="not_granted", requester="enlarge the pool", times=4)
    sizes = {512: 8, 1 * M: 24, 32 * M: 12}
    live, reserved = sum(size * n for size, n in sizes.items()), 512 * M
    pool = ["70] Histogram of current allocation: (allocation_size_in_bytes, nb_allocation_of_that_sizes), ...;"] + [f"73] {size}, {n}" for size, n in sizes.items()]
    pool += [f"103] CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: {reserved}", f"105] CU_MEMPOOL_ATTR_USED_MEM_CURRENT: {live}",
             f"106] CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: {reserved}", f"108] CU_MEMPOOL_ATTR_USED_MEM_HIGH: {live}"]
    log.add("\n".join(f"E0412 09:12:31.00000{i} 4021 gpu_cudamallocasync_allocator.cc:{line}" for i, line in enumerate(pool)),
            device="gpu", live=[live, 0], reserved=[reserved, 0], unallocated=[reserved - live, 0], reason="unknown", requester=None)
    log.write("xla")


def wrapped():
    """Two ranks at once, in colour, with time stamps, wrapped at 76 columns, printed twice by the first."""
    log, streams = Log(), {0: [], 1: []}
    truths = []

    def write(rank):
        def add(text, **truth):
            for line in text.split("\n"):
                cut = [""]
                for word in line.split(" ") if "out of memory" in line else [line]:
                    if cut[-1] and len(cut[-1]) + len(word) > 76:
                        cut.append("")
                    cut[-1] += (" " if cut[-1] else "") + word
                if len(cut) > 1:
                    truth["at"] = len(streams[rank])
                streams[rank] += [f"\x1b[31m2026-05-13T19:31:02.{350 + i}Z [rank{rank}]: {c}\x1b[0m" for i, c in enumerate(cut)]
            truth["rank"] = rank
            truths.append(truth)
        return add

    for rank, live in (0, "77.59 GiB"), (1, "70.10 GiB"):
        new(log, "12.00 MiB", "79.25 GiB", "8.94 MiB", live, "17.18 MiB", {0: "exhausted", 1: "outside"}[rank], gpu=rank, write=write(rank))
    streams[0] += streams[0][truths[0]["at"]:]
    log.noise()
    i = [0, 0]
    while i[0] < len(streams[0]) or i[1] < len(streams[1]):
        for rank in 0, 1:
            for _ in range(1 + rank):
                if i[rank] < len(streams[rank]):
                    log.lines.append(streams[rank][i[rank]])
                    if i[rank] == truths[rank]["at"]:
                        truths[rank]["line"] = len(log.lines)
                    i[rank] += 1
        log.noise(1)
    log.truth = sorted(truths, key=lambda t: t["line"])
    truths[0]["times"] = 2
    for t in truths:
        del t["at"], t["lines"]
    log.write("wrapped")


versions()
xla()
wrapped()
