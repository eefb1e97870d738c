"""Every buffer has a size of its own, so that a test knows by construction which line, node or library allocated it."""
import sys, torch
from common import *
steps = int(sys.argv[1]); stacks = sys.argv[2]; name = sys.argv[3]
torch.cuda.memory._record_memory_history(max_entries=100000, stacks=stacks)

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x                                    # square_forward
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * x * 2                                # square_backward

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = torch.nn.Parameter(torch.empty(256, 512, device="cuda"))   # w1
        self.w2 = torch.nn.Parameter(torch.empty(512, 128, device="cuda"))   # w2
        self.w3 = torch.nn.Parameter(torch.empty(128, 64, device="cuda"))    # w3
    def forward(self, x):
        x = x.mm(self.w1)                               # mm1
        x = x.relu()                                    # relu1
        x = x.mm(self.w2)                               # mm2
        x = x.relu()                                    # relu2
        x = Square.apply(x)
        x = x.mm(self.w3)                               # mm3
        return x

net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=False)
for step in range(steps):
    x = torch.empty(300, 256, device="cuda")            # data
    out = net(x)
    loss = out.sum()                                    # loss
    loss.backward()
    opt.step()
    opt.zero_grad()
dump(name)
