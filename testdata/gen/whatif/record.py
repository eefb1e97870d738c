"""Records into the file OUT, if that is set, without the paths of a machine."""
import os, pathlib, pickle, re, sys
import torch

out = os.environ.get("OUT")
recorder = None


def start(stacks="python", names=False):
    """names: with memlane's recorder (PYTHONPATH=python/src), which writes into the folder OUT.d."""
    global recorder
    if out and names:
        import memlane
        recorder = memlane.record(out + ".d", stacks=stacks); recorder.start()
    elif out: torch.cuda.memory._record_memory_history(max_entries=100_000, stacks=stacks)


def end():
    print("PEAK", torch.cuda.max_memory_allocated())
    if not out: return
    if recorder: recorder.stop()
    snapshot = pickle.load(open(next(pathlib.Path(out + ".d").rglob("*.pickle")), "rb")) if recorder else torch.cuda.memory._snapshot()
    here = os.path.dirname(os.path.abspath(__file__))
    for trace in snapshot["device_traces"] + [s["blocks"] for s in snapshot["segments"]] + [snapshot["segments"]]:
        for event in trace:
            for frame in event.get("frames", []):
                name = frame["filename"].replace(sys.prefix, "/env").replace(here, "/app")
                frame["filename"] = re.sub(r"^/\S*/(Python-\d)", r"/usr/src/\1", name)
    with open(out, "wb") as f:
        pickle.dump(snapshot, f)
