"""The state of PyTorch's allocator at instants of snapshots, as truth for the memory map of the page.

    python3 instants.py ../../torchsnap/frag_oom.pickle ... > ../../torchsnap/instants.json

It walks backwards from the segments of a snapshot and undoes the events of its trace, as MemoryViz does. It unpickles, so
use it only for files that you trust.
"""

import bisect
import json
import os
import pickle
import sys


def undo(snapshot, device):
    """Yields (number of allocs so far, whether one failed there, ranges reserved, requested bytes by address), latest first."""
    ranges, blocks = set(), {}
    for segment in snapshot["segments"]:
        if segment["device"] != device:
            continue
        add(ranges, segment["address"], segment["total_size"])
        address = segment["address"]
        for block in segment["blocks"]:
            address = block.get("address", address)
            if block["state"] != "inactive":
                blocks[address] = block["requested_size"]
            address += block["size"]
    events = snapshot["device_traces"][device]
    allocs = sum(e["action"] == "alloc" for e in events)
    for event in reversed(events):
        action, address = event["action"], event.get("addr")
        if action == "alloc":
            yield allocs, False, sorted(ranges), dict(blocks)
            allocs -= 1
            del blocks[address]
        elif action == "oom":
            yield allocs, True, sorted(ranges), dict(blocks)
        elif action == "free_completed":
            blocks[address] = event["size"]
        elif action in ("segment_alloc", "segment_map"):
            remove(ranges, address, event["size"])
        elif action in ("segment_free", "segment_unmap"):
            add(ranges, address, event["size"])


def add(ranges, address, size):
    """Adds a range to a set of disjoint ranges, merging neighbours."""
    end = address + size
    for one in [r for r in ranges if r[1] == address or r[0] == end]:
        ranges.remove(one)
        address, end = min(address, one[0]), max(end, one[1])
    ranges.add((address, end))


def remove(ranges, address, size):
    """Removes a range from the one that contains it."""
    end = address + size
    one = next(r for r in ranges if r[0] <= address and end <= r[1])
    ranges.remove(one)
    for part in ((one[0], address), (end, one[1])):
        if part[0] < part[1]:
            ranges.add(part)


def holes(ranges, blocks):
    """Returns blocks that lie in no range: none in a true snapshot."""
    starts = [r[0] for r in ranges]
    return [a for a in blocks if (i := bisect.bisect_right(starts, a)) == 0 or a >= ranges[i - 1][1]]


def truths(path):
    with open(path, "rb") as f:
        snapshot = pickle.load(f)
    for device, events in enumerate(snapshot["device_traces"]):
        total = sum(e["action"] == "alloc" for e in events)
        wanted = {max(1, total * k // 6) for k in range(7)} if total else set()
        for allocs, failed, ranges, blocks in undo(snapshot, device):
            if failed or allocs in wanted:
                assert not holes(ranges, blocks), path
                yield {
                    "file": os.path.basename(path), "device": f"cuda:{device}", "allocs": allocs, "failed": failed,
                    "reserved": [[f"{a:x}", b - a] for a, b in ranges],
                    "blocks": len(blocks), "requested": sum(blocks.values()), "addresses": f"{sum(blocks):x}",
                }


def main():
    print("[\n" + ",\n".join(json.dumps(t) for path in sys.argv[1:] for t in truths(path)) + "\n]")


if __name__ == "__main__":
    main()
