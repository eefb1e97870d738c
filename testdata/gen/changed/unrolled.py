#!/usr/bin/env python3
"""usage: unrolled.py OUTDIR TARGET CASE[@ckpt]...   programs as written and with jax.checkpoint around each layer, or the body of the scan, compiled
ahead of time. TARGET: cpu, v5e:2x2 or v6e:2x2. NAME.truth.json has what XLA's memory analysis says of each."""
import glob, json, os, re, shutil, sys, tempfile, time
outdir, target, cases = sys.argv[1], sys.argv[2], sys.argv[3:]
dump = tempfile.mkdtemp()
gen, _, dims = target.partition(":")
os.environ.update(JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3", XLA_FLAGS=f"--xla_dump_to={dump} --xla_dump_hlo_as_proto")
if gen != "cpu":
    os.environ.update(TPU_SKIP_MDS_QUERY="1", TPU_LOG_DIR="disabled", ALLOW_MULTIPLE_LIBTPU_LOAD="1", TPU_WORKER_HOSTNAMES="localhost", TPU_WORKER_ID="0",
                      TPU_ACCELERATOR_TYPE={"v5e": "v5litepod-4", "v6e": "v6e-4"}[gen])
import jax, jax.numpy as jnp
from jax import lax
bf, f32 = jnp.bfloat16, jnp.float32
if gen != "cpu":
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding
    place = SingleDeviceSharding(topologies.get_topology_desc(platform="tpu", topology_name=target).devices[0])
else:
    place = None
def A(*s, dt=f32): return jax.ShapeDtypeStruct(s, dt, sharding=place)
ckpt = False
def layer(f): return jax.checkpoint(f) if ckpt else f
def sgd(loss):
    def train(ps, *batch):
        l, g = jax.value_and_grad(loss)(ps, *batch)
        return jax.tree.map(lambda p, d: (p - 1e-3 * d).astype(p.dtype), ps, g), l
    return train

# 1 residual MLP in 16 bits
def mlp():
    L, D, N = 5, 1024, 32768
    def block(p, x):
        return x + jax.nn.gelu(x @ p["up"]) @ p["down"]
    def loss(ps, x):
        for p in ps:
            x = layer(block)(p, x)
        return (x.astype(f32) ** 2).mean()
    return sgd(loss), [[{"up": A(D, 4 * D, dt=bf), "down": A(4 * D, D, dt=bf)} for _ in range(L)], A(N, D, dt=bf)]

# 2 transformer, layers in a list, weights in 32 bits, adam
def transformer():
    L, D, H, V, B, T = 3, 512, 8, 8192, 8, 1024
    def norm(x, g):
        x = x.astype(f32)
        return (x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g).astype(bf)
    def attention(p, x):
        q, k, v = [jnp.einsum("btd,dhk->bhtk", x, p[n].astype(bf)) for n in ("q", "k", "v")]
        s = jnp.einsum("bhqk,bhtk->bhqt", q, k).astype(f32) * 0.125
        s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), s, -1e9)
        o = jnp.einsum("bhqt,bhtk->bhqk", jax.nn.softmax(s, -1).astype(bf), v)
        return jnp.einsum("bhtk,hkd->btd", o, p["o"].astype(bf))
    def block(p, x):
        x = x + attention(p, norm(x, p["n1"]))
        h = norm(x, p["n2"])
        return x + jax.nn.silu(h @ p["up"].astype(bf)) @ p["down"].astype(bf)
    def loss(ps, tok):
        x = ps["embed"].astype(bf)[tok[:, :-1]]
        for i in range(L):
            x = layer(block)(ps["layers"][i], x)
        lg = (norm(x, ps["out"]) @ ps["embed"].astype(bf).T).astype(f32)
        return (jax.nn.logsumexp(lg, -1) - jnp.take_along_axis(lg, tok[:, 1:, None], -1)[..., 0]).mean()
    def train(ps, m, v, tok):
        l, g = jax.value_and_grad(loss)(ps, tok)
        m = jax.tree.map(lambda a, b: .9 * a + .1 * b, m, g); v = jax.tree.map(lambda a, b: .99 * a + .01 * b * b, v, g)
        return jax.tree.map(lambda p, a, b: p - 1e-3 * a / (jnp.sqrt(b) + 1e-8), ps, m, v), m, v, l
    lay = {"q": A(D, H, 64), "k": A(D, H, 64), "v": A(D, H, 64), "o": A(H, 64, D), "n1": A(D), "n2": A(D), "up": A(D, 4 * D), "down": A(4 * D, D)}
    ps = {"embed": A(V, D), "out": A(D), "layers": [lay for _ in range(L)]}
    return train, [ps, ps, ps, A(B, T + 1, dt=jnp.int32)], dict(donate_argnums=(0, 1, 2))

