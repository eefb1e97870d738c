"""Walks the objects of this process from what the program names, and says by which path each is reached.

Nothing of the program runs: types are compared with "is", objects are neither compared nor printed, and no attribute is read that a class may
define. Locals of a running frame are read through a dict that Python keeps with the frame; it is emptied again.
"""

from __future__ import annotations

import collections
import functools
import gc
import inspect
import os
import sys
import sysconfig
import time
import types
from array import array
from typing import Any, Callable

_LONG = 80  # characters of a key in a path
LONG_PATH = 150  # characters of a path at its begin and at its end
_EXTRA = 4  # further holders that are kept for an object
_NEAR = 1000  # objects in which a cycle is looked for
_ATOMS = (
    int, float, complex, bool, str, bytes, bytearray, memoryview, range, slice, type(None), type(...), type(NotImplemented), types.CodeType,
    types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
    types.ModuleType, type(type.__call__), type(str.join),
)  # fmt: skip
_SEQUENCES = (list, tuple, collections.deque)
_SETS = (set, frozenset)
_CONTAINERS = (dict, *_SEQUENCES, *_SETS)
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_STDLIB = sysconfig.get_paths()["stdlib"]
SKIPPED, PLAIN = 0, 1  # kinds of types; further ones are the caller's


class Root:
    """Variables with their names: those of a module or of a running call."""

    __slots__ = ("members", "where")

    def __init__(self, where: str, members: list[tuple[str, Any]]) -> None:
        self.where, self.members = where, members


def mro(of: type) -> tuple[type, ...]:
    return type.__dict__["__mro__"].__get__(of) or ()  # a class that is being made or dropped has none


def dict_of(o: Any) -> dict[str, Any] | None:
    """Returns the attributes of an object, unless its class computes them."""
    for base in mro(type(o)):
        found = type.__dict__["__dict__"].__get__(base).get("__dict__")
        if found is not None:
            try:
                attributes = found.__get__(o) if type(found) is types.GetSetDescriptorType else None
            except Exception:
                return None
            return attributes if type(attributes) is dict else None
    return None


def local_variables(frame: types.FrameType) -> list[tuple[str, Any]]:
    """Returns the variables of a call. It leaves no reference behind: before Python 3.13, a frame keeps the dict that f_locals returns."""
    if not frame.f_code.co_flags & 1:  # of a module or a class body: f_locals is what the program uses
        return []
    variables = frame.f_locals
    members = list(variables.items())
    if type(variables) is dict and sys.getrefcount(variables) <= 3:  # the frame, this variable, the argument: the program has not called locals()
        variables.clear()
    return members


def place_of(code: types.CodeType, line: int) -> str:
    return f"{getattr(code, 'co_qualname', code.co_name)} ({os.path.basename(code.co_filename)}:{line})"


def _of_library(module: types.ModuleType) -> bool:
    file = module.__dict__.get("__file__")
    if type(file) is not str:
        return True
    return "site-packages" in file or "dist-packages" in file or file.startswith(_STDLIB)


