"""Tells PyTorch's history which module runs: as metadata of each allocation, or as a range where that is missing (before PyTorch 2.15)."""

from __future__ import annotations

import json
import sys
import threading
import types
import weakref
from typing import Any, Callable

from memlane import _read


_FRAMES = 100  # that are searched for the variable of a module


class _Open(threading.local):
    """What the calls of modules in a thread found when they began, outermost first."""

    def __init__(self) -> None:
        self.calls: list[Any] = []


def watch(torch: Any, has_ranges: bool) -> Callable[[], None]:
    """Marks the calls of all modules until the function that it returns is called. has_ranges: the history has those of record_function."""
    marks = _metadata(torch) or (_ranges(torch) if has_ranges else None)
    if marks is None:
        raise RuntimeError("modules=True needs PyTorch 2.8 or newer")
    begin, end = marks
    compiling, tracing = torch.compiler.is_compiling, torch._C._get_tracing_state
    open_, names = _Open(), _Names()

    # torch.compile traces these, and sees that they do nothing; torch.jit.trace would record a range
    def enter(module: Any, args: Any) -> None:
        if not compiling() and tracing() is None:
            open_.calls.append(begin(names.of(module, not open_.calls)))

    def leave(module: Any, args: Any, output: Any) -> None:
        if not compiling() and tracing() is None and open_.calls:
            end(open_.calls.pop())

    of_modules = torch.nn.modules.module
    handles = of_modules.register_module_forward_pre_hook(enter), of_modules.register_module_forward_hook(leave, always_call=True)

    def unwatch() -> None:
        for handle in handles:
            handle.remove()

    return unwatch


class _Names:
    """Paths of modules from the variable that holds the module which the program calls; from its class, if no variable is found."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, str]] = {}
        self._roots: dict[str, int] = {}  # how many modules have a name

    def of(self, module: Any, is_root: bool) -> str:
        known = self._known.get(id(module))
        if known is None or known[0]() is not module:
            name = is_root and _variable(module) or _read.type_name(type(module))
            n = self._roots[name] = self._roots.get(name, 0) + is_root
            self._name(module, f"{name}({n})" if n > 1 else name, is_root)
            known = self._known[id(module)]
        return known[1]

    def _name(self, root: Any, prefix: str, deep: bool) -> None:
        todo, done = [(root, prefix)], set()
        while todo:
            module, name = todo.pop()
            if id(module) in done:
                continue
            done.add(id(module))
            self._known[id(module)] = weakref.ref(module), name
            if deep:
                todo += [(m, f"{name}.{n}") for n, m in reversed(_read.items(_read.attribute(module, "_modules"))) if m is not None]


def _variable(module: Any) -> str:
    """Returns the variable that holds a module, or the attribute of a variable: of the program, then of its calls, outermost first."""
    frames: list[types.FrameType | None] = [sys._getframe(1)]  # this call's own would hold itself, and what its callers had
    while frames[-1] is not None and len(frames) < _FRAMES:
        frames.append(frames[-1].f_back)
    variables = [_read.items(frame.f_globals) for frame in frames[::-1] if frame is not None and frame.f_code.co_name == "<module>"]
    variables += [_read.local_variables(frame) for frame in frames[::-1] if frame is not None and frame.f_globals is not globals()]
    for of_frame in variables:
        for name, value in of_frame:
            if value is module and type(name) is str and name != "self":
                return name
        for name, value in of_frame:
            for key, inner in _read.items(_read.attributes(value)) if type(name) is str else ():
                if inner is module and type(key) is str:
                    return f"{name}.{key}"
    return ""


def _metadata(torch: Any) -> tuple[Callable[[str], Any], Callable[[Any], None]] | None:
    """Returns how to set and restore the metadata of this thread."""
    of_cuda = torch._C
    if not hasattr(of_cuda, "_cuda_setMemoryMetadata") or torch.cuda.get_allocator_backend() != "native":
        return None
    set_, get = of_cuda._cuda_setMemoryMetadata, of_cuda._cuda_getMemoryMetadata
    texts: dict[str, str] = {}

    def begin(name: str) -> Any:
        before = get()
        if before and not before.startswith(_OURS):
            return None  # the program's own stays
        text = texts.get(name)
        if text is None:
            text = texts[name] = json.dumps({"module": name}, separators=(",", ":"))
        set_(text)
        return before

    def end(before: Any) -> None:
        if before is not None and get().startswith(_OURS):
            set_(before)

    return begin, end


_OURS = '{"module":'


def _ranges(torch: Any) -> tuple[Callable[[str], Any], Callable[[Any], None]]:
    """Returns how to begin and end a range of record_function."""
    enter, leave = torch.ops.profiler._record_function_enter_new, torch.ops.profiler._record_function_exit._RecordFunction
    return lambda name: enter(f"nn.Module: {name}"), leave
