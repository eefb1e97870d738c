"""Two replicas of a model of which one runs out of memory, on devices of 512 MiB. usage: beside.py FILE"""
import pickle, sys
import torch

torch.cuda.memory._record_memory_history(stacks="python")


def forward(weight, rows):
    x = torch.ones(rows, 1024, device=weight.device)
    for _ in range(8):
        x = (x @ weight).relu()
    return x


weights = [torch.ones(1024, 1024, device=f"cuda:{i}", requires_grad=True) for i in range(2)]
results = [forward(weights[1], 1024)]
try:
    results.append(forward(weights[0], 16384))
except torch.cuda.OutOfMemoryError:
    pass
snapshot = torch.cuda.memory._snapshot()
for trace in snapshot["device_traces"] + [s["blocks"] for s in snapshot["segments"]] + [snapshot["segments"]]:
    for event in trace:
        for frame in event.get("frames", []):
            frame["filename"] = frame["filename"].replace(sys.prefix, "/env").rpartition("gen/torch/")[2]
with open(sys.argv[1], "wb") as f:
    pickle.dump(snapshot, f)
