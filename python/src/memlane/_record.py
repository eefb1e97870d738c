"""Records captures: PyTorch's memory history and JAX's profiles."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, TracebackType
from typing import Any

from memlane import _modules, _names, _program, answers


def known_rank() -> int | None:
    """Returns the rank of this process, as torch.distributed or the launcher says it; None if neither does."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCAL_RANK"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    jax = sys.modules.get("jax")
    return int(jax.process_index()) if jax is not None and "torch" not in sys.modules else None


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keeps the garbage collector off: a snapshot makes so many objects that it would run, and drop cycles that hold tensors."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _say(text: str) -> None:
    """Prints a line where no error may reach the program: its standard error may be closed."""
    try:
        print(f"memlane: {text}", file=sys.stderr)
    except Exception:
        pass


class _Room:
    """Raises the limit of nested calls: the program may be at it, and what fails here would replace its own error."""

    _CALLS = 500
    _entered, _limit = 0, 0

    def __enter__(self) -> None:
        of = _Room
        if of._entered == 0:
            of._limit = sys.getrecursionlimit()
            sys.setrecursionlimit(of._limit + of._CALLS)
        of._entered += 1

    def __exit__(self, *of_error: Any) -> None:
        of = _Room
        of._entered -= 1
        if of._entered == 0 and sys.getrecursionlimit() == of._limit + of._CALLS:
            sys.setrecursionlimit(of._limit)


_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT") if hasattr(signal, name))


def _handler(number: int) -> int | None:
    """Returns what the system calls on a signal: 0 is the default, 1 is "ignore"; None if this cannot be known.

    signal.getsignal does not know of handlers of C, such as those of faulthandler.
    """
    try:
        import ctypes

        action = (ctypes.c_void_p * 64)()  # larger than struct sigaction; its first member is the handler
        if sys.platform == "win32" or ctypes.CDLL(None).sigaction(number, None, action) != 0:
            return None
        return action[0] or 0
    except Exception:
        return None


