"""Builds the wheels of all platforms: python3 python/wheels.py [--host] [FOLDER]

They appear in build/wheels, or FOLDER, with their sizes and SHA-256, and the licences of what is in the programs in build/licenses. Needs Go, git and
a Python that can make virtual environments. --host builds only the wheel of this machine. The same commit and version of Go give the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent


def builder() -> str:
    """Returns a Python with the hatchling that pyproject.toml names."""
    folder = HERE.parent / "build" / "python" / "venv"
    python = str(folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    requirement = re.search(r"hatchling==[\d.]+", (HERE / "pyproject.toml").read_text())
    assert requirement
    if not Path(python).exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "-q", requirement[0]], check=True)
    return python


def main() -> None:
    args = sys.argv[1:]
    only_host = "--host" in args
    folders = [a for a in args if a != "--host"]
    out = Path(folders[0] if folders else HERE.parent / "build" / "wheels").resolve()
    python = builder()
    if not only_host:
        subprocess.run([python, "hatch_build.py", str(HERE.parent / "build" / "licenses")], cwd=HERE, check=True)
    listing = "import hatch_build as h; print(*([h.host()] if %r else h.PLATFORMS))" % only_host
    platforms = subprocess.run([python, "-c", listing], cwd=HERE, check=True, capture_output=True, text=True).stdout.split()
    for platform in platforms:
        command = [python, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
        env = dict(os.environ, MEMLANE_PLATFORM=platform)
        built = subprocess.run(command, cwd=HERE, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if built.returncode:
            sys.exit(f"{platform}:\n{built.stdout}")
        wheel = out / Path(built.stdout.split()[-1]).name
        content = wheel.read_bytes()
        print(f"{hashlib.sha256(content).hexdigest()}  {len(content) / 1e6:5.2f} MB  {wheel.name}", flush=True)


if __name__ == "__main__":
    main()
