"""Measures what recording costs: python3 python/tests/cost.py. Needs PyTorch with a GPU, or with a CUDA runtime that only counts memory."""

import os
import resource
import tempfile
import time

import memlane
import torch

RUNS = 5


def work(depth: int, n: int) -> float:
    """Returns the microseconds of CPU time of an allocation and its free, under a stack of depth calls."""
    if depth:
        return work(depth - 1, n)
    begin = time.process_time()
    for _ in range(n):
        torch.empty(1 << 20, device="cuda")
    return (time.process_time() - begin) / n * 1e6


def recorded(depth: int, n: int) -> float:
    with tempfile.TemporaryDirectory() as folder, memlane.record(folder):
        return work(depth, n)


work(1, 1000)
print(f"microseconds of CPU for an allocation and its free; least of {RUNS} runs")
for depth in (5, 20, 50):
    without, with_history = (min(f(depth, 20_000) for _ in range(RUNS)) for f in (work, recorded))
    print(f"stack of {depth:2}: {without:5.2f} without, {with_history:5.2f} recorded")

with tempfile.TemporaryDirectory() as folder, memlane.record(folder) as recorder:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(20, 500_000)
    history = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    begin = time.process_time()
    path = recorder.dump()
    print(f"1,000,000 entries: {history / 1e3:.0f} MB of memory; dump: {time.process_time() - begin:.1f} s, {os.path.getsize(path) / 1e6:.0f} MB")
