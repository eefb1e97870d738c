"""Which buffers held the GPU's memory, who allocated them, and which ones leak?

    import memlane

    with memlane.record("out/"):        # PyTorch or JAX
        train()

    capture = memlane.open("out/rank0.pickle")
    for finding in capture.leaks():
        print(finding["site"]["name"], finding["bytes"], finding["suggestions"])

Everything runs on this machine: the program memlane reads the capture, and this package reads the program's JSON and Parquet.
"""

from __future__ import annotations

from memlane import answers, callbacks
from memlane._capture import Capture, Shown, diff, open
from memlane._program import CaptureError, Error, NothingError, ProgramMissing
from memlane._record import Recorder, check, record

__all__ = [
    "Capture", "CaptureError", "Error", "NothingError", "ProgramMissing", "Recorder", "Shown", "answers", "callbacks", "check", "diff", "open", "record",
]  # fmt: skip
