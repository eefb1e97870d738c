"""Builds the Go program into the wheel, and names the wheel after its platform.

MEMLANE_PLATFORM chooses a platform of PLATFORMS; without it, the wheel is for this machine. As a program, it writes the licences of what is in the
programs to a folder: python hatch_build.py FOLDER
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent

# The tag of a wheel, and GOOS and GOARCH of its program. The program is static, so it needs no C library: only the kernel that Go needs.
PLATFORMS = {
    "manylinux_2_17_x86_64": ("linux", "amd64"),
    "manylinux_2_17_aarch64": ("linux", "arm64"),
    "musllinux_1_1_x86_64": ("linux", "amd64"),
    "musllinux_1_1_aarch64": ("linux", "arm64"),
    "macosx_12_0_x86_64": ("darwin", "amd64"),
    "macosx_12_0_arm64": ("darwin", "arm64"),
    "win_amd64": ("windows", "amd64"),
    "win_arm64": ("windows", "arm64"),
}

# Parts of the program that building memlane leaves out by default.
TAGS = "parquet"

# What would change the program if the environment set it.
FIXED = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOEXPERIMENT": "", "GOFIPS140": "off", "GOWORK": "off", "GOAMD64": "v1", "GOARM64": "v8.0"}


def version() -> str:
    """Returns the version of the tag of this commit: 1.2.3 of v1.2.3. Without one, a version that no index accepts."""

    def git(*args: str) -> str:
        return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    tag = re.fullmatch(r"v(\d+\.\d+\.\d+.*)", git("describe", "--tags", "--exact-match", "--match", "v*"))
    if tag:
        return tag[1]
    commit = git("rev-parse", "--short=12", "HEAD")
    return f"0.0.dev0+g{commit}" if commit else "0.0.dev0"


def host() -> str:
    """Returns the platform of this machine."""
    here = sysconfig.get_platform().replace("-", "_").replace(".", "_")  # linux_x86_64, macosx_14_0_arm64, win_amd64
    system, machine = here.split("_")[0], re.sub(r"^(linux|macosx_\d+_\d+|win)_", "", here)
    for name in PLATFORMS:
        if name.endswith("_" + machine) and name.startswith({"linux": "manylinux", "macosx": "macosx", "win": "win"}.get(system, "?")):
            return name
    raise SystemExit(f"memlane has no wheel for {here}; its platforms are {', '.join(PLATFORMS)}")


def licences(env: dict[str, str]) -> dict[str, str]:
    """Returns the files with the licences of what is in the program, and their names in a folder: those beside each package, and above it in its module."""

    def go(*args: str) -> str:
        return subprocess.run(["go", *args], cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    found = {Path(go("env", "GOROOT"), "LICENSE"): "go/LICENSE", ROOT / "render/web/page/uplot/LICENSE": "uPlot/LICENSE"}
    package = "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}"
    for line in sorted(set(go("list", "-deps", "-tags", TAGS, "-f", package, "./cmd/memlane").splitlines()) - {""}):
        path, module, folder = line.split("\t")
        below = Path(folder).relative_to(module)
        folders = [below, *below.parents]
        if path == "github.com/golang/freetype":  # offers two, in files of their own; it is used under the first
            folders.append(Path("licenses"))
        for at in folders:
            for file in Path(module, at).iterdir():
                if re.match(r"(?i)(licen[cs]e|copying|notice|patents|ftl)", file.name) and file.is_file():
                    found[file] = (Path(path) / at / file.name).as_posix()
    return {str(file): name for file, name in found.items() if file.is_file()}


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Called by hatchling for each wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds the program. An editable install takes the one of MEMLANE_PROGRAM or PATH instead."""
        if version == "editable":
            return
        chosen = os.environ.get("MEMLANE_PLATFORM")
        platform = chosen or host()
        system, machine = PLATFORMS[platform]
        name = "memlane.exe" if system == "windows" else "memlane"
        program = ROOT / "build" / "python" / f"{system}_{machine}" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        env = dict(os.environ, GOOS=system, GOARCH=machine, **(FIXED if chosen else {"CGO_ENABLED": "0"}))
        command = ["go", "build", "-tags", TAGS, "-buildvcs=true", "-ldflags", "-s -w", "-o", str(program), "./cmd/memlane"]
        if chosen:  # for others: the same bytes on every machine. For this one, what go run has compiled serves again
            command.insert(2, "-trimpath")
        subprocess.run(command, cwd=ROOT, env=env, check=True)
        program.chmod(0o755)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["force_include"][str(program)] = f"memlane/bin/{name}"
        build_data["force_include"][str(ROOT / "LICENSE")] = "memlane/licenses/LICENSE"
        for file, at in licences(env).items():
            build_data["force_include"][file] = f"memlane/licenses/modules/{at}"


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for system in sorted({system for system, _ in PLATFORMS.values()}):
        for file, name in licences(dict(os.environ, GOOS=system, **FIXED)).items():
            (folder / system / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, folder / system / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
