"""Normalizations that compute in 32 bits: of groups (NET=groups, also with AMP=1) and of roots of mean squares (NET=roots, also with BF16=1)."""
import os, torch, torch.nn as nn
torch.backends.cudnn.enabled = False
torch.cuda.memory._record_memory_history(max_entries=400000, stacks="all" if os.environ["NET"] == "groups" else "python")
class Block(nn.Module):
    def __init__(s):
        super().__init__()
        if os.environ["NET"] == "groups": s.take, s.norm, s.up, s.down = nn.Conv2d(16, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.Conv2d(16, 32, 1), nn.Conv2d(32, 16, 1)
        else: s.take, s.norm, s.up, s.down = nn.Identity(), nn.RMSNorm(128), nn.Linear(128, 256), nn.Linear(256, 128)
    def forward(s, x): return x + s.down(nn.functional.silu(s.up(s.norm(s.take(x)))))
dt = torch.bfloat16 if "BF16" in os.environ else torch.float32
net = nn.Sequential(*[Block() for _ in range(1 if os.environ["NET"] == "groups" else 2)]).cuda().to(dt)
opt = torch.optim.SGD(net.parameters(), lr=.1)
for i in range(2):
    x = torch.randn(*((16, 16, 32, 32) if os.environ["NET"] == "groups" else (2048, 128)), device="cuda", dtype=dt)
    with torch.autocast("cuda", torch.bfloat16, enabled="AMP" in os.environ):
        loss = net(x).square().mean()
    loss.backward(); opt.step(); opt.zero_grad(set_to_none=True)
print(torch.cuda.max_memory_allocated())
torch.cuda.memory._dump_snapshot(os.environ["OUT"])