_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def _bytes(size: str | int) -> int:
    """Returns the bytes of "2 GiB". Units are powers of 1024, as everywhere in memlane."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:iB|B)?\s*", str(size))
    if match is None:
        raise ValueError(f'memlane.record: on_growth={size!r} is no size such as "2 GiB"')
    return int(float(match[1]) * 2 ** _UNITS[match[2]])


class _Growth:
    """Watches the allocated bytes at one point of a step, or, of a program without an optimizer, their lowest level in a minute.

    They have grown when all of the last levels are above the highest of the first ones by more than a size.
    """

    WARMUP, LASTING = 6, 3  # levels
    SECONDS = 10.0  # between two levels of a program without steps
    MINUTE = 6  # of these

    def __init__(self, most: int, grown: Callable[[int], None]) -> None:
        self._most, self._grown = most, grown
        self._first: list[int] = []
        self._last: list[int] = []
        self._lows: list[int] = []
        self._done = False

    def take(self, read: Callable[[], int], of: int = 1) -> None:
        """Takes a level; the lowest of several, if they are read anywhere in a step."""
        if self._done:
            return
        try:
            self._lows.append(read())
        except Exception as error:  # of the device: the program will see it too
            _say(f"on_growth ends: {type(error).__name__}: {error}")
            self._done = True
            return
        if len(self._lows) < of:
            return
        level = min(self._lows)
        self._lows.clear()
        if len(self._first) < self.WARMUP:
            self._first.append(level)
            return
        self._last = [*self._last[1 - self.LASTING :], level]
        growth = min(self._last) - max(self._first)
        if len(self._last) == self.LASTING and growth > self._most:
            self._done = True
            self._grown(growth)


class Recorder:
    """Records the memory of this process into a folder. record makes one; start and stop do the same without a with statement.

    Files are named after the rank and the moment: rank0.pickle at the end, rank0_oom.pickle, rank0_usr1_1.pickle, rank0_NAME.pickle
    for dump("NAME"). Existing files of earlier runs are replaced when the new one is complete. A file that another process wrote since
    this recording began is kept: then the host and the process are part of the name.

    After start, nothing raises that would end the program: what cannot be written is a line on standard error.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        stacks: str,
        max_entries: int,
        framework: str | None,
        on_signal: int | Iterable[int] | None,
        names: bool,
        on_growth: str | int | None,
        modules: bool,
    ) -> None:
        self.folder = os.fspath(folder)
        self._stacks = stacks
        self._max_entries = max_entries
        self._framework = framework
        self._names = names
        self._modules = modules
        self._growth = None if on_growth is None else _bytes(on_growth)
        self._unwatch: Callable[[], None] | None = None
        self._signals = () if on_signal is None else (on_signal,) if isinstance(on_signal, int) else tuple(on_signal)
        self._handled: dict[int, tuple[Any, int | None]] = {}  # the program's handler, and what the system calls since ours is there
        self._times: dict[int, int] = {}
        self._ooms = 0
        self._process = 0  # a fork inherits the recorder, not the device
        self._began = 0.0  # by the clock of the folder
        self._place = ""  # of the folder, wherever the program changes to
        self._rank: int | None = None
        self._wrote: set[str] = set()
        self._lock = threading.RLock()
        self._backend: _Torch | _Jax | None = None

    def __enter__(self) -> Recorder:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None and self._backend is not None and self._backend.out_of_memory(error):
            self._out_of_memory()
        self.stop()

    @property
    def recording(self) -> bool:
        """Whether it records now."""
        return self._backend is not None

    def start(self) -> Recorder:
        """Begins to record. It raises RuntimeError if neither PyTorch with a GPU nor JAX is there, OSError if it cannot write the folder."""
        if self._backend is not None:
            raise RuntimeError("memlane.record: already recording")
        self._place = os.path.abspath(self.folder)
        os.makedirs(self.folder, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".memlane-") as probe:
            probe.write(b"0")
            probe.flush()
            self._began = os.stat(probe.name).st_mtime
        backend = _backend(self._framework)
        backend.start(self)
        self._backend = backend
        self._process = os.getpid()
        self._wrote.clear()
        self._rank = known_rank()
        atexit.register(self._at_exit)
        _active.append(self)
        if self._growth is not None:
            self._unwatch = backend.watch(_Growth(self._growth, self._has_grown))
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                self._take(number)
        return self

    def _take(self, number: int) -> None:
        previous = signal.getsignal(number)
        if previous is None or previous is signal.SIG_DFL and _handler(number) not in (0, None):
            _say(f"{_short(number).upper()} has a handler that is not Python's; it stays, and no capture is written on this signal")
            return
        signal.signal(number, self._on_signal)
        self._handled[number] = (previous, _handler(number))

    def _give_back(self) -> None:
        """Restores handlers, if they are still ours. Only the main thread can; elsewhere ours remains and only calls the program's."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, (previous, ours) in list(self._handled.items()):
            if signal.getsignal(number) == self._on_signal and _handler(number) == ours:
                signal.signal(number, previous)
            del self._handled[number]

    def stop(self) -> str | None:
        """Dumps, ends the recording, and returns the file; None if there is no recording, or if the file cannot be written."""
        if self._backend is None or self._process != os.getpid():
            return None
        with self._lock:
            backend = self._backend
            if backend is None:  # another thread was faster
                return None
            atexit.unregister(self._at_exit)
            _active.remove(self)
            try:
                if self._unwatch is not None:
                    self._unwatch()
                self._give_back()
                return self.dump()
            finally:
                self._backend = None
                try:
                    backend.stop()
                except Exception as error:
                    _say(f"the recording did not end as it should: {error}")

    def _at_exit(self) -> None:
        self.stop()
        if getattr(sys, "last_type", None) is KeyboardInterrupt:
            # Python ends by SIGINT then, unless text was run after that, as PyTorch does in a dump: shells would go on
            try:
                exec("raise KeyboardInterrupt")
            except KeyboardInterrupt:
                pass

    def dump(self, name: str = "") -> str | None:
        """Writes what was recorded so far, and returns the file; None, and a line on standard error, if it cannot. The recording goes on."""
        if self._backend is None:
            raise RuntimeError("memlane.record: not recording")
        with self._lock, _Room():
            try:
                return self._write(name, self._backend)
            except Exception as error:
                _say(f"no capture written: {type(error).__name__}: {error}")
                return None

    def _write(self, name: str, backend: _Torch | _Jax) -> str:
        if self._rank is None:
            self._rank = known_rank()
        stem, end = f"rank{self._rank or 0}", (f"_{name}" if name else "") + backend.suffix
        try:
            folder = self.folder if os.path.abspath(self.folder) == self._place else self._place
        except FileNotFoundError:  # the folder in which the program is was removed
            folder = self._place
        path = os.path.join(folder, stem + end)
        os.makedirs(folder, exist_ok=True)  # it may have been removed
        part = f"{path}.{os.getpid()}-{threading.get_ident()}.part"
        with _uncollected():
            finder = None
            try:
                finder = backend.finder() if self._names else None
            except Exception as error:
                _say(f"no names: {type(error).__name__}: {error}")
            try:
                backend.dump(part)
                if path in self._wrote:
                    os.replace(part, path)
                elif not self._publish(part, path):
                    path = os.path.join(folder, f"{stem}_{socket.gethostname().replace(os.sep, '_')}-{os.getpid()}{end}")
                    os.replace(part, path)
            finally:
                if os.path.exists(part):
                    os.remove(part)
            self._wrote.add(path)
            if finder is not None:
                self._add_names(finder, path)
            return path

    def _add_names(self, finder: _names.Torch | _names.Jax, path: str) -> None:
        """Adds names to a capture that is complete without."""
        try:
            finder.add_to(path)
        except Exception as error:
            _say(f"{path} has no names: {type(error).__name__}: {error}")

    def _publish(self, part: str, path: str) -> bool:
        """Gives part its name, and returns false if that is the file of another process of this run."""
        old = f"{part}.old"
        while True:
            try:
                os.link(part, path)  # unlike a rename, it fails if there is a file
                return True
            except FileExistsError:
                if os.stat(path).st_mtime >= self._began or not os.path.isfile(path):
                    return False
            except OSError:  # a file system without links
                if os.path.exists(path) and (os.stat(path).st_mtime >= self._began or not os.path.isfile(path)):
                    return False
                os.replace(part, path)
                return True
            try:
                os.rename(path, old)
                if os.stat(old).st_mtime >= self._began:  # of another process that was faster
                    os.replace(old, path)
                    return False
                os.remove(old)
            except FileNotFoundError:
                pass

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        previous = self._handled.get(number, (signal.SIG_DFL, None))[0]
        if self._backend is not None and self._process == os.getpid():
            self._times[number] = self._times.get(number, 0) + 1
            self._report(f"{_short(number)}_{self._times[number]}")
        if callable(previous):
            previous(number, frame)
        elif previous is signal.SIG_DFL and number in _ENDING:  # as it would have ended
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _out_of_memory(self) -> None:
        """Dumps the first failure, while its frames still hold their buffers. Programs that catch it and retry fail a thousand times."""
        self._ooms += 1
        if self._ooms == 1:
            self._report("oom")

    def _has_grown(self, growth: int) -> None:
        _say(f"live memory has grown by {growth / 2**20:,.0f} MiB since the first steps; memlane.check() and memlane leaks say what holds it")
        self._report("growth")

    def check(self) -> list[answers.Finding]:
        """Dumps to rank0_check.pickle, prints what memlane leaks says of it, and returns the findings; none if it cannot be judged."""
        with self._lock:
            path = self.dump("check") if self._backend is not None else None
        try:
            if path is not None:
                print(_program.run("leaks", "--quiet", "--", path).decode("utf-8"), end="", flush=True)
                found: answers.Leaks = _program.answer("leaks", "--", path)
                return found["findings"]
        except (_program.Error, _program.ProgramMissing, OSError) as error:
            _say(f"{path} was not judged: {error}")
        return []

    def _report(self, name: str) -> None:
        """Dumps, if it still records, and says where to."""
        with self._lock:
            path = self.dump(name) if self._backend is not None else None
        if path is not None:
            _say(f"wrote {path}")


def _short(number: int) -> str:
    return signal.Signals(number).name[3:].lower()


def record(
    folder: str | os.PathLike[str],
    *,
    stacks: str = "python",
    max_entries: int = 1_000_000,
    framework: str | None = None,
    on_signal: int | Iterable[int] | None = getattr(signal, "SIGUSR1", None),
    names: bool = True,
    on_growth: str | int | None = None,
    modules: bool = False,
) -> Recorder:
    """Returns a recorder of this process's memory, for a with statement.

    framework is "torch" or "jax"; without it, the one that is imported and has a device. PyTorch keeps the last max_entries
    allocations and frees, with stacks of Python ("python") or also of C++ ("all"). It dumps at the end, on SIGUSR1 (on_signal: another signal,
    several, or None), and before an out-of-memory error unwinds the stack. A signal that ends processes, such as SIGTERM, still does.

    Each capture has the names of live tensors and what holds them, which takes 3 seconds of CPU at most, usually below .2; names=False leaves them out.

    on_growth="2 GiB" dumps once, to rank0_growth.pickle, when live memory has grown by that much since the first steps. It is read after each
    step of an optimizer, at most once a second; without an optimizer, every 10 seconds.

    modules=True records the module of each allocation (PyTorch 2.8 and newer).
    """
    options = {"stacks": stacks, "max_entries": max_entries, "framework": framework, "on_signal": on_signal, "names": names}
    options.update(on_growth=on_growth, modules=modules)
    return Recorder(folder, **options)  # type: ignore[arg-type]


_active: list[Recorder] = []


def check() -> list[answers.Finding]:
    """Prints the leaks of this process so far and what holds them, and returns them. It raises RuntimeError if nothing records."""
    if not _active:
        raise RuntimeError("memlane.check: nothing records; begin with memlane.record")
    return _active[-1].check()


def _every(seconds: float, work: Callable[[], None]) -> Callable[[], None]:
    """Calls work in a thread of its own until the function that it returns is called."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(seconds):
            work()

    threading.Thread(target=run, name="memlane", daemon=True).start()
    return ended.set


