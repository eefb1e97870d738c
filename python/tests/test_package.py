"""The installed package on the captures of testdata. .ci/python runs it in a fresh environment with the wheel."""

import doctest
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import memlane
import pytest

ROOT = Path(__file__).resolve().parents[2]
LEAK = ROOT / "testdata/torchsnap/leak_4mib_20steps.pickle"
TRAINING = ROOT / "testdata/torchsnap/leak_loss.pickle"
OOM = ROOT / "testdata/torchsnap/oom_observer.pickle"


def command(*args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(args, capture_output=True, text=True, cwd=ROOT)


def test_three_ways_to_the_same_program() -> None:
    script = Path(sys.executable).parent / "memlane"
    outputs = {command(*way, "leaks", str(LEAK)).stdout for way in ([str(script)], [sys.executable, "-m", "memlane"])}
    outputs.add(memlane.open(LEAK).text("leaks"))
    assert len(outputs) == 1 and "make_activation (leak.py:8)" in outputs.pop()


def test_exit_status_and_standard_input() -> None:
    run = [sys.executable, "-m", "memlane"]
    assert command(*run, "leaks", "--fail-on", "warning", str(LEAK)).returncode == 1
    assert command(*run, "leaks", "nowhere.pickle").returncode == 3
    with LEAK.open("rb") as file:
        done = subprocess.run([*run, "info", "-"], stdin=file, capture_output=True, text=True)
    assert done.returncode == 0 and "cuda:0" in done.stdout


def test_leaks_peak_info() -> None:
    capture = memlane.open(LEAK)
    (finding,) = capture.leaks()
    # testdata/README.md: 20 activations of 4 MiB, one for each step
    assert (finding["site"]["name"], finding["count"], finding["bytes"]) == ("make_activation (leak.py:8)", 20, 20 * 4 << 20)
    (space,) = capture.info()["captures"][0]["spaces"]
    (peak,) = capture.peak(by="function")
    assert peak["bytes"] == space["peak"]["bytes"] == sum(row["bytes"] for row in peak["rows"])
    assert capture.leaks(min_size="8MiB") == [] or capture.leaks(min_size="8MiB") != capture.leaks()
    assert "cuda:0" in repr(capture)


def test_answers_are_those_of_the_program() -> None:
    def answers(*args: str) -> Any:
        return json.loads(command(sys.executable, "-m", "memlane", *args, "--json").stdout)

    training, failed = memlane.open(TRAINING), memlane.open(OOM)
    assert training.info() == answers("info", str(TRAINING))
    assert training.leaks() == answers("leaks", str(TRAINING))["findings"]
    assert training.peak(by="category") == answers("peak", "--by", "category", str(TRAINING))["peaks"]
    assert failed.oom() == answers("oom", str(OOM))["ooms"] != []
    assert training.tune() == answers("tune", str(TRAINING))
    assert training.whatif("optimizer=sgd", "no_grad", capacity="1GiB") == answers(
        "whatif", "--set=optimizer=sgd", "--set=no_grad", "--capacity=1GiB", str(TRAINING)
    )["spaces"]
    assert memlane.diff(training, LEAK) == answers("diff", str(TRAINING), str(LEAK))


def test_diff_has_the_same_answer_as_the_program() -> None:
    same = memlane.diff(LEAK, memlane.open(LEAK))
    assert same["rows"] == [] or all(r["before"] == r["after"] for r in same["rows"])
    assert same["before"]["file"] == str(LEAK)


def test_errors_are_the_message_of_the_program(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("not a capture\n")
    with pytest.raises(memlane.CaptureError) as error:
        memlane.open(other)
    assert error.value.status == 3 and str(error.value).startswith(str(other))
    with pytest.raises(memlane.Error, match="no flag --no-such") as error:
        memlane.open(LEAK).leaks(no_such="1")
    assert error.value.status == 2
    with pytest.raises(memlane.NothingError):
        memlane.open(LEAK).text("oom")
    assert memlane.open(LEAK).oom() == []


def test_a_capture_may_be_called_like_a_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("--help").write_bytes(LEAK.read_bytes())
    assert len(memlane.open("--help").leaks()) == 1


def test_tables() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    capture = memlane.open(TRAINING)
    (space,) = capture.info()["captures"][0]["spaces"]
    buffers = capture.buffers()
    assert isinstance(buffers, pyarrow.Table)
    live = [row["size"] for row in buffers.select(["size", "live"]).to_pylist() if row["live"]]
    assert (len(live), sum(live)) == (space["live"]["count"], space["live"]["bytes"])
    pytest.importorskip("pandas")
    sites = capture.to_pandas("sites")
    assert sites["live_bytes"].sum() == space["live"]["bytes"] and "forward" in set(sites["function"])


def test_shown_in_a_sandbox() -> None:
    bundle = memlane.open(LEAK).show()._repr_mimebundle_()
    frame = bundle["text/html"]
    assert 'sandbox="allow-scripts allow-downloads"' in frame and "allow-same-origin" not in frame
    assert frame.count("<script") == 0  # the page is an attribute: nothing of it is markup of the notebook
    assert bundle["image/svg+xml"].startswith("<svg") and "make_activation" in bundle["text/plain"]


def test_capture_in_a_cell() -> None:
    cell = memlane.open(LEAK)._repr_html_()
    assert "make_activation (leak.py:8)" in cell and cell.count('<img alt="picture of the memory"') == 1 and "<script" not in cell
    log = memlane.open(ROOT / "testdata/oomtext/cpu_jax.log")._repr_html_()  # nothing to draw
    assert "cpu_jax.log" in log and "<img" not in log


def test_notebook() -> None:
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    nbformat = pytest.importorskip("nbformat")
    cells = ["import memlane", f"capture = memlane.open({str(LEAK)!r})", "capture", "capture.show()"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    assert "cuda:0" in notebook.cells[2].outputs[0].data["text/plain"] and "make_activation" in notebook.cells[2].outputs[0].data["text/html"]
    assert set(notebook.cells[3].outputs[0].data) == {"text/html", "image/svg+xml", "text/plain"}


def test_manual(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python of both pages, with a recording that the test replaces by a shipped capture."""
    monkeypatch.chdir(ROOT)
    for page in (ROOT / "python/README.md", ROOT / "docs/manual/python.md"):
        for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
            if code.startswith(">>>"):
                session = doctest.DocTestParser().get_doctest(code, {}, page.name, str(page), 0)
                assert doctest.DocTestRunner().run(session).failed == 0
                continue
            compile(code, str(page), "exec")
            after = code.partition('capture = memlane.open("out/rank0.pickle")\n')[2]
            if after:
                exec(after, {"memlane": memlane, "capture": memlane.open(TRAINING)})


@pytest.mark.skipif("MEMLANE_WHEEL" not in os.environ, reason="MEMLANE_WHEEL names the wheel that is tested")
def test_wheel_holds_what_it_needs() -> None:
    wheel = Path(os.environ["MEMLANE_WHEEL"])
    names = zipfile.ZipFile(wheel).namelist()
    assert wheel.stat().st_size < 12e6
    for name in ("memlane/bin/memlane", "memlane/py.typed", "memlane/pytest_plugin.py", "memlane/licenses/LICENSE"):
        assert name in names
    licences = [n for n in names if n.startswith("memlane/licenses/modules/")]
    modules = re.findall(r"^\tdep\t(\S+)", command("go", "version", "-m", str(Path(memlane.__file__).parent / "bin" / "memlane")).stdout, re.MULTILINE)
    assert modules and not [m for m in [*modules, "go", "uPlot"] if not any(f"/modules/{m}/" in n for n in licences)]
    assert not [n for n in names if "test" in Path(n).name and not n.startswith("memlane/pytest_plugin") and "/licenses/" not in n]


@pytest.mark.skipif("MEMLANE_WHEEL" not in os.environ, reason="MEMLANE_WHEEL names the wheel that is tested")
@pytest.mark.skipif(not (ROOT / ".git").is_dir(), reason="Go records no commit in a linked worktree")
def test_program_knows_its_commit() -> None:
    commit = command("git", "rev-parse", "HEAD").stdout[:12]
    assert commit and commit in command(sys.executable, "-m", "memlane", "version").stdout


def test_nothing_is_imported_until_it_is_used() -> None:
    code = "import sys, memlane; print([m for m in ('torch', 'jax', 'pandas', 'pyarrow', 'IPython', 'pytest', 'transformers') if m in sys.modules])"
    assert command(sys.executable, "-c", code).stdout == "[]\n"


def test_record_without_a_framework() -> None:
    done = command(sys.executable, "-c", "import memlane; memlane.record('/tmp/never').start()")
    assert "import torch or jax first" in done.stderr
