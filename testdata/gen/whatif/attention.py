"""Transformers whose attention PyTorch computes by other kernels in 16 bits than in 32, by shape, mask and heads.
usage: attention.py PROGRAM [amp=1] [bf16=1] [batch=F] [nograd=1] [offload=1] [ckpt=1] [optim=sgd] [accum=2]; OUT names the snapshot. Prints the peaks of allocated and reserved bytes."""
import contextlib
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

opt = dict(a.split("=", 1) for a in sys.argv[2:])
on = lambda name: opt.get(name) == "1"
dev = "cuda"

# d: width, h: heads, kv: heads of keys, n: length, m: length of the memory, b: batch
PROGRAMS = {
    "plain": dict(d=512, h=8, n=192, b=6, causal=True),
    "short": dict(d=384, h=8, n=100, b=12, p=0.1),
    "narrow": dict(d=288, h=8, n=65, b=20),
    "odd": dict(d=240, h=8, n=144, b=8, causal=True),
    "padded": dict(d=320, h=10, n=96, b=10, mask="bool"),
    "grouped": dict(d=512, h=8, kv=2, n=160, b=8, causal=True),
    "cross": dict(d=256, h=4, n=96, m=320, b=10),
    "math": dict(d=256, h=4, n=128, b=8, causal=True, math=True),
    "library": dict(d=384, h=6, n=120, b=8, library=True, p=0.1),
    "bias": dict(d=320, h=5, n=128, b=8, mask="bias"),
    "wide": dict(d=640, h=2, n=112, b=10, causal=True),
    "long": dict(d=256, h=4, n=1024, b=2, causal=True),
    "separate": dict(d=384, h=6, n=128, b=8, separate=True, causal=True),
}
P = PROGRAMS[sys.argv[1]]
batch = max(1, int(P["b"] * float(opt.get("batch", 1))))
rand = lambda *shape: torch.randn(*shape, device=dev, dtype=torch.bfloat16 if on("bf16") else None)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        d, self.h, self.kv = P["d"], P["h"], P.get("kv", P["h"])
        self.k = d // self.h
        self.wide = not P.get("separate") and "m" not in P
        if self.wide:
            self.qkv = nn.Linear(d, d + 2 * self.kv * self.k)
        else:
            self.q, self.kw, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.out = nn.Linear(d, d)
        if P.get("mask") == "bias":
            self.bias = nn.Embedding(32, self.h)

    def forward(self, x, memory=None, mask=None):
        b, n, d = x.shape
        if self.wide:
            q, k, v = self.qkv(x).split([d, self.kv * self.k, self.kv * self.k], -1)
        else:
            memory = x if memory is None else memory
            q, k, v = self.q(x), self.kw(memory), self.v(memory)
        q, k, v = (t.view(b, t.shape[1], -1, self.k).transpose(1, 2) for t in (q, k, v))
        if P.get("mask") == "bias":
            mask = self.bias((torch.arange(n, device=dev)[:, None] - torch.arange(n, device=dev)).abs().clamp(max=31)).permute(2, 0, 1)[None].expand(b, -1, -1, -1)
            mask = mask.to(q.dtype)
        with sdpa_kernel(SDPBackend.MATH) if P.get("math") else contextlib.nullcontext():
            y = F.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, dropout_p=P.get("p", 0.0) if self.training else 0.0, is_causal=bool(P.get("causal")), enable_gqa=self.kv != self.h
            )
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        d = P["d"]
        self.n1, self.attn, self.n2 = nn.LayerNorm(d), Attention(), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, memory=None, mask=None):
        x = x + self.attn(self.n1(x), memory, mask)
        return x + self.mlp(self.n2(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        d = P["d"]
        self.inp, self.pos = nn.Linear(24, d), nn.Parameter(torch.zeros(1, P["n"], d))
        layer = lambda: nn.TransformerEncoderLayer(d, P["h"], 3 * d, dropout=P["p"], batch_first=True, norm_first=True) if P.get("library") else Block()
        self.blocks = nn.ModuleList(layer() for _ in range(5))
        self.norm, self.out = nn.LayerNorm(d), nn.Linear(d, 50)

    def loss(self):
        h, memory, mask = self.inp(rand(batch, P["n"], 24)) + self.pos, None, None
        if "m" in P:
            memory = rand(batch, P["m"], P["d"])
        if P.get("mask") == "bool":
            mask = (torch.arange(P["n"], device=dev)[None] < torch.randint(20, P["n"], (batch, 1), device=dev))[:, None, None]
        for block in self.blocks:
            if P.get("library"):
                h = checkpoint(block, h, use_reentrant=False) if on("ckpt") else block(h)
            else:
                h = checkpoint(block, h, memory, mask, use_reentrant=False) if on("ckpt") else block(h, memory, mask)
        return F.cross_entropy(self.out(self.norm(h)).flatten(0, 1), torch.randint(0, 50, (batch * P["n"],), device=dev))


torch.cuda.memory._record_memory_history(stacks="all")
model = Net().to(dev)
if on("bf16"):
    model = model.bfloat16()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if opt.get("optim") == "sgd" else torch.optim.AdamW(model.parameters())
for _ in range(2):
    for _ in range(int(opt.get("accum", 1))):
        with (
            torch.no_grad() if on("nograd") else contextlib.nullcontext(),
            torch.autocast("cuda", torch.bfloat16) if on("amp") else contextlib.nullcontext(),
            torch.autograd.graph.save_on_cpu() if on("offload") else contextlib.nullcontext(),
        ):
            loss = model.loss()
        if not on("nograd"):
            loss.backward()
        del loss
    if not on("nograd"):
        optimizer.step()
        optimizer.zero_grad()
if os.environ.get("OUT"):
    torch.cuda.memory._dump_snapshot(os.environ["OUT"])
s = torch.cuda.memory_stats()
print(s["allocated_bytes.all.peak"], s["reserved_bytes.all.peak"])
