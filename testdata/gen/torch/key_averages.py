"""CPU traces of torch.profiler with the exact figures of key_averages().

usage: key_averages.py PROGRAM OUT [stack]      writes OUT.json.gz and OUT.key_averages.json
"""
import json, sys, torch
from torch.profiler import profile, record_function, ProfilerActivity

program, out, stack = sys.argv[1], sys.argv[2], "stack" in sys.argv
torch.manual_seed(0)
torch.set_num_threads(1)
kept = []


class Square(torch.autograd.Function):  # Python between operators
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x + torch.ones(100).sum()

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        kept.append(torch.ones(1000).sum())
        return g * 2 * x


def nested():  # ranges and operators of one name in each other
    with record_function("a"):
        torch.ones(100)
        with record_function("a"):
            with record_function("a"):
                t = torch.ones(1000)
                kept.append(torch.ones(10))
    with record_function("a"):
        with record_function("a"):
            torch.ones(100)
            torch.zeros(10)
    torch.nn.functional.softmax(torch.randn(10, 10), -1).mean()


def custom():
    x = torch.randn(100, 100, requires_grad=True)
    Square.apply(x).sum().backward()


def oom():
    kept.append(torch.ones(1 << 18))
    with record_function("big"):
        try:
            torch.empty(1 << 50, dtype=torch.uint8)
        except RuntimeError:
            pass


with profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=stack, record_shapes=True) as prof:
    for _ in range(3):
        {"nested": nested, "custom": custom, "oom": oom}[program]()
prof.export_chrome_trace(out + ".json.gz")
rows = [{"name": r.key, "calls": r.count, "time_us": r.cpu_time_total, "self_time_us": r.self_cpu_time_total,
         "bytes": r.cpu_memory_usage, "self_bytes": r.self_cpu_memory_usage} for r in prof.key_averages()]
json.dump(rows, open(out + ".key_averages.json", "w"), indent=0)
