"""Dumps small XLA programs for CPU as protos and as text, with JAX 0.10.2:

for kind in proto text; do
    XLA_FLAGS="--xla_dump_to=$kind $([ $kind = proto ] && echo --xla_dump_hlo_as_proto)" python - < gen_hlo_text.py
done
"""
import jax
import jax.numpy as jnp

source = '''
@jax.jit
def mlp(w1, w2, x):
    h = jnp.tanh(x @ w1)
    return (h @ w2).sum(), h

@jax.jit
def loop(x):
    return jax.lax.fori_loop(0, 10, lambda i, a: jnp.sin(a @ a) + i, x)

def loss(p, x, y):
    for w in p:
        x = jnp.maximum(x @ w, 0)
    return ((x - y) ** 2).mean()

@jax.jit
def evaluate(p, x, y):
    return loss(p, x, y)

def train_step(p, x, y):
    return [w - .1 * g for w, g in zip(p, jax.grad(loss)(p, x, y))]

step = jax.jit(train_step, donate_argnums=0)
x = jnp.ones((16, 64))
mlp(jnp.ones((64, 128)), jnp.ones((128, 32)), x)
loop(jnp.ones((33, 33)))
step([jnp.ones((64, 64)) for _ in range(4)], x, x)
jax.jit(lambda x: jnp.sort(x, axis=0)[:5] @ jnp.sin(x))(jnp.ones((40, 40)))
'''
exec(compile(source, 'gen_hlo_text.py', 'exec'))  # the dump has no path of the machine
