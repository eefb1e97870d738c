"""A program that stops recording after three training steps, begins again, and runs two forward passes: again.py STACKS FILE.
The buffers from before are in the snapshot with their stacks. FILE.categories.json says by address what they are."""
import json
import sys

import torch
import torch.nn as nn

stacks, out = sys.argv[1:]


class Adam(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 1e-3})

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            if not state:
                state["m"] = torch.zeros_like(p)
                state["v"] = torch.zeros_like(p)
            state["m"].mul_(0.9).add_(p.grad, alpha=0.1)
            state["v"].mul_(0.99).addcmul_(p.grad, p.grad, value=0.01)
            p.add_(state["m"] / (state["v"].sqrt() + 1e-8), alpha=-1e-3)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.register_buffer("mask", torch.ones(d, d))

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, d, layers):
        super().__init__()
        self.embed, self.head = nn.Embedding(1000, d), nn.Linear(d, 1000)
        self.layers = nn.ModuleList([Block(d) for _ in range(layers)])

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def tokens():
    return torch.randint(0, 1000, (8, 32), device="cuda")


torch.cuda.memory._record_memory_history(max_entries=200_000, stacks=stacks)
net = Net(192, 5).cuda()
opt = Adam(net.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(net(tokens()).flatten(0, 1), tokens().flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()

torch.cuda.memory._record_memory_history(enabled=None)
torch.cuda.memory._record_memory_history(max_entries=200_000, stacks=stacks)
categories = {}
for p in net.parameters():
    categories[hex(p.data_ptr())] = "parameter"
    categories[hex(p.grad.data_ptr())] = "gradient"
    for state in opt.state[p].values():
        categories[hex(state.data_ptr())] = "optimizer_state"
for b in net.buffers():
    categories[hex(b.data_ptr())] = "buffer"
kept = [net(tokens()) for _ in range(2)]
torch.cuda.memory._dump_snapshot(out)
with open(out + ".categories.json", "w") as f:
    json.dump(categories, f)
