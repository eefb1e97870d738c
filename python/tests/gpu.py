"""Compares memlane with the allocator's own counters, on the device that is there: python python/tests/gpu.py [--out DIR] [--jax] [PROGRAM...]

Each program runs in a process of its own, records itself from its first allocation, and writes what it knows without memlane: the counters of
torch.cuda.memory_stats, the names of its tensors, what is freed when it clears a list, the averages of the profiler. Over a CUDA runtime that only
counts memory, programs that need real kernels are left out. It ends with status 1 if a figure that must be equal differs.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import gc
import importlib.util
import io
import json
import os
import re
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Iterator

MOST = 15 << 20  # bytes of the captures that --out keeps
STEPS = 20
PROGRAMS: dict[str, tuple[Callable[[Truth], None], dict[str, str]]] = {}
KERNELS = ("compile", "graphs", "ddp")  # need a real device


class Truth:
    """What a program knows of itself."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.facts: dict[str, Any] = {"names": {}, "exact": {}}

    def name(self, tensor: Any, *names: str) -> None:
        """Says which names of a tensor are right. Views share the names of their storage."""
        storage = tensor.untyped_storage()
        if storage.nbytes():
            known = self.facts["names"].setdefault(str(storage.data_ptr()), [storage.nbytes(), []])
            known[1] += names

    def training(self, model: Any, optimizer: Any, *called: str) -> None:
        """Names parameters, gradients, and the states of an optimizer."""
        for name, p in model.named_parameters():
            full = [f"{c}.{name}" for c in called]
            self.name(p, *full)
            if p.grad is not None:
                self.name(p.grad, *(f"{f}.grad" for f in full))
            for key, state in optimizer.state[p].items() if optimizer is not None else ():
                if hasattr(state, "device") and state.device.type == "cuda":
                    self.name(state, *(f"{key} of {f}" for f in full))
        for name, b in model.named_buffers():
            self.name(b, *(f"{c}.{name}" for c in called))

    @contextlib.contextmanager
    def recording(self, **options: Any) -> Iterator[Any]:
        import memlane
        from memlane import _names

        if not real():
            _names.SECONDS = 60  # such machines are slow, and the time is not what is measured
        with memlane.record(self.folder, **options) as recorder:
            yield recorder

    def end(self, recorder: Any) -> None:
        """Keeps the counters, and dumps."""
        import torch

        torch.cuda.synchronize()
        self.facts["stats"] = torch.cuda.memory_stats()
        self.facts["capture"] = recorder.dump("end")

    def freed_by(self, what: str, clear: Callable[[], Any]) -> None:
        """Measures what only one variable holds. The recording must have ended."""
        import torch

        gc.collect()
        before = torch.cuda.memory_allocated()
        clear()
        gc.collect()
        self.facts["freed"] = [what, before - torch.cuda.memory_allocated()]

    def write(self) -> None:
        Path(self.folder, "truth.json").write_text(json.dumps(self.facts))


def program(conf: str = "", **env: str) -> Callable[[Callable[[Truth], None]], Callable[[Truth], None]]:
    def add(run: Callable[[Truth], None]) -> Callable[[Truth], None]:
        PROGRAMS[run.__name__] = run, {"PYTORCH_CUDA_ALLOC_CONF": conf, **env}
        return run

    return add


