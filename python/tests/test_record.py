"""The recorder and the callbacks with the real libraries. Tests of libraries that are not installed are skipped.

PyTorch's need a GPU, or a CUDA runtime that only counts memory.
"""

import gc
import importlib.util
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path

import memlane
import pytest


def torch_with_gpu() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


needs_torch = pytest.mark.skipif(not torch_with_gpu(), reason="no torch with a GPU")
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="no jax")


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not torch_with_gpu() or importlib.util.find_spec(name) is None, reason=f"no {name}")


def run(folder: Path, program: str, **env: str) -> "subprocess.CompletedProcess[str]":
    file = folder / "program.py"
    file.write_text(program)
    return subprocess.run([sys.executable, str(file)], cwd=folder, capture_output=True, text=True, env={**os.environ, **env})


TRAIN = """
import os, signal, sys, torch, memlane
keep = []
def activations(): return torch.empty(8 << 20, device="cuda")
def train(steps, send=0):
    for i in range(steps):
        keep.append(activations())
        other = torch.empty(1 << 20, device="cuda")
        if i + 1 == send: os.kill(os.getpid(), signal.SIGUSR1)
"""


@needs_torch
def test_end_and_signal(tmp_path: Path) -> None:
    done = run(tmp_path, TRAIN + "with memlane.record('out') as r:\n    train(20, send=11)\n    r.dump('mid')\n", RANK="3")
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["rank3.pickle", "rank3_mid.pickle", "rank3_usr1_1.pickle"]
    for name, count in (("rank3", 20), ("rank3_usr1_1", 11)):
        (peak,) = memlane.open(tmp_path / "out" / f"{name}.pickle").peak(at="end", by="function")
        row = peak["rows"][0]
        assert (row["site"]["name"], row["count"], row["bytes"]) == ("activations (program.py)", count, count * 32 << 20)


@needs_torch
def test_out_of_memory_is_written_before_the_stack_unwinds(tmp_path: Path) -> None:
    fill = """
limit = torch.cuda.get_device_properties(0).total_memory
torch.cuda.set_per_process_memory_fraction(min(1.0, (1 << 30) / limit))
def deep(): big = [activations() for _ in range(1000)]
for attempt in range(3):
    try:
        with memlane.record("out"):
            try: deep()
            except torch.cuda.OutOfMemoryError: pass
            print(sorted(os.listdir("out")))
    except RuntimeError as e: print(e)
"""
    done = run(tmp_path, TRAIN + fill)
    assert done.returncode == 0, done.stderr
    assert "rank0_oom.pickle" in done.stdout
    (oom,) = memlane.open(tmp_path / "out/rank0_oom.pickle").oom()
    assert oom["space"] == "cuda:0"
    (held,) = memlane.open(tmp_path / "out/rank0_oom.pickle").peak(at="end", by="function")[0]["rows"]
    assert held["site"]["name"] == "activations (program.py)" and held["count"] > 20  # the list of deep still holds them
    (end,) = memlane.open(tmp_path / "out/rank0.pickle").peak(at="end")
    assert end["bytes"] == 0  # and has lost them at the end


@needs_torch
def test_written_at_exit_without_with(tmp_path: Path) -> None:
    done = run(tmp_path, TRAIN + "memlane.record('out').start()\ntrain(5)\nsys.exit(7)\n")
    assert done.returncode == 7 and (tmp_path / "out/rank0.pickle").exists(), done.stderr


@needs_torch
def test_the_error_of_the_program_remains(tmp_path: Path) -> None:
    program = TRAIN + "with memlane.record('out'):\n    os.rmdir('out'); open('out', 'w').close(); raise ValueError('mine')\n"
    done = run(tmp_path, program)
    assert done.returncode == 1 and "memlane: no capture written: " in done.stderr and done.stderr.endswith("ValueError: mine\n")


@needs_torch
def test_a_fork_writes_nothing(tmp_path: Path) -> None:
    fork = "memlane.record('out').start()\nif not os.fork(): sys.exit(0)\nos.wait(); print(os.listdir('out'))\n"
    done = run(tmp_path, TRAIN + fork)
    assert done.stdout == "[]\n" and (tmp_path / "out/rank0.pickle").exists(), done.stderr


