"""A training that goes on from a checkpoint, which it reads to the device; prints the allocator's peak, and records into the file OUT if that is set.
usage: resume.py [keep=1] [optim=sgd] [steps=N]
keep: a variable holds the checkpoint to the end."""
import os, sys, tempfile
import torch, torch.nn as nn
import record

opt = dict(a.split("=", 1) for a in sys.argv[1:])


def model(): return nn.Sequential(*(layer for n in range(3) for layer in (nn.Linear(512 + 64 * n, 576 + 64 * n), nn.ReLU())))


def optimizer(m): return torch.optim.SGD(m.parameters(), lr=.01) if opt.get("optim") == "sgd" else torch.optim.AdamW(m.parameters())


def go_on(file, m, o):
    checkpoint = torch.load(file, map_location="cuda")
    m.load_state_dict(checkpoint["model"])
    o.load_state_dict(checkpoint["optimizer"])
    if "keep" in opt: return checkpoint


m = model(); o = optimizer(m)
for p in m.parameters(): p.grad = torch.zeros_like(p)
o.step()
file = os.path.join(tempfile.mkdtemp(), "checkpoint.pt")
torch.save({"model": m.state_dict(), "optimizer": o.state_dict()}, file)
record.start()
m = model().cuda(); o = optimizer(m)
kept = go_on(file, m, o)
for state in o.state.values(): state["step"] = torch.tensor(1.)
for i in range(int(opt.get("steps", 4))):
    loss = m(torch.randn(256, 512, device="cuda")).pow(2).mean()
    loss.backward()
    o.step(); o.zero_grad()
record.end()
