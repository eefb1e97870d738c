"""Adds cases at the limits of the rules to the goldens of gpumemprof's presets.

The original judges them: gpu-memory-profiler 0.2.3.post1 and stormlog 0.4.3, unpacked
without what they depend on (`pip download --no-deps`, `unzip`), NumPy and SciPy beside
them. torch is a stub, which only annotations use.

    python limits.py PACKAGES ../../gpumemprof/golden
"""
import gzip
import json
import math
import pathlib
import random
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

packages, goldens = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, packages)
for name in ("torch", "torch.cuda", "torch.nn", "torch.distributed", "psutil", "matplotlib", "matplotlib.pyplot", "pandas"):
    sys.modules[name] = MagicMock(Tensor=type("Tensor", (), {}))
from gpumemprof.analyzer import MemoryAnalyzer as Gpumemprof  # noqa: E402
from stormlog.analyzer import MemoryAnalyzer as Stormlog  # noqa: E402

MIB = 1 << 20
TOOLS = {"gpumemprof": Gpumemprof, "stormlog": Stormlog}


def snapshot(at, allocated, reserved, inactive=0):
    return {"timestamp": at, "allocated_memory": allocated, "reserved_memory": reserved, "active_memory": allocated, "inactive_memory": inactive, "device_id": 0}


def call(name="f", at=0.0, seconds=0.01, before=1000 * MIB, after=None, peak=None, allocated=MIB, reserved=None, inactive=0):
    after = before if after is None else after
    reserved = max(before, after) if reserved is None else reserved
    return {
        "function_name": name, "execution_time": seconds, "memory_before": snapshot(at, before, reserved, inactive),
        "memory_after": snapshot(at + seconds, after, reserved, inactive), "memory_peak": snapshot(at, after if peak is None else peak, reserved, inactive),
        "memory_allocated": allocated, "memory_freed": 0, "memory_diff": after - before, "peak_memory_usage": after if peak is None else peak, "call_count": 1,
    }


def sample(i, gap, total=16 << 30, reserved=4 << 30, inactive=0, allocated=None):
    return {
        "schema_version": 2, "timestamp_ns": 1_000_000_000 + i * 100_000_000, "event_type": "sample", "collector": "synthetic", "sampling_interval_ms": 100,
        "pid": 1, "host": "h", "device_id": 0, "allocator_allocated_bytes": reserved - inactive if allocated is None else allocated,
        "allocator_reserved_bytes": reserved, "allocator_active_bytes": reserved - inactive, "allocator_inactive_bytes": inactive, "allocator_change_bytes": 0,
        "device_used_bytes": reserved + gap, "device_free_bytes": total - reserved - gap, "device_total_bytes": total, "context": None, "job_id": None,
        "rank": 0, "local_rank": 0, "world_size": 1, "metadata": {},
    }


def reports():
    yield "limit_correlation_10", [call(at=i, seconds=0.01 * (i + 1), allocated=MIB * (i + 1)) for i in range(10)]
    yield "limit_correlation_9", [call(at=i, seconds=0.01 * (i + 1), allocated=MIB * (i + 1)) for i in range(9)]
    yield "limit_correlation_negative", [call(at=i, seconds=0.01 * (10 - i), allocated=MIB * (i + 1)) for i in range(10)]
    yield "limit_trend_5", [call(at=float(i), after=(1000 + 100 * i) * MIB) for i in range(5)]
    yield "limit_trend_1e6", [call(at=float(i), before=10**9, after=10**9 + 10**6 * i, reserved=2 * 10**9) for i in range(8)]
    yield "limit_spikes_of_3", [call(f"f{i}", at=i, allocated=n * MIB) for i, n in enumerate((1, 1, 50))]
    yield "limit_spikes_4", [call(f"f{i}", at=i, allocated=(1 if i < 20 else 90 + i) * MIB) for i in range(24)]
    yield "limit_spikes_5", [call(f"f{i}", at=i, allocated=(1 if i < 20 else 90 + i) * MIB) for i in range(25)]
    yield "limit_spikes_odd", [call(f"f{i}", at=i, allocated=(i + 1 if i < 10 else 100) * MIB) for i in range(11)]
    yield "limit_slow_3", [call(f"f{i}", at=i, seconds=0.01 if i < 27 else 1.0 + i) for i in range(30) for _ in range(3)]
    yield "limit_slow_4", [call(f"f{i}", at=i, seconds=0.01 if i < 36 else 1.0 + i) for i in range(40) for _ in range(3)]
    yield "limit_times_half", [call("half", at=i, seconds=float(i + 1)) for i in range(3)]
    yield "limit_times_second", [call(n, at=i, seconds=s) for n, times in (("a", (1.0, 1.0, 3.0)), ("b", (1.0, 1.0, 9.0)), ("c", (1.0, 1.0, 4.0))) for i, s in enumerate(times)]
    yield "limit_times_zero", [call(at=i, seconds=s) for i, s in enumerate((0.0, 0.0, 0.0, 1.0))]
    yield "limit_efficiency_half", [call(at=i, peak=1010 * MIB, allocated=20 * MIB) for i in range(4)]
    yield "limit_efficiency_below", [call(at=i, peak=1010 * MIB, allocated=20 * MIB + 1) for i in range(4)]
    yield "limit_efficiency_none", [call(at=i, peak=1000 * MIB, allocated=20 * MIB) for i in range(4)] + [call("g", at=i, peak=2000 * MIB, allocated=0) for i in range(4)]
    yield "limit_fragments_0.3", [call(at=i, before=700, after=700, reserved=1000, inactive=300, allocated=0) for i in range(4)]
    yield "limit_fragments_0.5", [call(at=i, before=500, after=500, reserved=1000, inactive=500, allocated=0) for i in range(4)]
    yield "limit_leak_of_none", [call(at=i, after=(1000 + (200 if i % 2 else -200)) * MIB) for i in range(4)]
    for seed in range(8):
        r = random.Random(seed)
        yield f"random_{seed}", [
            call(f"f{r.randrange(5)}", at=float(i), seconds=r.choice((0.001, 0.01, 0.02, 0.5)) * r.randint(1, 3), before=r.randint(500, 1000) * MIB,
                 after=r.randint(500, 1500) * MIB, peak=r.randint(500, 2000) * MIB, allocated=r.choice((0, 1, 20, 300)) * MIB * r.randint(1, 3),
                 reserved=r.randint(1500, 2500) * MIB, inactive=r.randint(0, 1500) * MIB)
            for i in range(r.randint(3, 60))
        ]