def _backend(framework: str | None) -> _Torch | _Jax:
    if framework not in (None, "torch", "jax"):
        raise ValueError(f'memlane.record: framework {framework!r} is neither "torch" nor "jax"')
    if framework == "torch" or framework is None and "torch" in sys.modules:
        import torch

        device = _device(torch)
        if device is not None:
            return _Torch(torch, device)
        if framework == "torch" or "jax" not in sys.modules:
            raise RuntimeError(f"memlane.record: PyTorch sees no GPU (torch.cuda.is_available() is False){_instead(torch)}")
    if framework == "jax" or "jax" in sys.modules:
        import jax

        return _Jax(jax)
    raise RuntimeError("memlane.record: import torch or jax first")


def _device(torch: Any) -> Any:
    """Returns the module of the device that PyTorch uses, such as torch.cuda, if it can record; else None."""
    if torch.cuda.is_available():
        return torch.cuda
    module = getattr(torch, "get_device_module", lambda: None)()
    memory = getattr(module, "memory", None)
    return module if hasattr(memory, "_record_memory_history") and hasattr(memory, "_dump_snapshot") else None


def _instead(torch: Any) -> str:
    """Says why the device that PyTorch uses instead is not recorded."""
    module = getattr(torch, "get_device_module", lambda: torch.cpu)()
    name = module.__name__.rpartition(".")[2]
    return "" if name == "cuda" else f"; it uses {name}, whose allocations memlane cannot record: it records CUDA, ROCm, and XPU from PyTorch 2.10 on"


