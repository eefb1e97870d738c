"""The command memlane: python -m memlane, and the script of that name."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NoReturn

from memlane._program import ProgramMissing, find


def main() -> NoReturn:
    """Becomes the program. It never returns."""
    try:
        program = find()
    except ProgramMissing as missing:
        sys.exit(f"memlane: {missing}")
    args = [program, *sys.argv[1:]]
    if os.name != "nt":
        os.execv(program, args)
    try:  # execv on Windows returns to the shell before the program ends
        sys.exit(subprocess.call(args))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
