"""Finds the program and runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any


class Error(Exception):
    """The program failed. Its text is the program's message; status is its exit status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class CaptureError(Error):
    """A capture cannot be read."""


class NothingError(Error):
    """A capture does not contain the requested data."""


class ProgramMissing(Exception):
    """This installation has no program for this platform."""


_ERRORS = {3: CaptureError, 4: NothingError}


def find() -> str:
    """Returns the path of the program: of MEMLANE_PROGRAM, of this package, or of PATH.

    The last is for a checkout; there, build it with go install ./cmd/memlane.
    """
    name = "memlane.exe" if os.name == "nt" else "memlane"
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    program = os.environ.get("MEMLANE_PROGRAM") or (inside if os.path.exists(inside) else _on_path(name))
    if not program:
        raise ProgramMissing(f"{inside} is missing; install the wheel of your platform, or set MEMLANE_PROGRAM to the program")
    return program


def _on_path(name: str) -> str | None:
    """Returns the program on PATH, unless it is the script of this package."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        program = shutil.which(name, path=folder)
        if program:
            with open(program, "rb") as file:
                if file.read(2) != b"#!":
                    return program
    return None


def run(*args: str) -> bytes:
    """Returns what a command writes. It raises Error with the program's message, one line for each capture, if the command fails."""
    done = subprocess.run([find(), *args], stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"ended with status {done.returncode}"]
        raise _ERRORS.get(done.returncode, Error)("\n".join(line.removeprefix("memlane: ") for line in lines), done.returncode)
    return done.stdout


def answer(command: str, *args: str) -> Any:
    """Returns what a command answers, as docs/manual/json.md describes it."""
    return json.loads(run(command, "--json", "--quiet", *args))