RECORD = "with memlane.record('out', on_signal=ask):\n    train(3)\n"
UNHARMED = {  # what the program does while it is recorded; it prints what it would print without, and the files are these
    "faulthandler before": ("import faulthandler; faulthandler.register(signal.SIGUSR1)", RECORD + "signal.raise_signal(signal.SIGUSR1)", ["rank0.pickle"]),
    "faulthandler meanwhile": ("import faulthandler", RECORD + "    faulthandler.register(signal.SIGUSR1)\nsignal.raise_signal(signal.SIGUSR1)", ["rank0.pickle"]),
    "handler meanwhile": (
        "",
        RECORD + "    signal.signal(signal.SIGUSR1, lambda *_: print('mine'))\nsignal.raise_signal(signal.SIGUSR1)",
        ["rank0.pickle"],
    ),
    "handler before": (
        "signal.signal(signal.SIGUSR1, lambda *_: print('mine'))",
        RECORD + "    signal.raise_signal(signal.SIGUSR1)\nsignal.raise_signal(signal.SIGUSR1)",
        ["rank0.pickle", "rank0_usr1_1.pickle"],
    ),
    "folder removed": ("import shutil", RECORD + "    shutil.rmtree('out')\n", ["rank0.pickle"]),
    "disk full": (
        "import resource; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)",
        RECORD + "    resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))\n",
        [],
    ),
    "folder changed": ("os.mkdir('sub')", RECORD + "    os.chdir('sub')\nassert not os.listdir()", ["rank0.pickle"]),
    "folder replaced": ("import shutil", RECORD + "    r = 1; shutil.rmtree('out'); open('out', 'w').close()\nos.remove('out'); os.mkdir('out')", []),
    "stop in a thread": (
        "import threading",
        "r = memlane.record('out').start(); train(2); t = threading.Thread(target=r.stop); t.start(); t.join(); assert not r.recording",
        ["rank0.pickle"],
    ),
    "two stops": (
        "import threading",
        "r = memlane.record('out').start(); ts = [threading.Thread(target=r.stop) for _ in range(4)]; [t.start() for t in ts]; [t.join() for t in ts]",
        ["rank0.pickle"],
    ),
    "standard error closed": ("", RECORD + "    sys.stderr.close(); signal.raise_signal(signal.SIGUSR1)", ["rank0.pickle", "rank0_usr1_1.pickle"]),
    "locals() kept": (
        "def main(lr=0.1):\n    kept = locals()\n    with memlane.record('out', on_signal=None): other = activations()\n    assert list(kept) == ['lr'], kept",
        "main()",
        ["rank0.pickle"],
    ),
    "history with a limit": (
        "torch.cuda.memory._record_memory_history(max_entries=5)",
        RECORD + "    train(9)\nassert 0 < len(torch.cuda.memory._snapshot()['device_traces'][0]) <= 5",
        ["rank0.pickle"],
    ),
    "folder in the way": (
        "os.mkdir('out/rank0.pickle')",
        RECORD + "assert len(os.listdir('out')) == 2; [os.remove(f'out/{n}') for n in os.listdir('out') if 'rank0_' in n]",
        ["rank0.pickle"],
    ),
    "failure at the limit of nested calls": (
        "def deep(n): return deep(n - 1) if n else torch.empty(1 << 50, device='cuda')",
        RECORD + "    try: deep(sys.getrecursionlimit() - 12)\n    except torch.OutOfMemoryError: pass\nassert sys.getrecursionlimit() == 1000",
        ["rank0.pickle", "rank0_oom.pickle"],
    ),
    "history before": (
        "torch.cuda.init(); torch.cuda.memory._record_memory_history()",
        RECORD + "assert torch._C._cuda_isHistoryEnabled()",
        ["rank0.pickle"],
    ),
}


@needs_torch
@pytest.mark.parametrize("name", UNHARMED)
def test_the_program_ends_as_without(name: str, tmp_path: Path) -> None:
    before, work, files = UNHARMED[name]
    (tmp_path / "out").mkdir()
    done = run(tmp_path, TRAIN + f"ask = signal.SIGUSR1\n{before}\n{work}\nprint('ended')\n")
    assert done.returncode == 0 and done.stdout.endswith("ended\n"), done.stderr
    assert done.stdout.count("mine") == ("handler" in name and "faulthandler" not in name) + (name == "handler before")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == files


