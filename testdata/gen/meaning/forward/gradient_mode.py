"""Forward passes that end the recording, with the truth of each buffer: gradient_mode.py KIND OUT [truth]. KIND: prefill (keys and values, under a plain
`with torch.no_grad()`), features (hooks keep results, the same), or graph (gradients are enabled, no optimizer). With `truth`, hooks of saved tensors look at the
second of two equal runs, and OUT.truth.json says what they saw."""
import json
import math
import pickle
import sys

import torch
import torch.nn.functional as F
from torch import nn

kind, out, marks = sys.argv[1], sys.argv[2], []


def made():
    return torch.cuda.memory_stats()["allocation.all.allocated"]


def note(category, *tensors):
    marks.extend((made() - start, t.untyped_storage().data_ptr(), category) for t in tensors)


class KeysValues(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        def split(y):
            return y.view(*x.shape[:2], self.heads, -1).transpose(1, 2)
        k, v = split(self.k(x)), split(self.v(x))
        y = F.scaled_dot_product_attention(split(self.q(x)), k, v)
        return x + self.o(y.transpose(1, 2).reshape(x.shape)), (k, v)


class Decoder(nn.Module):
    def __init__(self, d=256, n=10, words=3000):
        super().__init__()
        self.words = nn.Embedding(words, d)
        self.layers = nn.ModuleList(KeysValues(d, 4) for _ in range(n))
        self.head = nn.Linear(d, words)

    def forward(self, ids):
        x, cache = self.words(ids), []
        for layer in self.layers:
            x, kv = layer(x)
            cache.append(kv)
        return self.head(x[:, -1:]), cache


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        return x + self.narrow(F.silu(self.wide(self.norm(x))))


class Stack(nn.Module):
    def __init__(self, d=384, n=10, classes=3000):
        super().__init__()
        self.layers, self.head = nn.ModuleList(Block(d) for _ in range(n)), nn.Linear(d, classes)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def main():
    global start
    net = (Decoder() if kind == "prefill" else Stack()).cuda()
    kept = []
    if kind == "features":
        for layer in net.layers:
            for module in layer.norm, layer.wide, layer.narrow:
                module.register_forward_hook(lambda m, i, o: kept.append(o))
    start = made()
    torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="python")
    note("parameter", *net.parameters())
    x = torch.randint(0, 3000, (4, 256)).cuda() if kind == "prefill" else torch.randn(1024, 384, device="cuda")
    note("input", x)
    if kind == "graph":
        y = net(x)
    else:
        with torch.no_grad():
            y = net(x)
    if kind == "prefill":
        kept = [t for kv in y[1] for t in kv]
    note("cache", *kept)
    torch.cuda.memory._dump_snapshot(out)


def pack(t):
    note("activation", t)
    return t


def truth(snapshot):
    events, order = snapshot["device_traces"][0], ["parameter", "cache", "input", "activation"]
    live = {b["address"]: b["requested_size"] for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"}
    for e in reversed(events):
        if e["action"] == "alloc":
            live.pop(e["addr"], None)
        elif e["action"] == "free_completed":
            live[e["addr"]] = e["size"]
    rows = [{"alloc": None, "addr": a, "size": n, "free": None, "number": 0, "roles": set()} for a, n in sorted(live.items())]
    now, size, peak, at = {r["addr"]: r for r in rows}, sum(live.values()), 0, -1
    for i, e in enumerate(events):
        if e["action"] == "alloc":
            size += e["size"]
            if size > peak:
                peak, at = size, i
            rows.append({"alloc": i, "addr": e["addr"], "size": e["size"], "free": None, "number": sum(r["alloc"] is not None for r in rows) + 1, "roles": set()})
            now[e["addr"]] = rows[-1]
        elif e["action"] == "free_completed":
            size -= e["size"]
            now.pop(e["addr"])["free"] = i
    for number, addr, category in marks:
        max((r for r in rows if r["addr"] == addr and r["number"] <= number), key=lambda r: r["number"])["roles"].add(category)
    workspace = math.prod((4096, 1024, 2)) + 16 * 1024 * 8
    for r in rows:
        if r["size"] == workspace:
            r["roles"] = {"workspace"}
        r["category"], r["roles"] = next((c for c in ["workspace", *order] if c in r["roles"]), "temporary"), sorted(r["roles"])
        r["phase"] = "forward" if r["alloc"] is not None and r["category"] != "input" else "other"
    columns = ["alloc", "addr", "size", "free", "category", "phase", "roles"]
    return {"program": "gradient_mode_" + kind, "stacks": "python", "window": "middle", "peak_event": at, "columns": columns,
            "rows": [[r[c] for c in columns] for r in rows]}


if sys.argv[3:]:
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        main()
    with open(out, "rb") as f:
        snapshot = pickle.load(f)
    with open(out + ".truth.json", "w") as f:
        json.dump(truth(snapshot), f)
else:
    main()
