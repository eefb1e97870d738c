"""pytest plugin: @pytest.mark.limit_gpu_leaks("1 MiB").

The body of the test runs repeat times under one recording. memlane leaks judges the recording, so a cache that fills once, or memory that the
first run keeps, is no failure: only a call site whose memory still grows in the last runs is one.
"""

from __future__ import annotations

import gc
import inspect
import re
import sys
import unittest
import warnings
from typing import Any, Callable, Generator

import memlane
import pytest

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_MARK = (
    'limit_gpu_leaks(limit, repeat=20): fail if a call site leaks more GPU memory than limit ("1 MiB") while the body of the test runs repeat times'
)


class GPULeak(Exception):
    """A call site leaks more than the limit of the test."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK)


def size(text: str | int) -> int:
    """Returns the bytes of "1 MiB", "500KB" or a number. It raises ValueError for other texts."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?i?B?)?\s*", str(text), re.IGNORECASE)
    unit = (match[2] or "B").upper() if match else ""
    unit += "" if unit.endswith("B") else "B"
    if match is None or unit not in _UNITS:
        raise ValueError(f'limit_gpu_leaks: {text!r} is not a size such as "1 MiB"')
    return int(float(match[1]) * _UNITS[unit])


def _arguments(limit: str | int, repeat: int = 20) -> tuple[int, int]:
    if repeat < 1:
        raise ValueError(f"limit_gpu_leaks: repeat is {repeat}, must be at least 1")
    return size(limit), repeat


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("limit_gpu_leaks") and issubclass(getattr(item, "cls", None) or object, unittest.TestCase):
        pytest.fail("limit_gpu_leaks: methods of unittest.TestCase cannot be repeated; write a function or a plain class", pytrace=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    mark = pyfuncitem.get_closest_marker("limit_gpu_leaks")
    if mark is None:
        return (yield)
    limit, repeat = _arguments(*mark.args, **mark.kwargs)
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        warnings.warn(pytest.PytestWarning(f"limit_gpu_leaks: {pyfuncitem.name} was not checked: PyTorch sees no GPU"), stacklevel=1)
        return (yield)
    folder = pyfuncitem.config._tmp_path_factory.mktemp("memlane", numbered=True)  # type: ignore[attr-defined]
    body = pyfuncitem.obj
    pyfuncitem.obj = _repeated(body, repeat, torch.profiler.record_function)
    gc.collect()
    gc.freeze()  # so that collections between runs look only at what the runs made
    recorder = memlane.record(folder, framework="torch", on_signal=None).start()
    try:
        result = yield
    finally:
        gc.unfreeze()
        pyfuncitem.obj = body
        capture = recorder.stop()
    assert capture is not None
    failure = _judge(capture, limit)
    if failure:
        raise GPULeak(failure)
    return result


def _repeated(body: Callable[..., Any], repeat: int, named: Callable[[str], Any]) -> Callable[..., Any]:
    """Returns a body that runs body repeat times. From PyTorch 2.8 on, the capture has the runs as steps.

    Garbage is collected after each run: when Python would do so depends on what else runs in this process.
    """

    def repeated(*args: Any, **kwargs: Any) -> None:
        for run in range(repeat):
            with named(f"ProfilerStep#{run}"):
                body(*args, **kwargs)
                gc.collect()

    async def repeated_async(*args: Any, **kwargs: Any) -> None:
        for run in range(repeat):
            with named(f"ProfilerStep#{run}"):
                await body(*args, **kwargs)
                gc.collect()

    return repeated_async if inspect.iscoroutinefunction(body) else repeated


def _judge(path: str, limit: int) -> str | None:
    """Returns the text of the call sites that leak more than limit bytes; None if none does."""
    capture = memlane.open(path)
    over = [f for f in capture.leaks() if f["leak"] and f["bytes"] > limit]
    if not over:
        return None
    sites = ", ".join(f"{f['site']['name']}: {f['bytes']:,} B" for f in over)
    return f"more than {limit:,} B leak at {sites}\n\n{capture.text('leaks')}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, GPULeak):
        report.longrepr = str(call.excinfo.value)  # memlane's text, without a traceback of this plugin
    return report
