"""prog.py as it runs out of memory, or with a softmax of its own; records into the file OUT.
usage: OUT=FILE cut.py FAMILY [cap=BYTES] [retry=1] [softmax=own] key=value ...
cap: what the process may reserve. retry=1: after a failure it goes on with half the batch. The peaks with changes are those of prog.py, and
of this program with softmax=own and seq=."""
import gc, os, pickle, sys
import torch

own = dict(a.split("=", 1) for a in sys.argv[2:] if a.split("=")[0] in ("cap", "retry", "softmax"))
out = os.environ.pop("OUT", "")
sys.argv = sys.argv[:2] + [a for a in sys.argv[2:] if a.split("=")[0] not in own]
source = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "prog.py")).read()


def replace(old, new):
    global source
    assert source.count(old) == 1, old
    source = source.replace(old, new)


if "softmax" in own:
    replace("return s.proj((a.softmax(-1) @ v)", "e = torch.exp(a - a.amax(-1, keepdim=True)); a = e / e.sum(-1, keepdim=True)\n        return s.proj((a @ v)")
if "retry" in own:
    replace('for i in range(steps): infer() if g("nograd", False) else step()', """
for i in range(steps):
    try:
        step()
        continue
    except torch.cuda.OutOfMemoryError: pass
    o.zero_grad(); B //= 2
    step()
""")
if "cap" in own:
    torch.cuda.set_per_process_memory_fraction(int(own["cap"]) / torch.cuda.get_device_properties(0).total_memory)
if out:
    torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="all")
program = {"__name__": "__main__"}
try:
    exec(compile(source, "prog.py", "exec"), program)
except torch.cuda.OutOfMemoryError as e:
    print(str(e)[:80])
    gc.collect()
if out:
    snapshot = torch.cuda.memory._snapshot()
    for trace in snapshot["device_traces"] + [s["blocks"] for s in snapshot["segments"]] + [snapshot["segments"]]:
        for event in trace:
            for frame in event.get("frames", []):
                frame["filename"] = frame["filename"].replace(sys.prefix, "/env")
    with open(out, "wb") as f:
        pickle.dump(snapshot, f)
