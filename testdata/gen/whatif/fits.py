"""Six programs, written before memlane was run on them, with changes as memlane whatif names them.
usage: fits.py PROGRAM [CHANGES] [cap=BYTES], such as fits.py llama batch=0.5,accumulate=2 cap=220200960; OUT names the snapshot. It prints PEAK of
allocated and reserved bytes, or that it found no memory. Convolutions are PyTorch's own, not those of cuDNN."""
import sys
import torch, torch.nn as nn, torch.nn.functional as F
import kinds as K
from kinds import ck, ib, isq, ints, flo
from record import end, start
O = K.O
class RMS(nn.Module):
    def __init__(s, d): super().__init__(); s.w = nn.Parameter(torch.ones(d))
    def forward(s, x): return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * s.w
class LB(nn.Module):
    def __init__(s, d, h): super().__init__(); s.h = h; s.n1 = RMS(d); s.q = nn.Linear(d, d, bias=False); s.kv = nn.Linear(d, d // 2, bias=False); s.o = nn.Linear(d, d, bias=False); s.n2 = RMS(d); s.g = nn.Linear(d, 3 * d, bias=False); s.u = nn.Linear(d, 3 * d, bias=False); s.dn = nn.Linear(3 * d, d, bias=False)
    def rot(s, x, c, sn): a, b = x.chunk(2, -1); return torch.cat([a * c - b * sn, b * c + a * sn], -1)
    def forward(s, x, c, sn):
        b, t, d = x.shape; z = s.n1(x); q = s.q(z).view(b, t, s.h, -1).transpose(1, 2); k, v = s.kv(z).view(b, t, 2, s.h // 4, -1).unbind(2); k = k.repeat_interleave(4, 2).transpose(1, 2); v = v.repeat_interleave(4, 2).transpose(1, 2)
        y = F.scaled_dot_product_attention(s.rot(q, c, sn), s.rot(k, c, sn), v, is_causal=True); x = x + s.o(y.transpose(1, 2).reshape(b, t, d)); z = s.n2(x); return x + s.dn(F.silu(s.g(z)) * s.u(z))
class Llama(nn.Module):
    def __init__(s): super().__init__(); s.e = nn.Embedding(9000, 256); s.layers = nn.ModuleList(LB(256, 8) for _ in range(O.get("layers", 5))); s.n = RMS(256); s.head = nn.Linear(256, 9000, bias=False)
    def loss(s, x, y):
        t = x.shape[1]; f = torch.outer(torch.arange(t, device=x.device).float(), torch.ones(16, device=x.device)); c, sn = f.cos(), f.sin(); h = s.e(x); c, sn = c.to(h.dtype), sn.to(h.dtype)
        for l in s.layers: h = ck(l, h, c, sn)
        return F.cross_entropy(s.head(s.n(h)).flatten(0, 1), y.flatten())
    data = staticmethod(lambda: (ints(9000, ib(8), isq(128)), ints(9000, ib(8), isq(128))))
class CN(nn.Module):
    def __init__(s, c): super().__init__(); s.dw = nn.Conv2d(c, c, 7, padding=3, groups=c); s.n = nn.LayerNorm(c); s.a = nn.Linear(c, 4 * c); s.b = nn.Linear(4 * c, c); s.g = nn.Parameter(torch.ones(c))
    def forward(s, x): return x + (s.g * s.b(F.gelu(s.a(s.n(s.dw(x).permute(0, 2, 3, 1)))))).permute(0, 3, 1, 2)
class ConvNeXt(nn.Module):
    def __init__(s): super().__init__(); s.stem = nn.Conv2d(3, 64, 4, 4); s.blocks = nn.ModuleList(CN(64) for _ in range(O.get("layers", 6))); s.down = nn.Conv2d(64, 128, 2, 2); s.late = nn.ModuleList(CN(128) for _ in range(3)); s.fc = nn.Linear(128, 200)
    def loss(s, x, y):
        h = s.stem(x)
        for b in s.blocks: h = ck(b, h)
        h = s.down(h)
        for b in s.late: h = ck(b, h)
        return F.cross_entropy(s.fc(h.mean((2, 3))), y)
    data = staticmethod(lambda: (flo(ib(8), 3, 128, 128), ints(200, ib(8)))); noseq = True
class MX(nn.Module):
    def __init__(s, t, d): super().__init__(); s.n1 = nn.LayerNorm(d); s.t1 = nn.Linear(t, 2 * t); s.t2 = nn.Linear(2 * t, t); s.n2 = nn.LayerNorm(d); s.c1 = nn.Linear(d, 4 * d); s.c2 = nn.Linear(4 * d, d)
    def forward(s, x): x = x + s.t2(F.gelu(s.t1(s.n1(x).mT))).mT; return x + s.c2(F.dropout(F.gelu(s.c1(s.n2(x))), .1))
class Mixer(nn.Module):
    def __init__(s): super().__init__(); s.p = nn.Linear(192, 288); s.blocks = nn.ModuleList(MX(64, 288) for _ in range(O.get("layers", 6))); s.n = nn.LayerNorm(288); s.h = nn.Linear(288, 500)
    def loss(s, x, y):
        h = s.p(x)
        for b in s.blocks: h = ck(b, h)
        return F.cross_entropy(s.h(s.n(h).mean(1)), y)
    data = staticmethod(lambda: (flo(ib(24), 64, 192), ints(500, ib(24)))); noseq = True
class VAE(nn.Module):
    def __init__(s): super().__init__(); c = 32; s.e = nn.Sequential(nn.Conv2d(3, c, 4, 2, 1), nn.SiLU(), nn.Conv2d(c, 2 * c, 4, 2, 1), nn.SiLU(), nn.Conv2d(2 * c, 4 * c, 4, 2, 1), nn.SiLU(), nn.Flatten()); s.mu = nn.Linear(4 * c * 64, 256); s.lv = nn.Linear(4 * c * 64, 256); s.z = nn.Linear(256, 4 * c * 64); s.d = nn.Sequential(nn.ConvTranspose2d(4 * c, 2 * c, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(2 * c, c, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(c, 3, 4, 2, 1))
    def loss(s, x):
        h = s.e(x); m, l = s.mu(h), s.lv(h); z = m + (.5 * l).exp() * torch.randn_like(m); r = s.d(s.z(z).view(-1, 128, 8, 8)); return F.mse_loss(r, x) - .5 * (1 + l - m.pow(2) - l.exp()).mean()
    data = staticmethod(lambda: (flo(ib(32), 3, 64, 64),)); noseq = True; noblocks = True
class TC(nn.Module):
    def __init__(s, c, dl): super().__init__(); s.a = nn.Conv1d(c, 2 * c, 3, padding=dl, dilation=dl); s.b = nn.Conv1d(c, c, 1); s.n = nn.GroupNorm(1, c)
    def forward(s, x): g, h = s.a(x).chunk(2, 1); return s.n(x + s.b(torch.sigmoid(g) * torch.tanh(h)))
class TCN(nn.Module):
    def __init__(s): super().__init__(); s.i = nn.Conv1d(16, 128, 1); s.blocks = nn.ModuleList(TC(128, 2 ** i) for i in range(O.get("layers", 7))); s.o = nn.Conv1d(128, 64, 1)
    def loss(s, x, y):
        h = s.i(x)
        for b in s.blocks: h = ck(b, h)
        return F.cross_entropy(s.o(h), y)
    data = staticmethod(lambda: (flo(ib(8), 16, isq(512)), ints(64, ib(8), isq(512))))
class Distil(nn.Module):
    """A frozen teacher under no_grad beside the student."""
    def __init__(s):
        super().__init__(); mk = lambda d, n: nn.ModuleList(nn.TransformerEncoderLayer(d, 4, 3 * d, batch_first=True, norm_first=True) for _ in range(n)); s.te, s.se = nn.Embedding(4000, 320), nn.Embedding(4000, 192); s.t, s.s = mk(320, 4), mk(192, O.get("layers", 3)); s.th, s.sh = nn.Linear(320, 4000), nn.Linear(192, 4000)
        for m in (s.te, s.t, s.th): m.requires_grad_(False)
    def loss(s, x):
        with torch.no_grad():
            h = s.te(x)
            for b in s.t: h = b(h)
            p = s.th(h).softmax(-1)
        h = s.se(x)
        for b in s.s: h = ck(b, h)
        return F.kl_div(s.sh(h).log_softmax(-1), p, reduction="batchmean")
    data = staticmethod(lambda: (ints(4000, ib(8), isq(80)),))
NEW = dict(llama=Llama, convnext=ConvNeXt, mixer=Mixer, vae=VAE, tcn=TCN, distil=Distil)
K.PROGS.update(NEW)
CHANGES = {"batch": lambda v: {"b": float(v)}, "accumulate": lambda v: {"accum": int(v)}, "checkpoint": lambda v: {"ck": 1}, "offload": lambda v: {"offact": 1},
           "optimizer": lambda v: {"optim": {"adam8bit": "adam8"}[v]}, "optimizer.device": lambda v: {"optim": "host"}, "precision": lambda v: {"amp": 1}}
options, cap = {}, 0
for part in ",".join(sys.argv[2:]).split(","):
    name, _, value = part.partition("=")
    if name == "cap": cap = int(value)
    elif name: options |= CHANGES[name](value)
torch.backends.cudnn.enabled = False
if cap: torch.cuda.set_per_process_memory_fraction(cap / torch.cuda.get_device_properties(0).total_memory)
start("all")
try: K.main(sys.argv[1], options)
except torch.cuda.OutOfMemoryError as e: print(str(e)[:80])
end()
print("RESERVED", torch.cuda.max_memory_reserved())