@needs_torch
def test_a_folder_that_cannot_be_written_fails_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    done = run(tmp_path, TRAIN + "with memlane.record('out'): print('trains')\n")
    assert done.returncode == 1 and done.stdout == "" and "FileExistsError" in done.stderr


@needs_torch
def test_sigterm_writes_and_ends(tmp_path: Path) -> None:
    program = TRAIN + "memlane.record('out', on_signal=[signal.SIGTERM]).start(); train(2); os.kill(os.getpid(), signal.SIGTERM); train(9)\n"
    done = run(tmp_path, program)
    assert done.returncode == -15, done.stderr
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["rank0_term_1.pickle"]


@needs_torch
def test_control_c_ends_as_without(tmp_path: Path) -> None:
    done = run(tmp_path, TRAIN + "memlane.record('out').start(); train(2); os.kill(os.getpid(), signal.SIGINT); train(9)\n")
    assert done.returncode == -2 and done.stderr.endswith("KeyboardInterrupt\n"), done.stderr
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["rank0.pickle"]


@needs_torch
def test_processes_keep_each_others_files(tmp_path: Path) -> None:
    program = TRAIN + """
import subprocess
if len(sys.argv) > 1: (r := memlane.record('out').start()); train(2); input(); sys.exit()
open('out/rank0.pickle', 'w').write('of an earlier run')
ps = [subprocess.Popen([sys.executable, __file__, 'x'], stdin=subprocess.PIPE) for _ in range(3)]
import time
while len(os.listdir('out')) < 1 or any(p.poll() for p in ps): time.sleep(.1)
time.sleep(10)
for p in ps: p.communicate(b'\\n')
"""
    (tmp_path / "out").mkdir()
    done = run(tmp_path, program)
    names = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert done.returncode == 0 and len(names) == 3 and names[0] == "rank0.pickle", (names, done.stderr)
    for name in names:
        assert memlane.open(tmp_path / "out" / name).info()


@needs_torch
def test_two_recorders_are_refused(tmp_path: Path) -> None:
    done = run(tmp_path, TRAIN + "with memlane.record('a'):\n    memlane.record('b').start()\n")
    assert "another recorder uses PyTorch's history" in done.stderr


GROWS = """
import time
time.monotonic = iter(range(10**9)).__next__  # a second for each look
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with memlane.record("out", on_growth="100 MiB", names=False) as r:
    for i in range(40):
        model(torch.ones(1, 64, device="cuda")).sum().backward()
        optimizer.step()
        if i % 10 == 9: spike = activations(); spike = None
        if len(sys.argv) > 1 and i > 10: keep.append(activations())
"""


@needs_torch
@pytest.mark.parametrize("grows", [False, True])
def test_growth_is_dumped_once(grows: bool, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TRAIN + ("sys.argv.append('x')\n" if grows else "") + GROWS)
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == (["rank0.pickle", "rank0_growth.pickle"] if grows else ["rank0.pickle"])
    if grows:
        assert done.stderr.count("live memory has grown by 128 MiB") == 1
        (peak,) = memlane.open(tmp_path / "out/rank0_growth.pickle").peak(at="end", by="function")
        assert peak["rows"][0]["site"]["name"] == "activations (program.py)"


@needs_torch
def test_check_prints_the_leak_and_what_holds_it(tmp_path: Path) -> None:
    program = TRAIN + """
try: memlane.check()
except RuntimeError as e: print(e)
with memlane.record("out"):
    train(60)
    found = memlane.check()
print([h["name"] for f in found for h in f["held_by"]])
"""
    done = run(tmp_path, program)
    assert done.returncode == 0, done.stderr
    assert "memlane.check: nothing records" in done.stdout and "held by keep[*]" in done.stdout and done.stdout.endswith("['keep[*]']\n"), done.stdout


@needs_torch
def test_a_device_that_cannot_be_recorded_is_named(tmp_path: Path) -> None:
    program = "import torch, memlane\ntorch.cuda.is_available = lambda: False\ntorch.get_device_module = lambda: torch.mps\nmemlane.record('out').start()\n"
    done = run(tmp_path, program)
    assert done.returncode == 1 and "; it uses mps, whose allocations memlane cannot record: it records CUDA, ROCm, and XPU from PyTorch 2.10 on" in done.stderr


