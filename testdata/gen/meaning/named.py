"""Snapshots without a history, whose stacks tell what is alive by the names of functions and files: named.py serve|megatron OUT.

The files are made in a folder beside OUT, with the paths and functions of the libraries: vLLM allocates its cache in _allocate_kv_cache and its weights in create_weights;
Megatron-LM makes one buffer of all parameters and one of all gradients in a constructor. OUT.categories.json says by address what is alive."""
import json
import os
import pickle
import sys

import torch

kind, out = sys.argv[1:]
root = os.path.join(os.path.dirname(os.path.abspath(out)), "lib", "site-packages")
FILES = {
    "vllm/worker/cache_engine.py": """
import torch


class CacheEngine:
    def __init__(self, blocks):
        self.gpu_cache = self._allocate_kv_cache(blocks)

    def _allocate_kv_cache(self, blocks):
        return [torch.zeros((2, blocks, 16, 4, 64), dtype=torch.half, device="cuda") for _ in range(6)]
""",
    "vllm/model_executor/layers/linear.py": """
import torch


class Linear:
    def __init__(self, i, o):
        self.create_weights(i, o)

    def create_weights(self, i, o):
        self.weight = torch.empty(o, i, dtype=torch.half, device="cuda")
""",
    "megatron/core/distributed/param_and_grad_buffer.py": """
import torch


class ParamAndGradBuffer:
    def __init__(self, n, sharded):
        self.param_data = None
        if sharded:
            self.param_data = torch.zeros(n, dtype=torch.bfloat16, device="cuda")
        self.grad_data = torch.zeros(n, dtype=torch.float, device="cuda")
""",
}
for path, text in FILES.items():
    os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
    with open(os.path.join(root, path), "w") as f:
        f.write(text)
sys.path.insert(0, root)
from megatron.core.distributed.param_and_grad_buffer import ParamAndGradBuffer
from vllm.model_executor.layers.linear import Linear
from vllm.worker.cache_engine import CacheEngine

torch.cuda.memory._record_memory_history(enabled="state", stacks="python")
categories = {}
if kind == "serve":
    keep = [Linear(512, 1536) for _ in range(6)]
    for layer in keep:
        categories[hex(layer.weight.data_ptr())] = "parameter"
    engine = CacheEngine(200)
    for cache in engine.gpu_cache:
        categories[hex(cache.data_ptr())] = "cache"
else:
    keep = [ParamAndGradBuffer(1 << 20, True), ParamAndGradBuffer(3 << 20, True)]
    for buffers in keep:
        categories[hex(buffers.param_data.data_ptr())] = "parameter"
        categories[hex(buffers.grad_data.data_ptr())] = "gradient"
snapshot = torch.cuda.memory._snapshot()
snapshot["device_traces"] = [[]]  # "state" keeps the last event
seen = set()
for segment in snapshot["segments"]:
    for block in segment["blocks"]:
        for frame in block.get("frames", []):
            if id(frame) not in seen:
                seen.add(id(frame))
                frame["filename"] = frame["filename"].replace(root, "/opt/venv/lib/python3.11/site-packages").replace(os.path.dirname(os.path.abspath(__file__)), "/home/user")
with open(out, "wb") as f:
    pickle.dump(snapshot, f)
with open(out + ".categories.json", "w") as f:
    json.dump(categories, f)