# 3 a net of convolutions, residual blocks of two widths
def convnet():
    def conv(x, w, stride=1): return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    def norm(x, g):
        m = x.mean((1, 2), keepdims=True)
        return (x - m) * lax.rsqrt(((x - m) ** 2).mean((1, 2), keepdims=True) + 1e-5) * g
    def res(p, x):
        h = jax.nn.relu(norm(conv(x, p["a"]), p["g"]))
        return jax.nn.relu(x + norm(conv(h, p["b"]), p["h"]))
    def loss(ps, img, label):
        x = conv(img, ps["stem"], 2)
        for p in ps["one"]:
            x = layer(res)(p, x)
        x = conv(x, ps["down"], 2)
        for p in ps["two"]:
            x = layer(res)(p, x)
        lg = x.mean((1, 2)) @ ps["fc"]
        return (jax.nn.logsumexp(lg, -1) - jnp.take_along_axis(lg, label[:, None], -1)[:, 0]).mean()
    b = lambda c: {"a": A(3, 3, c, c), "b": A(3, 3, c, c), "g": A(c), "h": A(c)}
    return sgd(loss), [{"stem": A(3, 3, 3, 128), "one": [b(128) for _ in range(2)], "down": A(3, 3, 128, 256), "two": [b(256) for _ in range(2)], "fc": A(256, 1000)},
                       A(32, 128, 128, 3), A(32, dt=jnp.int32)]

# 4 an LSTM whose steps are unrolled
def lstm():
    T, B, D, U = 5, 16384, 256, 1024
    def cell(p, h, c, x):
        z = x @ p["wx"] + h @ p["wh"] + p["b"]
        i, f, g, o = jnp.split(z, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c
    def loss(p, xs, y):
        h = c = jnp.zeros((B, U))
        for t in range(T):
            h, c = layer(cell)(p, h, c, xs[t])
        return ((h @ p["out"] - y) ** 2).mean()
    return sgd(loss), [{"wx": A(D, 4 * U), "wh": A(U, 4 * U), "b": A(4 * U), "out": A(U, 16)}, A(T, B, D), A(B, 16)]

# 5 two nets that one loss compares
def towers():
    L, D, N = 3, 768, 16384
    def unit(p, x):
        m = x.mean(-1, keepdims=True)
        h = (x - m) * lax.rsqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5) * p["g"]
        return x + jnp.tanh(h @ p["w1"]) @ p["w2"]
    def tower(ps, x):
        for p in ps:
            x = layer(unit)(p, x)
        return x / jnp.linalg.norm(x, axis=-1, keepdims=True)
    def loss(ps, a, b):
        return -(tower(ps["text"], a) * tower(ps["image"], b)).sum(-1).mean()
    u = {"g": A(D), "w1": A(D, 3 * D), "w2": A(3 * D, D)}
    return sgd(loss), [{"text": [u] * L, "image": [u] * L}, A(N, D), A(N, D)]

