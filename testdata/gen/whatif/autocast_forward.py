"""Forward passes under autocast, recorded from the middle: python autocast_forward.py OUT [BATCH].

Prints the highest allocated memory. Weights are copied to bfloat16, whatever the batch is."""
import sys

import torch


class Net(torch.nn.Module):
    def __init__(self, width=512, depth=4):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width * (4 if i % 2 == 0 else 1)) if i % 2 == 0 else torch.nn.Linear(4 * width, width) for i in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        return x


def run(model, x):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        model(x)


def main():
    batch = int(sys.argv[2]) if len(sys.argv) > 2 else 512
    model = Net().cuda()
    x = torch.randn(batch, 512, device="cuda")
    run(model, x)
    torch.cuda.memory._record_memory_history(max_entries=100000, stacks="all")
    torch.cuda.reset_peak_memory_stats()
    run(model, x)
    run(model, x)
    print(torch.cuda.max_memory_allocated())
    torch.cuda.memory._dump_snapshot(sys.argv[1])


main()
