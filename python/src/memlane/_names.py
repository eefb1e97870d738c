"""Names of live tensors and what holds them, as text for a capture: docs/manual/formats.md describes it."""

from __future__ import annotations

import gc
import gzip
import hashlib
import json
import math
import os
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from memlane import _walk

KEY = "memlane"  # of a snapshot
FIELD = 1000  # of a profile of JAX
SECONDS = 2.0
_OBJECTS = 1_250_000  # 200 MB of this process
_DEEP = 100  # steps of a path whose types are looked at
_RESULTS = (" (result", " (output", " (indices", " (save_", " (reserve")  # what an operation saves of what it computed
_TENSOR, _STORAGE, _MODULE, _OPTIMIZER, _NODE = range(_walk.PLAIN + 1, _walk.PLAIN + 6)


class _Texts:
    """The texts of the columns, each once."""

    def __init__(self) -> None:
        self.all = [""]
        self._ids = {"": 0}

    def id(self, text: str) -> int:
        if len(text) > 2 * _walk.LONG_PATH:
            text = f"{text[: _walk.LONG_PATH]}…{text[-_walk.LONG_PATH :]}"
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


def _own(variables: dict[str, Any]) -> bool:
    name = variables.get("__name__")
    return type(name) is str and name.split(".", 1)[0] == __name__.split(".", 1)[0]


class _Finder:
    """Walks once. Collections of the garbage collector are off meanwhile: they would change what is recorded."""

    def __init__(self) -> None:
        self.live: list[Any] = []  # kept from before the capture until it is named, so that their addresses are theirs
        self.classes: dict[int, int] = {}  # kinds of classes, by id

    def _kind_of(self, of: type) -> int:
        for base in _walk.mro(of):
            kind = self.classes.get(id(base))
            if kind is not None:
                return kind
        return _walk.PLAIN

    def table(self) -> Table:
        enabled = gc.isenabled()
        gc.disable()
        table = Table()
        walk = _walk.Walk(self._kind_of, self._found, SECONDS, _OBJECTS)
        try:
            self._fill(walk, table)
            table.objects, table.seconds = len(walk.objects), time.monotonic() - walk.began
            if walk.stopped:
                table.note = f"names stop after {len(walk.objects):,} objects and {table.seconds:.1f} s"
        finally:  # no reference may stay, nor a cycle for the collector
            walk.close()
            self.__dict__.clear()
            if enabled:
                gc.enable()
        return table

    def _reach(self, walk: _walk.Walk) -> None:
        """Reaches what variables of the program hold, then what those of libraries hold."""
        walk.seen.update((id(self), id(self.__dict__), id(self.live)))
        for roots in walk.roots(_own):
            for root in roots:
                walk.start(root)
            walk.run()
            self._reach_further(walk)

    def _reach_further(self, walk: _walk.Walk) -> None:
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
    while at >= 0:  # the innermost container on the path that may grow
        if label.endswith("]"):
            row["container"] = type(walk.objects[at]).__name__
            if row["container"] != "tuple":  # which does not grow
                break
        at, label = walk.parents[at], walk.label(walk.parents[at], at)
    row["path"], row["owner"] = (_attributes(row[k]) for k in ("path", "owner"))
    return row


def _too_late(walk: _walk.Walk) -> bool:
    """Reports whether naming has taken as long again as the walk may take."""
    late = time.monotonic() - walk.began > 2 * SECONDS
    walk.stopped = walk.stopped or late
    return late


def _attributes(path: str) -> str:
    """Returns a path through modules as people write it."""
    path = path.replace("._dict['", "['")  # flax.core.FrozenDict
    for inner in ("._modules['", "._parameters['", "._buffers['"):
        while inner in path:
            before, _, after = path.partition(inner)
            name, _, rest = after.partition("']")
            path = f"{before}.{name}{rest}"
    return path


