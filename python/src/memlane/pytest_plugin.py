"""pytest plugin: @pytest.mark.limit_gpu_leaks("1 MiB"), @pytest.mark.limit_gpu_memory("2 GiB") and --memlane.

limit_gpu_leaks: the body of the test runs repeat times under one recording. memlane leaks judges the recording, so a cache that fills once, or
memory that the first run keeps, is no failure: only a call site whose memory still grows in the last runs is one.

limit_gpu_memory: the highest memory in use while the body runs, minus what was in use before.

--memlane: the tests with the highest peaks at the end of the output, from PyTorch's own counters.

The plugin is loaded in every run of pytest of an environment with memlane: it imports neither torch nor the rest of memlane before a test
asks, and its hooks are of the kind that all versions of pluggy know.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import re
import sys
import unittest
import warnings
from typing import Any, Callable, Generator, Iterator

import pytest

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_FEWEST = 8  # runs that show a leak: memlane needs six buffers of a call site, and the first runs fill caches
_LISTED = 10  # tests in the summary
_MARKS = (
    'limit_gpu_leaks(limit, repeat=20): fail if a call site leaks more GPU memory than limit ("1 MiB") while the body of the test runs repeat times',
    'limit_gpu_memory(limit): fail if the body of the test needs more GPU memory than limit ("2 GiB") at its peak',
)


class GPULeak(Exception):
    """A call site leaks more than the limit of the test."""


class GPUMemory(Exception):
    """A test needs more memory than its limit."""


class NotRecorded(Exception):
    """The recording of a test does not show all of it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("memlane").addoption("--memlane", action="store_true", help="list the tests that need most GPU memory")


def pytest_configure(config: pytest.Config) -> None:
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)