def network(depth: int = 4, width: int = 512) -> Any:
    """Returns a small language model."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any, past: Any = None) -> Any:
            q, k, v = (t.unflatten(-1, (8, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
            if past is not None:
                past.append((torch.cat([past[-1][0], k], 2), torch.cat([past[-1][1], v], 2)) if past else (k.contiguous(), v.contiguous()))
                del past[:-1]
                k, v = past[-1]
            a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=past is None)
            x = x + self.out(a.transpose(1, 2).flatten(-2))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.blocks, self.head = nn.Embedding(8192, width), nn.ModuleList(Block() for _ in range(depth)), nn.Linear(width, 8192)
            self.checkpointed = False

        def forward(self, x: Any, caches: Any = None) -> Any:
            x = self.embed(x)
            for i, block in enumerate(self.blocks):
                if self.checkpointed:
                    x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
                else:
                    x = block(x, caches[i] if caches else None)
            return self.head(x)

    return Network().cuda()


def batch(size: int = 8, length: int = 256) -> Any:
    import torch

    return torch.zeros(size, length, dtype=torch.long, device="cuda")


def loss_of(model: Any, x: Any) -> Any:
    import torch

    return torch.nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())


def train(truth: Truth, size: int = 8) -> None:
    import torch

    with truth.recording() as recorder:
        model = network()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(STEPS):
            optimizer.zero_grad()
            x = batch(size)
            loss = loss_of(model, x)
            loss.backward()
            optimizer.step()
        truth.training(model, optimizer, "model")
        truth.name(x, "x")
        truth.name(loss, "loss")
        truth.end(recorder)


@program()
def training(truth: Truth) -> None:
    train(truth)


@program()
def training_twice(truth: Truth) -> None:
    """What training needs with twice the batch."""
    train(truth, 16)


@program("expandable_segments:True")
def amp(truth: Truth) -> None:
    import torch

    with truth.recording() as recorder:
        model = network()
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9), torch.amp.GradScaler("cuda")
        for _ in range(STEPS):
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = loss_of(model, batch())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        truth.training(model, optimizer, "model")
        truth.name(loss, "loss")
        truth.name(scaler._scale, "scaler._scale")
        truth.end(recorder)


@program("max_split_size_mb:64")
def checkpoint(truth: Truth) -> None:
    import torch

    with truth.recording() as recorder:
        model = network(8)
        model.checkpointed = True
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss_of(model, batch()).backward()
            optimizer.step()
        truth.training(model, optimizer, "model")
        truth.end(recorder)


@program("roundup_power2_divisions:8")
def inference(truth: Truth) -> None:
    import torch

    with truth.recording() as recorder, torch.inference_mode():
        model = network().half()
        caches: list[Any] = [[] for _ in model.blocks]
        token = batch(8, 128)
        for _ in range(3 * STEPS):
            token = model(token, caches)[:, -1:].argmax(-1).clamp(0, 1)
        truth.training(model, None, "model")
        truth.name(token, "token")
        for i, cache in enumerate(caches):
            for j in (0, 1):
                truth.name(cache[0][j], f"caches[{i}][0][{j}]", *([f"cache[0][{j}]"] if i + 1 == len(caches) else []))
        truth.end(recorder)
    truth.freed_by("caches", caches.clear)


@program()
def compile(truth: Truth) -> None:
    import torch

    with truth.recording() as recorder:
        model = network(2)
        compiled = torch.compile(model)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss_of(compiled, batch()).backward()
            optimizer.step()
        truth.training(model, optimizer, "model", "compiled._orig_mod")
        truth.end(recorder)


@program()
def streams(truth: Truth) -> None:
    import torch

    with truth.recording() as recorder:
        side = torch.cuda.Stream()
        kept: collections.deque[Any] = collections.deque(maxlen=3)
        for _ in range(STEPS):
            a = torch.zeros(1 << 22, device="cuda")
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                b = a * 2
                torch.mm(b.view(2048, 2048), b.view(2048, 2048))
                a.record_stream(side)
                kept.append(b)
            del a
        for i, t in enumerate(kept):
            truth.name(t, f"kept[{i}]", "b")
        truth.end(recorder)


@program()
def graphs(truth: Truth) -> None:
    import torch

    with truth.recording() as recorder:
        model, x = network(2), batch()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                loss_of(model, x).backward()
        torch.cuda.current_stream().wait_stream(side)
        model.zero_grad()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = loss_of(model, x)
            loss.backward()
        for _ in range(STEPS):
            graph.replay()
        truth.training(model, None, "model")
        truth.name(x, "x")
        truth.name(loss, "loss")
        truth.end(recorder)


def limit(truth: Truth, to: int) -> None:
    """Leaves to bytes of the device to this process."""
    import torch

    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(to / total)
    truth.facts["tune"] = ["--capacity", str(total), "--fraction", repr(to / total)]


@program()
def oom(truth: Truth) -> None:
    import torch

    with truth.recording() as recorder:
        limit(truth, 2 << 30)
        model = network()
        optimizer = torch.optim.AdamW(model.parameters())
        history: list[Any] = []

        def grow() -> None:
            for _ in range(1000):
                history.append(loss_of(model, batch()))

        try:
            grow()
        except torch.cuda.OutOfMemoryError as error:
            stats = torch.cuda.memory_stats()
            truth.facts["failure"] = [stats["allocated_bytes.all.current"], stats["reserved_bytes.all.current"], 2 << 30]
            Path(truth.folder, "oom.txt").write_text(f"torch.OutOfMemoryError: {error}\n")
        history.clear()
        truth.training(model, optimizer, "model")
        truth.end(recorder)


@program()
def retries(truth: Truth) -> None:
    import torch

    with truth.recording() as recorder:
        limit(truth, 1 << 30)
        for mib in range(100, 700, 50):  # nothing that is cached is large enough, and then the device is full: the allocator frees its cache and tries again
            torch.empty(mib << 20, dtype=torch.uint8, device="cuda").zero_()
        truth.end(recorder)


@program()
def leak(truth: Truth) -> None:
    import torch

    with truth.recording() as recorder:
        model = network(2)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        history: list[Any] = []
        for _ in range(STEPS):
            x = batch(2)
            optimizer.zero_grad()
            loss = loss_of(model, x)
            loss.backward()
            optimizer.step()
            history.append(loss_of(model, x))
        truth.training(model, optimizer, "model")
        truth.facts["leak"] = "history"
        truth.end(recorder)
    truth.freed_by("history", history.clear)


@program()
def profile(truth: Truth) -> None:
    import torch
    from torch.profiler import ProfilerActivity

    with truth.recording() as recorder:
        model = network()
        optimizer = torch.optim.AdamW(model.parameters())
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if real() else [])]
        with torch.profiler.profile(activities=activities, profile_memory=True, record_shapes=True, with_stack=True) as profiler:
            for _ in range(2):
                optimizer.zero_grad()
                loss_of(model, batch()).backward()
                optimizer.step()
            torch.cuda.synchronize()
        truth.training(model, optimizer, "model")
        truth.end(recorder)
    profiler.export_chrome_trace(os.path.join(truth.folder, "trace.json"))
    averages = truth.facts["averages"] = {}
    for e in profiler.key_averages():
        if e.device_type == torch.autograd.DeviceType.CPU:
            averages[e.key] = [e.count, e.self_device_memory_usage, e.device_memory_usage, e.self_cpu_memory_usage, e.self_cpu_time_total]


@program()
def modules(truth: Truth) -> None:
    """Which module runs at each allocation, and what it costs to record that."""
    import torch

    def step() -> None:
        optimizer.zero_grad()
        loss_of(model, batch()).backward()
        optimizer.step()

    model = network(12)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for i in range(12):
        marked = i % 2 == 1
        with truth.recording(modules=marked, names=False):
            step()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(STEPS // 2):
                step()
            torch.cuda.synchronize()
            seconds[marked].append((time.perf_counter() - begin) / (STEPS // 2))
    truth.facts["cost"] = [min(seconds[True]), min(seconds[False])]
    with truth.recording(modules=True) as recorder:
        begun = torch.cuda.memory_stats()["allocation.all.allocated"]
        called: list[Any] = [[0, ""]]  # the module that runs from an allocation on
        truth.facts["modules"], open_ = called, [""]
        names = {m: f"Network.{n}" if n else "Network" for n, m in model.named_modules()}

        def now(name: str) -> None:
            called.append([torch.cuda.memory_stats()["allocation.all.allocated"] - begun, name])

        def enter(module: Any, args: Any) -> None:
            open_.append(names[module])
            now(open_[-1])

        def leave(module: Any, args: Any, output: Any) -> None:
            open_.pop()
            now(open_[-1])

        for m in names:
            m.register_forward_pre_hook(enter)
            m.register_forward_hook(leave)
        for _ in range(3):
            step()
        truth.training(model, optimizer, "model")
        truth.end(recorder)
        truth.facts["stats"]["allocation.all.allocated"] -= begun


def ranks(truth: Truth, parallel: bool) -> None:
    import torch

    if "RANK" not in os.environ:  # the first process starts the other
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
        command = [sys.executable, __file__, "--run", "ddp" if parallel else "processes", "--out"]
        folders = [os.path.join(truth.folder, str(rank)) for rank in (0, 1)]
        others = [subprocess.Popen([*command, folder], env={**env, "RANK": str(rank)}) for rank, folder in enumerate(folders)]
        if any([p.wait() for p in others]):
            raise SystemExit("a rank failed")
        facts = [json.loads(Path(folder, "truth.json").read_text()) for folder in folders]
        truth.facts = {**facts[0], "ranks": facts}
        return
    with truth.recording() as recorder:
        model = network(2)
        if parallel:
            torch.distributed.init_process_group("gloo")
            ddp = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss_of(ddp if parallel else model, batch(4 + 4 * int(os.environ["RANK"]))).backward()
            optimizer.step()
        truth.training(model, optimizer, "model", "ddp.module")
        truth.end(recorder)
        if parallel:
            torch.distributed.destroy_process_group()


@program()
def processes(truth: Truth) -> None:
    ranks(truth, parallel=False)


@program()
def ddp(truth: Truth) -> None:
    ranks(truth, parallel=True)


def jax_training(truth: Truth) -> None:
    import jax
    import jax.numpy as jnp
    import memlane

    def initial(width: int = 1024, depth: int = 4) -> Any:
        return {f"dense_{i}": {"kernel": jnp.ones((width, width)) * 1e-3, "bias": jnp.zeros(width)} for i in range(depth)}

    def loss(params: Any, x: Any) -> Any:
        for layer in params.values():
            x = jnp.tanh(x @ layer["kernel"] + layer["bias"])
        return (x**2).mean()

    @jax.jit
    def step(params: Any, momentum: Any, x: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, x)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
        return jax.tree.map(lambda p, m: p - 0.01 * m, params, momentum), momentum, value

    device = jax.local_devices()[0]
    with memlane.record(truth.folder, framework="jax") as recorder:
        params = initial()
        momentum, cache, history = jax.tree.map(jnp.zeros_like, params), [], []
        for i in range(STEPS):
            x = jnp.full((256, 1024), float(i))
            params, momentum, value = step(params, momentum, x)
            history.append(value)
            if i % 5 == 0:
                cache.append(x)
        jax.block_until_ready((params, momentum, history))
        for tree, name in ((params, "params"), (momentum, "momentum"), (cache, "cache"), (history, "history")):
            for path, array in jax.tree_util.tree_flatten_with_path(tree)[0]:
                name_of = name + jax.tree_util.keystr(path)
                truth.facts["names"][str(array.unsafe_buffer_pointer())] = [array.nbytes, [name_of]]
        truth.facts["names"][str(x.unsafe_buffer_pointer())] = [x.nbytes, ["x"]]
        truth.facts["live"] = sum(a.nbytes for a in jax.live_arrays())
        truth.facts["jax"] = device.memory_stats()
        truth.facts["capture"] = recorder.dump("end")


def real() -> bool:
    """Reports whether the device computes. The first process has found out: programs allocate nothing before they record."""
    return "MEMLANE_COUNTS_ONLY" not in os.environ


class Rows:
    """The table."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, int | None, int | None, str]] = []
        self.wrong = 0

    def add(self, program: str, figure: str, ours: int | None, other: int | None, exact: bool = True) -> None:
        if exact and ours != other:
            self.wrong += 1
            mark = "DIFFERS"
        else:
            mark = "" if exact else "estimate"
        self.rows.append((program, figure, ours, other, mark))

    def text(self) -> str:
        lines = [f"{'program':<15} {'figure':<44} {'memlane':>16} {'real':>16} {'difference':>14}"]
        for name, figure, ours, other, mark in self.rows:
            change = "" if ours is None or other is None else f"{ours - other:+,}" if abs(ours - other) < 1 << 20 or not other else f"{ours / other - 1:+.2%}"
            shown = ("-" if n is None else f"{n:,}" for n in (ours, other))
            lines.append(f"{name:<15} {figure:<44} " + " ".join(f"{s:>16}" for s in shown) + f" {change:>14} {mark}")
        return "\n".join(line.rstrip() for line in lines)


