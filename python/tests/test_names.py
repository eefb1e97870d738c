"""Names of tensors and what holds them. PyTorch's tests need a GPU, or a CUDA runtime that only counts memory."""

import ast
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import memlane
import pytest
from test_record import needs_jax, needs_torch

HELD = """
import collections, functools, gc, os, sys, threading, torch, memlane
from memlane import _names
_names.SECONDS = _names.CEILING = 600
def new(kib): return torch.empty(kib << 8, device="cuda")
"""


def run(folder: Path, program: str) -> "dict[str, dict[str, str]]":
    """Runs a program that writes out/rank0_x.pickle, and returns what its names say of the buffers, by KiB."""
    file = folder / "program.py"
    file.write_text(HELD + program)
    done = subprocess.run([sys.executable, str(file)], cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    assert done.returncode == 0 and "no names" not in done.stderr and "memlane:" not in done.stderr, done.stderr
    with open(folder / "out/rank0_x.pickle", "rb") as capture:
        snapshot = pickle.load(capture)
    named = json.loads(snapshot["memlane"])
    live = {b["address"]: b["requested_size"] for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"}
    rows = {}
    for i, address in enumerate(named["address"]):
        row = {c: named["texts"][named[c][i]] for c in ("kind", "role", "name", "path", "where", "owner", "container", "node")}
        rows[live[address] >> 10] = row
    return rows


WALK = """
import collections, functools, gc, sys, threading
from memlane import _read, _walk
gc.disable()
class T:
    def __init__(self, name): self.name = name
class Slots: __slots__ = ("t",)
class Class: shared = T("class")
class Odd(dict):
    def __getattribute__(self, name): raise RuntimeError(name)
    def __eq__(self, other): raise RuntimeError
    __hash__ = None
class Proxy:
    __class__ = property(lambda self: 1 / 0)
    __dict__ = property(lambda self: 1 / 0)
@functools.lru_cache(None)
def cached(n): return T("cached")
def generator():
    inside = T("generator")
    yield
    del inside
def closure():
    inside = T("closure")
    return lambda: inside
def fail():
    inside = T("error")
    raise ValueError
def cycle():
    a = Class(); b = Class(); a.b = b; b.a = a; a.t = T("cycle")
    itself = [T("list cycle")]; itself.append(itself)
def thread():
    inside = T("thread"); ready.set(); stop.wait(); del inside
kept, by_key, odd, proxy, slots, generated, called = [T("list")], {("a", 1): T("dict")}, Odd(), Proxy(), Slots(), generator(), closure()
dict.__setitem__(odd, 1, T("odd")); slots.t = T("slots"); cached(1); next(generated); cycle()
try: fail()
except ValueError as e: error = e
ready, stop = threading.Event(), threading.Event()
import resource
wide = [0.0] * 100_000 + [T("last")]
chain, memory = T("chain"), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(30000): chain = [chain]
worker = threading.Thread(target=thread, daemon=True); worker.start(); ready.wait()
code = '''
def names():
    live = [o for o in gc.get_objects() if type(o) is T]
    found = {}
    own = lambda variables: variables.get("__name__") == "walking"
    kind = lambda of: _walk.WANTED + 1 if of is T else _walk.PLAIN
    walk = _walk.Walk(kind, lambda index, o, kind: found.__setitem__(o.name, index), _read.Budget(600, 600), 10**7)
    walk.missing = set(map(id, live))
    walk.seen.update((id(live), id(found)))
    walk.reach(own, walk.near)
    paths = {name: walk.path(index)[1] for name, index in found.items()}
    paths.update((o.name, text) for o, text, cyclic in walk.unreached(live, own) if cyclic)
    walk.close()
    return paths
'''
walking = {"__name__": "walking", "gc": gc, "T": T, "_walk": _walk, "_read": _read}
exec(code, walking)
names = walking["names"]
del walking
def work():
    local = T("local")
    cell = lambda: local
    before = sys.getrefcount(local), sys.getrefcount(kept[0]), sys.getrefcount(Class)
    found = names()
    after = sys.getrefcount(local), sys.getrefcount(kept[0]), sys.getrefcount(Class)
    assert before == after, (before, after)
    return found
found = work()
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 8 * memory, "a long chain fills the memory"
path = found.pop("chain")
assert len(path) < 1000 and path.startswith("chain[0][0]") and path.endswith("[0][0]"), path
print(found)
stop.set()
"""


STOPS = """
for spent in range(40):
    class Few(_read.Budget):
        left = 2 ** spent // 8
        def spend(self, objects=1):
            self.left -= objects
            if self.left < 0: raise _read.Late
    walk = _walk.Walk(lambda of: _walk.WANTED + 1 if of is T else _walk.PLAIN, lambda *of: None, Few(600, 600), 10**7)
    walk.live = [T("unreached")]; walk.missing = {id(walk.live[0])}
    walk.reach(lambda variables: False, walk.near)
    if not walk.stopped: break
    assert len(walk.objects) <= 2 ** spent // 8 + 2 * _read.PIECE + 100, (spent, len(walk.objects))
    walk.close()
assert spent > 10
"""


@pytest.mark.parametrize("stops", [False, True])
def test_walk(tmp_path: Path, stops: bool) -> None:
    """Needs no library, so it runs with each version of Python. A walk that has few objects left to spend ends within a piece."""
    file = tmp_path / "program.py"
    file.write_text(WALK + STOPS if stops else WALK)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if stops:
        return
    assert ast.literal_eval(done.stdout) == {
        "list": "kept[0]", "dict": "by_key[('a', 1)]", "odd": "odd[1]", "slots": "slots.t", "cached": "cached.<lru_cache>[1]", "class": "Class.shared",
        "generator": "generated.inside", "closure": "called.<closure>.inside", "error": "error.__traceback__.fail().inside", "thread": "inside",
        "local": "local", "last": "wide[100000]", "cycle": "Class -> Class -> Class", "list cycle": "list -> list",
    }  # fmt: skip


@needs_torch
def test_holders(tmp_path: Path) -> None:
    rows = run(
        tmp_path,
        """
gc.disable()
kept, by_key, slots = [new(1)], {"a b": new(2)}, []
@functools.lru_cache(None)
def cached(n): return new(n)
class Slots:
    __slots__ = ("t",)
class Class:
    shared = new(4)
class Odd(dict):
    def __getattribute__(self, name): raise RuntimeError(name)
    def __eq__(self, other): raise RuntimeError
    def items(self): raise RuntimeError
    __hash__ = None
odd = Odd(); dict.__setitem__(odd, 1, new(5))
class Proxy:
    @property
    def __class__(self): raise RuntimeError
    @property
    def __dict__(self): raise RuntimeError
proxy = Proxy()
def generator():
    inside = new(6)
    yield
    del inside
generated = generator(); next(generated)
def closure():
    inside = new(7)
    return lambda: inside
called = closure()
slots.append(Slots()); slots[0].t = new(8)
cached(3)
def cycle():
    a = Class(); a.me = a; a.t = new(9)
cycle()
holder = torch.empty(1, device="cuda"); holder.other = new(10)
class Keeps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): ctx.kept = new(13); return x * 1
    @staticmethod
    def backward(ctx, g): return g
result = Keeps.apply(torch.ones(1, requires_grad=True))
leaf = torch.ones(11 << 8, device="cuda", requires_grad=True); leaf.sum().backward(); inner = leaf.grad; leaf = leaf.detach().cpu().requires_grad_()
library = {}
exec(compile("def call(dump, *args): dump()", os.path.join(os.path.dirname(torch.__file__), "of_library.py"), "exec"), library)
wide = [0.0] * 100_000 + [new(15)]
def work():
    local, other = new(12), new(14)
    library["call"](lambda: r.dump("x"), local, other)
with memlane.record("out") as r: work()
""",
    )
    paths = {kib: row["path"] for kib, row in rows.items()}
    assert paths == {
        0: "holder",
        1: "kept[0]", 2: "by_key['a b']", 3: "cached.<lru_cache>[3]", 4: "Class.shared", 5: "odd[1]", 6: "generated.inside", 7: "called.<closure>.inside",
        8: "slots[0].t", 9: "Class -> Class", 10: "holder.other", 11: "inner", 12: "local", 13: "result.grad_fn.kept", 14: "other",
        15: "wide[100000]",
    }  # fmt: skip
    assert rows[9]["kind"] == "cycle" and rows[12]["where"].startswith("work (program.py:")


@needs_torch
def test_roles_and_graphs(tmp_path: Path) -> None:
    rows = run(
        tmp_path,
        """
model = torch.nn.Sequential(torch.nn.Linear(64, 48, bias=False)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
model[0].register_buffer("mask", new(5))
x = new(4).view(16, 64)
model(x).sum().backward(); optimizer.step()
losses = [model(x).sigmoid().sum()]
with memlane.record("out") as r: r.dump("x")
""",
    )
    assert {row["name"] for row in rows.values()} >= {"model.0.mask", "x"}
    assert rows[12]["name"] in ("model.0.weight", "model.0.weight.grad", "momentum_buffer of model.0.weight")
    graph = rows[3]
    assert (graph["kind"], graph["role"], graph["owner"], graph["node"]) == ("graph", "activation", "losses[0]", "SigmoidBackward0 (result)")


@needs_torch
def test_cycle_while_collecting(tmp_path: Path) -> None:
    """A cycle waits for the collector at the end, although the collector is on and a snapshot makes many objects."""
    rows = run(
        tmp_path,
        """
class Class: pass
with memlane.record("out", stacks="python") as r:
    for _ in range(20_000):
        torch.empty(300 << 8, device="cuda")
    gc.collect()
    gc.set_threshold(20_000)
    cycle = Class(); cycle.itself = cycle; cycle.t = torch.empty(700 << 8, device="cuda"); del cycle
    r.dump("x")
""",
    )
    assert [row["kind"] for row in rows.values()] == ["cycle"], rows


@needs_torch
def test_nothing_is_changed(tmp_path: Path) -> None:
    """A dump leaves references, the collector, allocated bytes and locals as they were."""
    run(
        tmp_path,
        """
w = torch.ones(300 << 8, device="cuda", requires_grad=True)
keep = [(w * 2).sigmoid()]
class Sub: pass
def count():
    return [sys.getrefcount(o) for o in (w, keep, keep[0], Sub)], gc.isenabled(), gc.get_threshold(), torch.cuda.memory_allocated(), torch.cuda.memory_stats()["allocation.all.allocated"]
def inner():
    gone = torch.empty(500 << 8, device="cuda")
    before = count()
    r.dump("x")
    assert count() == before, (count(), before)
    held = torch.cuda.memory_allocated()
    del gone
    assert torch.cuda.memory_allocated() < held, "a reference stayed"
with memlane.record("out") as r:
    r.dump("first")
    inner()
""",
    )


@needs_torch
def test_threads_meanwhile(tmp_path: Path) -> None:
    rows = run(
        tmp_path,
        """
stop = False
def allocate():
    some = collections.deque(maxlen=20)
    while not stop: some.append(torch.empty(1 << 10, device="cuda"))
threads = [threading.Thread(target=allocate) for _ in range(8)]
for t in threads: t.start()
kept = [new(300)]
with memlane.record("out", max_entries=20000) as r: r.dump("x")
stop = True
""",
    )
    assert rows[300]["path"] == "kept[0]"
    assert all(row["path"].startswith("some[") for kib, row in rows.items() if kib == 4 and row["kind"] == "variable")


@needs_torch
def test_hooks_of_saved_tensors_do_not_run(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
def unpack(t): print("unpacked", file=sys.stderr); raise SystemExit(3)
w = torch.ones(300 << 8, device="cuda", requires_grad=True)
with memlane.record("out") as r:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack): kept = (w * 2).sigmoid()
    r.dump("x")
""",
    )


USER_CODE = """
import abc, contextlib, enum, importlib.util, pathlib, tempfile, types, unittest.mock, weakref
from torch.utils._python_dispatch import TorchDispatchMode
SPECIAL = ("__getattribute__ __getattr__ __eq__ __ne__ __lt__ __hash__ __repr__ __str__ __len__ __iter__ __next__ __getitem__ __contains__ __bool__ __dir__ "
           "__instancecheck__ __subclasscheck__ __sizeof__ __reduce_ex__ __copy__ __index__ __array__ __fspath__ __call__ __format__").split()
def ran(*args, **kw): raise RuntimeError("code of the program ran")
def odd(name, base=object, *leave, **more):
    # a class of which each special method and each name that a library may read is the program's
    body = {n: types.FunctionType(ran.__code__.replace(co_name=name + "." + n), globals()) for n in SPECIAL}
    for n in "__dict__ __class__ items get values keys next_functions saved_tensors device shape dtype grad grad_fn is_leaf data_ptr nbytes numel element_size state name _name ident".split():
        body[n] = property(types.FunctionType(ran.__code__.replace(co_name=name + "." + n), globals()))
    body = {k: v for k, v in body.items() if k not in leave}
    return type(base)(name, (base,), {**body, **more})
class Meta(type):
    for n in SPECIAL[:-2]:
        if n not in ("__getattribute__", "__instancecheck__"): exec(f"def {n}(c, *a): ran()")
    def __getattribute__(c, n):
        if quiet: return super().__getattribute__(n)
        ran()
    mro = property(ran) if False else type.mro
quiet = True
made, put = {}, lambda of, base, o: made.__setitem__(of, base.__setattr__(o, "t", new(1)) or o)
for base in (object, dict, list, tuple, set, frozenset, collections.deque, collections.OrderedDict, collections.defaultdict, Exception, threading.Thread, functools.partial, types.ModuleType, weakref.ref):
    kind = odd("Odd" + base.__name__, base)
    args = (lambda: 1,) if base is functools.partial else ("m",) if base is types.ModuleType else (ran,) if base is weakref.ref else ()
    o = base.__new__(kind, *args)
    if base is threading.Thread: threading._active[-1] = o
    if base is types.ModuleType: base.__init__(o, "m")
    put(base.__name__, object if base is not types.ModuleType else base, o)
dict.__setitem__(made["dict"], "k", new(1)); list.append(made["list"], new(1))
class WithMeta(metaclass=Meta): pass
class SlotsMeta(metaclass=Meta): __slots__ = ("t",)
class ListMeta(list, metaclass=Meta): pass
class KeyMeta(metaclass=Meta): pass
put("metaclass", object, WithMeta()); put("metaclass with slots", object, SlotsMeta()); made["list of a metaclass"] = ListMeta([new(1)])
made["keys"] = {KeyMeta(): new(1), enum.Enum("E", "a").a: new(1), object.__new__(type("Key", (), {"__repr__": ran})): new(1)}
class Function(torch.autograd.Function):
    saved_tensors = property(ran); next_functions = property(ran)
    @staticmethod
    def forward(ctx, x): torch._C._FunctionBase.save_for_backward if False else None; ctx.kept = new(1); return x * 1
    @staticmethod
    def backward(ctx, g): return g
class TF(torch.Tensor):
    @classmethod
    def __torch_function__(c, *a, **k): return super().__torch_function__(*a, **k) if quiet else ran()
class Wraps(torch.Tensor):
    @staticmethod
    def __new__(c, e, **kw): return torch.Tensor._make_wrapper_subclass(c, e.shape, dtype=e.dtype, device=e.device, **kw)
    @classmethod
    def __torch_dispatch__(c, f, t, a=(), k=None): return torch.device("cuda:0") if "device" in str(f) else ran()
class Shares(torch.Tensor):
    @classmethod
    def __torch_dispatch__(c, f, t, a=(), k=None): return super().__torch_dispatch__(f, t, a, k or {}) if quiet else ran()
made["graph"] = Function.apply(torch.ones(256, device="cuda", requires_grad=True))
made["__torch_function__"] = new(1).as_subclass(TF)
for policy in ({}, {"dispatch_device": True}, {"dispatch_sizes_strides_policy": "sizes"}): made[str(policy)] = w = Wraps(new(1), **policy); w.inner = new(1)
made["__torch_dispatch__ with memory"] = torch.Tensor._make_subclass(Shares, new(1))
made["saved subclass"] = (torch.Tensor._make_subclass(Shares, new(1)).requires_grad_() * 2 if False else None)
made["parameter"] = torch.nn.Parameter(new(1).as_subclass(TF))
class Storage(torch.UntypedStorage):
    device = property(ran); data_ptr = nbytes = ran
made["storage"] = Storage(16)
made["nested"] = torch.nested.nested_tensor([torch.zeros(3, 4), torch.zeros(5, 4)], device="cuda")
class Net(torch.nn.Module):
    def __init__(self): super().__init__(); self.w = torch.nn.Parameter(new(1)); self.up = torch.nn.Linear(4, 4).cuda()
    named_modules = named_parameters = children = ran
    __dict__ = property(lambda s: torch.nn.Module.__dict__["__dict__"].__get__(s) if quiet else ran())
    def __getattr__(self, n): return super().__getattr__(n) if quiet else ran()
net = Net()
class Adam(torch.optim.SGD): __getstate__ = ran
optimizer = Adam([net._parameters["w"]], lr=0.1, momentum=0.9)
class State(dict): items = values = get = __getitem__ = __iter__ = ran
optimizer.state[net._parameters["w"]] = State(momentum_buffer=new(1))
made["mock"] = unittest.mock.MagicMock(); made["mock"].held = new(1)
made["proxy"] = weakref.proxy(made["mock"])
folder = tempfile.mkdtemp(); pathlib.Path(folder, "lazy_module_of_test.py").write_text("raise SystemExit('a lazy module was loaded')"); sys.path.insert(0, folder)
spec = importlib.util.find_spec("lazy_module_of_test"); spec.loader = importlib.util.LazyLoader(spec.loader)
sys.modules["lazy_module_of_test"] = lazy = importlib.util.module_from_spec(spec); spec.loader.exec_module(lazy)
try: import numpy
except ImportError: numpy = None
if numpy:
    class Array(numpy.ndarray): __array_finalize__ = lambda s, o: None; __len__ = __iter__ = __getitem__ = ran; dtype = flat = property(ran)
    plain = numpy.empty(2, object); plain[0] = new(1); made["array"] = plain.view(Array)
class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, f, t, a=(), k=None): return f(*a, **(k or {})) if quiet else ran()
class FunctionMode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, f, t, a=(), k=None): return f(*a, **(k or {})) if quiet else ran()
class Globals(dict): get = items = ran
calls = set()
def watch(frame, event, arg):
    if event == "call" and frame.f_code.co_filename == __file__: calls.add(frame.f_code.co_name + ":" + str(frame.f_lineno))
