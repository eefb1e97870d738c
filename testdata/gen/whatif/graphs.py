"""Small trainings whose graphs are not one chain of blocks; each prints the allocator's peak, and records into the file OUT if that is set.
usage: graphs.py KIND [b=2] [acc=2] [offload=1] [freeze=1] [ckpt=1] [chunks=4] [no_grad=1]
factors    calls modules of one kind twice in the only line of a function, with something in between
field      concatenates its input to what is inside, and each activation is saved by two operations
validates  computes the loss of a validation batch without no_grad, which a variable holds into the next step; convolutions have normalized weights
shared     an embedding of frozen encoder and decoder has the size of the head (names are recorded)
store      samples from a store that the device holds since before the first step
results    each block takes and returns two results that nothing saves"""
import contextlib, sys
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
import record

opt = dict(a.split("=", 1) for a in sys.argv[2:])
kind, times, D, steps = sys.argv[1], float(opt.get("b", 1)), "cuda", 2
n = lambda size: int(size * times)
host = torch.autograd.graph.save_on_cpu if "offload" in opt else contextlib.nullcontext
grads = torch.no_grad if "no_grad" in opt else contextlib.nullcontext
call = lambda f, *a: checkpoint(f, *a, use_reentrant=False) if "ckpt" in opt else f(*a)


class Factors(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.base, self.down, self.up = nn.Linear(d, d).requires_grad_(False), nn.Linear(d, 8, bias=False), nn.Linear(8, d, bias=False)

    def forward(self, x):
        return self.base(x) + 2 * self.up(self.down(F.dropout(x, .05)))


class Field(nn.Module):
    def __init__(self, d=256):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(i, d) for i in (63, d, d + 63, d))
        self.head = nn.Linear(d, 4)

    def forward(self, x):
        h = x
        for i, layer in enumerate(self.layers):
            h = torch.cat([x, h], -1) if i == 2 else h
            h = F.relu(layer(h))
        return torch.sigmoid(self.head(h))


class Convs(nn.Module):
    def __init__(self, d=96, words=3000):
        super().__init__()
        self.embed = nn.Embedding(words, d)
        self.convs = nn.Sequential(*(nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Conv1d(d, d, 5, padding=2)), nn.ELU()) for _ in range(3)))
        self.head = nn.Linear(d, words)

    def piece(self, h, y):
        return F.cross_entropy(self.head(h), y, reduction="sum")

    def loss(self, x, y, parts):
        h, y = self.convs(self.embed(x).mT).mT.flatten(0, 1), y.flatten()
        if parts == 1:
            return F.cross_entropy(self.head(h), y)
        return sum(checkpoint(self.piece, a, b, use_reentrant=False) for a, b in zip(h.chunk(parts), y.chunk(parts))) / y.numel()


class Stack(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d)) for _ in range(2))

    def forward(self, x, y=0):
        for block in self.blocks:
            x = x + block(x + y)
        return x


class Shared(nn.Module):
    def __init__(self, d=128, words=2000):
        super().__init__()
        self.embed, self.encoder, self.decoder, self.head = nn.Embedding(words, d), Stack(d), Stack(d), nn.Linear(d, words, bias=False)

    def forward(self, x, y):
        return self.head(self.decoder(self.embed(y), self.encoder(self.embed(x)).mean(1, keepdim=True)))


class Pair(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a, self.b = (nn.Sequential(nn.Linear(2 * d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d)) for _ in range(2))

    def forward(self, x, y):
        both = torch.cat([x, y], 1)
        return x + F.relu(self.a(both)), y + F.relu(self.b(both))


class Results(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Pair(d) for _ in range(4)), nn.Linear(d, 10)

    def forward(self, x, y):
        for block in self.blocks:
            x, y = call(block, x, y)
        return self.head(x + y)


torch.backends.cudnn.enabled = False  # a library without a GPU has no convolutions
record.start(opt.get("stacks", "all"), names=kind == "shared")
net = {"factors": lambda: nn.Sequential(*(nn.Sequential(Factors(256), nn.GELU(), nn.LayerNorm(256)) for _ in range(3))), "field": Field, "validates": Convs,
       "shared": Shared, "store": Field, "results": Results}[kind]().to(D)
if "freeze" in opt:
    net.embed.requires_grad_(False); net.encoder.requires_grad_(False)
o = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-3)
words = lambda rows, length, number: torch.randint(0, number, (rows, length), device=D)
store = torch.rand(60_000, 9, device=D) if kind == "store" else None
for _ in range(steps):
    for _ in range(int(opt.get("acc", 1))):
        with host(), grads():
            if kind == "factors": loss = net(torch.randn(n(2048), 256, device=D)).logsumexp(-1).mean()
            elif kind == "field": loss = net(torch.randn(n(4096), 63, device=D)).mean()
            elif kind == "validates": loss = net.loss(words(n(8), 64, 3000), words(n(8), 64, 3000), int(opt.get("chunks", 1)))
            elif kind == "shared": loss = F.cross_entropy(net(words(n(8), 96, 2000), words(n(8), 32, 2000)).flatten(0, 1), words(n(8), 32, 2000).flatten())
            elif kind == "store": loss = net(F.pad(store[torch.randint(0, 60_000, (n(4096),), device=D)], (0, 54))).mean()
            else:
                a, b = torch.randn(n(2048), 128, device=D), torch.randn(n(2048), 128, device=D)
                loss = net(a, b).logsumexp(-1).mean()
        if "no_grad" not in opt: loss.backward()
    if "no_grad" not in opt:
        o.step(); o.zero_grad()
    if kind == "validates":
        with grads(): val = net.loss(words(n(8), 64, 3000), words(n(8), 64, 3000), int(opt.get("chunks", 1)))
record.end()
