"""Frozen weights of 8 bits in a program of 32 bits, or of 16 with BF16=1."""
import os, torch, torch.nn as nn, torch.nn.functional as F
torch.cuda.memory._record_memory_history(max_entries=400000, stacks="python")
Bt=64; dt=torch.bfloat16 if os.environ.get("BF16") else torch.float32
class QLin(nn.Module):                       # frozen int8 weight, dequantised in forward, LoRA beside it
    def __init__(s,d):
        super().__init__(); s.register_buffer("q",torch.randint(-127,127,(d,d),dtype=torch.int8)); s.register_buffer("scale",torch.rand(d,1,dtype=dt))
        s.a=nn.Parameter(torch.randn(8,d,dtype=dt)*.01); s.b=nn.Parameter(torch.zeros(d,8,dtype=dt))
    def forward(s,x): return F.linear(x,s.q.to(dt)*s.scale)+F.linear(F.linear(x,s.a),s.b)
net=nn.Sequential(*[m for _ in range(5) for m in (QLin(768),nn.SiLU())]).cuda()
opt=torch.optim.AdamW([p for p in net.parameters()])
for i in range(2):
    x=torch.randn(Bt,768,device="cuda",dtype=dt,requires_grad=True)
    net(x).float().mean().backward(); opt.step(); opt.zero_grad(set_to_none=True)
print(Bt,torch.cuda.max_memory_allocated())
torch.cuda.memory._dump_snapshot(os.environ["OUT"])