def work():
    with Mode(), FunctionMode():
        globals()["quiet"] = False
        sys.modules["odd_module"] = made["module"]
        sys.setprofile(watch)
        r.dump("x")
        sys.setprofile(None)
        globals()["quiet"] = True
with memlane.record("out") as r:
    exec("def inside(): work()\\ninside()", Globals(work=work))
threading._active.pop(-1, None)
print(sorted(calls))
os._exit(bool(calls - {"watch"}))
"""


@needs_torch
def test_nothing_of_the_program_runs(tmp_path: Path) -> None:
    """Each object is of a class whose own code would run if memlane compared, printed, iterated or asked it."""
    run(tmp_path, USER_CODE)


@needs_torch
def test_names_can_be_left_out(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(HELD + "kept = [new(1)]\nwith memlane.record('out', names=False): pass\n")
    subprocess.run([sys.executable, str(program)], cwd=tmp_path, check=True)
    with open(tmp_path / "out/rank0.pickle", "rb") as file:
        assert "memlane" not in pickle.load(file)


JAX = """
import gc, sys, jax, jax.numpy as jnp, memlane
from memlane import _names
_names.SECONDS = _names.CEILING = 600
gc.disable()
class Node: pass
class Trainer:
    def __init__(self): self.params = {"dense": {"kernel": jnp.ones((64, 64)), "bias": jnp.zeros(48)}}
