"""Names of live tensors and what holds them, as text for a capture: docs/manual/formats.md describes it."""

from __future__ import annotations

import contextlib
import gc
import gzip
import hashlib
import json
import math
import os
import struct
import time
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from memlane import _read, _walk

KEY = "memlane"  # of a snapshot
FIELD = 1000  # of a profile of JAX
SECONDS, CEILING = 1.5, 30.0  # of CPU for the walk, and that may pass; half as much for the names
_OBJECTS = 500_000  # 45 MB of this process
_NESTED = 4  # lists and dicts of an optimizer's state in each other
_DEEP = 100  # steps of a path whose types are looked at
_RESULTS = (" (result", " (output", " (indices", " (save_", " (reserve")  # what an operation saves of what it computed
_TENSOR, _STORAGE, _MODULE, _OPTIMIZER, _NODE = range(_walk.WANTED + 1, _walk.WANTED + 6)


class _Texts:
    """The texts of the columns, each once."""

    def __init__(self) -> None:
        self.all = [""]
        self._ids = {"": 0}

    def id(self, text: str) -> int:
        text = _walk.shortened(text)
        n = self._ids.get(text)
        if n is None:
            n = self._ids[text] = len(self.all)
            self.all.append(text)
        return n


# Columns of numbers; those of texts are numbers of texts.
_NUMBERS = ("device", "address", "bytes", "others")
_OF_TEXTS = ("kind", "role", "name", "path", "where", "owner", "container", "node", "tensor", "stack")


class Table:
    """A row for each live storage."""

    def __init__(self) -> None:
        self.columns: dict[str, list[int]] = {name: [] for name in (*_NUMBERS, *_OF_TEXTS)}
        self.note = ""  # what is missing
        self.objects = 0
        self.seconds = 0.0
        self._texts = _Texts()

    def add(self, row: dict[str, Any]) -> None:
        for name in _NUMBERS:
            self.columns[name].append(row.get(name, 0))
        for name in _OF_TEXTS:
            self.columns[name].append(self._texts.id(row.get(name, "")))

    def text(self) -> str:
        """Returns the table as JSON in ASCII."""
        head = {"version": 1, "objects": self.objects, "seconds": round(self.seconds, 3), "note": self.note}
        return json.dumps({**head, "texts": self._texts.all, **self.columns}, separators=(",", ":"))


def _own(variables: Any) -> bool:
    name = dict.get(variables, "__name__")
    return type(name) is str and name.split(".", 1)[0] == __name__.split(".", 1)[0]


class _Finder:
    """Walks once. Collections of the garbage collector are off meanwhile: they would change what is recorded."""

    def __init__(self) -> None:
        self.live: list[Any] = []  # kept from before the capture until it is named, so that their addresses are theirs
        self.classes: dict[int, int] = {}  # kinds of classes, by id
        self._walk: _walk.Walk
        self._budget = _read.Budget(SECONDS, CEILING)
        self._unread = 0  # objects of which nothing can be said

    def _kind_of(self, of: type) -> int:
        for base in _read.mro(of):
            kind = self.classes.get(id(base))
            if kind is not None:
                return kind
        return _walk.PLAIN

    def table(self) -> Table:
        enabled = gc.isenabled()
        gc.disable()
        table, notes = Table(), []
        self._budget = _read.Budget(SECONDS, CEILING)
        walk = self._walk = _walk.Walk(self._kind_of, self._found, self._budget, _OBJECTS)
        began = time.monotonic()
        try:
            walk.live, walk.missing = self.live, self._wanted()
            walk.seen.update((id(self), id(self.__dict__), id(self.live)))
            with self._unwatched():
                walk.reach(_own, self._reach_further)
                try:
                    self._fill(walk, table)
                except _read.Late:
                    walk.stopped = True
        except Exception as error:
            notes.append(f"names stop: {type(error).__name__}: {error}")
        finally:  # no reference may stay, nor a cycle for the collector
            table.objects, table.seconds = len(walk.objects), time.monotonic() - began
            if table.note:
                notes.append(table.note)
            if walk.stopped:
                missing = len(walk.missing)
                of = f"; {missing:,} of {len(self.live):,} tensors were not reached" if missing else ""
                notes.insert(0, f"names stop after {len(walk.objects):,} objects and {table.seconds:.1f} s{of}")
            if self._unread + walk.failed:
                notes.append(f"{self._unread + walk.failed:,} objects cannot be read")
            table.note = "; ".join(notes)
            walk.close()
            self.__dict__.clear()
            if enabled:
                gc.enable()
        return table

    def _each(self, some: Iterable[Any], work: Callable[[Any], None]) -> None:
        """Calls work with each of some objects. One that cannot be read costs itself only."""
        for o in some:
            self._budget.spend()
            try:
                work(o)
            except (_read.Late, MemoryError):
                raise
            except Exception:
                self._unread += 1

    def _renewed(self) -> _read.Budget:
        """Returns the budget of a part of naming."""
        self._budget = _read.Budget(SECONDS / 2, CEILING / 2)
        return self._budget

    @contextlib.contextmanager
    def _unwatched(self) -> Iterator[None]:
        """Keeps the program's own code out of what the framework does."""
        yield

    def _wanted(self) -> set[int]:
        """Returns the ids of what is looked for."""
        return {id(o) for o in self.live}

    def _reach_further(self) -> None:
        """Reaches what the garbage collector does not see."""

    def _found(self, index: int, o: Any, kind: int) -> None:
        raise NotImplementedError

    def _fill(self, walk: _walk.Walk, table: Table) -> None:
        raise NotImplementedError


