"""A training step for 8 devices, compiled for CPU by XLA. gen_sharded.py FILE
Over the axes data (2) and model (4): w and its momentum m are replicated, wide is split by its second dimension over model, and x by its
first over data."""
import glob
import os
import shutil
import sys
import tempfile

dump = tempfile.mkdtemp()
os.environ.update(JAX_PLATFORMS="cpu", XLA_FLAGS=f"--xla_force_host_platform_device_count=8 --xla_dump_to={dump} --xla_dump_hlo_as_proto")
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))


def on(spec):
    return NamedSharding(mesh, spec)


def array(spec, *shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=on(spec))


def loss(w, wide, x):
    return jnp.mean((jnp.tanh(x @ w) @ wide) ** 2)


def step(w, m, wide, x):
    g = jax.grad(loss)(w, wide, x)
    m = 0.9 * m + g
    return w - 0.1 * m, m


arguments = array(P(), 1024, 1024), array(P(), 1024, 1024), array(P(None, "model"), 1024, 4096), array(P("data"), 256, 1024)
jax.jit(step, donate_argnums=0, out_shardings=(on(P()), on(P()))).lower(*arguments).compile()
shutil.copy(glob.glob(f"{dump}/*jit_step*after_optimizations.hlo.pb")[0], sys.argv[1])