def gaps():
    gib = 1 << 30
    yield "limit_samples_3", [sample(i, g * gib) for i, g in enumerate((1, 1, 2))]
    yield "limit_samples_5", [sample(i, (1 + i) * gib) for i in range(5)]
    yield "limit_samples_4", [sample(i, (1 + i) * gib) for i in range(4)]
    yield "limit_ratio_0.05", [sample(i, g, total=20 * 10**9) for i, g in enumerate((10**9, 0, 0, 0, 0, 0, 0))]
    yield "limit_ratio_below", [sample(i, g, total=20 * 10**9) for i, g in enumerate((10**9 - 1, 0, 0, 0, 0, 0, 0))]
    yield "limit_spike_critical", [sample(i, 5 * gib if i in (7, 19) else gib) for i in range(40)]
    yield "limit_spike_warning", [sample(i, 5 * gib if i in (3, 9) else gib) for i in range(16)]
    yield "limit_two_spikes_equal", [sample(i, 4 * gib if i in (2, 11) else gib) for i in range(20)]
    yield "limit_falling", [sample(i, (9 - i) * gib) for i in range(8)]
    yield "limit_fragments_0.3", [sample(i, gib, reserved=1000, inactive=300) for i in range(6)]
    yield "limit_fragments_0.5", [sample(i, gib, reserved=1000, inactive=500) for i in range(6)]
    yield "limit_fragments_none", [sample(i, gib, inactive=0) for i in range(6)]
    for seed in range(8):
        r = random.Random(seed)
        drift = r.choice((0, 0.1, 0.4))
        yield f"random_{seed}", [
            sample(i, int((r.random() + drift * i) * gib), reserved=r.randint(1, 4) * gib, inactive=int(r.random() * gib)) for i in range(r.randint(3, 30))
        ]


def made(value):
    """Sorts what a set gave, and writes what is no number as the goldens do."""
    if isinstance(value, dict):
        return {k: sorted(v) if k == "memory_intensive_functions" else made(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [made(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def patterns(report):
    for key in ("critical_issues", "all_patterns"):
        for p in report[key]:
            if p["pattern_type"] in ("fragmentation", "memory_spikes"):
                p["affected_functions"] = sorted(p["affected_functions"])
    return report


def named(value):
    """Gives a dict attributes: those that are figures of calls are methods in the original."""
    if not isinstance(value, dict) or not value:
        return value
    methods = {k: (lambda n=value[k]: n) for k in ("memory_diff", "peak_memory_usage") if k in value}
    return SimpleNamespace(**{k: named(v) for k, v in value.items()} | methods)


def add(name, cases, judges):
    with gzip.open(goldens / name) as f:
        old = json.load(f)
    new = [c for c in old["cases"] if not c["case"].startswith(("limit_", "random_"))]
    new += [{"case": case, "input": given, "output": {tool: judge(given) for tool, judge in judges.items()}} for case, given in cases]
    old["cases"] = new
    with open(goldens / name, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as f:
        f.write(json.dumps(old, separators=(",", ":")).encode())


def report(tool):
    return lambda given: patterns(made(TOOLS[tool]().generate_optimization_report([named(r) for r in given])))


def gap(tool):
    def judge(given):
        found = TOOLS[tool]().analyze_memory_gaps([named(e) for e in given])
        return [made(vars(f)) for f in found]
    return judge


add("reports.json.gz", reports(), {t: report(t) for t in TOOLS})
add("gaps.json.gz", gaps(), {t: gap(t) for t in TOOLS})
