"""An actor with two critics and their targets (sac), columns with attention (ftt), attention over edges (gat), frozen towers with pairs (clip), stacked steps of a loop (stack).
usage: agents.py PROGRAM [amp=1] [bf16=1] [nograd=1] [offload=1] [batch=F] [freeze=PATTERN]; OUT names the snapshot. Prints the peaks of allocated and reserved bytes."""
import contextlib
import copy
import fnmatch
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

name, opt = sys.argv[1], dict(a.split("=", 1) for a in sys.argv[2:])
on = lambda key: opt.get(key) == "1"
dev = "cuda"
rand = lambda *shape: torch.randn(*shape, device=dev, dtype=torch.bfloat16 if on("bf16") else None)
scale = lambda n: max(1, int(n * float(opt.get("batch", 1))))
mlp = lambda *sizes: nn.Sequential(*[m for i, o in zip(sizes, sizes[1:]) for m in (nn.Linear(i, o), nn.ReLU())][:-1])


class SAC(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor, self.q1, self.q2 = mlp(64, 512, 512, 32), mlp(80, 512, 512, 1), mlp(80, 512, 512, 1)
        self.t1, self.t2 = copy.deepcopy(self.q1), copy.deepcopy(self.q2)

    def act(self, s):
        mean, log = self.actor(s).chunk(2, -1)
        log = log.clamp(-5, 2)
        noise = torch.randn_like(mean)
        a = torch.tanh(mean + log.exp() * noise)
        return a, (-0.5 * noise.pow(2) - log - torch.log(1 - a.pow(2) + 1e-6)).sum(-1, keepdim=True)

    def loss(self):
        n = scale(4096)
        s, a, r, s2 = rand(n, 64), rand(n, 16), rand(n, 1), rand(n, 64)
        with torch.no_grad():
            a2, p2 = self.act(s2)
            x2 = torch.cat([s2, a2], -1)
            y = r + 0.99 * (torch.min(self.t1(x2), self.t2(x2)) - 0.2 * p2)
        x = torch.cat([s, a], -1)
        critic = F.mse_loss(self.q1(x), y.to(r.dtype)) + F.mse_loss(self.q2(x), y.to(r.dtype))
        a1, p1 = self.act(s)
        x1 = torch.cat([s, a1], -1)
        return critic + (0.2 * p1 - torch.min(self.q1(x1), self.q2(x1))).mean()


class FTT(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.b, self.cls = nn.Parameter(torch.randn(40, 96)), nn.Parameter(torch.zeros(40, 96)), nn.Parameter(torch.zeros(1, 1, 96))
        self.cat = nn.Embedding(500, 96)
        self.layers = nn.ModuleList(
            nn.ModuleDict(dict(n1=nn.LayerNorm(96), a=nn.MultiheadAttention(96, 8, dropout=0.2, batch_first=True), n2=nn.LayerNorm(96), u=nn.Linear(96, 256), d=nn.Linear(128, 96)))
            for _ in range(3)
        )
        self.head = nn.Sequential(nn.LayerNorm(96), nn.ReLU(), nn.Linear(96, 1))

    def loss(self):
        n = scale(256)
        x, c, y = rand(n, 40), torch.randint(0, 500, (n, 6), device=dev), rand(n)
        tokens = x[..., None] * self.w + self.b
        h = torch.cat([self.cls.expand(n, -1, -1), tokens, self.cat(c)], 1)
        for l in self.layers:
            z = l["n1"](h)
            h = h + l["a"](z, z, z, need_weights=False)[0]
            z = l["n2"](h)
            a, g = l["u"](z).chunk(2, -1)
            h = h + l["d"](a * F.relu(g))
        return F.mse_loss(self.head(h[:, 0]).squeeze(1), y)


class GAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(50, 128)
        self.layers = nn.ModuleList(nn.ModuleDict(dict(w=nn.Linear(128, 128, bias=False), out=nn.Linear(128, 128))) for _ in range(4))
        self.src, self.dst = nn.ParameterList(nn.Parameter(torch.randn(4, 32)) for _ in range(4)), nn.ParameterList(nn.Parameter(torch.randn(4, 32)) for _ in range(4))
        self.head = nn.Linear(128, 7)

    def loss(self):
        n, e = scale(2000), scale(16000)
        x, i, j = rand(n, 50), torch.randint(0, n, (e,), device=dev), torch.randint(0, n, (e,), device=dev)
        h = self.inp(x)
        for k, l in enumerate(self.layers):
            z = l["w"](h).view(n, 4, 32)
            s = F.leaky_relu((z * self.src[k]).sum(-1)[i] + (z * self.dst[k]).sum(-1)[j], 0.2)
            s = (s - s.max()).exp()
            total = torch.zeros(n, 4, device=dev, dtype=s.dtype).index_add_(0, j, s)
            a = s / (total[j] + 1e-9)
            m = z[i] * a[..., None]
            out = torch.zeros(n, 4, 32, device=dev, dtype=m.dtype).index_add_(0, j, m)
            h = h + l["out"](F.elu(out.flatten(1)))
        return F.cross_entropy(self.head(h), torch.randint(0, 7, (n,), device=dev))


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        layer = lambda d: nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.0, batch_first=True, norm_first=True)
        self.image, self.text = nn.ModuleDict(dict(inp=nn.Linear(192, 192), body=nn.Sequential(layer(192), layer(192), layer(192)))), nn.ModuleDict(dict(inp=nn.Embedding(4000, 160), body=nn.Sequential(layer(160), layer(160))))
        self.pi, self.pt, self.t = nn.Linear(192, 128, bias=False), nn.Linear(160, 128, bias=False), nn.Parameter(torch.tensor(2.0))

    def loss(self):
        n = scale(64)
        a = self.pi(self.image["body"](self.image["inp"](rand(n, 49, 192))).mean(1))
        b = self.pt(self.text["body"](self.text["inp"](torch.randint(0, 4000, (n, 32), device=dev)))[:, 0])
        s = self.t.exp() * F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T
        y = torch.arange(n, device=dev)
        return (F.cross_entropy(s, y) + F.cross_entropy(s.T, y)) / 2


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.read, self.out = nn.Linear(192 + 64, 192), nn.Linear(192, 96), nn.Linear(96, 10)

    def loss(self):
        n = scale(256)
        x, h, all = rand(n, 30, 64), torch.zeros(n, 192, device=dev, dtype=rand(1).dtype), []
        for t in range(30):
            h = torch.tanh(self.cell(torch.cat([h, x[:, t]], -1)))
            all.append(F.silu(self.read(h)))
        return F.cross_entropy(self.out(torch.stack(all, 1)).flatten(0, 1), torch.randint(0, 10, (n * 30,), device=dev))


torch.cuda.memory._record_memory_history(stacks="all")
model = {"sac": SAC, "ftt": FTT, "gat": GAT, "clip": Clip, "stack": Stack}[name]().to(dev)
if on("bf16"):
    model = model.bfloat16()
for key, p in model.named_parameters():
    if any(fnmatch.fnmatchcase(key, pattern) for pattern in opt.get("freeze", "").split("|")):
        p.requires_grad_(False)
optimizer = torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)
for _ in range(2):
    with (
        torch.no_grad() if on("nograd") else contextlib.nullcontext(),
        torch.autocast("cuda", torch.bfloat16) if on("amp") else contextlib.nullcontext(),
        torch.autograd.graph.save_on_cpu() if on("offload") else contextlib.nullcontext(),
    ):
        loss = model.loss()
    if not on("nograd"):
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    del loss
if os.environ.get("OUT"):
    torch.cuda.memory._dump_snapshot(os.environ["OUT"])
s = torch.cuda.memory_stats()
print(s["allocated_bytes.all.peak"], s["reserved_bytes.all.peak"])