# PyTorch cannot remove an observer, so there is one for all recorders.
_observed: list[Recorder] = []
_attached = False


def _observe(device: int, requested: int, total: int, free: int) -> None:
    """Called by PyTorch's allocator before it raises."""
    with _Room():
        for recorder in list(_observed):
            recorder._out_of_memory()


class _Torch:
    suffix = ".pickle"

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch, self._device = torch, device
        self._is_cuda = device is torch.cuda
        self._annotated: dict[int, str] = {}
        self._recorder: Recorder | None = None
        self._before = False  # the program recorded before
        self._hooked = False  # the program used hooks of saved tensors
        self._push: Any = None
        self._has_ranges = True  # of record_function, in the history
        self._unmark: Callable[[], None] | None = None

    def start(self, recorder: Recorder) -> None:
        global _attached
        if _observed:
            raise RuntimeError("memlane.record: another recorder uses PyTorch's history")
        self._before = self._is_cuda and self._records()
        if self._before:
            _say("the program records its own history; its max_entries and stacks stay")
        else:
            self._record(max_entries=recorder._max_entries, stacks=recorder._stacks)
        if self._is_cuda and not _attached:
            self._torch._C._cuda_attach_out_of_memory_observer(_observe)
            _attached = True
        self._recorder = recorder
        _observed.append(recorder)
        self._watch_hooks()
        if recorder._modules:
            self._mark_modules()

    def _records(self) -> bool:
        """Reports whether a history is recorded. Nothing tells with which limits, so that nobody could restore it."""
        of = self._torch._C
        try:
            of._cuda_memoryStats(0)  # fails before there is an allocator; then the question would end the process
            return bool(of._cuda_isHistoryEnabled())
        except Exception:
            return False

    def _mark_modules(self) -> None:
        try:
            self._unmark = _modules.watch(self._torch, self._has_ranges)
        except Exception as error:
            _say(f"no modules: {error}")

    def _watch_hooks(self) -> None:
        """Notes whether hooks pack what graphs save: reading it would then compute or copy. PyTorch does not tell."""
        autograd = self._torch._C._autograd
        push = getattr(autograd, "_push_saved_tensors_default_hooks", None)
        if push is None:
            return
        self._hooked = bool(getattr(autograd, "_top_saved_tensors_default_hooks", bool)(False))

        def noting(*args: Any) -> Any:
            self._hooked = True
            return push(*args)

        self._push = push, noting
        autograd._push_saved_tensors_default_hooks = noting

    def _record(self, **options: Any) -> None:
        record_history = self._device.memory._record_memory_history
        try:
            record_history(global_record_annotations=True, **options)  # names of steps, modules and optimizers
        except TypeError:  # before PyTorch 2.8
            record_history(**options)
            self._has_ranges = False

    def watch(self, growth: _Growth) -> Callable[[], None]:
        """Reads levels until the function that it returns is called."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        device = self._device
        stepped = [0.0]  # when a level was read after a step

        def level() -> int:
            return sum(device.memory_allocated(n) for n in range(device.device_count())) if device.is_initialized() else 0

        def step(optimizer: Any, args: Any, kwargs: Any) -> None:
            now = time.monotonic()
            if now - stepped[0] >= 1:
                stepped[0] = now
                growth.take(level)

        def low() -> None:
            if stepped[0] == 0:
                growth.take(level, growth.MINUTE)

        hook = register_optimizer_step_post_hook(step)
        end = _every(growth.SECONDS, low)

        def unwatch() -> None:
            hook.remove()
            end()

        return unwatch

    def dump(self, path: str) -> None:
        self._device.memory._dump_snapshot(path)

    def finder(self) -> _names.Torch | None:
        if self._torch._C._get_tracing_state() is not None:  # what reads a tensor would be part of the traced program
            _say("no names while torch.jit traces")
            return None
        finder = _names.Torch(self._torch, self._device, self._hooked)
        if self._recorder is not None:
            try:
                finder.annotate(self._annotated, self._recorder._max_entries)
            except Exception as error:
                _say(f"no names for PyTorch's viewer: {type(error).__name__}: {error}")
        return finder

    def out_of_memory(self, error: BaseException) -> bool:
        return not self._is_cuda and type(error).__name__ == "OutOfMemoryError"  # of CUDA, the observer was told

    def stop(self) -> None:
        if self._recorder in _observed:
            _observed.remove(self._recorder)
        autograd = self._torch._C._autograd
        if self._push and autograd._push_saved_tensors_default_hooks is self._push[1]:
            autograd._push_saved_tensors_default_hooks = self._push[0]
        if self._unmark is not None:
            self._unmark()
        if not self._before:  # the program may have recorded before
            self._device.memory._record_memory_history(enabled=None)


class _Jax:
    suffix = ".prof"

    def __init__(self, jax: Any) -> None:
        self._jax = jax

    def start(self, recorder: Recorder) -> None:
        self._jax.profiler.start_trace(os.path.join(recorder.folder, f"rank{known_rank() or 0}_trace"))

    def watch(self, growth: _Growth) -> Callable[[], None]:
        """Reads levels until the function that it returns is called."""
        devices = [d for d in self._jax.local_devices() if d.memory_stats()]
        if not devices:
            _say("on_growth has no effect: this device does not tell its memory")
            return lambda: None
        return _every(growth.SECONDS, lambda: growth.take(lambda: sum(d.memory_stats()["bytes_in_use"] for d in devices), growth.MINUTE))

    def dump(self, path: str) -> None:
        self._jax.profiler.save_device_memory_profile(path)

    def finder(self) -> _names.Jax:
        return _names.Jax(self._jax)

    def out_of_memory(self, error: BaseException) -> bool:
        return "RESOURCE_EXHAUSTED" in str(error)

    def stop(self) -> None:
        self._jax.profiler.stop_trace()