def _counts(walk: _walk.Walk, indexes: Iterable[int]) -> dict[int, int]:
    """Returns how many of some objects each object holds."""
    counts: dict[int, int] = {}
    for index in indexes:
        for parent in (walk.parents[index], *walk.extra.get(id(walk.objects[index]), ())):
            counts[parent] = counts.get(parent, 0) + 1
    return counts


def held(walk: _walk.Walk, index: int, counts: dict[int, int]) -> dict[str, str]:
    """Returns path, where, owner and container of an object that variables hold."""
    parent = walk.holder(index, counts)
    where, text = walk.path(parent)
    label = walk.label(parent, index, first=not text)
    row = {"path": text + label, "where": where, "owner": text, "container": ""}
    at = parent
    for _ in range(_DEEP):  # the innermost container on the path that may grow
        if at < 0:
            break
        if label.endswith("]"):
            row["container"] = _read.type_name(type(walk.objects[at]))
            if row["container"] != "tuple":  # which does not grow
                break
        at, label = walk.parents[at], walk.label(walk.parents[at], at)
    row["path"], row["owner"] = (_attributes(row[k]) for k in ("path", "owner"))
    return row


def _attributes(path: str) -> str:
    """Returns a path through modules as people write it."""
    path = path.replace("._dict['", "['")  # flax.core.FrozenDict
    for inner in ("._modules['", "._parameters['", "._buffers['"):
        while inner in path:
            before, _, after = path.partition(inner)
            name, _, rest = after.partition("']")
            path = f"{before}.{name}{rest}"
    return path


class _Name(NamedTuple):
    role: str
    name: str
    owner: str
    where: str


