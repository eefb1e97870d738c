"""A training whose sums over the rows of a batch need scratch from 1,024 rows on; prints the allocator's peak, and records into the file OUT if that is set.
usage: rows.py [batch=N] [cap=BYTES]
cap: what the process may reserve."""
import sys
import torch, torch.nn as nn
import record

opt = dict(a.split("=", 1) for a in sys.argv[1:])
if "cap" in opt: torch.cuda.set_per_process_memory_fraction(int(opt["cap"]) / torch.cuda.get_device_properties(0).total_memory)
record.start()
net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda()
o = torch.optim.SGD(net.parameters(), lr=.01)
for _ in range(3):
    net(torch.randn(int(opt.get("batch", 512)), 256, device="cuda")).pow(2).mean().backward()
    o.step(); o.zero_grad()
record.end()
