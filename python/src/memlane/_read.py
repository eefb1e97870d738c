"""Reads objects of the program without running its code: the only place of this package that looks into them.

A class may define what comparing, hashing, attributes, iteration and isinstance do, and so may its metaclass. So types are compared by identity,
attributes are read through descriptors that only Python defines, and the variables of a call from the memory of its frame.
"""

from __future__ import annotations

import collections
import gc
import operator
import sys
import time
import types
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

PIECE = 4096  # objects that are read at once
_VARIABLES = 500  # of a call
_DICT, _MRO, _NAME = (type.__dict__[name].__get__ for name in ("__dict__", "__mro__", "__qualname__"))
variables_of_module: Any = types.ModuleType.__dict__["__dict__"].__get__  # type: ignore[index]
_CONTAINERS = {id(t): t for t in (dict, list, tuple, collections.deque, set, frozenset)}


class Late(Exception):
    """The time is over."""


class Budget:
    """CPU time of this thread, with a ceiling in time that passes. Each loop over objects of the program spends it."""

    def __init__(self, seconds: float, ceiling: float) -> None:
        self.began, self._cpu = time.monotonic(), time.thread_time()
        self._seconds, self._ceiling, self._credit = seconds, ceiling, 0

    def spend(self, objects: int = 1) -> None:
        self._credit -= objects
        if self._credit < 0:
            self._credit = PIECE // 4
            if time.thread_time() - self._cpu > self._seconds or time.monotonic() - self.began > self._ceiling:
                raise Late


def mro(of: type) -> tuple[type, ...]:
    return _MRO(of) or ()  # a class that is being made or dropped has none


def derives(of: type, base: type) -> bool:
    return any(b is base for b in mro(of))


def is_any(of: type, *types_: type) -> bool:
    """Reports whether a type is one of several; "in" would compare it."""
    return any(of is t for t in types_)


def type_name(of: type) -> str:
    return str(_NAME(of))


def members(of: type) -> Any:
    """Returns what a class itself defines, by name."""
    return _DICT(of)


def module_of(of: type) -> str:
    module = members(of).get("__module__")
    return module if type(module) is str else "builtins"


def attributes(o: Any) -> dict[str, Any]:
    """Returns the attributes of an object, whatever its class computes instead; an empty dict if it has none."""
    for base in mro(type(o)):
        found = members(base).get("__dict__")
        if is_any(type(found), types.GetSetDescriptorType, types.MemberDescriptorType):  # the latter of modules
            try:
                kept = found.__get__(o)
            except Exception:
                continue
            if derives(type(kept), dict):
                return kept  # type: ignore[no-any-return]
    return {}


def attribute(o: Any, name: str) -> Any:
    return dict.get(attributes(o), name)


def slots(o: Any) -> Iterator[tuple[str, Any]]:
    """Yields the attributes that are no entries of a dict."""
    for base in mro(type(o)):
        for name, slot in list(members(base).items()):
            if type(slot) is types.MemberDescriptorType:
                try:
                    yield name, slot.__get__(o)
                except Exception:  # unset
                    pass


def array_class() -> type | None:
    """Returns the class of NumPy's arrays, if it was imported."""
    numpy = sys.modules.get("numpy")
    found = variables_of_module(numpy).get("ndarray") if type(numpy) is types.ModuleType else None
    return found if type(found) is type else None


def holds_objects(array: Any) -> bool:
    of = array_class()
    return of is not None and bool(members(of)["dtype"].__get__(array).char == "O")


def container_of(of: type) -> type | None:
    """Returns the container that a class is, or NumPy's array; None if it is neither."""
    arrays = array_class()
    return next((b for b in mro(of) if id(b) in _CONTAINERS or b is arrays), None)