def compare(rows: Rows, name: str, facts: dict[str, Any], conf: str) -> None:
    """Adds what memlane says of a capture and what the program knew."""
    from memlane import _program

    stats, capture = facts["stats"], facts["capture"]
    (info,) = _program.answer("info", capture)["captures"]
    (space,) = info["spaces"]
    rows.add(name, "active bytes, at the end", space["end_bytes"], stats["active_bytes.all.current"])
    rows.add(name, "allocated bytes, at the end", space["end_bytes"] - space["live"]["pending_free_bytes"], stats["allocated_bytes.all.current"])
    rows.add(name, "requested bytes, at the end", space["live"]["requested_bytes"], stats["requested_bytes.all.current"], exact=name != "streams")
    rows.add(name, "active bytes, peak", space["peak"]["bytes"], stats["active_bytes.all.peak"])
    if name != "streams":  # where PyTorch counts requests until the program frees them, memlane until the device does
        rows.add(name, "requested bytes, at the peak", space["peak"]["requested_bytes"], stats["requested_bytes.all.peak"])
    rows.add(name, "reserved bytes, at the end", space["reserved_bytes"], stats["reserved_bytes.all.current"])
    rows.add(name, "reserved bytes, peak", space["reserved_peak_bytes"], stats["reserved_bytes.all.peak"])
    rows.add(name, "allocations", space["allocations"], stats["allocation.all.allocated"])
    rows.add(name, "failed allocations", len(space["ooms"]), stats["num_ooms"])
    replay = space["replay"] or {}
    if replay.get("refused"):
        print(f"{name}: replay refused: {replay['refused']}")
    else:
        rows.add(name, "replayed addresses", replay.get("equal"), replay.get("addresses"))
        try:
            tuned = _program.answer("tune", "--set", conf or "default", *facts.get("tune", ()), capture)["settings"][0]
            rows.add(name, f"replay of {conf or 'default'}: reserved peak", tuned["peak_reserved_bytes"], stats["reserved_bytes.all.peak"])
            rows.add(name, "replay: retries", tuned["retries"], stats["num_alloc_retries"])
        except _program.NothingError as error:
            print(f"{name}: tune: {error}")
    for lost in info["losses"]:
        print(f"{name}: {lost['text']} {lost['first']}")
    buffers = live(capture)
    names(rows, name, facts["names"], buffers)
    leaks = [f for f in _program.answer("leaks", capture)["findings"] if f["leak"]]
    rows.add(name, "leaks (sites)", min(len(leaks), 1) if "leak" in facts else len(leaks), int("leak" in facts))
    if "leak" in facts:
        held = [any(facts["leak"] in h["name"] for h in f["held_by"][:1]) for f in leaks]
        rows.add(name, f"leaks held by {facts['leak']}", sum(held), len(held))
    if "freed" in facts:
        what, real_bytes = facts["freed"]
        held_by = (b for b in buffers.values() if what in (b.get("held_by") or {}).get("by", ""))
        rows.add(name, f"bytes that {what} holds", sum(b["size"] for b in held_by), real_bytes, exact=False)