# 6 checkpoint cannot save: each layer saves what it is given, and nothing else; the parameters are the memory
def plain():
    L, D, N = 4, 2048, 16384
    def dense(w, x):
        return jax.nn.relu(x @ w)
    def loss(ws, x):
        for w in ws:
            x = layer(dense)(w, x)
        return (x ** 2).mean()
    return sgd(loss), [[A(D, D) for _ in range(L)], A(N, D)]

# 7 without gradient
def inference():
    L, D, N = 5, 1024, 32768
    def block(p, x):
        return x + jax.nn.gelu(x @ p["up"]) @ p["down"]
    def apply(ps, x):
        for p in ps:
            x = layer(block)(p, x)
        return x
    return apply, [[{"up": A(D, 4 * D, dt=bf), "down": A(4 * D, D, dt=bf)} for _ in range(L)], A(N, D, dt=bf)]

# 8 a U-Net: values skip from one half to the other
def unet():
    def conv(x, w, stride=1): return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    def down(p, x):
        h = jax.nn.silu(conv(x, p["a"])); h = jax.nn.silu(conv(h, p["b"]))
        return h, conv(h, p["c"], 2)
    def up(p, x, skip):
        x = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
        h = jax.nn.silu(conv(jnp.concatenate([x, skip], -1), p["a"]))
        return jax.nn.silu(conv(h, p["b"]))
    def loss(ps, img, noise):
        x, skips = conv(img, ps["in"]), []
        for p in ps["down"]:
            skip, x = layer(down)(p, x)
            skips.append(skip)
        for p in ps["up"]:
            x = layer(up)(p, x, skips.pop())
        return ((conv(x, ps["out"]) - noise) ** 2).mean()
    C = [64, 128, 128, 128]
    ps = {"in": A(3, 3, 4, 64), "out": A(3, 3, 64, 4),
          "down": [{"a": A(3, 3, C[i], C[i]), "b": A(3, 3, C[i], C[i]), "c": A(3, 3, C[i], C[i + 1])} for i in range(3)],
          "up": [{"a": A(3, 3, C[i + 1] + C[i], C[i]), "b": A(3, 3, C[i], C[i])} for i in (2, 1, 0)]}
    return sgd(loss), [ps, A(16, 128, 128, 4), A(16, 128, 128, 4)]

# 9 a small batch in a large net: the parameters and gradients are the peak
def wide():
    L, D, N = 3, 2048, 64
    def block(p, x):
        return x + jax.nn.gelu(x @ p["up"]) @ p["down"]
    def loss(ps, x):
        for p in ps:
            x = layer(block)(p, x)
        return (x ** 2).mean()
    return sgd(loss), [[{"up": A(D, 4 * D), "down": A(4 * D, D)} for _ in range(L)], A(N, D)]

# 10 experts with gates, scopes by number
def gated():
    L, D, F, N = 4, 1024, 2816, 16384
    def block(p, x):
        h = (x.astype(f32) * lax.rsqrt((x.astype(f32) ** 2).mean(-1, keepdims=True) + 1e-6)).astype(bf)
        return x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
    def loss(ps, x, y):
        for i, p in enumerate(ps):
            with jax.named_scope(f"layer_{i}"):
                x = layer(block)(p, x)
        return ((x - y).astype(f32) ** 2).mean()
    return sgd(loss), [[{"gate": A(D, F, dt=bf), "up": A(D, F, dt=bf), "down": A(F, D, dt=bf)} for _ in range(L)], A(N, D, dt=bf), A(N, D, dt=bf)]

# in a scan
def gru():      # a long recurrence
    T, B, D, U = 1024, 128, 128, 512
    def cell(p, h, x):
        z = jax.nn.sigmoid(x @ p["wz"] + h @ p["uz"]); c = jnp.tanh(x @ p["wc"] + (z * h) @ p["uc"])
        return (1 - z) * h + z * c
    def loss(p, xs, y):
        h, _ = lax.scan(layer(lambda h, x: (cell(p, h, x), None)), jnp.zeros((B, U)), xs)
        return ((h @ p["out"] - y) ** 2).mean()
    return sgd(loss), [{"wz": A(D, U), "uz": A(U, U), "wc": A(D, U), "uc": A(U, U), "out": A(U, 8)}, A(T, B, D), A(B, 8)]

