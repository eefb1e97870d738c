"""Programs without modules, whose steps nothing marks, that run out of memory; says what the reason is. died.py NAME.pickle"""
import sys, torch
from common import *
D = "cuda"
torch.cuda.memory._record_memory_history(max_entries=1000000, stacks="python")

def table():
    """a server keeps the keys and values of finished sequences: a leak"""
    wk, wv, kept = torch.zeros(256, 256, device=D), torch.zeros(256, 256, device=D), {}
    def project(n):
        x = torch.zeros(n, 256, device=D)
        k = x @ wk
        v = x @ wv
        return k, v
    for i in range(100000): kept[i] = project(300 + i * 53 % 700)

def first_pass():
    """the activations of the first pass of 60 blocks do not fit: no leak"""
    blocks = [torch.zeros(256, 256, device=D, requires_grad=True) for _ in range(60)]
    def block(x, w):
        h = x @ w
        return h.tanh() * 2
    x = torch.zeros(5000, 256, device=D)
    for w in blocks: x = block(x, w)

def shards():
    """a data set is moved to the device, shard by shard, and does not fit: no leak"""
    data = []
    def shard():
        raw = torch.zeros(12 << 20, dtype=torch.uint8, device=D)
        data.append(raw.to(torch.float16))
    for _ in range(40): shard()

def ahead():
    """a second stream keeps the inputs of steps that are over; another function frees a large buffer in each: a leak"""
    kept, stream = [], torch.cuda.Stream()
    def fetch():
        with torch.cuda.stream(stream): return torch.empty(300, 1024, device=D)
    def use(): return torch.empty(40 << 20, device=D).sum()
    for _ in range(100000): kept.append(fetch()); use()

def whole():
    """requests of 117.2 MiB get blocks of 118 MiB, which are not split and are gone when the snapshot is written"""
    kept = []
    for _ in range(3): kept.append(torch.empty(122_880_000, dtype=torch.uint8, device=D))

name = sys.argv[1].removesuffix(".pickle")
try: globals()[name]()
except torch.OutOfMemoryError as e:
    print(e)
    if name != "whole": dump(sys.argv[1])
if name == "whole": torch.cuda.empty_cache(); dump(sys.argv[1])