class Walk:
    """The objects that were reached, in order of their distance."""

    def __init__(self, kind_of: Callable[[type], int], found: Callable[[int, Any, int], None], seconds: float, most: int) -> None:
        """kind_of says what a type is. found is called with the index, the object and the kind of each object of a kind above PLAIN."""
        self.began = time.monotonic()
        self.stopped = False  # before everything was reached
        self.objects: list[Any] = []
        self.parents = array("q")
        self.seen: set[int] = set()
        self.given: dict[int, str] = {}  # labels of edges that no container has, by the index of the child
        self.indexes: dict[int, int] = {}  # of objects of a kind above PLAIN, by id
        self.extra: dict[int, list[int]] = {}  # further parents of these, by id
        self._kind_of, self._found = kind_of, found
        self._kinds: dict[type, int] = dict.fromkeys(_ATOMS, SKIPPED)
        self._deadline, self._most = self.began + seconds, most
        self._next = 0
        self._texts: dict[int, tuple[str, str]] = {}
        self._labels: dict[int, dict[int, str]] = {}
        self._attributes: set[int] = set()  # ids of dicts of attributes
        self._cells: dict[int, tuple[str, ...]] = {}  # names of the cells of a closure, by id

    def close(self) -> None:
        """Drops all references, also those in cycles with the frames that were walked."""
        for o in self.objects:
            if type(o) is Root:
                o.members.clear()
        self.objects.clear()
        self.__dict__.clear()

    @property
    def late(self) -> bool:
        return time.monotonic() > self._deadline

    def kind(self, of: type) -> int:
        kind = self._kinds.get(of)
        if kind is None:
            kind = self._kinds[of] = self._kind_of(of)
        return kind

    def add(self, o: Any, parent: int, label: str | None = None) -> int:
        """Adds an object that was reached by an edge of the caller, unless it was reached before. It returns its index or -1."""
        k, kind = id(o), self.kind(type(o))
        if kind == SKIPPED or k in self.seen:
            return -1
        index = len(self.objects)
        self.seen.add(k)
        self.objects.append(o)
        self.parents.append(parent)
        if label is not None:
            self.given[index] = label
        if kind > PLAIN:
            self.indexes[k] = index
            self._found(index, o, kind)
        return index

    def roots(self, own: Callable[[Any], bool]) -> tuple[list[Root], list[Root]]:
        """Returns the variables of the program, and those of libraries. own tells modules and frames' globals that are not walked."""
        program, libraries = [], []  # type: ignore[var-annotated]
        dicts: set[int] = set()
        for name, module in list(sys.modules.items()):
            if type(module) is not types.ModuleType and not isinstance(type(module), type):
                continue
            if types.ModuleType not in mro(type(module)):
                continue
            variables = types.ModuleType.__dict__["__dict__"].__get__(module)  # type: ignore[index]
            self.seen.add(id(module))
            if type(variables) is not dict or id(variables) in dicts:
                continue
            dicts.add(id(variables))
            self.seen.add(id(variables))
            if own(variables):
                continue
            root = Root(name, list(variables.items()))
            (libraries if name != "__main__" and _of_library(module) else program).append(root)
        program.sort(key=lambda r: r.where != "__main__")
        names = {t.ident: t.name for t in list(sys.modules["threading"].__dict__["_active"].values())} if "threading" in sys.modules else {}
        main = sys.modules["threading"].main_thread().ident if "threading" in sys.modules else None
        top: types.FrameType | None
        for thread, top in sys._current_frames().items():
            frame = top
            suffix = "" if thread == main else f", thread {names.get(thread, thread)}"
            while frame is not None:
                self.seen.add(id(frame))
                self.objects.append(frame)  # so that no other object gets its id
                self.parents.append(-1)
                if not own(frame.f_globals):
                    if id(frame.f_globals) not in dicts:
                        dicts.add(id(frame.f_globals))
                        self.seen.add(id(frame.f_globals))
                        name = frame.f_globals.get("__name__")  # type: ignore[assignment]
                        program.append(Root(name if type(name) is str else "exec", list(frame.f_globals.items())))
                    program.append(Root(place_of(frame.f_code, frame.f_lineno) + suffix, local_variables(frame)))
                frame = frame.f_back  # type: ignore[assignment]
        # the frame of this call must not hold itself, and with it all roots
        top = frame = None  # type: ignore[assignment]
        handled: dict[Any, Any] = getattr(sys, "_current_exceptions", dict)()
        for exception in handled.values():
            value = exception[1] if type(exception) is tuple else exception
            if value is not None:
                program.append(Root("exception that is being handled", [(type(value).__qualname__, value)]))
        self._next = len(self.objects)
        return program, libraries

    def start(self, root: Root) -> None:
        index = len(self.objects)
        self.objects.append(root)
        self.parents.append(-1)
        self._labels[index] = {}
        for name, value in root.members:
            self._labels[index].setdefault(id(value), name)
            if self.add(value, index) < 0 and id(value) in self.indexes:
                self._also(id(value), index)

    def _also(self, k: int, parent: int) -> None:
        extra = self.extra.setdefault(k, [])
        if len(extra) < _EXTRA:
            extra.append(parent)

    def run(self) -> None:
        """Reaches what can be reached from the objects added so far, in order of distance."""
        objects, parents, seen, indexes, kinds, referents = self.objects, self.parents, self.seen, self.indexes, self._kinds, gc.get_referents
        i = self._next
        while i < len(objects):
            if not i & 4095 and (self.late or len(objects) > self._most):
                self.stopped = True
                break
            o = objects[i]
            if type(o) is not Root:
                for c in referents(o):
                    k = id(c)
                    if k in seen:
                        if k in indexes:
                            self._also(k, i)
                        continue
                    kind = kinds.get(type(c))
                    if kind is None:
                        kind = self.kind(type(c))
                    if kind == SKIPPED:
                        continue
                    seen.add(k)
                    objects.append(c)
                    parents.append(i)
                    if kind > PLAIN:
                        indexes[k] = len(objects) - 1
                        self._found(len(objects) - 1, c, kind)
            i += 1
        self._next = i

    def holder(self, index: int, counts: dict[int, int]) -> int:
        """Returns the parent that says most about why an object is alive: the container that holds most objects of a kind above PLAIN."""
        best, most = self.parents[index], 0
        for parent in (self.parents[index], *self.extra.get(id(self.objects[index]), ())):
            n = counts.get(parent, 0) if parent >= 0 and type(self.objects[parent]) in _CONTAINERS else 0
            if n > max(most, 1) and not self._is_above(index, parent):
                best, most = parent, n
        return best

    def _is_above(self, index: int, below: int) -> bool:
        """Reports whether the path of an object leads through index."""
        while below >= 0:
            if below == index:
                return True
            below = self.parents[below]
        return False

    def path(self, index: int) -> tuple[str, str]:
        """Returns where the first variable of the path to an object is, and the path as an expression."""
        chain = []
        at = index
        while at >= 0 and at not in self._texts and type(self.objects[at]) is not Root:
            chain.append(at)
            at = self.parents[at]
        if at < 0:
            where, text = "", ""
        elif type(self.objects[at]) is Root:
            where, text = self.objects[at].where, ""
        else:
            where, text = self._texts[at]
        for at in reversed(chain):
            text += self.label(self.parents[at], at, first=not text)
            if len(text) > 4 * LONG_PATH:  # of a long chain: the texts of all its objects would fill the memory
                text = f"{text[:LONG_PATH]}…{text[-LONG_PATH:]}"
            self._texts[at] = where, text
        return where, text

    def call(self, index: int, where: str, text: str) -> None:
        """Sets the path of an object."""
        self._texts[index] = where, text

    def label(self, parent: int, child: int, first: bool = False) -> str:
        """Returns the text of an edge: ".attribute", "[3]", "['key']"; the name of a variable, if it is the first."""
        if self.parents[child] == parent and child in self.given:
            return self.given[child]
        if parent < 0:
            return ""
        labels = self._labels.get(parent)
        if labels is None:
            self._labels[parent] = {}  # the path of a key may lead through it
            labels = self._labels[parent] = self._label_all(self.objects[parent])
        text = labels.get(id(self.objects[child]))
        if text is None:
            return f".<{type(self.objects[parent]).__name__}>"
        return text.lstrip(".") if first else text

    def _label_all(self, o: Any) -> dict[int, str]:
        """Returns the labels of the members of an object, by id."""
        labels: dict[int, str] = {}
        t = type(o)
        bases = mro(t)
        if dict in bases:
            attributes = id(o) in self._attributes
            for key, value in list(dict.items(o)):
                labels.setdefault(id(value), f".{key}" if attributes and type(key) is str else f"[{self._key(key)}]")
                labels.setdefault(id(key), ".keys()")
        elif tuple in bases and id(o) in self._cells:
            for name, cell in zip(self._cells[id(o)], o):
                labels[id(cell)] = f".{name}"
        elif any(s in bases for s in _SEQUENCES):
            fields = t.__dict__.get("_fields")
            for i, value in enumerate(list(next(s for s in _SEQUENCES if s in bases).__iter__(o))):
                labels.setdefault(id(value), f".{fields[i]}" if type(fields) is tuple and i < len(fields) else f"[{i}]")
        elif any(s in bases for s in _SETS):
            labels = dict.fromkeys(map(id, list(next(s for s in _SETS if s in bases).__iter__(o))), "[...]")
        elif type in bases:
            for c in gc.get_referents(o):
                if type(c) is dict:
                    self._attributes.add(id(c))
                    labels[id(c)] = ""
        else:
            self._label_special(o, labels)
            found = dict_of(o)
            if found is not None:
                self._attributes.add(id(found))
                labels[id(found)] = ""
                for key, value in list(found.items()):
                    labels.setdefault(id(value), f".{key}" if type(key) is str else ".?")
            for base in bases:
                for name, slot in list(type.__dict__["__dict__"].__get__(base).items()):
                    if type(slot) is types.MemberDescriptorType:
                        try:
                            labels.setdefault(id(slot.__get__(o)), f".{name}")
                        except Exception:
                            pass
        return labels

    def _label_special(self, o: Any, labels: dict[int, str]) -> None:
        t = type(o)
        if t is types.FunctionType:
            if o.__closure__:
                self._cells[id(o.__closure__)] = o.__code__.co_freevars
                labels[id(o.__closure__)] = ".<closure>"
            labels[id(o.__defaults__)], labels[id(o.__kwdefaults__)] = ".__defaults__", ".__kwdefaults__"
            for c in gc.get_referents(o):
                if type(c) is dict and id(c) not in labels:
                    self._attributes.add(id(c))
                    labels[id(c)] = ""
        elif t is types.CellType:
            labels.update((id(c), "") for c in gc.get_referents(o))
        elif t is types.MethodType:
            labels[id(o.__self__)] = ".__self__"
            labels.setdefault(id(o.__func__), ".__func__")
        elif t is types.TracebackType:
            labels[id(o.tb_frame)] = labels[id(o.tb_next)] = ""
        elif t is functools.partial:
            labels[id(o.args)], labels[id(o.keywords)] = ".args", ".keywords"
        elif t.__name__ == "_lru_cache_wrapper":
            labels.update((id(c), ".<lru_cache>") for c in gc.get_referents(o))
        elif t.__name__ == "_lru_list_elem":
            labels.update((id(c), "") for c in gc.get_referents(o))
        elif t is types.FrameType or t in (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType):
            frame = o if t is types.FrameType else next((f for f in map(lambda n: getattr(o, n, None), ("gi_frame", "cr_frame", "ag_frame")) if f), None)
            if frame is not None:
                of_generator = t is not types.FrameType or sys.version_info < (3, 11) and frame.f_code.co_flags & _GENERATORS  # these had frames
                call = "" if of_generator else f".{frame.f_code.co_name}()"
                labels.update((id(value), f"{call}.{key}") for key, value in local_variables(frame))
                labels.setdefault(id(frame.f_back), "")
                labels.setdefault(id(frame), "")
        elif BaseException in mro(t):
            for name in ("__traceback__", "__context__", "__cause__", "args"):
                labels[id(BaseException.__dict__[name].__get__(o))] = f".{name}"

    def _key(self, key: Any) -> str:
        t = type(key)
        if t is str:
            return repr(key if len(key) <= _LONG else key[:_LONG] + "…")
        if t in (int, bool, float, bytes, type(None)):
            return repr(key)[:_LONG]
        if t is tuple and all(type(k) in (str, int, float, bool, type(None)) for k in key):
            return repr(key)[:_LONG]
        if id(key) in self.indexes:
            return self.path(self.indexes[id(key)])[1]
        return t.__qualname__

    def unreached(self, live: list[Any], own: Callable[[Any], bool]) -> list[tuple[Any, str, bool]]:
        """Returns the objects of a list that no path leads to: each with the types on the way to it, and whether these are a cycle."""
        wanted = [o for o in live if id(o) not in self.seen]
        if self.stopped or self.late or not wanted:
            return []
        rest = gc.get_objects()
        above: dict[int, list[Any]] = {}
        try:
            return self._look_above(wanted, rest, above, {id(rest), id(wanted), id(above), id(live), id(self.objects), id(self.__dict__)}, own)
        finally:  # one of the objects may lead to above, which would be a cycle with all that it holds
            rest.clear()
            above.clear()

    def _look_above(
        self, wanted: list[Any], rest: list[Any], above: dict[int, list[Any]], mine: set[int], own: Callable[[Any], bool]
    ) -> list[tuple[Any, str, bool]]:
        for i, o in enumerate(rest):
            if not i & 4095 and self.late:
                self.stopped = True
                return []
            if id(o) in self.seen or self._kinds.get(type(o)) == SKIPPED or id(o) in mine:
                continue
            if type(o) is types.FrameType and own(o.f_globals) or type(o) in (Root, Walk):
                continue
            for c in gc.get_referents(o):
                if id(c) not in self.seen:
                    holders = above.setdefault(id(c), [])
                    if len(holders) < _EXTRA:
                        holders.append(o)
        return [(o, *_up(o, above)) for o in wanted]


