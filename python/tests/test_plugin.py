"""The verdicts of the pytest plugin with a real PyTorch. They need a GPU, or a CUDA runtime that only counts memory."""

from __future__ import annotations

import re

import pytest
from test_record import needs_torch, torch_with_gpu

pytest_plugins = ["pytester"]

# The name of each test has its verdict: P passes, F fails, E is an error.
VERDICTS = '''
import unittest

import pytest
import torch
keep, cache = [], {}
leaks = pytest.mark.limit_gpu_leaks
memory = pytest.mark.limit_gpu_memory
def act(n=1 << 20): return torch.empty(n, device="cuda")

@leaks("1 MiB")
def test_F_leak(): keep.append(act())
@leaks("1 MiB")
def test_P_clean(): act()
@leaks("1 MiB")
def test_P_cache():
    if len(cache) < 8: cache[len(cache)] = act()
    act()
@leaks("1 MiB")
def test_P_nothing_on_gpu(): torch.empty(10)
@leaks("1 MiB")
def test_P_no_torch_at_all(): pass
@leaks("1 MiB", repeat=1)
def test_F_repeat1(): keep.append(act())
@leaks("1 MiB", repeat=3)
def test_F_repeat3(): keep.append(act())
@leaks("1 MiB", repeat=6)
def test_F_repeat6(): keep.append(act())
@leaks("1 MiB", repeat=8)
def test_F_repeat8(): keep.append(act())
@leaks("1 MiB", repeat=8)
def test_P_repeat8_clean(): act()
@leaks("1 MiB")
def test_F_turned_off():
    torch.cuda.memory._record_memory_history(enabled=None)
    keep.append(act())
@leaks("1 MiB")
def test_F_restarted():
    torch.cuda.memory._record_memory_history(max_entries=100000)
    keep.append(act())
@leaks("1 GiB")
def test_P_below(): keep.append(act())
@leaks("1 MiB")
def test_P_garbage():
    c = [act()]; c.append(c)
@leaks("1 MiB")
@pytest.mark.parametrize("grow", [False, True], ids=["P_no", "F_yes"])
def test_param(grow):
    t = act()
    if grow: keep.append(t)
@pytest.fixture
def model(): return act(4 << 20)
@leaks("1 MiB")
def test_P_fixture(model): (model + 1).sum()
@leaks("1 MiB")
def test_F_own_assert(): assert 0
@leaks("1 MiB")
def test_P_skip(): pytest.skip("no")
@leaks("1 MiB")
@pytest.mark.xfail(strict=True)
def test_P_xfail_leak(): keep.append(act())
@leaks("nonsense")
def test_F_size(): pass
@leaks("1 MiB")
def test_F_leak_small_many():
    for _ in range(8): keep.append(act(1 << 18))
class TestX:
    @leaks("1 MiB")
    def test_F_method(self): keep.append(act())
@memory("64 MiB")
def test_P_peak(): act(8 << 20)
@memory("16 MiB")
def test_F_peak(): act(8 << 20)
@memory("64 MiB")
def test_P_peak_after_others(): act(1 << 20)
@memory("24 MiB")
@leaks("1 MiB")
def test_P_both(): act(4 << 20)
@memory("8 MiB")
@leaks("1 MiB")
def test_F_both(): act(4 << 20)
@memory("64 MiB")
def test_P_peak_no_gpu(): pass
class TestUnit(unittest.TestCase):
    @leaks("1 MiB")
    def test_E_unit(self): keep.append(act())
@leaks("1 MiB")
def test_F_each_third():
    act()
    cache["n"] = cache.get("n", 0) + 1
    if cache["n"] % 3 == 0: keep.append(act())
'''


def verdicts(result: pytest.RunResult) -> dict[str, str]:
    """The verdict of each test that ran, by name."""
    rows = re.findall(r"^(PASSED|FAILED|ERROR|XFAIL|SKIPPED) .*?::(test_[\w\[\]]+)", result.stdout.str(), re.MULTILINE)
    return {name: how for how, name in rows}


@needs_torch
def test_verdicts(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(VERDICTS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rA", "--memlane")
    wrong = {}
    for name, how in verdicts(result).items():
        want = {"P": "PASSED", "F": "FAILED", "E": "ERROR"}[re.findall(r"(?<=[_\[])[PFE](?=_)", name)[0]]
        if how != want and how != "XFAIL":
            wrong[name] = how
    assert not wrong
    assert len(verdicts(result)) == 30
    result.stdout.fnmatch_lines(
        [
            "more than 1,048,576 B leak at act (*: 83,886,080 B",
            "*20 buffers (80.0 MiB) were never freed*",
        ]
    )
    result.stdout.fnmatch_lines(
        [
            "*repeat is 1; fewer than 8 runs cannot tell a leak*",
            "*the test started or ended a recording of GPU memory itself*",
            "*'nonsense' is not a size*",
            "33,554,432 B are needed on cuda:0 at the peak, more than 16,777,216 B",
        ]
    )
    result.stdout.fnmatch_lines(["*= GPU memory =*", "*peak*kept*device*test*", "*160.0 MiB*160.0 MiB*cuda:0*::test_F_leak_small_many", "* more tests need less"])


@needs_torch
def test_torch_imported_by_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        keep = []
        @pytest.mark.limit_gpu_leaks("1 MiB")
        def test_none(): pass
        @pytest.mark.limit_gpu_leaks("1 MiB")
        def test_leaks():
            import torch
            keep.append(torch.empty(1 << 20, device="cuda"))
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1, failed=1)


@pytest.mark.skipif(torch_with_gpu(), reason="there is a GPU")
def test_without_a_gpu(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.limit_gpu_leaks('1 MiB')
        def test_a(): pass
        @pytest.mark.limit_gpu_memory('1 MiB')
        def test_b(): pass
        def test_c(): pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers", "--memlane")
    result.assert_outcomes(passed=3, warnings=2)
    result.stdout.fnmatch_lines(["*test_a was not checked: PyTorch *", "*test_b was not checked: PyTorch *"])
    result.stdout.fnmatch_lines(["*no test allocated memory of a GPU*"])


def test_hooks_of_old_versions() -> None:
    """pluggy before 1.2 fails on hooks that it does not know, and with it each run of pytest in the environment."""
    import inspect

    from memlane import pytest_plugin

    assert "wrapper=True" not in inspect.getsource(pytest_plugin).replace("hookwrapper=True", "")


def test_sizes() -> None:
    from memlane.pytest_plugin import size

    assert [size(t) for t in ("1 MiB", "500KB", "1.5 GiB", "7", 7, "2k", "3 m")] == [1 << 20, 500_000, 3 << 29, 7, 7, 2000, 3_000_000]
    for wrong in ("", "MiB", "1 MB/s", "-1"):
        with pytest.raises(ValueError):
            size(wrong)