def stack():    # layers of a transformer in a scan
    L, D, H, B, T = 8, 512, 8, 8, 1024
    def norm(x): return (x.astype(f32) * lax.rsqrt((x.astype(f32) ** 2).mean(-1, keepdims=True) + 1e-6)).astype(bf)
    def block(x, p):
        h = norm(x)
        q, k, v = [jnp.einsum("btd,dhk->bhtk", h, p[n]) for n in ("q", "k", "v")]
        w = jax.nn.softmax(jnp.einsum("bhqk,bhtk->bhqt", q, k).astype(f32) * 0.125, -1).astype(bf)
        x = x + jnp.einsum("bhtk,hkd->btd", jnp.einsum("bhqt,bhtk->bhqk", w, v), p["o"])
        return x + jax.nn.gelu(norm(x) @ p["up"]) @ p["down"], None
    def loss(ps, x, y):
        x, _ = lax.scan(layer(block), x, ps)
        return ((x - y).astype(f32) ** 2).mean()
    w = lambda *s: A(L, *s, dt=bf)
    return sgd(loss), [{"q": w(D, H, 64), "k": w(D, H, 64), "v": w(D, H, 64), "o": w(H, 64, D), "up": w(D, 4 * D), "down": w(4 * D, D)}, A(B, T, D, dt=bf), A(B, T, D, dt=bf)]

def mlps():     # large layers in a scan: what is left is larger than the fast memory
    L, D, N = 16, 1024, 16384
    def block(x, p): return x + jnp.tanh(x @ p["up"]) @ p["down"], None
    def loss(ps, x):
        x, _ = lax.scan(layer(block), x, ps)
        return (x.astype(f32) ** 2).mean()
    return sgd(loss), [{"up": A(L, D, 4 * D, dt=bf), "down": A(L, 4 * D, D, dt=bf)}, A(N, D, dt=bf)]

def ssm():      # a state for each channel, few bytes in each round
    T, B, D = 2048, 32, 1024
    def step(h, x): a = jax.nn.sigmoid(x); h = a * h + (1 - a) * jnp.tanh(x); return h, h.mean()
    def loss(p, xs):
        h, ys = lax.scan(layer(step), jnp.zeros((B, D)), xs * p["g"])
        return (h ** 2).mean() + ys.sum()
    return sgd(loss), [{"g": A(D)}, A(T, B, D)]

os.makedirs(outdir, exist_ok=True)
for cv in cases:
    case, _, var = cv.partition("@")
    ckpt, stem, begin = var == "ckpt", f"{cv}.{gen}", time.time()
    for f in glob.glob(dump + "/*"): (shutil.rmtree if os.path.isdir(f) else os.remove)(f)
    fn, args, *kw = globals()[case]()
    m = jax.jit(fn, **(kw[0] if kw else {})).lower(*args).compile().memory_analysis()
    of = lambda k: getattr(m, k + "_size_in_bytes")
    truth = {"jax": jax.__version__, "total": of("argument") + of("output") - of("alias") + of("temp"), "argument": of("argument"), "output": of("output"), "alias": of("alias"), "temp": of("temp")}
    f = max((f for f in glob.glob(dump + "/*after_optimizations.hlo.pb")), key=os.path.getsize)
    shutil.copy(f, f"{outdir}/{stem}.hlo.pb")
    json.dump(truth, open(f"{outdir}/{stem}.truth.json", "w"))
    print(stem, f"{truth['total'] / 2**20:.2f} MiB temp {truth['temp'] / 2**20:.2f}", f"{time.time() - begin:.0f} s", os.path.getsize(f), flush=True)
shutil.rmtree(dump)
