"""An own AdamW puts new parameters, in two lines, and new states in the place of old ones, which a variable still holds: replaced.py FILE.
FILE.categories.json says by address what is alive after two steps."""
import sys

import torch
import torch.nn as nn

import addresses


class Own(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3):
        super().__init__(params, {"lr": lr})
        for p in self.param_groups[0]["params"]:
            self.state[p] = {"m": torch.zeros_like(p.data), "v": torch.zeros_like(p.data)}

    def step(self):
        for p in self.param_groups[0]["params"]:
            m = self.state[p]["m"]
            new_m = 0.9 * m + 0.1 * p.grad.data
            self.state[p]["m"] = new_m
            v = self.state[p]["v"]
            new_v = 0.99 * v + 0.01 * p.grad.data**2
            self.state[p]["v"] = new_v
            p.data = p.data - 1e-3 * (new_m / (torch.sqrt(new_v) + 1e-8))
            p.data = p.data - 1e-5 * p.data


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.up, self.down = (nn.Parameter(0.02 * torch.randn(s, device="cuda")) for s in ((d, 4 * d), (4 * d, d)))

    def forward(self, x):
        return x + torch.relu(x @ self.up) @ self.down


torch.cuda.memory._record_memory_history(max_entries=200_000, stacks="python")
net = nn.Sequential(*[Block(d) for d in [256] * 4], nn.Linear(256, 1000, device="cuda"))
optimizer = Own(net.parameters())
for _ in range(2):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(torch.randn(128, 256, device="cuda")), torch.zeros(128, dtype=torch.long, device="cuda")).backward()
    optimizer.step()
categories = {hex(p.data_ptr()): "parameter" for p in net.parameters()}
for of in optimizer.state.values():
    categories |= {hex(t.data_ptr()): "optimizer_state" for t in of.values()}
addresses.save(sys.argv[1], categories)
