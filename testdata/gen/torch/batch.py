"""batch.py SIZE [SNAPSHOT]: trains a small network with a batch size for 5 steps on a GPU, prints the allocator's counters as JSON, and writes
a snapshot of the whole history. Captures: testdata/replay/batch16.pickle.zst, batch32.pickle.zst; counters: batch.truth.json."""
import json
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.cuda.memory._record_memory_history(max_entries=1000000, stacks="python")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(1024, 1024), nn.GELU())])
        self.out = nn.Linear(1024, 100)

    def forward(self, x):
        return self.out(self.hidden(x))


def train(batch):
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(5):
        x = torch.zeros(batch * 64, 1024, device="cuda")
        target = torch.zeros(batch * 64, dtype=torch.long, device="cuda")
        loss = F.cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


batch = int(sys.argv[1])
train(batch)
stats = torch.cuda.memory_stats()
print(json.dumps({"batch": batch, "conf": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""), "peak_reserved": stats["reserved_bytes.all.peak"],
                  "peak_allocated": stats["allocated_bytes.all.peak"]}))
if len(sys.argv) > 2:
    torch.cuda.memory._dump_snapshot(sys.argv[2])