class Torch(_Finder):
    """Of PyTorch. Make one before the capture is dumped."""

    def __init__(self, torch: Any, device: Any, hooked: bool) -> None:
        super().__init__()
        self._torch, self._device, self._hooked = torch, device, hooked
        of_storage = torch.UntypedStorage
        self.classes = {id(torch.Tensor): _TENSOR, id(of_storage): _STORAGE, id(torch.nn.Module): _MODULE, id(torch.optim.Optimizer): _OPTIMIZER}
        self._plain = {id(torch.nn.Parameter), id(getattr(torch.nn, "Buffer", None)), id(torch.Tensor)}  # classes that are made of nothing else
        self._tensors: list[tuple[int, Any]] = []
        self._modules: list[Any] = []
        self._optimizers: list[Any] = []
        self._nodes: list[tuple[int, Any]] = []  # that variables hold
        self._saved: dict[int, list[Any]] = {}  # what reads what a class of nodes saves
        self._base = getattr(torch._C, "TensorBase", None) or torch._C._TensorBase
        self._base_of_storage = getattr(torch._C, "StorageBase", of_storage)
        self._address = getattr(torch._C, "_data_address", None)  # of the storage
        self._computes: dict[int, bool] = {}  # classes of tensors that may compute their device and shape, by id
        self._looked = 0  # tensors whose gradients and graphs were reached
        self._above: dict[int, tuple[int, int]] = {}  # of what only graphs hold, by index: the variable whose graph it is, and the node that saved it
        self._in_graph = False
        self._storages: dict[int, list[int]] = {}  # addresses, with the ids of the live tensors there
        self._allocations = self._counted()
        self._called: tuple[list[Any], list[Any]] = [], []  # modules and optimizers
        self._kinds: dict[int, tuple[int, type]] = {}  # kinds of types by their id, which no other type may get
        self._places: dict[int, tuple[int, int, int]] = {}  # by id
        kinds: dict[int, int] = {}
        for o in gc.get_objects():  # graphs' own are made when they are read
            t = type(o)
            kind = kinds.get(id(t))
            if kind is None:
                kind = kinds[id(t)] = self._kind_of(t)
            if kind == _TENSOR or kind == _STORAGE:
                self.live.append(o)
            elif kind == _MODULE or kind == _OPTIMIZER:
                self._called[kind == _OPTIMIZER].append(o)

    def annotate(self, known: dict[int, str], most: int) -> None:
        """Tells PyTorch's own history the names of parameters, buffers, gradients and states, so that its viewer has them (PyTorch 2.15).

        known has the names by address that were told before. Nothing is told if that could push older events out of a history of most entries.
        """
        tell = getattr(self._torch._C, "_cuda_annotateMemory", None)
        if tell is None or self._device is not self._torch.cuda or self._device.get_allocator_backend() != "native":
            return
        with self._unwatched():
            names, tensors = self._named(lambda o: ("", ""), [], *self._called)[:2]
            if 3 * sum(n or 0 for n in self._allocations) + 2 * len(names) > most:  # entries of an allocation and its free
                return
            for tensor in tensors:
                address, text = self._place(tensor)[1], names[id(tensor)].name
                if address and known.get(address) != text:
                    known[address] = text
                    tell(address, json.dumps({"name": text}, separators=(",", ":")))

    def add_to(self, path: str) -> None:
        add_to_snapshot(path, self.table())

    @contextlib.contextmanager
    def _unwatched(self) -> Iterator[None]:
        guard = getattr(self._torch._C, "_DisableTorchDispatch", object)()
        try:
            with self._torch._C.DisableTorchFunction():
                yield
        finally:
            del guard  # a traceback may keep this frame

    def _counted(self) -> list[Any]:
        """Returns how many allocations each device has had."""
        device = self._device
        if not device.is_initialized():
            return []
        return [device.memory_stats(n).get("allocation.all.allocated") for n in range(device.device_count())]

    def _kind_of(self, of: type) -> int:
        kind = super()._kind_of(of)
        return _NODE if kind == _walk.PLAIN and _getter(of, "next_functions") is not None else kind

    def _get(self, o: Any, name: str) -> Any:
        """Returns an attribute of a tensor, whatever its class puts in its place."""
        return getattr(self._base, name).__get__(o)

    def _is(self, o: Any, kind: int) -> bool:
        t = type(o)
        if id(t) not in self._kinds:
            self._kinds[id(t)] = self._kind_of(t), t
        return self._kinds[id(t)][0] == kind

    def _wanted(self) -> set[int]:
        """What has memory on a device, or a graph that may have some."""
        wanted: set[int] = set()
        self._places.clear()  # of before the capture

        def look(o: Any) -> None:
            address = self._place(o)[1]
            if address:
                self._storages.setdefault(address, [])
            if self._is(o, _TENSOR) and not self._get(o, "is_leaf"):
                wanted.add(id(o))
            elif address:  # one that shares the memory does as well
                wanted.add(id(o))
                self._storages[address].append(id(o))

        with self._unwatched():
            self._each(self.live, look)
        return wanted

    def _found(self, index: int, o: Any, kind: int) -> None:
        if kind == _TENSOR or kind == _STORAGE:
            self._tensors.append((index, o))
            self._walk.missing.difference_update(self._storages.get(self._place(o)[1], ()))
        elif kind == _MODULE:
            self._modules.append(o)
        elif kind == _OPTIMIZER:
            self._optimizers.append(o)
        elif not self._in_graph:
            self._nodes.append((index, o))
            parent = self._walk.parents[index]
            if parent >= 0 and self._is(self._walk.objects[parent], _TENSOR):
                self._walk.given.setdefault(index, ".grad_fn")

    def _path_of(self, o: Any) -> tuple[str, str]:
        """Returns the path and the place of an object that was reached."""
        index = self._walk.indexes.get(id(o))
        where, path = self._walk.path(index) if index is not None else ("", "")
        return _attributes(path), where

    def _fill(self, walk: _walk.Walk, table: Table) -> None:
        walk.budget = self._renewed()
        names, tensors, late = self._named(self._path_of, self._modules, self._called[0], [*self._optimizers, *self._called[1]])
        walk.stopped, walk.budget = walk.stopped or late, self._renewed()
        for tensor in tensors:
            known, index = names[id(tensor)], walk.indexes.get(id(tensor))
            if index is not None and known.role in ("parameter", "buffer"):
                walk.call(index, known.where, known.name)
        still = self._counted() == self._allocations
        rows: dict[tuple[int, int], dict[str, Any]] = {}
        counts = _counts(walk, (index for index, _ in self._tensors))

        def add(tensor: Any, row: dict[str, Any]) -> None:
            device, address, size = self._place(tensor)
            if address and (still or address in self._storages):
                row.update(device=device, address=address, bytes=size, tensor=self._described(tensor))
                self._merge(rows, row)

        def reached(of: tuple[int, Any]) -> None:
            if self._place(of[1])[1]:
                add(of[1], self._row(*of, names, counts))

        try:
            self._each(tensors, lambda t: add(t, self._row(walk.indexes.get(id(t), -1), t, names, counts)))
            self._each((t for t in self._tensors if id(t[1]) not in names and t[0] not in self._above), reached)
            self._each((t for t in self._tensors if t[0] in self._above), reached)
            on_device = [o for o in self.live if self._place(o)[1] and self._place(o)[:2] not in rows]
            for tensor, text, cycle in walk.unreached(on_device, _own):
                add(tensor, {"kind": "cycle" if cycle else "unreached", "path": text})
        finally:
            for row in rows.values():
                table.add(row)
        if not still:
            table.note = "other threads allocated meanwhile: what only graphs hold has no name"
        elif self._hooked:
            table.note = "hooks pack what graphs save (checkpointing, offloading): what only graphs hold has no name"

    def _merge(self, rows: dict[tuple[int, int], dict[str, Any]], row: dict[str, Any]) -> None:
        """Adds what was found about a storage. A role tells more than a variable, a variable more than a graph."""
        key = row["device"], row["address"]
        old = rows.get(key)
        if old is None:
            rows[key] = row
            return
        rank = ("unreached", "cycle", "graph", "variable")
        first = (bool(row.get("role")) and row["kind"] == "variable", rank.index(row["kind"]))
        if first > (bool(old.get("role")) and old["kind"] == "variable", rank.index(old["kind"])):
            rows[key], old = row, old
            row["others"] = row.get("others", 0) + old.get("others", 0) + 1
        elif row["kind"] == "variable":
            old["others"] = old.get("others", 0) + 1

    def _has_code(self, of: type) -> bool:
        """Reports whether the class of a tensor may compute its device and shape."""
        found = self._computes.get(id(of))
        if found is None:
            bases = _read.mro(of)
            before = next((i for i, b in enumerate(bases) if b is self._torch.Tensor), 0)
            found = self._computes[id(of)] = any("__torch_dispatch__" in _read.members(b) for b in bases[:before])
        return found

    def _place(self, o: Any) -> tuple[int, int, int]:
        """Returns the device, the address of the storage and the bytes of a tensor; zeros if it has no memory on a device."""
        place = self._places.get(id(o))
        if place is None:
            place = self._places[id(o)] = self._placed(o)
        return place

    def _placed(self, o: Any) -> tuple[int, int, int]:
        """Asks for the place: data_ptr would copy a tensor that shares its memory until it is written, and untyped_storage would leave an object."""
        try:
            if self._is(o, _STORAGE):
                of = self._base_of_storage
                device = of.device.__get__(o)
                if device.type not in ("cuda", "xpu"):  # the address of a storage that is none of a device breaks memory (fake tensors)
                    return 0, 0, 0
                address, size = of.data_ptr(o), of.nbytes(o)
            elif self._has_code(type(o)):
                of = self._torch._C
                on_device = self._device.device_count() == 1 and of._dispatch_keys(o).has(of.DispatchKey.CUDA)
                return (0, self._address(o), 0) if on_device and self._address is not None else (0, 0, 0)
            else:
                device = self._get(o, "device")
                if device.type not in ("cuda", "xpu"):
                    return 0, 0, 0
                item = self._base.element_size(o)
                address, size = self._address_of_storage(o, item), self._base.numel(o) * item
            return (device.index or 0, address, size) if address > 0 else (0, 0, 0)
        except Exception:  # of a tensor without storage
            return 0, 0, 0

    def _address_of_storage(self, tensor: Any, item: int) -> int:
        if self._address is not None:
            return int(self._address(tensor))
        return int(self._base.data_ptr(tensor)) - int(self._base.storage_offset(tensor)) * item  # versions of PyTorch without lazy copies

    def _described(self, o: Any) -> str:
        try:
            if self._is(o, _TENSOR) and not self._has_code(type(o)):
                return f"{str(self._get(o, 'dtype')).rpartition('.')[2]} {list(self._get(o, 'shape'))}"
        except Exception:  # of a nested tensor
            pass
        return ""

    def _row(self, index: int, tensor: Any, names: dict[int, _Name], counts: dict[int, int]) -> dict[str, Any]:
        """Returns what is said of a tensor. An index of -1 is that of one that was not reached."""
        walk = self._walk
        known = names.get(id(tensor), _Name("", "", "", ""))
        row: dict[str, Any] = {"kind": "variable", "role": known.role}
        if index in self._above and not known.name:
            at, saved = self._above[index]
            label = walk.label(walk.parents[index], index)
            row.update(held(walk, at, counts), kind="graph", node=f"{_read.type_name(type(walk.objects[saved])) if saved >= 0 else 'NoneType'}{label}")
            row["owner"] = row.get("path", "")
            if self._get(tensor, "grad_fn") is not None or label.startswith(_RESULTS) or not label.startswith(" ("):
                row["role"] = "activation"
            return row
        row["others"] = len(walk.extra.get(id(tensor), ()))
        if known.role in ("parameter", "buffer") or index < 0:
            row.update(known._asdict(), path=known.name)
        else:
            row.update(held(walk, index, counts))
            row.update(name=known.name or row["path"], owner=known.owner or row["owner"])
        return row

    def _reach_further(self) -> None:
        """Reaches gradients, and what autograd keeps for backward passes that may come."""
        walk = self._walk
        new, self._looked = self._tensors[self._looked :], len(self._tensors)

        def gradient(of: tuple[int, Any]) -> None:
            if self._is(of[1], _TENSOR) and (self._get(of[1], "is_leaf") or self._get(of[1], "retains_grad")):  # else PyTorch warns
                walk.add(self._get(of[1], "grad"), of[0], ".grad")

        def graph(of: tuple[int, Any]) -> None:
            node = self._get(of[1], "grad_fn") if self._is(of[1], _TENSOR) else None  # fails of a view whose base was changed
            if node is not None:
                self._add_graph(of[0], node)

        self._each(new, gradient)
        walk.near()
        begin, self._in_graph = len(walk.objects), True
        nodes, self._nodes = self._nodes, []
        try:
            self._each(new, graph)
            self._each(nodes, lambda of: self._add_graph(*of))
            walk.near()
        finally:
            self._in_graph = False
            for index in range(begin, len(walk.objects)):
                parent = walk.parents[index]
                is_node = parent >= 0 and self._is(walk.objects[parent], _NODE)
                at, saved = self._above.get(parent, (parent, -1))
                while at not in self._above and at >= 0 and self._is(walk.objects[at], _NODE):  # a variable holds it
                    at = walk.parents[at]
                self._above[index] = at, parent if is_node else saved

    def _add_graph(self, index: int, node: Any) -> None:
        walk = self._walk
        todo = [(index, node)]
        if walk.objects[index] is node:  # a variable holds it
            self._add_saved(node, index)
            todo = [(index, n) for n in self._next_of(node)]
        while todo:
            walk.budget.spend(10)
            parent, node = todo.pop()
            at = walk.add(node, parent, "")
            if at >= 0:
                self._add_saved(node, at)
                todo += [(at, n) for n in self._next_of(node)]

    @staticmethod
    def _next_of(node: Any) -> list[Any]:
        read = _getter(type(node), "next_functions")
        return [n for n, _ in read(node) if n is not None] if read is not None else []

    def _add_saved(self, node: Any, at: int) -> None:
        if self._hooked:
            return  # reading would run the hooks, which compute or copy
        t = type(node)
        getters = self._saved.get(id(t))
        if getters is None:
            raw = {name for base in _read.mro(t) for name in _read.members(base) if type(name) is str and name.startswith("_raw_saved_")}
            whole = _getter(t, "saved_tensors") if "_raw_saved_tensors" in raw else None
            found = [("saved_tensors", whole)] if whole else [(name[4:], _getter(t, name[4:])) for name in sorted(raw)]
            getters = self._saved[id(t)] = [(f" ({name.removeprefix('_saved_')})", read) for name, read in found if read is not None]
        for label, read in getters:
            try:
                value = read(node)
            except Exception:  # freed, or modified in place
                continue
            for tensor in value if type(value) is tuple or type(value) is list else (value,):
                if self._is(tensor, _TENSOR):
                    self._walk.add(tensor, at, label)

    def _named(
        self, path_of: Callable[[Any], tuple[str, str]], reached: list[Any], called: list[Any], optimizers: list[Any]
    ) -> tuple[dict[int, _Name], list[Any], bool]:
        """Returns what parameters, buffers, gradients and states are, by id, these tensors, and if the time was too short. Each module is looked at once."""
        budget = self._budget
        names: dict[int, _Name] = {}
        tensors: list[Any] = []
        done: set[int] = set()

        def name(tensor: Any, known: _Name) -> None:
            if self._is(tensor, _TENSOR) and id(tensor) not in names:
                names[id(tensor)] = known
                tensors.append(tensor)

        def tree(root: Any) -> None:
            path, where = path_of(root)
            todo = [(path or _read.type_name(type(root)), root)]
            owner = todo[0][0]
            while todo:
                budget.spend(10)
                prefix, module = todo.pop()
                if id(module) in done or not self._is(module, _MODULE):
                    continue
                done.add(id(module))
                for role, inner in (("parameter", "_parameters"), ("buffer", "_buffers")):
                    for key, tensor in _inside(module, inner):
                        name(tensor, _Name(role, f"{prefix}.{key}", owner, where))
                todo += [(_walk.shortened(f"{prefix}.{key}", 4 * _walk.LONG_PATH), child) for key, child in reversed(_inside(module, "_modules"))]

        def states(optimizer: Any) -> None:
            owner, where = path_of(optimizer)
            for parameter, values in _read.items(_read.attribute(optimizer, "state")):
                budget.spend(10)
                of = names[id(parameter)].name if id(parameter) in names else path_of(parameter)[0] or "a parameter"
                todo = [("state", values, _NESTED)]
                while todo:
                    budget.spend()
                    key, value, deep = todo.pop()
                    name(value, _Name("optimizer_state", f"{key} of {of}", owner or _read.type_name(type(optimizer)), where))
                    if type(value) is list or type(value) is tuple:
                        todo += [(key, v, deep - 1) for v in value if deep]
                    else:
                        todo += [(k if type(k) is str else _read.type_name(type(k)), v, deep - 1) for k, v in _read.items(value) if deep]

        def further(tensor: Any) -> None:
            known = names[id(tensor)]
            if known.role == "parameter" and (self._get(tensor, "is_leaf") or self._get(tensor, "retains_grad")):
                name(self._get(tensor, "grad"), known._replace(role="gradient", name=f"{known.name}.grad"))
            if id(type(tensor)) not in self._plain:  # what a class of its own is made of
                for c in (*gc.get_referents(tensor), *(value for _, value in _read.items(_read.attributes(tensor)))):
                    name(c, known)

        inside = {id(child) for module in reached for _, child in _inside(module, "_modules")}
        roots = [m for m in reached if id(m) not in inside]
        inside.update(id(child) for module in called for _, child in _inside(module, "_modules"))
        try:
            self._each([*roots, *(m for m in called if id(m) not in inside), *reached, *called], lambda m: None if id(m) in done else tree(m))
            self._each(optimizers, states)
            self._each(tensors, further)
        except _read.Late:
            return names, tensors, True
        return names, tensors, False