trainer, cache = Trainer(), {}
for step in range(3): cache[step] = jnp.full(1000 + step, 1.0)
both = jax.device_put(jnp.ones(4096), jax.sharding.NamedSharding(jax.sharding.Mesh(jax.devices(), "x"), jax.sharding.PartitionSpec("x")))
def cycle():
    node = Node(); node.me = node; node.array = jnp.ones(3000)
cycle()
def work():
    local = jnp.ones(2000)
    count = lambda: ([sys.getrefcount(a) for a in (local, both, *cache.values())], len(jax.live_arrays()))
    before = count()
    r.dump("x")
    assert count() == before, (before, count())
with memlane.record("out", framework="jax") as r: work()
"""


@needs_jax
def test_names_of_jax(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(JAX)
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, env=env)
    assert done.returncode == 0 and "names:" not in done.stderr, done.stderr
    peaks = memlane.open(tmp_path / "out/rank0_x.prof").peak(by="name", at="end")
    first, second = ({row["site"]["name"]: row["bytes"] for row in peak["rows"]} for peak in peaks if peak["bytes"])
    assert first == {
        "trainer.params['dense']['kernel']": 16384, "trainer.params['dense']['bias']": 192, "cache[*]": 12012, "local": 8000, "both": 8192,
        "a reference cycle: Node -> Node": 12000,
    }  # fmt: skip
    assert second == {"both": 8192}


def test_a_file_that_is_no_snapshot_stays(tmp_path: Path) -> None:
    from memlane import _names

    file = tmp_path / "x.pickle"
    file.write_bytes(b"no pickle")
    with pytest.raises(ValueError):
        _names.add_to_snapshot(str(file), _names.Table())
    assert file.read_bytes() == b"no pickle"


@needs_torch
def test_viewers_of_pytorch_show_names(tmp_path: Path) -> None:
    import torch

    if not hasattr(torch._C, "_cuda_annotateMemory"):
        pytest.skip("PyTorch before 2.15")
    run(
        tmp_path,
        """
