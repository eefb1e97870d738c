"""A model that trained on the host is moved to the device, with its gradients and buffers: moved.py FILE. FILE.categories.json says by
address what they are."""
import json
import sys

import torch
import torch.nn as nn

out = sys.argv[1]


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(d, 2 * d), nn.BatchNorm1d(2 * d), nn.Linear(2 * d, d)
        self.register_buffer("scale", torch.ones(d))

    def forward(self, x):
        return x + self.scale * self.down(torch.relu(self.norm(self.up(x))))


net = nn.Sequential(*[Block(d) for d in [256] * 4])
net[0].up.weight.requires_grad = False
net(torch.randn(8, 256)).sum().backward()
torch.cuda.memory._record_memory_history(max_entries=200_000, stacks="python")
net.to("cuda")
categories = {hex(b.data_ptr()): "buffer" for b in net.buffers()}
for p in net.parameters():
    categories[hex(p.data_ptr())] = "parameter"
    if p.grad is not None:
        categories[hex(p.grad.data_ptr())] = "gradient"
torch.cuda.memory._dump_snapshot(out)
with open(out + ".categories.json", "w") as f:
    json.dump(categories, f)
