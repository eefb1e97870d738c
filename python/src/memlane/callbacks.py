"""One line to record a training: callbacks for Hugging Face Trainer and Lightning, and a tracker for accelerate.

    trainer = transformers.Trainer(..., callbacks=[memlane.callbacks.trainer("out/")])
    trainer = lightning.Trainer(..., callbacks=[memlane.callbacks.lightning("out/")])
    accelerator = accelerate.Accelerator(log_with=[memlane.callbacks.accelerate("out/")])

Each takes the options of memlane.record, but takes no signal unless on_signal names it: libraries use SIGUSR1 themselves (Lightning requeues
jobs of Slurm on it). The libraries are imported by the call. They write the same files as memlane.record, also when the training fails.
"""

from __future__ import annotations

import os
from typing import Any

from memlane._record import record


def trainer(folder: str | os.PathLike[str], **options: Any) -> Any:
    """Returns a transformers.TrainerCallback that records from the begin of a training to its end.

    Trainer calls no callback when a training fails: then the capture is written when the process exits, or before that by the observer.
    """
    from transformers import TrainerCallback

    recorder = record(folder, **{"on_signal": None, **options})

    class MemlaneCallback(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            recorder.stop()  # of a training that failed
            recorder.start()

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            recorder.stop()

    return MemlaneCallback()


def lightning(folder: str | os.PathLike[str], **options: Any) -> Any:
    """Returns a Callback of lightning, or of pytorch_lightning, that records from setup to teardown, validation and test included."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    recorder = record(folder, **{"on_signal": None, **options})

    class MemlaneCallback(Callback):  # type: ignore[misc]
        def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
            recorder.stop()
            recorder.start()

        def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
            recorder.stop()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            recorder.stop()

    return MemlaneCallback()


def accelerate(folder: str | os.PathLike[str], **options: Any) -> Any:
    """Returns a tracker of accelerate that records from Accelerator.init_trackers to Accelerator.end_training."""
    from accelerate.tracking import GeneralTracker

    recorder = record(folder, **{"on_signal": None, **options})

    class MemlaneTracker(GeneralTracker):  # type: ignore[misc]
        name = "memlane"
        requires_logging_directory = False
        main_process_only = False  # each rank has its own memory

        @property
        def tracker(self) -> Any:
            return recorder

        def start(self) -> None:
            if not recorder.recording:
                recorder.start()

        def store_init_configuration(self, values: dict[str, Any]) -> None:
            self.start()  # versions of accelerate without start call only this

        def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
            """Memory is recorded, not logged."""

        def finish(self) -> None:
            recorder.stop()

    return MemlaneTracker()
