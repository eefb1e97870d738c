"""Memory that no step needs, and reserved memory that is idle: waste.py NAME FILE. Each function says what is right."""
import sys
import torch
import torch.nn.functional as F
from torch import nn

device, MiB = "cuda", 1 << 20


def record(**settings):
    torch.cuda.memory._record_memory_history(max_entries=200000, **settings)


def stale():
    """the warm-up's output, 31.25 MiB, is held by a variable; the loop is a function with an output of its own"""
    net = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512), nn.GELU(), nn.Linear(512, 2000)).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=.1, momentum=.9)
    x, t = torch.randn(4096, 512, device=device), torch.randint(0, 2000, (4096,), device=device)
    y = net(x)
    F.cross_entropy(y, t).backward()
    opt.step()
    record()

    def step():
        out = net(x)
        loss = F.cross_entropy(out, t)
        opt.zero_grad()
        loss.backward()
        opt.step()
    for _ in range(5):
        step()
    return y


def autoencoder():
    """healthy: the input is as large as the result"""
    net = nn.Sequential(nn.Linear(2048, 512), nn.GELU(), nn.Linear(512, 64), nn.GELU(), nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 2048)).to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=.001)
    x = torch.randn(4096, 2048, device=device)
    record()
    for _ in range(5):
        opt.zero_grad()
        rec = net(x)
        F.mse_loss(rec, x).backward()
        opt.step()
    return rec


def first_call():
    """what the first of 12 requests returns, 16 MiB, stays in a dict"""
    record(stacks="python")
    w, first = torch.randn(1024, 1024, device=device), {}

    def features(x):
        a = x @ w
        return a, a.relu()

    def serve():
        x = torch.randn(2048, 1024, device=device)
        a, b = features(x)
        if not first:
            first["request"] = a, b
        return (b @ w).sum()
    for _ in range(12):
        serve()
    return first


def cached():
    """600 of 620 MiB reserved are in a segment without a buffer"""
    record(stacks="python")
    keep = torch.empty(2 * MiB, dtype=torch.uint8, device=device)
    for _ in range(3):
        torch.empty(600 * MiB, dtype=torch.uint8, device=device).fill_(1)
    return keep


def idle_pool():
    """all 416 MiB of a MemPool are idle"""
    record(stacks="python")
    pool, outs = torch.cuda.MemPool(), []
    with torch.cuda.use_mem_pool(pool):
        for _ in range(8):
            outs.append(torch.empty(32 * MiB, dtype=torch.uint8, device=device))
            torch.empty(48 * MiB, dtype=torch.uint8, device=device)
    outs.clear()
    return pool, torch.empty(100 * MiB, dtype=torch.uint8, device=device)


held = globals()[sys.argv[1]]()
torch.cuda.memory._dump_snapshot(sys.argv[2])
