"""Writes a snapshot whose frames have no path of a machine, and beside it what the program knows of its buffers, by address."""
import json
import os
import pickle

import torch


def save(out, categories):
    snapshot = torch.cuda.memory._snapshot()
    for frames in [e["frames"] for e in snapshot["device_traces"][0]] + [b["frames"] for s in snapshot["segments"] for b in s["blocks"]]:
        for f in frames:
            f["filename"] = f["filename"].replace(os.path.dirname(os.path.dirname(torch.__file__)), "/opt/venv/lib/python3.11/site-packages").replace(
                os.path.dirname(os.path.abspath(__file__)), "/home/user")
    with open(out, "wb") as f:
        pickle.dump(snapshot, f)
    with open(out + ".categories.json", "w") as f:
        json.dump(categories, f)
