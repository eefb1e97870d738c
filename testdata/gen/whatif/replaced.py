"""The result of a forward pass lives until the next one ends: python replaced.py OUT [del].

The first pass is older than the recording. With "del" the program deletes its result before the second one: the highest
allocated memory is printed."""
import sys

import torch


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Net(torch.nn.Module):
    def __init__(self, width=256, depth=4):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def main():
    model = Net().cuda()
    x = torch.randn(512, 256, device="cuda")
    result = model(x)
    torch.cuda.memory._record_memory_history(max_entries=100000, stacks="python")
    torch.cuda.reset_peak_memory_stats()
    if "del" in sys.argv:
        del result
    result = model(x)
    print(torch.cuda.max_memory_allocated())
    torch.cuda.memory._dump_snapshot(sys.argv[1])


main()
