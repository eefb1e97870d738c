"""A compiled model: one forward pass, for which torch.compile compiles it. compiled.py FILE.
The backend tries constants while it compiles. The recording ends before any backward pass. FILE.categories.json says by address what is alive then: what only the graph holds is
freed with the result."""
import json
import sys

import torch
import torch.nn as nn
from torch._dynamo.backends.debugging import aot_eager

out = sys.argv[1]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(256)
        self.wide = nn.Linear(256, 1024)
        self.narrow = nn.Linear(1024, 256)

    def forward(self, x):
        return x + self.narrow(torch.nn.functional.silu(self.wide(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(6))
        self.head = nn.Linear(256, 16)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def backend(graph, examples):
    for _ in range(300):  # as constants are folded
        torch.full((256,), 1.0, device="cuda").add_(1)
    return aot_eager(graph, examples)


def alive():
    blocks = [b for s in torch.cuda.memory._snapshot()["segments"] for b in s["blocks"]]
    return {b["address"] for b in blocks if b["state"] == "active_allocated"}


net = Net().to("cuda")
compiled = torch.compile(net, backend=backend)
x = torch.randn(64, 256, device="cuda")
torch.cuda.memory._record_memory_history(max_entries=200_000, stacks="python")
y = compiled(x)
torch.cuda.memory._dump_snapshot(out)
categories = {hex(p.data_ptr()): "parameter" for p in net.parameters()}
before = alive()
y = y.detach()
categories |= {hex(a): "activation" for a in before - alive()}
with open(out + ".categories.json", "w") as f:
    json.dump(categories, f)
