"""Forward passes in a function that returns their result; between them only zero_grad runs, which allocates and frees nothing: returned.py FILE.
FILE.categories.json says by address what is alive after the last one."""
import json
import os
import pickle
import sys

import torch
import torch.nn as nn

out = sys.argv[1]


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.up, self.down = nn.Linear(d, 4 * d, device="cuda"), nn.Linear(4 * d, d, device="cuda")

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def run(x):
    optimizer.zero_grad()
    with torch.no_grad():
        result = net(x)
    return result


torch.cuda.memory._record_memory_history(max_entries=200_000, stacks="python")
net = nn.Sequential(*[Block(128) for _ in range(4)], nn.Linear(128, 3000, device="cuda"))
optimizer = torch.optim.AdamW(net.parameters())
x = torch.randn(200, 128, device="cuda")
for _ in range(2):
    y = run(x)
categories = {hex(p.data_ptr()): "parameter" for p in net.parameters()}
categories[hex(y.data_ptr())] = "temporary"
snapshot = torch.cuda.memory._snapshot()
for frames in [e["frames"] for e in snapshot["device_traces"][0]] + [b["frames"] for s in snapshot["segments"] for b in s["blocks"]]:
    for f in frames:
        f["filename"] = f["filename"].replace(os.path.dirname(os.path.dirname(torch.__file__)), "/opt/venv/lib/python3.11/site-packages").replace(
            os.path.dirname(os.path.abspath(__file__)), "/home/user")
with open(out, "wb") as f:
    pickle.dump(snapshot, f)
with open(out + ".categories.json", "w") as f:
    json.dump(categories, f)
