"""copied.py FILE module|list: a model with an EMA from before the recording, as a module or as a dict of weights."""

import copy
import sys

import torch
from torch import nn

net = nn.Sequential(
    nn.Linear(100, 300), nn.BatchNorm1d(300), nn.ReLU(), nn.Linear(300, 150), nn.BatchNorm1d(150), nn.ReLU(), nn.Linear(150, 10)
).cuda()
ema = copy.deepcopy(net) if sys.argv[2] == "module" else None
shadow = {} if ema else {n: p.detach().clone() for n, p in net.named_parameters()}
copies = list(ema.parameters()) if ema else list(shadow.values())
optimizer = torch.optim.AdamW(net.parameters())
torch.cuda.memory._record_memory_history(stacks="python")
for _ in range(5):
    loss = net(torch.randn(32, 100, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for e, p in zip(copies, net.parameters()):
            e.lerp_(p, 0.1)
torch.cuda.memory._dump_snapshot(sys.argv[1])
