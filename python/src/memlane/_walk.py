"""Walks the objects of this process from what the program names, and says by which path each is reached. It reads them with _read only."""

from __future__ import annotations

import collections
import functools
import gc
import inspect
import itertools
import os
import sys
import sysconfig
import types
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable

from memlane import _read

_LONG = 80  # characters of a key in a path
LONG_PATH = 150  # characters of a path at its begin and at its end
_EXTRA = 4  # further holders that are kept for an object
_NEAR = 1000  # objects in which a cycle is looked for
_FEW = 50  # objects of which it is cheap to ask what refers to them
_ENOUGH = 100_000  # objects after which the walk ends if it has found all that is looked for
_ATOMS = (
    int, float, complex, bool, str, bytes, bytearray, memoryview, range, slice, type(None), type(...), type(NotImplemented), types.CodeType,
    types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
    type(type.__call__), type(str.join),
)  # fmt: skip
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_LRU_CACHE = type(functools.lru_cache(maxsize=None)(int))
_STDLIB = sysconfig.get_paths()["stdlib"]
SKIPPED, PLAIN, _ARRAY, _CLASS, _OTHER = range(5)  # kinds of types
WANTED = _OTHER  # further kinds are the caller's


class Root:
    """Variables with their names: those of a module or of a running call."""

    __slots__ = ("members", "where")

    def __init__(self, where: str, members: Any) -> None:
        """members are pairs, or the dict of a module."""
        self.where, self.members = where, members


def place_of(code: types.CodeType, line: int) -> str:
    return f"{getattr(code, 'co_qualname', code.co_name)} ({os.path.basename(code.co_filename)}:{line})"


def shortened(text: str, most: int = 2 * LONG_PATH) -> str:
    return text if len(text) <= most else f"{text[:LONG_PATH]}…{text[-LONG_PATH:]}"


def _of_library(file: Any) -> bool:
    return type(file) is not str or "site-packages" in file or "dist-packages" in file or file.startswith((_STDLIB, "<frozen "))


