"""A training that keeps something of each step; prints the allocator's peak, and records into the folder OUT if that is set.
usage: leak.py KIND [fix=1] [steps=N] [late=N]"""
import sys, os, json, torch, torch.nn as nn, torch.nn.functional as F
kind = sys.argv[1]; opt = dict(a.split("=", 1) for a in sys.argv[2:]); fix = opt.get("fix") == "1"; steps = int(opt.get("steps", 60)); late = int(opt.get("late", 0))
torch.manual_seed(0); dev = "cuda"
class Net(nn.Module):
    def __init__(s, d=512, n=4):
        super().__init__(); s.layers = nn.ModuleList(nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)) for _ in range(n)); s.out = nn.Linear(d, 16)
    def features(s, x):
        for l in s.layers: x = x + l(x)
        return x
    def forward(s, x): return s.out(s.features(x))
def start():
    if os.environ.get("OUT"):
        import memlane; r = memlane.record(os.environ["OUT"], stacks=os.environ.get("STACKS", "python")); r.start(); return r
rec = None if late else start()
net = Net().to(dev); o = torch.optim.AdamW(net.parameters(), lr=1e-3)
kept, cache, total = [], {}, torch.zeros((), device=dev)
if kind == "hook" and not fix: net.layers[1].register_forward_hook(lambda m, i, out: kept.append(out.detach()))
def evaluate():
    if fix:
        with torch.no_grad(): return net(torch.randn(256, 512, device=dev))
    return net(torch.randn(256, 512, device=dev))
for i in range(steps):
    if late and i == late: torch.cuda.reset_peak_memory_stats(); rec = start()
    x, y = torch.randn(512, 512, device=dev), torch.randint(0, 16, (512,), device=dev)
    if kind == "features":
        h = net.features(x); loss = F.cross_entropy(net.out(h), y)
        if not fix: kept.append(h.detach())
        del h
    elif kind == "inputs":
        loss = F.cross_entropy(net(x), y)
        if not fix: cache[i] = x
    else: loss = F.cross_entropy(net(x), y)
    loss.backward()
    if kind == "grads" and not fix: kept.append({n: p.grad.clone() for n, p in net.named_parameters() if n.startswith("layers.0")})
    if kind == "stats":
        s = torch.stack([p.grad.abs() for p in net.layers[0][0].parameters() if p.dim() > 1])
        if not fix: kept.append(s)
        del s
    o.step(); o.zero_grad()
    if kind == "eval": out = evaluate(); kept.append(out.detach().cpu() if fix else out); del out
    if kind == "penalty":  # a graph that grows: a sum of results that no backward pass frees
        p = net(x[:64]).pow(2).mean(); total = total + (p.detach() if fix else p); del p
    del loss, x, y
if rec: rec.stop()
print("PEAKS", json.dumps({"allocated": torch.cuda.max_memory_allocated()}))
