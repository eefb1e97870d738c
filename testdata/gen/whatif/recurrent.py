"""A training with a whole recurrent layer, not on cuDNN; records into the file OUT, with C++ frames."""
import torch, torch.nn as nn
import record

torch.backends.cudnn.enabled = False
record.start("all")
net, out = nn.LSTM(32, 32).cuda(), nn.Linear(32, 8).cuda()
o = torch.optim.SGD([*net.parameters(), *out.parameters()], lr=.01)
for _ in range(2):
    out(net(torch.randn(6, 64, 32, device="cuda"))[0]).pow(2).mean().backward()
    o.step(); o.zero_grad()
record.end()
