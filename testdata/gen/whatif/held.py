"""Small trainings in which what lives is not what autograd keeps, or not of the batch; each prints the allocator's peak, and records into the file OUT if that is set.
usage: held.py KIND [b=2] [acc=2] [offload=1] [freeze=1] [bf16=1] [ckpt=1] [amp=1]
rollout    collects with no_grad into stores with a row for each environment, then learns from a fourth of them at a time; a variable holds each part
unroll     collects bytes into a store of an object with one more row than steps, then learns from a fourth of the environments stacked
scan       a loop over time goes on from zeros of 32 bits
penalty    differentiates a gradient again
bytes      samples bytes from a store that the batch does not change, and casts them
leaf       the input of frozen and trained layers needs gradients, as with adapters; a variable holds logits
stages     modules are registered in another order than they run
pair       each block is two calls of one function in the body of a loop"""
import sys
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
import record

opt = dict(a.split("=", 1) for a in sys.argv[2:])
kind, times, acc = sys.argv[1], float(opt.get("b", 1)), int(opt.get("acc", 1))
n = lambda size: int(size * times)
dt = torch.bfloat16 if "bf16" in opt else torch.float32
D = dict(device="cuda", dtype=dt)


class Leaf(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.base, self.down, self.up = nn.Linear(d, d).requires_grad_(False), nn.Linear(d, 8, bias=False), nn.Linear(8, d, bias=False)

    def forward(self, x):
        return F.silu(self.base(x) + self.up(self.down(F.dropout(x, .1)))) + x


class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))

    def forward(self, x):
        u = x.mean(-1, keepdim=True)
        x = (x - u) / torch.sqrt((x - u).pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * x + self.bias


class Mix(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.up, self.down = Norm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Stages(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.ups = nn.ModuleList(nn.Sequential(Norm(d * 2**i), nn.Linear(d * 2**i, d * 2 ** (i + 1))) for i in range(2))
        self.stages = nn.ModuleList(nn.Sequential(*(Mix(d * 2**i) for _ in range(2))) for i in range(3))
        self.head = nn.Linear(4 * d, 10)

    def forward(self, x):
        x = self.stages[0](x)
        for up, stage in zip(self.ups, self.stages[1:]):
            x = stage(up(x))
        return self.head(x)


class PreNorm(nn.Module):
    def __init__(self, d, of):
        super().__init__()
        self.norm, self.of = nn.LayerNorm(d), of

    def forward(self, x):
        return self.of(self.norm(x))


class Attend(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.out((q @ k.transpose(1, 2)).softmax(-1) @ v)


class Gate(nn.Module):
    def forward(self, x):
        x, gates = x.chunk(2, -1)
        return x * F.gelu(gates)


def Feed(d):
    return nn.Sequential(nn.Linear(d, 8 * d), Gate(), nn.Linear(4 * d, d))


class Pairs(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList([PreNorm(d, Attend(d)), PreNorm(d, Feed(d))]) for _ in range(5))
        self.head = nn.Linear(d, 10)

    def forward(self, x):
        def layer(x, attend, feed):
            x = attend(x) + x
            return feed(x) + x
        for attend, feed in self.layers:
            if "ckpt" in opt:
                x = checkpoint(layer, x, attend, feed, use_reentrant=False)
            else:
                x = attend(x) + x
                x = feed(x) + x
        return self.head(x)


def train(net, batch, loss, steps=3):
    params = [p for p in net.parameters() if p.requires_grad]
    o = torch.optim.AdamW(params)
    for _ in range(steps):
        for _ in range(acc):
            x, y = batch()
            with torch.autograd.graph.save_on_cpu() if "offload" in opt else torch.autocast("cuda", dtype=torch.bfloat16, enabled="amp" in opt):
                logits = net(x)
                l = loss(logits.float(), y)
            l.backward()
        o.step(); o.zero_grad()
    return net, o


def frozen(net, names):
    for name, p in net.named_parameters():
        if "freeze" in opt and name.startswith(names): p.requires_grad_(False)
    return net


def rollout():
    net = nn.Sequential(nn.Linear(64, 512), nn.ELU(), nn.Linear(512, 16)).to(**D)
    o = torch.optim.Adam(net.parameters())
    envs, horizon = n(512), 16
    make = lambda *s: torch.zeros(horizon, envs, *s, **D)
    store, rewards, state = make(256), make(16), torch.zeros(envs, 256, **D)
    for _ in range(2):
        with torch.no_grad():
            for t in range(horizon):
                act = net(state[:, :64])
                store[t], rewards[t] = state, act
                state = state * .9 + .1 * act.repeat(1, 16)
        flat = {"x": store.flatten(0, 1), "y": rewards.flatten(0, 1)}
        size = envs * horizon // 4
        for i in range(4):
            at = torch.zeros(size, dtype=torch.long, device="cuda")
            part = {k: v[at] for k, v in flat.items()}
            loss = (net(part["x"][:, :64]) - part["y"]).pow(2).mean()
            loss.backward()
            if (i + 1) % acc == 0: o.step(); o.zero_grad()
    return net, o


class Store:
    def __init__(self, steps, envs):
        self.seen = torch.zeros(steps + 1, envs, 1024, dtype=torch.uint8, device="cuda")
        self.state = torch.zeros(steps + 1, envs, 128, **D)


def unroll():
    net, envs, steps = nn.Sequential(nn.Linear(1024, 192), nn.ReLU(), nn.Linear(192, 16)).to(**D), n(256), 16
    o, store = torch.optim.Adam(net.parameters()), Store(steps, envs)
    for _ in range(2):
        for t in range(steps):
            with torch.no_grad(): net(store.seen[t].to(dt) / 255)
            store.seen[t + 1] = torch.zeros(envs, 1024, dtype=torch.uint8).to("cuda")
        for at in range(0, envs, envs // 4):
            x, h = (torch.stack([of[:-1, i] for i in range(at, at + envs // 4)], 1).flatten(0, 1) for of in (store.seen, store.state))
            loss = (net(x.to(dt) / 255) - h[:, :16]).pow(2).mean()
            o.zero_grad(); loss.backward(); o.step()
    return net, o, store


class Scan(nn.Module):
    def __init__(self, d=128, states=8):
        super().__init__()
        self.into, self.out, self.rate = nn.Linear(d, d + 2 * states), nn.Linear(d, d), nn.Parameter(torch.zeros(d, states))

    def forward(self, x):
        d, k = self.rate.shape
        u, b, c = self.into(x).split([d, k, k], -1)
        keep = torch.exp(F.softplus(u).float().unsqueeze(-1) * -self.rate.float().exp())
        add = u.unsqueeze(-1) * b.unsqueeze(2)
        h, ys = torch.zeros(x.size(0), d, k, device="cuda"), []
        for t in range(x.size(1)):
            h = keep[:, t] * h + add[:, t]
            ys.append((h * c[:, t].float().unsqueeze(1)).sum(-1))
        return x + self.out(torch.stack(ys, 1).to(x.dtype))


def penalty():
    torch.backends.cudnn.enabled = False  # the stub has none
    net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.LeakyReLU(.2), nn.Conv2d(32, 64, 3, padding=1), nn.LeakyReLU(.2), nn.Conv2d(64, 1, 3)).to(**D)
    o = torch.optim.Adam(net.parameters())
    for _ in range(2):
        real = torch.randn(n(16), 3, 32, 32, **D)
        mixed = torch.rand_like(real).requires_grad_()
        with torch.autograd.graph.save_on_cpu() if "offload" in opt else torch.enable_grad():
            score, fake = net(real).mean(), net(mixed).flatten(1).sum(1)
        grad, = torch.autograd.grad(fake, mixed, torch.ones_like(fake), create_graph=True)
        o.zero_grad(); (score + (grad.flatten(1).norm(dim=1) - 1).pow(2).mean()).backward(); o.step()
    return net, o


def pixels():
    net = nn.Sequential(nn.Linear(4096, 256), nn.ReLU(), nn.Linear(256, 16)).to(**D)
    store = torch.zeros(6000, 4096, dtype=torch.uint8, device="cuda")

    def batch():
        part = store[torch.zeros(n(256), dtype=torch.long, device="cuda")]
        return part.to(dt) / 255, torch.zeros(n(256), dtype=torch.long, device="cuda")
    return train(net, batch, F.cross_entropy), store


def leaf():
    net = frozen(nn.Sequential(*(Leaf(256) for _ in range(6)), nn.Linear(256, 4000).requires_grad_(False)), ("0.", "1.", "2.")).to(**D)
    return train(net, lambda: (torch.randn(n(1024), 256, **D).requires_grad_(), torch.zeros(n(1024), dtype=torch.long, device="cuda")), F.cross_entropy)


def plain(net, *shape):
    return train(net.to(**D), lambda: (torch.randn(n(shape[0]), *shape[1:], **D), None), lambda z, y: z.pow(2).mean())


run = {"rollout": rollout, "unroll": unroll, "penalty": penalty, "bytes": pixels, "leaf": leaf,
       "stages": lambda: plain(frozen(Stages(), ("ups.0", "stages.0", "stages.1")), 4096, 64),
       "scan": lambda: plain(nn.Sequential(*(Scan() for _ in range(3))), 8, 32, 128),
       "pair": lambda: plain(Pairs(), 16, 128, 128)}
record.start("all", names=kind in ("leaf", "stages"))
kept = run[kind]()
record.end()
