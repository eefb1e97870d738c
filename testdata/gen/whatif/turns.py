"""A training that does not train all parameters in its first step; prints the allocator's peak, and records into the file OUT if that is set.
usage: turns.py KIND [optim=sgd|momentum] [steps=N]
nets: two nets with an optimizer each take turns, the small one first. layers: the first step trains the last layer only."""
import sys
import torch, torch.nn as nn
import record

kind = sys.argv[1]; opt = dict(a.split("=", 1) for a in sys.argv[2:])


def optimizer(net):
    if "optim" in opt: return torch.optim.SGD(net.parameters(), lr=.01, momentum=.9 if opt["optim"] == "momentum" else 0)
    return torch.optim.AdamW(net.parameters())


record.start()
if kind == "nets":
    critic = nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 1)).cuda()
    actor = nn.Sequential(nn.Linear(128, 768), nn.Tanh(), nn.Linear(768, 768), nn.Tanh(), nn.Linear(768, 256)).cuda()
    turns = [(critic, optimizer(critic)), (actor, optimizer(actor))]
else:
    net = nn.Sequential(*(nn.Linear(512, 512) for _ in range(6)), nn.Linear(512, 100)).cuda()
    net[:-1].requires_grad_(False)
    turns = [(net, optimizer(net))]
for i in range(int(opt.get("steps", 3))):
    if i == 1 and kind == "layers": net.requires_grad_(True)
    for net, o in turns:
        net(torch.randn(64, 128 if kind == "nets" else 512, device="cuda")).pow(2).mean().backward()
        o.step(); o.zero_grad()
record.end()
