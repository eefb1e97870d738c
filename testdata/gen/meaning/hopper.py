"""Inference with weights of 4096 x 4096 elements of 16 bits: 32 MiB, as a workspace of cuBLAS on Hopper. hopper.py FILE.
Recording begins after they are loaded. FILE.categories.json says by address what they are."""
import json
import sys

import torch
import torch.nn as nn

out = sys.argv[1]
net = nn.Sequential(*[nn.Linear(4096, 4096, bias=False) for _ in range(3)]).to("cuda", torch.bfloat16)
torch.cuda.memory._record_memory_history(max_entries=200_000, stacks="python")
categories = {hex(p.data_ptr()): "parameter" for p in net.parameters()}
with torch.no_grad():
    for _ in range(2):
        net(torch.randn(4, 4096, device="cuda", dtype=torch.bfloat16))
torch.cuda.memory._dump_snapshot(out)
with open(out + ".categories.json", "w") as f:
    json.dump(categories, f)