class Net(torch.nn.Module):
    def __init__(self): super().__init__(); self.up = torch.nn.Linear(64, 96, bias=False); self.register_buffer("mask", new(5))
net = Net().cuda(); optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
with memlane.record("out") as r:
    net.up(new(4).view(16, 64)).sum().backward(); optimizer.step()
    r.dump("first"); r.dump("x")
with memlane.record("full", max_entries=10) as r: pass
""",
    )
    for name, names in (("out/rank0_x", ["Net.mask", "Net.up.weight", "Net.up.weight.grad", "momentum_buffer of Net.up.weight"]), ("full/rank0", [])):
        with open(tmp_path / f"{name}.pickle", "rb") as capture:
            events = [e for trace in pickle.load(capture)["device_traces"] for e in trace]
        assert sorted(json.loads(e["user_metadata"])["name"] for e in events if e["action"] == "annotate") == names


@needs_torch
def test_addresses_are_read_only_of_what_is_on_a_device(tmp_path: Path) -> None:
    rows = run(
        tmp_path,
        """
host, kept, address = torch.empty(9).untyped_storage(), new(3).untyped_storage(), torch.UntypedStorage.data_ptr
torch.UntypedStorage.data_ptr = lambda self: address(self) if self.device.type == "cuda" else os._exit(3)
with memlane.record("out") as r: r.dump("x")
""",
    )
    assert rows[3]["path"] == "kept"