def _up(o: Any, above: dict[int, list[Any]]) -> tuple[str, bool]:
    """Returns the cycle that an object is in or hangs on; else what holds it that nothing in Python holds."""
    came: dict[int, Any] = {id(o): None}  # what each holds
    queue = collections.deque([o])
    top = o
    while queue:
        top = queue.popleft()
        for holder in above.get(id(top), ()):
            if id(holder) not in came:
                came[id(holder)] = top
                queue.append(holder)
        cycle = _cycle(top, above) if len(came) < _NEAR else None
        if cycle:
            names = [n for n in map(_name, cycle) if n] or [type(o).__qualname__ for o in cycle]
            return " -> ".join([*names, names[0]]), True
    return (_name(top) or type(top).__name__) if top is not o else "", False


def _cycle(start: Any, above: dict[int, list[Any]]) -> list[Any] | None:
    """Returns the shortest cycle through an object, in the order of its references; None if there is none."""
    holds: dict[int, Any] = {}
    queue = collections.deque([start])
    while queue and len(holds) < _NEAR:
        o = queue.popleft()
        for holder in above.get(id(o), ()):
            if id(holder) in holds:
                continue
            holds[id(holder)] = o
            if holder is start:
                cycle, at = [start], holds[id(start)]
                while at is not start:
                    cycle.append(at)
                    at = holds[id(at)]
                return cycle
            queue.append(holder)
    return None


def _name(o: Any) -> str:
    """Returns what people call an object of a cycle; "" for the dicts, cells and so on between them."""
    t = type(o)
    if t is types.FunctionType:
        return f"function {o.__qualname__}"
    if t is types.FrameType:
        return f"call of {o.f_code.co_name}"
    return "" if t in (*_CONTAINERS, types.CellType, types.MethodType, types.TracebackType) else t.__qualname__
