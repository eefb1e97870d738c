"""Tensors that are held in different ways, recorded with memlane.record: held.py OUT.pickle. Each has its own size, so its holder is known.

Needs the package of this repository (PYTHONPATH). Paths of the machine are replaced in the capture, and the names are added to it again.
"""
import collections, functools, gc, os, pickle, sys
import torch, memlane
from memlane import _names

_names.SECONDS = 600
gc.disable()  # so that the cycle waits
KIB = 256  # floats


def new(kib): return torch.empty(kib * KIB, device="cuda")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64, bias=False) for _ in range(2))
        self.register_buffer("mask", torch.zeros(3 * KIB))

    def forward(self, x):
        for layer in self.layers: x = layer(x).sigmoid()
        return x


class Cut(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.kept = new(5)
        return x * 1

    @staticmethod
    def backward(ctx, g): return g


class Node: pass


class Log:
    last = None  # of the class

    def __init__(self): self.items = {}


def hook():
    seen = []
    return lambda module, args, out: seen.append(new(6))


def stream():
    batch = new(7)
    yield
    del batch


def fail():
    secret = new(8)
    raise ValueError


@functools.lru_cache(None)
def table(n): return new(n)


def cycle():
    a, b = Node(), Node()
    a.other, b.other, b.kept = b, a, new(11)


history, log, queue = [], Log(), collections.deque()
model = Net().cuda()
model.layers[0].register_forward_hook(hook())
optimizer = torch.optim.AdamW(model.parameters())
failure = generator = None


def train(recorder):
    global failure, generator
    for step in range(12):
        model(torch.ones(4, 64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=step < 11)
        loss = Cut.apply(model(torch.ones(16, 64, device="cuda"))).sum()
        history.append(loss)
        log.items[f"step {step}"] = new(12)
        queue.append((step, new(13)))
    local = new(14)
    Log.last = new(15)
    table(9), table(10)
    generator = stream()
    next(generator)
    try: fail()
    except ValueError as error: failure = error
    cycle()
    recorder.dump()


def clean(v, known):
    if isinstance(v, str): return known.setdefault(v, v[v.rfind("site-packages/"):] if "site-packages/" in v else os.path.basename(v) if v.startswith("/") else v)
    if id(v) in known: return known[id(v)]
    known[id(v)] = new = {clean(k, known): clean(x, known) for k, x in v.items()} if isinstance(v, dict) else [clean(x, known) for x in v] if isinstance(v, list) else v
    return new


with memlane.record("out") as recorder:
    train(recorder)
    os.rename("out/rank0.pickle", "out/held.pickle")  # before the end, when the locals are gone
with open("out/held.pickle", "rb") as file: snapshot = pickle.load(file)
table = _names.Table()
table.text = lambda text=snapshot.pop(_names.KEY): text
with open(sys.argv[1], "wb") as file: pickle.dump(clean(snapshot, {}), file)
_names.add_to_snapshot(sys.argv[1], table)
