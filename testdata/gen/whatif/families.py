"""Programs whose buffers are made in other ways: by a cell in a loop, by indexes of edges, by pairs of a batch, before the first module.
usage: families.py gru|gnn|clip|table [batch=N] [ckpt=1] [nograd=1] [amp=1] [bf16=1] [offload=1]; OUT names the snapshot."""
import contextlib
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

family, opt = sys.argv[1], dict(a.split("=", 1) for a in sys.argv[2:])
on = lambda name: opt.get(name) == "1"
dev = "cuda"
rand = lambda *shape: torch.randn(*shape, device=dev, dtype=torch.bfloat16 if on("bf16") else None)


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.cells, self.out = nn.Embedding(2000, 256), nn.ModuleList(nn.GRUCell(256, 256) for _ in range(2)), nn.Linear(256, 40)

    def loss(self, b):
        h = self.embed(torch.randint(0, 2000, (b, 24), device=dev))
        for cell in self.cells:
            state, states = torch.zeros(b, 256, device=dev, dtype=h.dtype), []
            for t in range(h.shape[1]):
                state = cell(h[:, t], state)
                states.append(state)
            h = torch.stack(states, 1)
        return F.cross_entropy(self.out(h).flatten(0, 1), torch.randint(0, 40, (24 * b,), device=dev))


class Edges(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.message, self.update, self.norm = nn.Linear(2 * d, d), nn.Linear(2 * d, d), nn.LayerNorm(d)

    def forward(self, h, src, dst):
        m = F.relu(self.message(torch.cat([h[src], h[dst]], 1)))
        a = torch.zeros_like(h).index_add_(0, dst, m.to(h.dtype))
        return self.norm(h + F.relu(self.update(torch.cat([h, a], 1))))


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.layers, self.out = nn.Linear(32, 128), nn.ModuleList(Edges(128) for _ in range(5)), nn.Linear(128, 7)

    def loss(self, b):
        n = 64 * b
        h = self.inp(rand(n, 32))
        src, dst = torch.randint(0, n, (8 * n,), device=dev), torch.randint(0, n, (8 * n,), device=dev)
        for layer in self.layers:
            h = checkpoint(layer, h, src, dst, use_reentrant=False) if on("ckpt") else layer(h, src, dst)
        return F.cross_entropy(self.out(h), torch.randint(0, 7, (n,), device=dev))


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        tower = lambda n: nn.Sequential(nn.Linear(n, 256), nn.ELU(), nn.Linear(256, 256))
        self.left, self.right = tower(300), tower(200)

    def loss(self, b):
        n = 64 * b
        x, y = F.normalize(self.left(rand(n, 300)), dim=-1), F.normalize(self.right(rand(n, 200)), dim=-1)
        logits, same = 14 * x @ y.T, torch.arange(n, device=dev)
        return (F.cross_entropy(logits, same) + F.cross_entropy(logits.T, same)) / 2


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.zeros(24, 96)), nn.Parameter(torch.zeros(24, 96))
        self.layers, self.out = nn.ModuleList(nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 192), nn.ReLU(), nn.Linear(192, 96)) for _ in range(3)), nn.Linear(96, 1)

    def loss(self, b):
        x, y = rand(32 * b, 24), rand(32 * b)
        h = torch.cat([x[..., None] * self.scale + self.shift, self.shift.expand(len(x), -1, -1)], 1)
        for layer in self.layers:
            z = layer(h)
            h = h + z
        return F.mse_loss(self.out(h.mean(1)).squeeze(1), y)


program, batch = {"gru": (Cells, 32), "gnn": (Graph, 32), "clip": (Pairs, 16), "table": (Table, 16)}[family]
batch = int(opt.get("batch", batch))
torch.cuda.memory._record_memory_history(stacks="all")
model = program().to(dev)
if on("bf16"):
    model = model.bfloat16()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    with torch.no_grad() if on("nograd") else contextlib.nullcontext():
        with (
            torch.autocast("cuda", torch.bfloat16) if on("amp") else contextlib.nullcontext(),
            torch.autograd.graph.save_on_cpu() if on("offload") else contextlib.nullcontext(),
        ):
            loss = model.loss(batch)
    if not on("nograd"):
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    del loss
torch.cuda.memory._dump_snapshot(os.environ["OUT"])
print(torch.cuda.memory_stats()["allocated_bytes.all.peak"])