def _inside(module: Any, name: str) -> list[tuple[str, Any]]:
    """Returns the members of a module of one kind; none of a module of TorchScript."""
    return [(k, v) for k, v in _read.items(_read.attribute(module, name)) if v is not None and type(k) is str]


def _getter(of: type, name: str) -> Any:
    """Returns what reads an attribute that a class in C has; None if there is none."""
    found = (_read.members(base).get(name) for base in _read.mro(of))
    return next((slot.__get__ for slot in found if type(slot) is types.GetSetDescriptorType), None)


class Jax(_Finder):
    """Of JAX. Make one before the profile is written.

    A profile has no addresses. The stack, the size and the device of an array say which buffers of the profile it can be.
    """

    def __init__(self, jax: Any) -> None:
        super().__init__()
        self.live = jax.live_arrays()
        kinds = {type(a) for a in self.live}
        self.classes = {id(of): _TENSOR for of in kinds}
        self._indexes: list[int] = []

    def add_to(self, path: str) -> None:
        add_to_profile(path, self.table())

    def _found(self, index: int, o: Any, kind: int) -> None:
        self._indexes.append(index)

    def _fill(self, walk: _walk.Walk, table: Table) -> None:
        rows: dict[tuple[int, int], dict[str, Any]] = {}
        walk.budget = self._renewed()
        counts = _counts(walk, self._indexes)

        def reached(index: int) -> None:
            row = held(walk, index, counts)
            row.update(kind="variable", name=row["path"], role=self._role(walk, index))
            self._add(rows, walk.objects[index], row, len(walk.extra.get(id(walk.objects[index]), ())))

        try:
            self._each(self._indexes, reached)
            for array, text, cycle in walk.unreached(self.live, _own):
                self._add(rows, array, {"kind": "cycle" if cycle else "unreached", "path": text}, 0)
        finally:
            for row in rows.values():
                table.add(row)

    def _add(self, rows: dict[tuple[int, int], dict[str, Any]], array: Any, row: dict[str, str], others: int) -> None:
        """Adds a row for each device that has a part of an array. Several arrays may share a buffer."""
        try:
            if array.is_deleted():
                return
            row = {**row, "tensor": f"{array.dtype} {list(array.shape)}", "stack": self._stack(array)}
            whole = len(array.devices()) == 1
            for device in array.sharding.addressable_devices:
                # the address of a part would make an array of it that stays
                key = int(device.id), int(array.unsafe_buffer_pointer()) if whole else id(array)
                size = array.on_device_size_in_bytes() if whole else math.prod(array.sharding.shard_shape(array.shape)) * array.dtype.itemsize
                if key in rows:
                    rows[key]["others"] += 1
                else:
                    rows[key] = {**row, "others": others, "device": key[0], "address": key[1], "bytes": int(size)}
        except Exception:  # deleted meanwhile; of a kind without memory, such as keys
            pass

    def _stack(self, array: Any) -> str:
        """Returns a digest of the lines that made an array, innermost first, as the profile has them; "" if they are unknown."""
        traceback = array.traceback
        if traceback is None:
            return ""
        lines = "".join(f"{f.file_name}:{f.line_num}\n" for f in traceback.frames)
        return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    @staticmethod
    def _role(walk: _walk.Walk, index: int) -> str:
        """Returns what the types of libraries say of an array that they hold."""
        at = walk.parents[index]
        for _ in range(_DEEP):
            if at < 0 or type(walk.objects[at]) is _walk.Root:
                break
            of = type(walk.objects[at])
            package, name = _read.module_of(of).split(".", 1)[0], _read.type_name(of)
            if package == "optax" or package == "flax" and name == "OptState":
                return "optimizer_state"
            if package == "flax" and name == "Param":
                return "parameter"
            at = walk.parents[at]
        return ""


def add_to_profile(path: str, table: Table) -> None:
    """Adds a table to a profile of JAX, as a field that other readers of pprof skip. The file is replaced as a whole."""
    with open(path, "rb") as file:
        profile = file.read()
    text = table.text().encode("ascii")
    field = _varint(FIELD << 3 | 2) + _varint(len(text)) + text
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "wb") as file:
            file.write(profile + (gzip.compress(field) if profile[:2] == b"\x1f\x8b" else field))  # messages and members follow each other
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def add_to_snapshot(path: str, table: Table) -> None:
    """Adds a table to a snapshot, as a key of its dict. The file is a whole pickle at each moment: one byte switches to the longer one."""
    text, key = table.text().encode("ascii"), KEY.encode("ascii")
    with open(path, "r+b") as file:
        stop = file.seek(-1, os.SEEK_END)
        if file.read(1) != b".":
            raise ValueError("the snapshot does not end as a pickle")
        file.write(b"\x8c" + bytes((len(key),)) + key + b"X" + struct.pack("<I", len(text)) + text + b"u.")
        file.flush()
        file.seek(stop)
        file.write(b"(")  # a mark in place of the stop: SETITEMS takes what follows it