def live(capture: str) -> dict[str, dict[str, Any]]:
    """Returns the buffers that are alive at the end, by address."""
    from memlane import _program

    (space,) = json.loads(_program.run("export", "--quiet", "--to", "json", "-o", "-", capture))["spaces"]
    return {str(b["addr"]): b for b in space["buffers"] if "end-open" in b["edges"] or b["end"] >= space["end"]}


def modules_right(facts: dict[str, Any]) -> tuple[int, int]:
    """Returns for how many allocations of modules memlane has the module that ran, and of how many."""
    from memlane import _program

    (space,) = json.loads(_program.run("export", "--quiet", "--to", "json", "-o", "-", facts["capture"]))["spaces"]
    allocated = [b for b in space["buffers"] if "begin-unseen" not in b["edges"]]
    right = of = 0
    for (begin, module), (end, _) in zip(facts["modules"], facts["modules"][1:]):
        for b in allocated[begin:end] if module else ():
            of += 1
            right += b["module"] == module and not b["module_inferred"]
    return right, of


def names(rows: Rows, name: str, truth: dict[str, Any], buffers: dict[str, dict[str, Any]]) -> None:
    right = wrong = unknown = 0
    for address, (size, known) in truth.items():
        said = (buffers.get(address) or {}).get("name", "")
        if said in known:
            right += size
        elif said and said != (buffers[address].get("held_by") or {}).get("by"):
            wrong += size
            print(f"{name}: {said!r} instead of {known}")
        else:
            unknown += size
    rows.add(name, "bytes named right", right, sum(size for size, _ in truth.values()), exact=False)
    rows.add(name, "bytes named wrong", wrong, 0)
    if unknown:
        print(f"{name}: {unknown:,} bytes have no name")