def size(text: str | int, mark: str = "limit_gpu_leaks") -> int:
    """Returns the bytes of "1 MiB", "500KB" or a number. It raises ValueError for other texts."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?i?B?)?\s*", str(text), re.IGNORECASE)
    unit = (match[2] or "B").upper() if match else ""
    unit += "" if unit.endswith("B") else "B"
    if match is None or unit not in _UNITS:
        raise ValueError(f'{mark}: {text!r} is not a size such as "1 MiB"')
    return int(float(match[1]) * _UNITS[unit])


def _leaks(limit: str | int, repeat: int = 20) -> tuple[int, int]:
    if repeat < _FEWEST:
        raise ValueError(f"limit_gpu_leaks: repeat is {repeat}; fewer than {_FEWEST} runs cannot tell a leak from memory that is kept once")
    return size(limit), repeat


def _memory(limit: str | int) -> int:
    return size(limit, "limit_gpu_memory")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("limit_gpu_leaks") and issubclass(getattr(item, "cls", None) or object, unittest.TestCase):
        pytest.fail("limit_gpu_leaks: methods of unittest.TestCase cannot be repeated; write a function or a plain class", pytrace=False)


def _torch(name: str) -> Any:
    """Returns PyTorch if it can record; else it warns why the test is not checked. The test may be the first that imports it."""
    try:
        import torch
    except ImportError:
        why = "PyTorch is not installed"
    else:
        if torch.cuda.is_available():
            return torch
        why = "PyTorch sees no GPU"
    warnings.warn(pytest.PytestWarning(f"memlane: {name} was not checked: {why}"), stacklevel=1)
    return None


# pluggy before 1.2 has no other wrappers, and pytest 7 may have such a pluggy. They must not raise, so the body of the test does.
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, None]:
    leaks, memory = pyfuncitem.get_closest_marker("limit_gpu_leaks"), pyfuncitem.get_closest_marker("limit_gpu_memory")
    body = pyfuncitem.obj
    if leaks or memory:
        try:
            limit, repeat = _leaks(*leaks.args, **leaks.kwargs) if leaks else (None, 1)
            most = _memory(*memory.args, **memory.kwargs) if memory else None
        except (TypeError, ValueError) as error:
            pytest.fail(str(error), pytrace=False)
        torch = _torch(pyfuncitem.name)
        if torch is not None:
            folder = pyfuncitem.config._tmp_path_factory.mktemp("memlane", numbered=True)  # type: ignore[attr-defined]
            pyfuncitem.obj = _repeated(body, repeat, torch.profiler.record_function, lambda: _recorded(torch, folder, limit, most))
    with _measured(pyfuncitem):
        yield
    pyfuncitem.obj = body


@contextlib.contextmanager
def _recorded(torch: Any, folder: Any, limit: int | None, most: int | None) -> Iterator[None]:
    """Records, and raises what is wrong with the recording, unless the test fails itself."""
    import memlane

    gc.collect()
    gc.freeze()  # so that collections between runs look only at what the runs made
    before = _in_use(torch)
    recorder = memlane.record(folder, framework="torch", on_signal=None).start()
    with _watched(torch) as changes:
        try:
            yield
        finally:
            gc.unfreeze()
            changed = bool(changes)
            capture = recorder.stop()
    if capture is None:
        raise NotRecorded("memlane: not checked: the capture could not be written; see standard error")
    if changed:
        raise NotRecorded("memlane: not checked: the test started or ended a recording of GPU memory itself; memlane records it already")
    failure = _judge(capture, limit) if limit is not None else None
    if failure:
        raise GPULeak(failure)
    failure = _over(capture, most, before) if most is not None else None
    if failure:
        raise GPUMemory(failure)


@contextlib.contextmanager
def _watched(torch: Any) -> Iterator[list[str]]:
    """Notes whether somebody else starts or ends a recording, which would drop what was recorded."""
    changes: list[str] = []
    names = [n for n in ("_cuda_record_memory_history", "_cuda_record_memory_history_legacy") if hasattr(torch._C, n)]
    originals = {n: getattr(torch._C, n) for n in names}

    def noting(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            changes.append(name)
            return originals[name](*args, **kwargs)

        return call

    for name in names:
        setattr(torch._C, name, noting(name))
    try:
        yield changes
    finally:
        for name in names:
            setattr(torch._C, name, originals[name])


def _in_use(torch: Any) -> dict[str, int]:
    return {f"cuda:{n}": torch.cuda.memory_allocated(n) for n in range(torch.cuda.device_count())}


def _repeated(body: Callable[..., Any], repeat: int, named: Callable[[str], Any], recorded: Callable[[], Any]) -> Callable[..., Any]:
    """Returns a body that runs body repeat times under a recording. From PyTorch 2.8 on, the capture has the runs as steps.

    Garbage is collected after each run: when Python would do so depends on what else runs in this process.
    """

    def repeated(*args: Any, **kwargs: Any) -> None:
        with recorded():
            for run in range(repeat):
                with named(f"ProfilerStep#{run}"):
                    body(*args, **kwargs)
                    gc.collect()

    async def repeated_async(*args: Any, **kwargs: Any) -> None:
        with recorded():
            for run in range(repeat):
                with named(f"ProfilerStep#{run}"):
                    await body(*args, **kwargs)
                    gc.collect()

    return repeated_async if inspect.iscoroutinefunction(body) else repeated


def _judge(path: str, limit: int) -> str | None:
    """Returns the text of the call sites that leak more than limit bytes; None if none does."""
    import memlane

    try:
        capture = memlane.open(path)
        over = [f for f in capture.leaks() if f["leak"] and f["bytes"] > limit]
    except memlane.NothingError:  # no memory of the GPU was allocated
        return None
    if not over:
        return None
    sites = ", ".join(f"{f['site']['name']}: {f['bytes']:,} B" for f in over)
    return f"more than {limit:,} B leak at {sites}\n\n{capture.text('leaks')}"


def _over(path: str, limit: int, before: dict[str, int]) -> str | None:
    """Returns the text of the peak of a device that needs more than limit bytes beyond what was in use before; None if none does."""
    import memlane

    try:
        capture = memlane.open(path)
        spaces = capture.info()["captures"][0]["spaces"]
    except memlane.NothingError:
        return None
    for space in spaces:
        peak = space["peak"]["bytes"] - before.get(space["id"], 0)
        if space["allocations"] and peak > limit:
            return f"{peak:,} B are needed on {space['id']} at the peak, more than {limit:,} B\n\n{capture.text('peak')}"
    return None


@contextlib.contextmanager
def _measured(item: pytest.Function) -> Iterator[None]:
    """Notes the peak of a test for --memlane, by PyTorch's counters."""
    torch = sys.modules.get("torch")
    if not item.config.getoption("--memlane", False):
        yield
        return
    if torch is not None and torch.cuda.is_initialized():
        for n in range(torch.cuda.device_count()):
            torch.cuda.reset_peak_memory_stats(n)
        before = _in_use(torch)
    else:
        before = {}
    yield
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        after = _in_use(torch)
        peaks = {f"cuda:{n}": torch.cuda.max_memory_allocated(n) - before.get(f"cuda:{n}", 0) for n in range(torch.cuda.device_count())}
        device = max(peaks, key=lambda d: peaks[d])
        item.user_properties.append(("memlane", [peaks[device], after[device] - before.get(device, 0), device]))  # reaches xdist's controller


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.getoption("--memlane", False):
        return
    rows = []
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                rows += [(*value, report.nodeid) for name, value in report.user_properties if name == "memlane"]
    rows = sorted((r for r in rows if r[0] > 0), key=lambda r: (-r[0], r[3]))
    terminalreporter.section("GPU memory")
    if not rows:
        terminalreporter.line("no test allocated memory of a GPU with PyTorch")
        return
    terminalreporter.line(f"{'peak':>10} {'kept':>10}  device  test")
    for peak, kept, device, nodeid in rows[:_LISTED]:
        terminalreporter.line(f"{_iec(peak):>10} {_iec(kept):>10}  {device:6}  {nodeid}")
    if len(rows) > _LISTED:
        terminalreporter.line(f"{len(rows) - _LISTED} more tests need less")


def _iec(n: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n) < 1024 or unit == "GiB":
            break
        n /= 1024
    return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    outcome = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, (GPULeak, GPUMemory, NotRecorded)):
        outcome.get_result().longrepr = str(call.excinfo.value)  # memlane's text, without a traceback of this plugin
