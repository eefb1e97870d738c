"""Frozen weights of 8 bits that forward casts, with scales of the product and adapters: BATCH, and AMP=1 under autocast."""
import os, torch, torch.nn as nn, torch.nn.functional as F
torch.cuda.memory._record_memory_history(max_entries=400000, stacks="all")
d = 256
class Cast(nn.Module):
    def __init__(s):
        super().__init__(); s.register_buffer("q", torch.randint(-127, 127, (d, d), dtype=torch.int8)); s.register_buffer("scales", torch.rand(d) / 127)
        s.down, s.up = nn.Linear(d, 8), nn.Linear(8, d)
    def forward(s, x):
        x = F.linear(x, s.q.to(x.dtype)) * s.scales
        return x + s.up(F.silu(s.down(x)))
net = nn.Sequential(*[Cast() for _ in range(3)]).cuda()
opt = torch.optim.SGD(net.parameters(), lr=.1)
for i in range(2):
    x = torch.randn(int(os.environ.get("BATCH", 320)), d, device="cuda")
    with torch.autocast("cuda", torch.bfloat16, enabled="AMP" in os.environ):
        loss = net(x).float().square().mean()
    loss.backward(); opt.step(); opt.zero_grad(set_to_none=True)
print(torch.cuda.max_memory_allocated())
torch.cuda.memory._dump_snapshot(os.environ["OUT"])