def further(rows: Rows, name: str, facts: dict[str, Any], folder: Path, truths: dict[str, dict[str, Any]]) -> None:
    """Compares what only some programs have."""
    from memlane import _program

    if "averages" in facts:
        ops = {o["name"]: o for o in _program.answer("ops", str(folder / "trace.json"))["captures"][0]["operations"]}
        averages = facts["averages"]
        both = [k for k in averages if k in ops]
        with_memory = [k for k, v in averages.items() if any(v[1:4])]
        rows.add(name, "operations with memory", sum(k in ops for k in with_memory), len(with_memory))
        rows.add(name, "calls of these", sum(ops[k]["calls"] for k in both), sum(averages[k][0] for k in both))
        for figure, device, field, column in (
            ("device bytes, self", "device", "self_bytes", 1), ("device bytes", "device", "bytes", 2), ("host bytes, self", "host", "self_bytes", 3),
        ):  # fmt: skip
            rows.add(name, f"{figure}: operations that are equal", sum(ops[k][device][field] == averages[k][column] for k in both), len(both))
        microseconds = [sum(ops[k]["self_time_ns"] for k in both) // 1000, round(sum(averages[k][4] for k in both))]
        rows.add(name, "self time, microseconds", *microseconds, exact=False)
    if "failure" in facts:
        (failure,) = _program.answer("oom", str(folder / "rank0_oom.pickle"))["ooms"][:1]
        for figure, ours, other in zip(("live", "reserved", "limit"), (failure["live_bytes"], failure["reserved_bytes"], failure["limit_bytes"]), facts["failure"]):
            rows.add(name, f"at the failure: {figure} bytes", ours, other, exact=figure != "limit")
        (printed,) = _program.answer("oom", str(folder / "oom.txt"))["ooms"][:1]
        rows.add(name, "request that failed: log and recording", printed["requested_bytes"], failure["requested_bytes"], exact=False)
        holders = [h["name"] for h in failure.get("held_by", ())]
        rows.add(name, "held by history: named", int(any("history" in h for h in holders)), 1, exact=False)
    if "modules" in facts:
        right, of = modules_right(facts)
        rows.add(name, "allocations in a module: recorded right", right, of)
        rows.add(name, "microseconds of a step: modules=True, False", *(round(s * 1e6) for s in facts["cost"]), exact=False)
    if name == "training" and "training_twice" in truths:
        predicted = _program.answer("whatif", "--set", "batch=2", facts["capture"])["spaces"][0]["scenarios"][-1]  # after the one without changes
        stats = truths["training_twice"]["stats"]
        rows.add(name, "whatif batch=2: peak", predicted["peak_bytes"], stats["active_bytes.all.peak"], exact=False)
        rows.add(name, "whatif batch=2: reserved peak", predicted["peak_reserved_bytes"], stats["reserved_bytes.all.peak"], exact=False)


def compare_jax(rows: Rows, facts: dict[str, Any], folder: Path) -> None:
    from memlane import _program

    (peak,) = [p for p in _program.answer("peak", "--at", "end", facts["capture"])["peaks"] if p["bytes"]] or [{"bytes": 0}]
    rows.add("jax", "live bytes, at the end", peak["bytes"], facts["live"], exact=False)
    by_name = _program.answer("peak", "--by", "name", "--at", "end", facts["capture"])["peaks"]
    said = {row["site"]["name"]: row["bytes"] for p in by_name for row in p["rows"]}
    known: dict[str, int] = {}
    for size, (name,) in facts["names"].values():
        folded = re.sub(r"\[\d+\]", "[*]", name)
        folded = re.sub(r"_\d+", "_*", folded)
        known[folded] = known.get(folded, 0) + size
    rows.add("jax", "bytes named right", sum(min(said.get(n, 0), size) for n, size in known.items()), sum(known.values()), exact=False)
    stats = facts["jax"] or {}
    rows.add("jax", "live bytes and the allocator's", peak["bytes"], stats.get("bytes_in_use"), exact=False)
    for trace in folder.rglob("*.xplane.pb"):
        for space in _program.answer("info", str(trace))["captures"][0]["spaces"]:
            if not space["module"] and "host" not in space["id"]:  # of an allocator of the device
                rows.add("jax", f"trace, {space['id']}: peak", space["peak"]["bytes"], stats.get("peak_bytes_in_use"), exact=False)


def run(name: str, out: Path, env: dict[str, str]) -> tuple[str, float]:
    """Runs a program in a process of its own, and returns what it says if it fails."""
    began = time.monotonic()
    done = subprocess.run([sys.executable, __file__, "--run", name, "--out", str(out / name)], env={**os.environ, **env}, capture_output=True, text=True)
    errors = "" if done.returncode == 0 else done.stderr[-2000:]
    if not errors and "memlane:" in done.stderr:
        print(*(line for line in done.stderr.splitlines() if line.startswith("memlane:") and "wrote" not in line), sep="\n")
    return errors, time.monotonic() - began


def keep(work: Path, out: Path, table: str) -> None:
    """Keeps captures that fit, smallest first, in one archive, with what the programs knew."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "table.txt").write_text(table + "\n")
    files = [f for f in work.rglob("*") if f.is_file() and f.suffix in (".pickle", ".prof", ".pb", ".json", ".txt") and f.name != "rank0.pickle"]
    size = 0
    with tarfile.open(out / "captures.tar.gz", "w:gz") as archive:
        for file in sorted(files, key=lambda f: f.stat().st_size):
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w:gz") as alone:
                alone.add(file)
            size += packed.tell()
            if size > MOST:
                print(f"left out: {file.relative_to(work)}")
                size -= packed.tell()
                continue
            archive.add(file, str(file.relative_to(work)))


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("programs", nargs="*")
    arguments.add_argument("--out", default="")
    arguments.add_argument("--run", default="", help=argparse.SUPPRESS)
    arguments.add_argument("--jax", action="store_true", help="also a training with JAX")
    arguments.add_argument("--jobs", type=int, default=min(4, (os.cpu_count() or 1) // 2) or 1)
    options = arguments.parse_args()
    if options.run:
        os.makedirs(options.out, exist_ok=True)
        truth = Truth(options.out)
        (jax_training if options.run == "jax" else PROGRAMS[options.run][0])(truth)
        truth.write()
        return 0
    began, rows = time.monotonic(), Rows()
    chosen = options.programs or list(PROGRAMS)
    torch: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
    if torch is None or not torch.cuda.is_available():
        print("PyTorch sees no GPU: its programs are left out")
        chosen = []
    else:
        print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, Python {sys.version.split()[0]}")
        if torch.ones(1, device="cuda").item() != 1:
            os.environ["MEMLANE_COUNTS_ONLY"] = "1"
            print(f"this CUDA runtime only counts memory: {', '.join(KERNELS)} are left out")
            chosen = [c for c in chosen if c not in KERNELS]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        truths: dict[str, dict[str, Any]] = {}
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            runs = {name: pool.submit(run, name, work, PROGRAMS[name][1]) for name in sorted(chosen, key=lambda c: c not in KERNELS)}
            for name in chosen:
                errors, seconds = runs[name].result()
                print(f"{name}: {seconds:.0f} s" + (f", FAILED\n{errors}" if errors else ""), flush=True)
                if errors:
                    rows.add(name, "runs", 0, 1)
                else:
                    truths[name] = json.loads((work / name / "truth.json").read_text())
        for name, facts in truths.items():
            try:
                for rank, of_rank in enumerate(facts.get("ranks", [facts])):
                    compare(rows, f"{name} {rank}" if "ranks" in facts else name, of_rank, PROGRAMS[name][1]["PYTORCH_CUDA_ALLOC_CONF"])
                further(rows, name, facts, work / name, truths)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error}")
                rows.add(name, "compared", 0, 1)
        if options.jax:
            errors, seconds = run("jax", work, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
            print(f"jax: {seconds:.0f} s" + (f", FAILED\n{errors}" if errors else ""), flush=True)
            if errors:
                rows.add("jax", "runs", 0, 1)
            else:
                compare_jax(rows, json.loads((work / "jax/truth.json").read_text()), work / "jax")
        table = rows.text()
        print(table)
        print(f"{rows.wrong} of {len(rows.rows)} figures differ that must be equal; {time.monotonic() - began:.0f} s")
        if options.out:
            keep(work, Path(options.out), table)
    return 1 if rows.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
