"""A training whose blocks have two halves, each with stochastic depth but in the first block; the first batch is kept. Prints the allocator's peak, and records
into the file OUT if that is set. usage: halves.py [accum=N] [ckpt=1] [steps=2]"""
import sys
import torch, torch.nn as nn
from torch.utils.checkpoint import checkpoint
import record

opt = dict(a.split("=", 1) for a in sys.argv[1:])


class Half(nn.Module):
    def __init__(self, width, hidden, drop):
        super().__init__()
        self.norm, self.up, self.down, self.drop = nn.LayerNorm(width), nn.Linear(width, hidden), nn.Linear(hidden, width), drop

    def forward(self, x):
        x = self.down(nn.functional.gelu(self.up(self.norm(x))))
        return x * torch.rand(len(x), 1, device="cuda").round() if self.drop else x


class Block(nn.Module):
    def __init__(self, drop):
        super().__init__()
        self.mix, self.mlp = Half(128, 256, drop), Half(128, 512, drop)

    def forward(self, x):
        x = x + self.mix(x)
        return x + self.mlp(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.blocks, self.head = nn.Linear(64, 128), nn.ModuleList(Block(i > 0) for i in range(5)), nn.Linear(128, 10)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if opt.get("ckpt") else block(x)
        return self.head(x)


record.start("all")
net, first = Net().cuda(), None
o = torch.optim.AdamW(net.parameters())
for _ in range(int(opt.get("steps", 2))):
    for _ in range(int(opt.get("accum", 1))):
        x, y = torch.randn(2048, 64).cuda(), torch.zeros(2048, dtype=torch.long).cuda()
        first = x if first is None else first
        nn.functional.cross_entropy(net(x), y).backward()
    o.step(); o.zero_grad()
record.end()
