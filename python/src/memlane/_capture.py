"""Captures and what the program says about them."""

from __future__ import annotations

import base64
import builtins
import html
import os
import tempfile
from typing import TYPE_CHECKING, Any, Union

from memlane import _program, answers

if TYPE_CHECKING:
    import pandas
    import pyarrow

Path = Union[str, "os.PathLike[str]"]


def _flags(options: dict[str, Any]) -> list[str]:
    """Returns flags of the program: by="category", min_size="1MiB" is --by=category --min-size=1MiB; True is a flag without a value."""
    flags = []
    for name, value in options.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is not None and one is not False:
                flags.append(flag if one is True else f"{flag}={one}")
    return flags


class Capture:
    """One capture, or a folder of captures. Each method runs the program once, unless its answer is known.

    Options are the flags of the command: leaks(min_size="1MiB", space="cuda:*").
    """

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)
        self._info: answers.Info = _program.answer("info", "--", self.path)

    def __repr__(self) -> str:
        spaces = [s for c in self._info["captures"] for s in c["spaces"]]
        return f"<memlane.Capture {self.path!r}: {', '.join(s['id'] for s in spaces[:4])}{', ...' if len(spaces) > 4 else ''}>"

    def _repr_html_(self) -> str:
        """Called by IPython for a cell that ends in a capture: the answer, and the picture if there is one. show() gives the interactive page."""
        try:
            picture = _picture(self.svg())
        except _program.NothingError:
            picture = ""
        return f"<pre style='white-space:pre-wrap'>{html.escape(self.text('brief'))}</pre>{picture}"

    def _answer(self, command: str, options: dict[str, Any]) -> Any:
        return _program.answer(command, *_flags(options), "--", self.path)

    def _export(self, command: str, *flags: str, suffix: str) -> bytes:
        """Returns a file that the program writes."""
        with tempfile.TemporaryDirectory(prefix="memlane-") as folder:
            out = os.path.join(folder, "out" + suffix)
            _program.run(command, "--quiet", "-o", out, *flags, "--", self.path)
            with builtins.open(out, "rb") as file:
                return file.read()

    def info(self) -> answers.Info:
        """Returns what is in the capture: memory IDs, peaks, live, reserved and fragmented bytes, and what is missing."""
        return self._info

    def leaks(self, **options: Any) -> list[answers.Finding]:
        """Returns the findings, most severe first."""
        found: answers.Leaks = self._answer("leaks", options)
        return found["findings"]

    def peak(self, by: str | None = None, **options: Any) -> list[answers.Peak]:
        """Returns what makes up the peak of each memory ID, largest first; by is "line", "category", "module" or another of memlane peak."""
        found: answers.Peaks = self._answer("peak", {"by": by, **options})
        return found["peaks"]

    def oom(self, **options: Any) -> list[answers.Failure]:
        """Returns the allocations that failed; none is an empty list."""
        try:
            found: answers.OOMs = self._answer("oom", options)
        except _program.NothingError:
            return []
        return found["ooms"]

    def tune(self, **options: Any) -> answers.Tune:
        """Returns which settings of PyTorch's allocator need less memory. It raises NothingError if the capture cannot be replayed."""
        tuned: answers.Tune = self._answer("tune", options)
        return tuned

    def whatif(self, *changes: str, **options: Any) -> list[answers.WhatIfSpace]:
        """Returns what each memory ID would need with changes such as "batch=2,checkpoint=blocks"; without any, with those that lower the peak.

        It raises NothingError if the capture has no history of PyTorch's allocator.
        """
        predicted: answers.WhatIf = self._answer("whatif", {"set": list(changes) or None, **options})
        return predicted["spaces"]

    def table(self, name: str = "buffers", **options: Any) -> pyarrow.Table:
        """Returns the table buffers, sites, stacks or usage, as docs/manual/tables.md describes it. Needs pyarrow."""
        try:
            from pyarrow import BufferReader, parquet
        except ImportError as missing:
            raise ImportError("tables need pyarrow: pip install 'memlane[arrow]'") from missing
        content = self._export("export", "--to=parquet", f"--table={name}", *_flags(options), suffix=".parquet")
        return parquet.read_table(BufferReader(content))

    def buffers(self, **options: Any) -> pyarrow.Table:
        """Returns one row for each buffer: size, site, category, begin and end. Needs pyarrow."""
        return self.table("buffers", **options)

    def to_pandas(self, name: str = "buffers", **options: Any) -> pandas.DataFrame:
        """Returns a table as a DataFrame. Needs pandas and pyarrow."""
        return self.table(name, **options).to_pandas()

    def text(self, command: str = "leaks", **options: Any) -> str:
        """Returns what a command prints. Each paragraph is one line, as in a file."""
        return _program.run(command, "--quiet", *_flags(options), "--", self.path).decode("utf-8")

    def svg(self, **options: Any) -> str:
        """Returns the picture of the memory, as SVG: buffers over time or, of a log, one bar of the device."""
        return self._export("svg", *_flags(options), suffix=".svg").decode("utf-8")

    def page(self, **options: Any) -> str:
        """Returns the interactive page, as HTML. Nothing is loaded from elsewhere."""
        return self._export("report", *_flags(options), suffix=".html").decode("utf-8")

    def show(self, height: int = 720, **options: Any) -> Shown:
        """Returns the page as a notebook shows it: in a sandboxed frame, or as a picture where frames or scripts are not allowed."""
        return Shown(self.page(**options), self.svg(**options), height, self.text(**options))


def _picture(svg: str) -> str:
    """Returns a picture as HTML in which nothing of a capture can be markup of the notebook."""
    code = base64.b64encode(svg.encode("utf-8")).decode("ascii")
    return f'<img alt="picture of the memory" width="100%" src="data:image/svg+xml;base64,{code}">'


class Shown:
    """The result of a notebook's cell."""

    def __init__(self, page: str, svg: str, height: int, text: str) -> None:
        self._page, self._svg, self._height, self._text = page, svg, height, text

    def __repr__(self) -> str:
        return self._text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Called by IPython. The frame has no access to the notebook: without allow-same-origin it has an origin of its own.

        The picture is shown where frames are removed from outputs, and inside the frame where scripts are off.
        """
        picture = _picture(self._svg)
        page = html.escape(self._page.replace("<noscript>", "<noscript>" + picture, 1))
        frame = (
            f'<div style="position:relative;min-height:{self._height}px">{picture}'
            f'<iframe sandbox="allow-scripts allow-downloads" title="memlane" srcdoc="{page}" '
            f'style="position:absolute;top:0;left:0;width:100%;height:{self._height}px;border:0;background:white"></iframe></div>'
        )
        return {"text/html": frame, "image/svg+xml": self._svg, "text/plain": self._text}


def open(path: Path) -> Capture:
    """Returns the capture of a file or a folder of captures. It raises CaptureError if the program cannot read it."""
    return Capture(path)


def diff(before: Capture | Path, after: Capture | Path, **options: Any) -> answers.Diff:
    """Returns what differs between two captures, by call site. Options are the flags of memlane diff."""
    paths = [c.path if isinstance(c, Capture) else os.fspath(c) for c in (before, after)]
    found: answers.Diff = _program.answer("diff", *_flags(options), "--", *paths)
    return found