class Torch(_Finder):
    """Of PyTorch. Make one before the capture is dumped."""

    def __init__(self, torch: Any, device: Any, hooked: bool) -> None:
        super().__init__()
        self._torch, self._device, self._hooked = torch, device, hooked
        self.classes = {id(torch.Tensor): _TENSOR, id(torch.UntypedStorage): _STORAGE, id(torch.nn.Module): _MODULE, id(torch.optim.Optimizer): _OPTIMIZER}
        self._tensors: list[tuple[int, Any]] = []
        self._modules: list[tuple[int, Any]] = []
        self._optimizers: list[tuple[int, Any]] = []
        self._roots: list[tuple[int, Any]] = []  # of graphs: nodes, with the index of what holds them
        self._saved: dict[type, list[str]] = {}
        self._base = getattr(torch._C, "TensorBase", None) or torch._C._TensorBase
        self._address = getattr(torch._C, "_data_address", None)  # of the storage
        self._walk: _walk.Walk
        self._looked = 0  # tensors whose gradients and graphs were reached
        self._of_graphs: list[tuple[int, int]] = []  # ranges of objects that only graphs hold
        self._storages: set[int] = set()
        self._allocations = self._counted()
        self._called: tuple[list[Any], list[Any]] = [], []  # modules and optimizers
        kinds: dict[type, int] = {}
        for o in gc.get_objects():  # graphs' own are made when they are read
            t = type(o)
            kind = kinds.get(t)
            if kind is None:
                kind = kinds[t] = self._kind_of(t)
            if kind in (_TENSOR, _STORAGE):
                self.live.append(o)
            elif kind in (_MODULE, _OPTIMIZER):
                self._called[kind == _OPTIMIZER].append(o)

    def annotate(self, known: dict[int, str], most: int) -> None:
        """Tells PyTorch's own history the names of parameters, buffers, gradients and states, so that its viewer has them (PyTorch 2.15).

        known has the names by address that were told before. Nothing is told if that could push older events out of a history of most entries.
        """
        tell = getattr(self._torch._C, "_cuda_annotateMemory", None)
        if tell is None or self._device is not self._torch.cuda or self._device.get_allocator_backend() != "native":
            return
        (modules, optimizers), self._called = self._called, ([], [])
        names: dict[int, tuple[str, str, str]] = {}
        inside = self._inside(modules)
        for module in modules:
            if id(module) not in inside:
                for role, name, tensor in self._tensors_of(module, type(module).__name__):
                    names.setdefault(id(tensor), (role, name, ""))
        for optimizer in optimizers:
            for parameter, values in self._states(optimizer):
                if id(parameter) in names:
                    self._name_states(values, names[id(parameter)][1], "", names)
        if 3 * sum(n or 0 for n in self._allocations) + 2 * len(names) > most:  # entries of an allocation and its free
            return
        for o in self.live:
            role, name, _ = names.get(id(o), ("", "", ""))
            told = [(o, name)] if name else []
            if role == "parameter" and self._get(o, "is_leaf"):
                told.append((self._get(o, "grad"), f"{name}.grad"))
            for tensor, text in told:
                address = self._place(tensor)[1]
                if address and known.get(address) != text:
                    known[address] = text
                    tell(address, json.dumps({"name": text}, separators=(",", ":")))

    def add_to(self, path: str) -> None:
        add_to_snapshot(path, self.table())

    def _counted(self) -> list[Any]:
        """Returns how many allocations each device has had."""
        device = self._device
        if not device.is_initialized():
            return []
        return [device.memory_stats(n).get("allocation.all.allocated") for n in range(device.device_count())]

    def _kind_of(self, of: type) -> int:
        kind = super()._kind_of(of)
        if kind == _walk.PLAIN and any("next_functions" in type.__dict__["__dict__"].__get__(base) for base in _walk.mro(of)):
            return _NODE
        return kind

    def _get(self, o: Any, name: str) -> Any:
        """Returns an attribute of a tensor, whatever its class puts in its place."""
        return getattr(self._base, name).__get__(o)

    def _found(self, index: int, o: Any, kind: int) -> None:
        if kind in (_TENSOR, _STORAGE):
            self._tensors.append((index, o))
        elif kind == _MODULE:
            self._modules.append((index, o))
        elif kind == _OPTIMIZER:
            self._optimizers.append((index, o))
        elif kind == _NODE:
            self._roots.append((index, o))
            parent = self._walk.parents[index]
            if parent >= 0 and self._walk.kind(type(self._walk.objects[parent])) == _TENSOR:
                self._walk.given.setdefault(index, ".grad_fn")

    def _fill(self, walk: _walk.Walk, table: Table) -> None:
        self._walk = walk
        self._storages = {self._place(o)[1] for o in self.live} - {0}
        with self._torch._C.DisableTorchFunctionSubclass():
            self._reach(walk)
            names = self._named()
            still = self._counted() == self._allocations
            rows: dict[tuple[int, int], dict[str, Any]] = {}
            counts = _counts(walk, (index for index, _ in self._tensors))
            for index, tensor in self._tensors:
                if _too_late(walk):
                    break
                device, address, size = self._place(tensor)
                if not address or not still and address not in self._storages:
                    continue
                row = self._row(index, tensor, names, counts)
                row.update(device=device, address=address, bytes=size)
                self._merge(rows, row)
            on_device = [o for o in self.live if self._place(o)[1]]
            for tensor, text, cycle in walk.unreached(on_device, _own):
                device, address, size = self._place(tensor)
                row = {"kind": "cycle" if cycle else "unreached", "path": text, "tensor": self._described(tensor)}
                row.update(device=device, address=address, bytes=size)
                self._merge(rows, row)
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

    def _place(self, o: Any) -> tuple[int, int, int]:
        """Returns the device, the address of the storage and the bytes of a tensor; zeros if it has no memory on a device.

        data_ptr would copy a tensor that shares its memory until it is written, and untyped_storage would leave an object.
        """
        try:
            is_storage = self._kind_of(type(o)) == _STORAGE
            device = o.device if is_storage else self._get(o, "device")
            if device.type not in ("cuda", "xpu"):  # the address of a storage that is none of a device breaks memory (fake tensors)
                return 0, 0, 0
            if is_storage:
                address, size = o.data_ptr(), o.nbytes()
            else:
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
        if self._kind_of(type(o)) != _TENSOR:
            return ""
        return f"{str(self._get(o, 'dtype')).rpartition('.')[2]} {list(self._get(o, 'shape'))}"

    def _row(self, index: int, tensor: Any, names: dict[int, tuple[str, str, str]], counts: dict[int, int]) -> dict[str, Any]:
        walk = self._walk
        role, name, owner = names.get(id(tensor), ("", "", ""))
        row: dict[str, Any] = {"kind": "variable", "role": role, "tensor": self._described(tensor)}
        if self._only_in_graph(index) and not name:
            at, saved = walk.parents[index], None
            while at >= 0 and (self._only_in_graph(at) or self._is_node(at)):
                saved = walk.objects[at] if saved is None and self._is_node(at) else saved
                at = walk.parents[at]
            label = walk.label(walk.parents[index], index)
            row.update(held(walk, at, counts) if at >= 0 else {}, kind="graph", node=f"{type(saved).__name__}{label}")
            row["owner"] = row.get("path", "")
            if self._get(tensor, "grad_fn") is not None or label.startswith(_RESULTS) or not label.startswith(" ("):
                row["role"] = "activation"
            return row
        row.update(held(walk, index, counts), others=len(walk.extra.get(id(tensor), ())))
        row["name"] = name or row["path"]
        row["owner"] = owner or row["owner"]
        if role in ("parameter", "buffer"):
            row["path"], row["container"] = name, ""
        return row

    def _only_in_graph(self, index: int) -> bool:
        return any(begin <= index < end for begin, end in self._of_graphs)

    def _is_node(self, index: int) -> bool:
        return self._walk.kind(type(self._walk.objects[index])) == _NODE

    def _reach_further(self, walk: _walk.Walk) -> None:
        """Reaches gradients, and what autograd keeps for backward passes that may come."""
        tensors = self._tensors[self._looked :]
        for index, tensor in tensors:
            try:
                if self._get(tensor, "is_leaf") or self._get(tensor, "retains_grad"):  # else PyTorch warns
                    walk.add(self._get(tensor, "grad"), index, ".grad")
            except Exception:  # of a storage
                pass
        walk.run()
        begin = len(walk.objects)
        roots, self._roots = self._roots, []
        for index, tensor in self._tensors[self._looked :]:
            try:
                node = self._get(tensor, "grad_fn")
                if node is not None:
                    roots.append((index, node))
            except Exception:  # of a storage; of a view whose base was changed
                pass
        for index, node in roots:
            self._add_graph(index, node)
        walk.run()
        self._looked = len(self._tensors)
        self._of_graphs.append((begin, len(walk.objects)))

    def _add_graph(self, index: int, node: Any) -> None:
        walk = self._walk
        todo = [(index, node)]
        if walk.objects[index] is node:  # a variable holds it
            self._add_saved(node, index)
            todo = [(index, n) for n, _ in node.next_functions if n is not None]
        while todo and not walk.late:
            parent, node = todo.pop()
            at = walk.add(node, parent, "")
            if at >= 0:
                self._add_saved(node, at)
                todo += [(at, n) for n, _ in node.next_functions if n is not None]

    def _named(self) -> dict[int, tuple[str, str, str]]:
        """Returns role, name and owner of parameters, buffers, gradients and states of optimizers, by id."""
        walk = self._walk
        names: dict[int, tuple[str, str, str]] = {}
        inside = self._inside(module for _, module in self._modules)
        for index, module in self._modules:
            if id(module) in inside:
                continue
            where, owner = walk.path(index)
            owner = _attributes(owner)
            for role, name, tensor in self._tensors_of(module, owner):
                if names.setdefault(id(tensor), (role, name, owner))[1] == name and id(tensor) in walk.indexes:
                    walk.call(walk.indexes[id(tensor)], where, name)
        for index, optimizer in self._optimizers:
            owner = walk.path(index)[1]
            for parameter, values in self._states(optimizer):
                known = names.get(id(parameter))
                at = walk.indexes.get(id(parameter))
                of = known[1] if known else walk.path(at)[1] if at is not None else "a parameter"
                self._name_states(values, of, owner, names)
        for index, tensor in self._tensors:
            if walk.given.get(index) == ".grad":
                parent = walk.objects[walk.parents[index]]
                role, name, owner = names.get(id(parent), ("", "", ""))
                if role == "parameter":
                    names[id(tensor)] = "gradient", f"{name}.grad", owner
        for _, tensor in self._tensors:  # what a class of its own is made of
            if id(tensor) in names and type(tensor).__name__ not in ("Parameter", "Buffer", "Tensor"):
                for c in (*gc.get_referents(tensor), *(_walk.dict_of(tensor) or {}).values()):
                    if self._kind_of(type(c)) == _TENSOR:
                        names.setdefault(id(c), names[id(tensor)])
        return names

    def _inside(self, modules: Iterable[Any]) -> set[int]:
        """Returns the ids of modules that others hold."""
        return {id(m) for module in modules for m in self._members(module, "_modules").values()}

    def _tensors_of(self, root: Any, path: str) -> Iterator[tuple[str, str, Any]]:
        """Yields role, name and tensor of the parameters and buffers of a module."""
        todo, done = [(path, root)], set()
        while todo:
            prefix, m = todo.pop()
            if id(m) in done or self._kind_of(type(m)) != _MODULE:
                continue
            done.add(id(m))
            for role, members in (("parameter", "_parameters"), ("buffer", "_buffers")):
                for name, tensor in self._members(m, members).items():
                    yield role, f"{prefix}.{name}", tensor
            todo += [(f"{prefix}.{name}", child) for name, child in reversed(self._members(m, "_modules").items())]

    @staticmethod
    def _states(optimizer: Any) -> list[tuple[Any, Any]]:
        """Returns parameters and what an optimizer keeps for each."""
        state: Any = (_walk.dict_of(optimizer) or {}).get("state")
        return list(dict.items(state)) if dict in _walk.mro(type(state)) else []

    def _name_states(self, values: Any, of: str, owner: str, names: dict[int, tuple[str, str, str]], key: str = "") -> None:
        if self._kind_of(type(values)) == _TENSOR:
            names.setdefault(id(values), ("optimizer_state", f"{key or 'state'} of {of}", owner))
        elif dict in _walk.mro(type(values)):
            for k, v in list(dict.items(values)):
                self._name_states(v, of, owner, names, k if type(k) is str else type(k).__name__)
        elif type(values) in (list, tuple):
            for v in values:
                self._name_states(v, of, owner, names, key)

    @staticmethod
    def _members(module: Any, name: str) -> dict[str, Any]:
        members: Any = (_walk.dict_of(module) or {}).get(name)
        return {k: v for k, v in list(dict.items(members)) if v is not None and type(k) is str} if dict in _walk.mro(type(members)) else {}

    def _add_saved(self, node: Any, at: int) -> None:
        if self._hooked:
            return  # reading would run the hooks, which compute or copy
        t = type(node)
        attributes = self._saved.get(t)
        if attributes is None:
            raw = [a for a in dir(t) if a.startswith("_raw_saved_")]
            attributes = self._saved[t] = ["saved_tensors"] if "_raw_saved_tensors" in raw and hasattr(t, "saved_tensors") else [a[4:] for a in raw]
        for attribute in attributes:
            try:
                value = getattr(node, attribute)
            except Exception:  # freed, or modified in place
                continue
            for tensor in value if type(value) in (tuple, list) else (value,):
                if self._kind_of(type(tensor)) == _TENSOR:
                    self._walk.add(tensor, at, f" ({attribute.removeprefix('_saved_')})")