@needs_torch
def test_other_devices_are_recorded_if_they_can(tmp_path: Path) -> None:
    """The device has the functions of torch.xpu, and no observer of failures."""
    program = TRAIN + """
import types
xpu = types.ModuleType("torch.xpu")
xpu.__dict__.update({n: getattr(torch.cuda, n) for n in ("memory", "memory_allocated", "memory_stats", "device_count", "is_initialized")})
keep.append(activations())
torch.get_device_module, torch.cuda.is_available = lambda: xpu, lambda: False
try:
    with memlane.record("out", on_growth="1 GiB"):
        local = activations()
        raise torch.OutOfMemoryError("full")
except torch.OutOfMemoryError: pass
"""
    import torch

    if not hasattr(torch, "OutOfMemoryError"):
        pytest.skip("PyTorch before 2.5")
    done = run(tmp_path, program)
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["rank0.pickle", "rank0_oom.pickle"]
    (peak,) = memlane.open(tmp_path / "out/rank0_oom.pickle").peak(at="end", by="name")
    assert {row["site"]["name"] for row in peak["rows"]} == {"keep[*]", "local"}


def test_sizes_of_on_growth() -> None:
    from memlane import _record

    assert [_record._bytes(s) for s in ("2 GiB", "1.5GB", "300M", "7", 5)] == [2 << 30, 3 << 29, 300 << 20, 7, 5]
    with pytest.raises(ValueError):
        memlane.record("out", on_growth="much")


def test_the_search_for_a_module_keeps_nothing_alive() -> None:
    from memlane import _modules

    class Held: ...

    class Holder:
        def __init__(self) -> None:
            self.module = Held()

    def call() -> "tuple[str, weakref.ref[Held]]":
        held, holder = Held(), Holder()
        return _modules._variable(holder.module), weakref.ref(held)

    gc.disable()  # only a reference of the search can keep what the call had
    try:
        name, held = call()
        assert (name, held()) == ("holder.module", None)
    finally:
        gc.enable()


@needs_jax
def test_jax(tmp_path: Path) -> None:
    program = """
import os, signal, jax, jax.numpy as jnp, memlane
def make(i): return jnp.ones((1 << 18,)) * i
with memlane.record("out") as r:
    keep = [make(i) for i in range(4)]
    os.kill(os.getpid(), signal.SIGUSR1)
"""
    done = run(tmp_path, program, JAX_PLATFORMS="cpu")
    assert done.returncode == 0, done.stderr
    for name in ("rank0", "rank0_usr1_1"):
        (peak,) = memlane.open(tmp_path / f"out/{name}.prof").peak(by="function")
        assert [r["bytes"] for r in peak["rows"] if r["site"]["name"] == "make (program.py)"] == [4 << 20]
    assert list((tmp_path / "out/rank0_trace").rglob("*.xplane.pb"))


@needs_jax
def test_jax_out_of_memory(tmp_path: Path) -> None:
    program = """
import jax.numpy as jnp, memlane
def work():
    kept = jnp.ones(1 << 18)
    return jnp.ones(1 << 57)
with memlane.record("out"): work()
"""
    done = run(tmp_path, program, JAX_PLATFORMS="cpu")
    assert "RESOURCE_EXHAUSTED" in done.stderr and "memlane: wrote out/rank0_oom.prof" in done.stderr
    (peak,) = memlane.open(tmp_path / "out/rank0_oom.prof").peak(by="function")
    assert (peak["rows"][0]["site"]["name"], peak["rows"][0]["bytes"] >> 20) == ("work (program.py)", 1)  # what work held when it failed


