"""A training whose variables hold the result of a pass until the next one; prints the allocator's peak, and records into the file OUT if that is set.
usage: variable.py [accum=N]"""
import sys
import torch, torch.nn as nn
import record

opt = dict(a.split("=", 1) for a in sys.argv[1:])
record.start()
net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 2048)).cuda()
o = torch.optim.AdamW(net.parameters())
for _ in range(3):
    for _ in range(int(opt.get("accum", 1))):
        x, y = torch.randn(512, 256, device="cuda"), torch.zeros(512, dtype=torch.long, device="cuda")
        logits = net(x)
        loss = nn.functional.cross_entropy(logits, y)
        loss.backward()
    o.step(); o.zero_grad()
record.end()