class Walk:
    """The objects that were reached, in order of their distance: first what the program's own variables hold.

    Long containers are read in pieces, and all but the first wait until the rest was read. Classes of libraries come last.
    """

    def __init__(self, kind_of: Callable[[type], int], found: Callable[[int, Any, int], None], budget: _read.Budget, most: int) -> None:
        """kind_of says what a type is. found is called with the index, the object and the kind of each object of a kind above WANTED."""
        self.budget = budget
        self.stopped = False  # before everything was reached
        self.failed = 0  # objects that could not be read
        self.objects: list[Any] = []
        self.parents = array("q")
        self.seen: set[int] = set()
        self.given: dict[int, str] = {}  # labels of edges that no container has, by the index of the child
        self.indexes: dict[int, int] = {}  # of objects of a kind above WANTED, by id
        self.extra: dict[int, list[int]] = {}  # further parents of these, by id
        self.live: list[Any] = []  # what is looked for
        self.missing: set[int] = set()  # ids of these that were not reached
        self.unheld: set[int] = set()  # ids of these to which nothing refers
        self._kind_of, self._found, self._most = kind_of, found, most
        self._types: list[type] = list(_ATOMS)  # kept, so that no other type gets the id of one
        self._kinds = {id(t): SKIPPED for t in _ATOMS}
        self._bases: dict[int, Any] = {}
        self._libraries: set[str] = set()  # names of modules
        self._next = 0
        self._of_libraries = sys.maxsize  # index of the first object that only libraries hold
        self._far: collections.deque[tuple[int, Iterator[Sequence[Any]]]] = collections.deque()
        self._classes: list[tuple[int, type]] = []  # of libraries, with what led to each
        self._texts: dict[int, tuple[str, str]] = {}
        self._labels: dict[int, dict[int, str]] = {}
        self._on_paths: set[int] = set()  # ids of what leads to an object of a kind above WANTED
        self._attributes: set[int] = set()  # ids of dicts of attributes
        self._cells: dict[int, tuple[str, ...]] = {}  # names of the cells of a closure, by id

    def close(self) -> None:
        """Drops all references, also those in cycles with the frames that were walked."""
        for o in self.objects:
            if type(o) is Root:
                o.members = ()
        self.objects.clear()
        self.__dict__.clear()

    def kind(self, of: type) -> int:
        kind = self._kinds.get(id(of))
        if kind is None:
            kind = self._kind_of(of)
            self._bases[id(of)] = base = _read.container_of(of)
            if kind == PLAIN and base is not None and base is _read.array_class():
                kind = _ARRAY
            elif kind == PLAIN and _read.derives(of, type):
                kind = _CLASS
            self._kinds[id(of)] = kind
            self._types.append(of)
        return kind

    def add(self, o: Any, parent: int, label: str | None = None) -> int:
        """Adds an object that was reached by an edge of the caller, unless it was reached before. It returns its index or -1."""
        index = len(self.objects)
        self._take(parent, (o,))
        if len(self.objects) == index:
            return -1
        if label is not None:
            self.given[index] = label
        return index

    def _take(self, parent: int, found: Sequence[Any]) -> None:
        """Adds what an object refers to."""
        self.budget.spend(len(found) + 1)
        objects, seen, kinds, tracked = self.objects, self.seen, self._kinds, gc.is_tracked
        for c in found:
            k = id(c)
            if k in seen:
                if k in self.indexes:
                    self._also(k, parent)
                continue
            t = type(c)
            kind = kinds.get(id(t))
            if kind is None:
                kind = self.kind(t)
            if kind <= _CLASS:
                if kind == SKIPPED or kind == PLAIN and not tracked(c) or kind == _ARRAY and not _read.holds_objects(c):
                    continue
                if kind == _CLASS and self._libraries and _read.module_of(c) in self._libraries:
                    seen.add(k)
                    self._classes.append((parent, c))
                    continue
            seen.add(k)
            objects.append(c)
            self.parents.append(parent)
            if kind > WANTED:
                index = self.indexes[k] = len(objects) - 1
                self.missing.discard(k)
                self._found(index, c, kind)
        if len(objects) > self._most:
            raise _read.Late

    def _also(self, k: int, parent: int) -> None:
        extra = self.extra.setdefault(k, [])
        if len(extra) < _EXTRA:
            extra.append(parent)

    def reach(self, own: Callable[[Any], bool], further: Callable[[], None]) -> None:
        """Reaches what the program's variables hold; then, if something is missing, what calls and modules of libraries hold.

        own tells modules and frames' globals that are not walked. further adds what the garbage collector does not see.
        """
        try:
            program, frames, modules = self._roots(own)
            for root in program:
                self._start(root)
            self._run(further)
            self._of_libraries = len(self.objects)
            if self.missing:
                for root in frames:
                    self._start(root)
                self._run(further)
                self._drop_unheld()
            if self.missing:
                for root in modules:
                    self._start(root)
                self._libraries.clear()
                for parent, c in self._classes:
                    self.objects.append(c)
                    self.parents.append(parent)
                self._run(further)
        except _read.Late:
            self.stopped = True

    def _drop_unheld(self) -> None:
        """Finds what only C++ holds, so that no one looks for it in libraries."""
        few = [o for o in self.live if id(o) in self.missing][: _FEW + 1]
        holders = gc.get_referrers(*few) if 0 < len(few) <= _FEW else []
        if 0 < len(holders) < _NEAR:
            mine = {id(few), id(self.live)}
            held: set[int] = set()
            for o in holders:
                for piece in _read.referents(o, _read.container_of(type(o))) if id(o) not in mine else ():
                    self.budget.spend(len(piece))
                    held.update(map(id, piece))
            self.unheld.update(id(o) for o in few if id(o) not in held)
            self.missing -= self.unheld

    def _run(self, further: Callable[[], None]) -> None:
        self.near()
        further()
        for index, _ in list(self._far) if self.missing else ():  # first what long containers hold themselves
            o = self.objects[index]
            for piece in _read.referents(o, self._bases[id(type(o))]):
                self.budget.spend(len(piece))
                self._take(index, [c for c in filter(gc.is_tracked, piece) if self.kind(type(c)) > WANTED])
        further()
        while self._far and self.missing:
            index, pieces = self._far.popleft()
            for piece in pieces:
                if piece and type(piece[0]) is not _read.array_class():
                    piece = list(filter(gc.is_tracked, piece))  # a million numbers, quickly
                self._take(index, piece)
                self.near()
                if not self.missing:
                    break
            further()

    def near(self) -> None:
        """Reaches what can be reached from the objects added so far, in order of distance, but for long containers."""
        objects, bases = self.objects, self._bases
        while self._next < len(objects):
            i = self._next
            self._next = i + 1
            o = objects[i]
            if type(o) is Root:
                continue
            base = bases.get(id(type(o)))
            try:
                if base is None:
                    self._take(i, gc.get_referents(o))
                    continue
                pieces = _read.referents(o, base)
                first = next(pieces, ())
                self._take(i, first)
                if len(first) >= _read.PIECE:
                    self._far.append((i, pieces))
            except (_read.Late, MemoryError):
                raise
            except Exception:
                self.failed += 1
            if not self.missing and i > _ENOUGH:
                self._next = len(objects)

    def _roots(self, own: Callable[[Any], bool]) -> tuple[list[Root], list[Root], list[Root]]:
        """Returns the variables of the program, those of calls of libraries, and those of modules of libraries."""
        program: list[Root] = []
        frames: list[Root] = []
        modules: list[Root] = []
        dicts: set[int] = set()
        for name, module in _read.items(sys.modules):
            if not _read.derives(type(module), types.ModuleType) or type(name) is not str:
                continue
            variables = _read.variables_of_module(module)
            self.seen.add(id(module))
            if not _read.derives(type(variables), dict) or id(variables) in dicts:
                continue
            dicts.add(id(variables))
            self.seen.add(id(variables))
            if own(variables):
                continue
            if name != "__main__" and _of_library(dict.get(variables, "__file__")):
                self._libraries.add(name)
                modules.append(Root(name, variables))
            else:
                program.append(Root(name, variables))
        program.sort(key=lambda r: r.where != "__main__")
        names, main = _threads()
        for thread, top in sys._current_frames().items():
            frame: types.FrameType | None = top
            suffix = "" if thread == main else f", thread {names.get(thread, thread)}"
            while frame is not None:
                self.budget.spend(10)
                self.seen.add(id(frame))
                self.objects.append(frame)  # so that no other object gets its id
                self.parents.append(-1)
                variables, code = frame.f_globals, frame.f_code
                if not own(variables):
                    if id(variables) not in dicts:
                        dicts.add(id(variables))
                        self.seen.add(id(variables))
                        name = dict.get(variables, "__name__")
                        program.append(Root(name if type(name) is str else "exec", variables))
                    of = frames if _of_library(code.co_filename) else program
                    of.append(Root(place_of(code, frame.f_lineno) + suffix, _read.local_variables(frame)))
                frame = frame.f_back
        # the frame of this call must not hold itself, and with it all roots
        top = frame = variables = None  # type: ignore[assignment]
        handled: dict[Any, Any] = getattr(sys, "_current_exceptions", dict)()
        for exception in handled.values():
            value = exception[1] if type(exception) is tuple else exception
            if value is not None:
                program.append(Root("exception that is being handled", [(_read.type_name(type(value)), value)]))
        self._next = len(self.objects)
        return program, frames, modules

    def _start(self, root: Root) -> None:
        index = len(self.objects)
        self.objects.append(root)
        self.parents.append(-1)
        for piece in _read.pairs(root.members):
            self._take(index, [value for _, value in piece])

    def holder(self, index: int, counts: dict[int, int]) -> int:
        """Returns the parent that says most about why an object is alive: the container that holds most objects of a kind above WANTED.

        What a library holds says less than what the program holds.
        """
        best, most = self.parents[index], 0
        for parent in (self.parents[index], *self.extra.get(id(self.objects[index]), ())):
            if index < self._of_libraries <= parent:
                continue
            n = counts.get(parent, 0) if parent >= 0 and self._bases.get(id(type(self.objects[parent]))) is not None else 0
            if n > max(most, 1) and not self._is_above(index, parent):
                best, most = parent, n
        return best

    def _is_above(self, index: int, below: int) -> bool:
        """Reports whether the path of an object leads through index."""
        while below > index:  # what leads to an object was reached before it
            self.budget.spend()
            below = self.parents[below]
        return below == index

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
            self.budget.spend()
            text = shortened(text + self.label(self.parents[at], at, first=not text), 4 * LONG_PATH)  # the texts of a long chain would fill the memory
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
            return f".<{_read.type_name(type(self.objects[parent]))}>"
        return text.lstrip(".") if first else text

    def _led(self) -> set[int]:
        """Returns the ids of what leads to an object of a kind above WANTED: only these have labels."""
        if not self._on_paths:
            for index in itertools.chain(self.indexes.values(), *self.extra.values()):
                while index >= 0 and id(self.objects[index]) not in self._on_paths:
                    self.budget.spend()
                    self._on_paths.add(id(self.objects[index]))
                    index = self.parents[index]
        return self._on_paths

    def _label_all(self, o: Any) -> dict[int, str]:
        """Returns the labels of the members of an object, by id."""
        labels: dict[int, str] = {}
        try:
            self._label(o, type(o), labels, self._led())
        except (_read.Late, MemoryError):
            raise
        except Exception:
            self.failed += 1
        return labels

    def _label(self, o: Any, t: type, labels: dict[int, str], led: set[int]) -> None:
        if t is Root:
            for members in _read.pairs(o.members):
                labels.update((id(value), name) for name, value in reversed(members) if id(value) in led and type(name) is str)
            return
        self.kind(t)
        base = self._bases[id(t)] if id(t) in self._bases else None
        if base is dict:
            attributes = id(o) in self._attributes
            for piece in _read.pairs(o):
                self.budget.spend(len(piece))
                for key, value in piece:
                    if id(value) in led:
                        labels.setdefault(id(value), f".{key}" if attributes and type(key) is str else f"[{self._key(key)}]")
                    if id(key) in led:
                        labels.setdefault(id(key), ".keys()")
        elif base is tuple and id(o) in self._cells:
            for name, cell in zip(self._cells[id(o)], o):
                labels[id(cell)] = f".{name}"
        elif base is not None:
            ordered, begin = base is not set and base is not frozenset, 0
            fields = _read.members(t).get("_fields")
            shape = () if ordered and base is not _read.array_class() or not ordered else _read.members(base)["shape"].__get__(o)
            for some in _read.elements(o, base):
                self.budget.spend(len(some))
                if not led.isdisjoint(map(id, some if shape else filter(gc.is_tracked, some))):
                    for i, value in enumerate(some, begin):
                        if id(value) in led:
                            named = type(fields) is tuple and i < len(fields)
                            labels.setdefault(id(value), f".{fields[i]}" if named else f"[{_position(i, shape)}]" if ordered else "[...]")
                begin += len(some)
        elif _read.derives(t, type):
            self._dicts(o, labels)
        else:
            self._label_special(o, t, labels)
        if not _read.is_any(t, dict, list, tuple, set, frozenset, types.FunctionType):
            found = _read.attributes(o)
            if found:
                self._attributes.add(id(found))
                labels[id(found)] = ""
                for piece in _read.pairs(found):
                    for key, value in piece:
                        labels.setdefault(id(value), f".{key}" if type(key) is str else ".?")
            for name, value in _read.slots(o):
                labels.setdefault(id(value), f".{name}")

    def _dicts(self, o: Any, labels: dict[int, str]) -> None:
        """Labels what the dicts of attributes of a class or a function hold."""
        for c in gc.get_referents(o):
            if type(c) is dict and id(c) not in labels:
                self._attributes.add(id(c))
                labels[id(c)] = ""

    def _label_special(self, o: Any, t: type, labels: dict[int, str]) -> None:
        if t is types.FunctionType:
            if o.__closure__:
                self._cells[id(o.__closure__)] = o.__code__.co_freevars
                labels[id(o.__closure__)] = ".<closure>"
            labels[id(o.__defaults__)], labels[id(o.__kwdefaults__)] = ".__defaults__", ".__kwdefaults__"
            self._dicts(o, labels)
        elif t is types.CellType:
            labels.update((id(c), "") for c in gc.get_referents(o))
        elif t is types.MethodType:
            labels[id(o.__self__)] = ".__self__"
            labels.setdefault(id(o.__func__), ".__func__")
        elif t is types.TracebackType:
            labels[id(o.tb_frame)] = labels[id(o.tb_next)] = ""
        elif t is functools.partial:
            labels[id(o.args)], labels[id(o.keywords)] = ".args", ".keywords"
        elif t is _LRU_CACHE:
            labels.update((id(c), ".<lru_cache>") for c in gc.get_referents(o))
        elif _read.type_name(t) == "_lru_list_elem":
            labels.update((id(c), "") for c in gc.get_referents(o))
        elif _read.is_any(t, types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType):
            frame = o if t is types.FrameType else next((f for f in (getattr(o, n, None) for n in ("gi_frame", "cr_frame", "ag_frame")) if f), None)
            if frame is not None:
                of_generator = t is not types.FrameType or sys.version_info < (3, 11) and frame.f_code.co_flags & _GENERATORS  # these had frames
                call = "" if of_generator else f".{frame.f_code.co_name}()"
                labels.update((id(value), f"{call}.{key}") for key, value in _read.local_variables(frame))
                labels.setdefault(id(frame.f_back), "")
                labels.setdefault(id(frame), "")
        elif _read.derives(t, BaseException):
            for name in ("__traceback__", "__context__", "__cause__", "args"):
                labels[id(BaseException.__dict__[name].__get__(o))] = f".{name}"

    def _key(self, key: Any) -> str:
        t = type(key)
        if t is str:
            return repr(key if len(key) <= _LONG else key[:_LONG] + "…")
        simple = int, bool, float, type(None)
        if _read.is_any(t, bytes, *simple) or t is tuple and len(key) <= _LONG and all(_read.is_any(type(k), str, *simple) for k in key):
            return repr(key)[:_LONG]
        if id(key) in self.indexes:
            return self.path(self.indexes[id(key)])[1]
        return _read.type_name(t)

    def unreached(self, live: Iterable[Any], own: Callable[[Any], bool]) -> Iterator[tuple[Any, str, bool]]:
        """Yields the objects that no path leads to: each with the types on the way to it, and whether these are a cycle."""
        wanted = [o for o in live if id(o) not in self.seen]
        yield from ((o, "", False) for o in wanted if id(o) in self.unheld)
        wanted = [o for o in wanted if id(o) not in self.unheld]
        if self.stopped or not wanted:
            return
        rest = gc.get_objects()
        above: dict[int, list[Any]] = {}
        try:
            self._look_above(rest, above, {id(rest), id(wanted), id(above), id(live), id(self.objects), id(self.__dict__)}, own)
            for o in wanted:
                yield o, *self._up(o, above)
        finally:  # one of the objects may lead to above, which would be a cycle with all that it holds
            rest.clear()
            above.clear()

    def _look_above(self, rest: list[Any], above: dict[int, list[Any]], mine: set[int], own: Callable[[Any], bool]) -> None:
        for o in rest:
            self.budget.spend()
            t = type(o)
            if id(o) in self.seen or self.kind(t) == SKIPPED or id(o) in mine:
                continue
            if t is types.FrameType and own(o.f_globals) or _read.is_any(t, Root, Walk):
                continue
            for piece in _read.referents(o, self._bases.get(id(t))):
                self.budget.spend(len(piece))
                for c in piece:
                    if id(c) not in self.seen and gc.is_tracked(c):
                        holders = above.setdefault(id(c), [])
                        if len(holders) < _EXTRA:
                            holders.append(o)

    def _up(self, o: Any, above: dict[int, list[Any]]) -> tuple[str, bool]:
        """Returns the cycle that an object is in or hangs on; else what holds it that nothing in Python holds."""
        came = {id(o)}
        queue = collections.deque([o])
        top = o
        while queue:
            top = queue.popleft()
            for holder in above.get(id(top), ()):
                if id(holder) not in came:
                    came.add(id(holder))
                    queue.append(holder)
            cycle = self._cycle(top, above) if len(came) < _NEAR else None
            if cycle:
                names = [n for n in map(_name, cycle) if n] or [_read.type_name(type(o)) for o in cycle]
                return " -> ".join([*names, names[0]]), True
        return (_name(top) or _read.type_name(type(top))) if top is not o else "", False

    def _cycle(self, start: Any, above: dict[int, list[Any]]) -> list[Any] | None:
        """Returns the shortest cycle through an object, in the order of its references; None if there is none."""
        holds: dict[int, Any] = {}
        queue = collections.deque([start])
        while queue and len(holds) < _NEAR:
            o = queue.popleft()
            self.budget.spend()
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


def _threads() -> tuple[dict[Any, str], Any]:
    """Returns the names of threads by their numbers, and the number of the main thread."""
    variables = _read.variables_of_module(sys.modules["threading"]) if "threading" in sys.modules else {}
    names = {}
    for number, thread in _read.items(variables.get("_active")):
        name = _read.attribute(thread, "_name")
        names[number] = name if type(name) is str else _read.type_name(type(thread))
    return names, _read.attribute(variables.get("_main_thread"), "_ident")


def _position(i: int, shape: tuple[int, ...]) -> str:
    """Returns the index of an element of an array."""
    at: list[str] = []
    for n in reversed(shape[1:]):
        at.insert(0, str(i % n))
        i //= n
    return ", ".join([str(i), *at])


def _name(o: Any) -> str:
    """Returns what people call an object of a cycle; "" for the dicts, cells and so on between them."""
    t = type(o)
    if t is types.FunctionType:
        return f"function {o.__qualname__}"
    if t is types.FrameType:
        return f"call of {o.f_code.co_name}"
    between = dict, list, tuple, set, frozenset, collections.deque, types.CellType, types.MethodType, types.TracebackType
    return "" if _read.is_any(t, *between) else _read.type_name(t)