MODEL = """
import os, torch, memlane
class Data(torch.utils.data.Dataset):
    def __len__(self): return 16
    def __getitem__(self, i): return {"x": torch.zeros(4)}
class Model(torch.nn.Module):
    def __init__(self): super().__init__(); self.l = torch.nn.Linear(4, 4)
    def forward(self, x=None): return {"loss": self.l(x).sum()}
"""
TRAINERS = {
    "transformers": """
import transformers
args = transformers.TrainingArguments("scratch", max_steps=8, per_device_train_batch_size=2, report_to=[], save_strategy="no",
                                      dataloader_pin_memory=False)
transformers.Trainer(Model(), args, train_dataset=Data(), callbacks=[memlane.callbacks.trainer("out")]).train()
""",
    "lightning": """
import lightning
class Module(lightning.LightningModule):
    def __init__(self): super().__init__(); self.model = Model()
    def training_step(self, batch, i): return self.model(**batch)["loss"]
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=0.1)
lightning.Trainer(max_steps=8, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, accelerator="gpu",
                  devices=1, callbacks=[memlane.callbacks.lightning("out")]).fit(Module(), torch.utils.data.DataLoader(Data(), batch_size=2))
""",
    "accelerate": """
import accelerate
a = accelerate.Accelerator(log_with=[memlane.callbacks.accelerate("out")])
a.init_trackers("p", config={})
model = Model()
model, optimizer, loader = a.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.utils.data.DataLoader(Data(), batch_size=2))
for batch in loader:
    a.backward(model(**batch)["loss"]); optimizer.step(); optimizer.zero_grad(); a.log({"step": 1})
a.end_training()
""",
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=needs(n)) for n in TRAINERS])
def test_callback(name: str, tmp_path: Path) -> None:
    done = run(tmp_path, MODEL + TRAINERS[name] + 'assert not memlane._record._observed, "still recording"\n')
    assert done.returncode == 0, done.stderr
    capture = memlane.open(tmp_path / "out/rank0.pickle")
    (space,) = capture.info()["captures"][0]["spaces"]
    assert space["id"] == "cuda:0" and space["allocations"] > 50
    assert any("Linear" in f["function"] or "forward" in f["function"] for p in capture.peak() for r in p["rows"] for f in r["site"]["stack"])


MODULES = """
import torch, memlane
class Block(torch.nn.Module):
    def __init__(self): super().__init__(); self.up = torch.nn.Linear(64, 96)
    def forward(self, x, fail=False):
        x = self.up(x)
        if fail: raise ValueError
        return x + x
class Net(torch.nn.Module):
    def named_modules(self, *args): raise RuntimeError
    def __init__(self): super().__init__(); self.blocks = torch.nn.ModuleList([Block(), Block()])
    def forward(self, x):
        try: self.blocks[1](x, fail=True)
        except ValueError: pass
        torch.empty(5 << 10, device="cuda")
        for b in self.blocks: z = b(x)
        return z
class Trainer:
    def step(self, x): return self.teacher(x)
net, x, trainer = Net().cuda(), torch.ones(16, 64, device="cuda"), Trainer()
trainer.teacher = Block().cuda()
def call(model): return model(x)
with memlane.record("out", modules=True, names=False):
    net(x)
    traced = torch.jit.trace(torch.nn.Sequential(torch.nn.ReLU()), torch.ones(1), check_trace=False)
    assert [n.kind() for n in traced.inlined_graph.nodes() if "profiler" in n.kind()] == []
    torch.empty(7 << 10, device="cuda")
    call(trainer.teacher); trainer.step(x); call(Block().cuda()); call(Block().cuda())
assert not torch.nn.modules.module._global_forward_hooks and not torch.nn.modules.module._global_forward_pre_hooks
"""


@needs_torch
def test_modules_are_recorded(tmp_path: Path) -> None:
    done = run(tmp_path, MODULES)
    assert done.returncode == 0, done.stderr
    if "no modules" in done.stderr:
        assert "modules=True needs PyTorch 2.8 or newer" in done.stderr
        return
    (space,) = json.loads(memlane._program.run("export", "--quiet", "--to", "json", "-o", "-", str(tmp_path / "out/rank0.pickle")))["spaces"]
    modules = [(b["requested"], b["module"]) for b in space["buffers"] if "begin-unseen" not in b["edges"] and not b["module_inferred"]]
    up, block = [(6 << 10, f"net.blocks.{i}.up") for i in (0, 1)], [(6 << 10, f"net.blocks.{i}") for i in (0, 1)]
    others = [(6 << 10, name + part) for name in ("trainer.teacher", "trainer.teacher", "model", "model(2)") for part in (".up", "")]
    found = [m for m in modules if m[0] < 1 << 20 and m[0] not in (384, 24576)]  # without the weights of Block
    assert found == [up[1], (20 << 10, "net"), up[0], block[0], up[1], block[1], (28 << 10, ""), *others]
