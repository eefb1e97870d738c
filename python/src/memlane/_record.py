"""Records captures: PyTorch's memory history and JAX's profiles."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any


def rank() -> int:
    """Returns the rank of this process, as torch.distributed or the launcher says it; 0 if it is alone."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    jax = sys.modules.get("jax")
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCAL_RANK"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return int(jax.process_index()) if jax is not None else 0


class Recorder:
    """Records the memory of this process into a folder. record makes one; start and stop do the same without a with statement.

    Files are named after the rank and the moment: rank0.pickle at the end, rank0_oom.pickle, rank0_usr1_1.pickle, rank0_NAME.pickle
    for dump("NAME"). Existing files of these names are replaced when the new one is complete.
    """

    def __init__(self, folder: str | os.PathLike[str], *, stacks: str, max_entries: int, framework: str | None, on_signal: int | None) -> None:
        self.folder = os.fspath(folder)
        self._stacks = stacks
        self._max_entries = max_entries
        self._framework = framework
        self._signal = on_signal
        self._previous: Any = None
        self._handling = False
        self._signals = 0
        self._ooms = 0
        self._process = 0  # a fork inherits the recorder, not the device
        self._backend: _Torch | _Jax | None = None

    def __enter__(self) -> Recorder:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.stop()
            return
        if self._backend is not None and self._backend.out_of_memory(error):
            self._out_of_memory()
        try:
            self.stop()
        except Exception as failure:  # must not replace the error of the program
            print(f"memlane: no capture written: {failure}", file=sys.stderr)

    @property
    def recording(self) -> bool:
        """Whether it records now."""
        return self._backend is not None

    def start(self) -> Recorder:
        """Begins to record. It raises RuntimeError if neither PyTorch with a GPU nor JAX is there."""
        if self._backend is not None:
            raise RuntimeError("memlane.record: already recording")
        os.makedirs(self.folder, exist_ok=True)
        backend = _backend(self._framework)
        backend.start(self)
        self._backend = backend
        self._process = os.getpid()
        atexit.register(self.stop)
        if self._signal is not None and threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(self._signal, self._on_signal)
            self._handling = True
        return self

    def stop(self) -> str | None:
        """Dumps, ends the recording, and returns the file. Without a recording, it does nothing and returns None."""
        backend = self._backend
        if backend is None or self._process != os.getpid():
            return None
        atexit.unregister(self.stop)
        if self._handling and self._signal is not None:
            signal.signal(self._signal, self._previous if self._previous is not None else signal.SIG_DFL)
            self._handling = False
        try:
            return self.dump()
        finally:
            self._backend = None
            backend.stop()

    def dump(self, name: str = "") -> str:
        """Writes what was recorded so far, and returns the file. The recording goes on."""
        if self._backend is None:
            raise RuntimeError("memlane.record: not recording")
        stem = f"rank{rank()}" + (f"_{name}" if name else "")
        path = os.path.join(self.folder, stem + self._backend.suffix)
        part = f"{path}.{os.getpid()}.part"
        try:
            self._backend.dump(part)
            os.replace(part, path)
        finally:
            if os.path.exists(part):
                os.remove(part)
        return path

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._process == os.getpid():
            self._signals += 1
            self._report(f"usr1_{self._signals}")
        if callable(self._previous):
            self._previous(number, frame)

    def _out_of_memory(self) -> None:
        """Dumps the first failure, while its frames still hold their buffers. Programs that catch it and retry fail a thousand times."""
        self._ooms += 1
        if self._ooms == 1:
            self._report("oom")

    def _report(self, name: str) -> None:
        """Dumps where an error must not replace that of the program."""
        try:
            print(f"memlane: wrote {self.dump(name)}", file=sys.stderr)
        except Exception as error:
            print(f"memlane: no capture written: {error}", file=sys.stderr)


def record(
    folder: str | os.PathLike[str],
    *,
    stacks: str = "python",
    max_entries: int = 1_000_000,
    framework: str | None = None,
    on_signal: int | None = getattr(signal, "SIGUSR1", None),
) -> Recorder:
    """Returns a recorder of this process's memory, for a with statement.

    framework is "torch" or "jax"; without it, the one that is imported and has a device. PyTorch keeps the last max_entries
    allocations and frees, with stacks of Python ("python") or also of C++ ("all"). It dumps at the end, on SIGUSR1 (on_signal=None: not), and
    before an out-of-memory error unwinds the stack.
    """
    return Recorder(folder, stacks=stacks, max_entries=max_entries, framework=framework, on_signal=on_signal)


def _backend(framework: str | None) -> _Torch | _Jax:
    if framework not in (None, "torch", "jax"):
        raise ValueError(f'memlane.record: framework {framework!r} is neither "torch" nor "jax"')
    if framework == "torch" or framework is None and "torch" in sys.modules:
        import torch

        if torch.cuda.is_available():
            return _Torch(torch)
        if framework == "torch" or "jax" not in sys.modules:
            raise RuntimeError("memlane.record: PyTorch sees no GPU (torch.cuda.is_available() is False)")
    if framework == "jax" or "jax" in sys.modules:
        import jax

        return _Jax(jax)
    raise RuntimeError("memlane.record: import torch or jax first")


# PyTorch cannot remove an observer, so there is one for all recorders.
_observed: list[Recorder] = []
_attached = False


def _observe(device: int, requested: int, total: int, free: int) -> None:
    """Called by PyTorch's allocator before it raises."""
    for recorder in list(_observed):
        recorder._out_of_memory()


class _Torch:
    suffix = ".pickle"

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._recorder: Recorder | None = None

    def start(self, recorder: Recorder) -> None:
        global _attached
        if _observed:
            raise RuntimeError("memlane.record: another recorder uses PyTorch's history")
        self._record(max_entries=recorder._max_entries, stacks=recorder._stacks)
        if not _attached:
            self._torch._C._cuda_attach_out_of_memory_observer(_observe)
            _attached = True
        self._recorder = recorder
        _observed.append(recorder)

    def _record(self, **options: Any) -> None:
        record_history = self._torch.cuda.memory._record_memory_history
        try:
            record_history(global_record_annotations=True, **options)  # names of steps, modules and optimizers
        except TypeError:  # before PyTorch 2.8
            record_history(**options)

    def dump(self, path: str) -> None:
        self._torch.cuda.memory._dump_snapshot(path)

    def out_of_memory(self, error: BaseException) -> bool:
        return False  # the observer was told

    def stop(self) -> None:
        if self._recorder in _observed:
            _observed.remove(self._recorder)
        self._torch.cuda.memory._record_memory_history(enabled=None)


class _Jax:
    suffix = ".prof"

    def __init__(self, jax: Any) -> None:
        self._jax = jax

    def start(self, recorder: Recorder) -> None:
        self._jax.profiler.start_trace(os.path.join(recorder.folder, f"rank{rank()}_trace"))

    def dump(self, path: str) -> None:
        self._jax.profiler.save_device_memory_profile(path)

    def out_of_memory(self, error: BaseException) -> bool:
        return "RESOURCE_EXHAUSTED" in str(error)

    def stop(self) -> None:
        self._jax.profiler.stop_trace()