def elements(o: Any, base: Any) -> Iterator[Sequence[Any]]:
    """Yields the elements of a container, without the values of a dict for which pairs is, in pieces. It ends early if a thread changes the container."""
    if base is list or base is tuple:
        for i in range(0, base.__len__(o), PIECE):
            yield base.__getitem__(o, slice(i, i + PIECE))
        return
    if base is dict:
        rest: Iterator[Any] = chain(dict.values(o), dict.keys(o))
    elif id(base) in _CONTAINERS:
        rest = base.__iter__(o)
    else:
        rest = iter(members(base)["flat"].__get__(o)) if holds_objects(o) else iter(())
    try:
        while piece := list(islice(rest, PIECE)):
            yield piece
    except RuntimeError:
        pass


def pairs(o: Any) -> Iterator[list[tuple[Any, Any]]]:
    """Yields keys and values of a dict, or pairs, in pieces."""
    rest = iter(dict.items(o) if derives(type(o), dict) else o)
    try:
        while piece := list(islice(rest, PIECE)):
            yield piece
    except RuntimeError:
        pass


def items(o: Any) -> list[tuple[Any, Any]]:
    """Returns keys and values of a dict; nothing if it is none."""
    return list(dict.items(o)) if derives(type(o), dict) else []


def referents(o: Any, base: Any) -> Iterator[Sequence[Any]]:
    """Yields what an object refers to, in pieces. base is its container_of."""
    wide = base is not None and (id(base) not in _CONTAINERS or base.__len__(o) > PIECE)
    if wide:
        yield from elements(o, base)
    if not wide:
        yield gc.get_referents(o)
    elif not is_any(type(o), dict, list, tuple, set, frozenset, collections.deque):
        yield [attributes(o), *(value for _, value in slots(o))]


def _offset(first: object, pointer: int) -> int:
    """Returns where the frame of this call keeps its first variable, counted from what runs; -1 if nowhere near."""
    import ctypes

    inner, of_first = ctypes.c_void_p.from_address(id(sys._getframe()) + object.__basicsize__ + pointer).value or 0, id(first)
    return next((at for at in range(0, 16 * pointer, pointer) if ctypes.c_void_p.from_address(inner + at).value == of_first), -1)


def _layout() -> Any:
    """Returns a structure of ctypes for a frame before Python 3.13; None where its memory is not as expected.

    One look at an attribute reads a variable, so that no other thread can end the call meanwhile.
    """
    import ctypes

    pointer = ctypes.sizeof(ctypes.c_void_p)
    variables = [(f"v{i}", ctypes.py_object) for i in range(_VARIABLES)]
    if sys.version_info < (3, 11):  # the frame ends with its variables
        return type("Frame", (ctypes.Structure,), {"_fields_": [("head", ctypes.c_char * (types.FrameType.__basicsize__ - pointer)), *variables]})
    offset = _offset(object(), pointer)
    if offset < 0:
        return None
    inside = type("Inside", (ctypes.Structure,), {"_fields_": [("head", ctypes.c_char * offset), *variables]})
    outside = [("head", ctypes.c_char * (object.__basicsize__ + pointer)), ("inside", ctypes.POINTER(inside))]
    return type("Frame", (ctypes.Structure,), {"_fields_": outside})


_frame: list[Any] = []  # the structure, and what reads each variable of it


def local_variables(frame: types.FrameType) -> list[tuple[str, Any]]:
    """Returns the variables of a call. Before Python 3.13, f_locals would write them into the dict that the program got from locals()."""
    code = frame.f_code
    if not code.co_flags & 1:  # of a module or a class body
        return []
    if sys.version_info >= (3, 13):
        return list(frame.f_locals.items())
    if not _frame:
        inside = "" if sys.version_info < (3, 11) else "inside.contents."
        _frame.extend((_layout(), [operator.attrgetter(f"{inside}v{i}") for i in range(_VARIABLES)]))
    layout, read = _frame
    if layout is None:
        return []
    names, cells = code.co_varnames, (*code.co_cellvars, *code.co_freevars)
    names += cells if sys.version_info < (3, 11) else tuple(c for c in cells if c not in names)
    memory, found = layout.from_address(id(frame)), []
    for i, name in enumerate(names[:_VARIABLES]):
        try:
            value = read[i](memory)
            found.append((name, value.cell_contents if name in cells and type(value) is types.CellType else value))
        except ValueError:  # unset
            pass
    return found