class Jax(_Finder):
    """Of JAX. Make one before the profile is written.

    A profile has no addresses. The stack, the size and the device of an array say which buffers of the profile it can be.
    """

    def __init__(self, jax: Any) -> None:
        super().__init__()
        self.live = jax.live_arrays()
        kinds = {type(a) for a in self.live}
        self.classes = {id(of): _TENSOR for of in kinds}
        self._wanted = {id(a) for a in self.live}
        self._indexes: list[int] = []

    def add_to(self, path: str) -> None:
        add_to_profile(path, self.table())

    def _found(self, index: int, o: Any, kind: int) -> None:
        if id(o) in self._wanted:
            self._indexes.append(index)

    def _fill(self, walk: _walk.Walk, table: Table) -> None:
        walk.seen.update((id(self._wanted), id(self._indexes)))
        self._reach(walk)
        rows: dict[tuple[int, int], dict[str, Any]] = {}
        counts = _counts(walk, self._indexes)
        for index in self._indexes:
            if _too_late(walk):
                break
            row = held(walk, index, counts)
            row.update(kind="variable", name=row["path"], role=self._role(walk, index))
            self._add(rows, walk.objects[index], row, len(walk.extra.get(id(walk.objects[index]), ())))
        for array, text, cycle in walk.unreached(self.live, _own):
            self._add(rows, array, {"kind": "cycle" if cycle else "unreached", "path": text}, 0)
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
            module = of.__dict__.get("__module__")
            package = module.split(".", 1)[0] if type(module) is str else ""
            if package == "optax" or package == "flax" and of.__name__ == "OptState":
                return "optimizer_state"
            if package == "flax" and of.__name__ == "Param":
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
