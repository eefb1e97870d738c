"""Fourteen trainings with options: main(PROGRAM, OPTIONS) trains three steps; record around it, and read torch.cuda.memory_stats() after it.
run(prog, opts): trains; opts: b (factor), s (factor), ck, optim, accum, amp, bf16, nograd, evalng, s2n, freeze, offact, foreach0, layers"""
import os, json, contextlib, fnmatch
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from optimizers import Adam8, CpuAdam
O = {}
def ck(f, *a): return checkpoint(f, *a, use_reentrant=False) if O.get("ck") and torch.is_grad_enabled() else f(*a)
def ib(n): return max(1, int(n * O.get("b", 1)))
def isq(n): return max(1, int(n * O.get("s", 1)))
D = "cuda"
def ints(hi, *s): return torch.randint(0, hi, s, device=D)
def flo(*s):
    x = torch.randn(*s, device=D); return x.bfloat16() if O.get("bf16") else x
# 1 ---- selective state space model, scan in Python
class SSMBlock(nn.Module):
    def __init__(s, d, n=16):
        super().__init__(); s.n = n; s.norm = nn.LayerNorm(d); s.inp = nn.Linear(d, 4 * d); s.dt = nn.Linear(2 * d, 2 * d); s.bc = nn.Linear(2 * d, 2 * n); s.A = nn.Parameter(torch.zeros(2 * d, n)); s.out = nn.Linear(2 * d, d)
    def forward(s, x):
        u, g = s.inp(s.norm(x)).chunk(2, -1); dt = F.softplus(s.dt(u)); Bm, Cm = s.bc(u).chunk(2, -1); h = torch.zeros(x.shape[0], u.shape[-1], s.n, device=x.device, dtype=x.dtype); ys = []
        for t in range(x.shape[1]):
            da = torch.exp(dt[:, t, :, None] * s.A); h = da * h + (dt[:, t] * u[:, t])[..., None] * Bm[:, t, None, :]; ys.append((h * Cm[:, t, None, :]).sum(-1))
        return x + s.out(torch.stack(ys, 1) * F.silu(g))
class SSM(nn.Module):
    def __init__(s): super().__init__(); s.embed = nn.Embedding(5000, 288); s.blocks = nn.ModuleList(SSMBlock(288) for _ in range(O.get("layers", 4))); s.head = nn.Linear(288, 5000)
    def loss(s, x, y):
        h = s.embed(x)
        for b in s.blocks: h = ck(b, h)
        return F.cross_entropy(s.head(h).flatten(0, 1), y.flatten())
    data = staticmethod(lambda: (ints(5000, ib(14), isq(28)), ints(5000, ib(14), isq(28)))); frz = "embed.*|blocks.0.*|blocks.1.*"
# 2 ---- experts with capacity, dispatched by einsum
class MoELayer(nn.Module):
    def __init__(s, d, e=6): super().__init__(); s.e = e; s.n1 = nn.LayerNorm(d); s.att = nn.MultiheadAttention(d, 4, batch_first=True); s.n2 = nn.LayerNorm(d); s.gate = nn.Linear(d, e, bias=False); s.w1 = nn.Parameter(torch.zeros(e, d, 3 * d)); s.w2 = nn.Parameter(torch.zeros(e, 3 * d, d))
    def forward(s, x):
        h = s.n1(x); x = x + s.att(h, h, h, need_weights=False)[0]; t = s.n2(x).flatten(0, 1); N = t.shape[0]; C = int(1.25 * N / s.e); p = s.gate(t).softmax(-1); top, idx = p.max(-1)
        oh = F.one_hot(idx, s.e).to(p.dtype); pos = (oh.cumsum(0) - 1) * oh; keep = (pos < C).to(p.dtype) * oh; slot = F.one_hot(pos.long().clamp(0, C - 1), C).to(p.dtype) * keep[..., None]
        xe = torch.einsum("nec,nd->ecd", slot, t); ye = torch.bmm(F.gelu(torch.bmm(xe, s.w1)), s.w2); y = torch.einsum("nec,ecd->nd", slot * top[:, None, None], ye)
        return x + y.view_as(x)
class MoE(nn.Module):
    def __init__(s): super().__init__(); s.tok = nn.Embedding(3000, 240); s.layers = nn.ModuleList(MoELayer(240) for _ in range(O.get("layers", 4))); s.norm = nn.LayerNorm(240); s.head = nn.Linear(240, 3000, bias=False)
    def loss(s, x, y):
        h = s.tok(x)
        for l in s.layers: h = ck(l, h)
        return F.cross_entropy(s.head(s.norm(h)).flatten(0, 1), y.flatten())
    data = staticmethod(lambda: (ints(3000, ib(6), isq(96)), ints(3000, ib(6), isq(96)))); frz = "tok.*|layers.0.*"
# 3 ---- U-Net with attention at the low level
class RB(nn.Module):
    def __init__(s, i, o): super().__init__(); s.n1 = nn.GroupNorm(8, i); s.c1 = nn.Conv2d(i, o, 3, padding=1); s.n2 = nn.GroupNorm(8, o); s.c2 = nn.Conv2d(o, o, 3, padding=1); s.sk = nn.Conv2d(i, o, 1) if i != o else nn.Identity(); s.t = nn.Linear(128, o)
    def forward(s, x, e): h = s.c1(F.silu(s.n1(x))) + s.t(e)[:, :, None, None]; return s.sk(x) + s.c2(F.silu(s.n2(h)))
class AB(nn.Module):
    def __init__(s, c): super().__init__(); s.n = nn.GroupNorm(8, c); s.qkv = nn.Conv1d(c, 3 * c, 1); s.o = nn.Conv1d(c, c, 1)
    def forward(s, x):
        b, c, h, w = x.shape; q, k, v = s.qkv(s.n(x).flatten(2)).chunk(3, 1); a = torch.einsum("bci,bcj->bij", q, k).mul(c ** -.5).softmax(-1); return x + s.o(torch.einsum("bij,bcj->bci", a, v)).view(b, c, h, w)
class UNet(nn.Module):
    def __init__(s):
        super().__init__(); c = 40; s.te = nn.Sequential(nn.Linear(32, 128), nn.SiLU(), nn.Linear(128, 128)); s.stem = nn.Conv2d(3, c, 3, padding=1); s.d = nn.ModuleList([RB(c, c), RB(c, 2 * c), RB(2 * c, 4 * c)]); s.mid = nn.ModuleList(nn.ModuleList([RB(4 * c, 4 * c), AB(4 * c)]) for _ in range(O.get("layers", 3))); s.u = nn.ModuleList([RB(8 * c, 2 * c), RB(4 * c, c), RB(2 * c, c)]); s.out = nn.Conv2d(c, 3, 3, padding=1)
    def midblock(s, i, x, e): return s.mid[i][1](s.mid[i][0](x, e))
    def loss(s, x, tt, y):
        e = s.te(tt); h = s.stem(x); sk = []
        for i, d in enumerate(s.d): h = d(h, e); sk.append(h); h = F.avg_pool2d(h, 2)
        for i in range(len(s.mid)): h = ck(s.midblock, i, h, e)
        for u in s.u: h = u(torch.cat([F.interpolate(h, scale_factor=2.0), sk.pop()], 1), e)
        return F.mse_loss(s.out(h), y)
    data = staticmethod(lambda: (flo(ib(6), 3, isq(64), isq(64)), flo(ib(6), 32), flo(ib(6), 3, isq(64), isq(64)))); frz = "te.*|stem.*|d.*"
# 4 ---- ViT with stochastic depth and layer scale
class VB(nn.Module):
    def __init__(s, d, p): super().__init__(); s.p = p; s.n1 = nn.LayerNorm(d); s.qkv = nn.Linear(d, 3 * d); s.o = nn.Linear(d, d); s.n2 = nn.LayerNorm(d); s.m = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Dropout(.1), nn.Linear(4 * d, d)); s.g1 = nn.Parameter(torch.ones(d)); s.g2 = nn.Parameter(torch.ones(d))
    def dp(s, x): return x.div(1 - s.p) * x.new_empty(x.shape[0], 1, 1).bernoulli_(1 - s.p) if s.training and s.p else x
    def att(s, x): b, t, d = x.shape; q, k, v = s.qkv(x).view(b, t, 3, 6, d // 6).permute(2, 0, 3, 1, 4); return s.o(((q * (d // 6) ** -.5) @ k.mT).softmax(-1).matmul(v).transpose(1, 2).reshape(b, t, d))
    def forward(s, x): x = x + s.dp(s.g1 * s.att(s.n1(x))); return x + s.dp(s.g2 * s.m(s.n2(x)))
class ViT(nn.Module):
    def __init__(s): super().__init__(); n = O.get("layers", 6); s.patch = nn.Linear(192, 312); s.pos = nn.Parameter(torch.zeros(1, isq(100) + 1, 312)); s.cls = nn.Parameter(torch.zeros(1, 1, 312)); s.blocks = nn.ModuleList(VB(312, .1 * i / n) for i in range(n)); s.head = nn.Linear(312, 400)
    def loss(s, x, y):
        h = torch.cat([s.cls.expand(x.shape[0], -1, -1), s.patch(x)], 1) + s.pos
        for b in s.blocks: h = ck(b, h)
        return F.cross_entropy(s.head(h[:, 0]), y, label_smoothing=.1)
    data = staticmethod(lambda: (flo(ib(20), isq(100), 192), ints(400, ib(20)))); frz = "patch.*|blocks.0.*|blocks.1.*|blocks.2.*"
# 5 ---- GRU encoder, decoder with additive attention in a loop
class S2S(nn.Module):
    def __init__(s): super().__init__(); d = 320; s.src = nn.Embedding(6000, d); s.tgt = nn.Embedding(4000, d); s.enc = nn.ModuleList(nn.GRUCell(d, d) for _ in range(2)); s.wa = nn.Linear(d, d); s.ua = nn.Linear(d, d, bias=False); s.va = nn.Linear(d, 1, bias=False); s.dec = nn.GRUCell(2 * d, d); s.head = nn.Linear(2 * d, 4000)
    def loss(s, x, y):
        b = x.shape[0]; e = s.src(x); h = [None, None]; hs = []
        for t in range(x.shape[1]):
            z = e[:, t]
            for j, c in enumerate(s.enc): h[j] = c(z, h[j]); z = h[j]
            hs.append(z)
        H = torch.stack(hs, 1); K = s.ua(H); st = h[-1]; out = []; ye = s.tgt(y)
        for t in range(y.shape[1]):
            a = s.va(torch.tanh(K + s.wa(st)[:, None])).squeeze(-1).softmax(-1); c = (a[..., None] * H).sum(1); st = s.dec(torch.cat([ye[:, t], c], -1), st); out.append(torch.cat([st, c], -1))
        return F.cross_entropy(s.head(torch.stack(out, 1)).flatten(0, 1), y.flatten())
    data = staticmethod(lambda: (ints(6000, ib(24), isq(26)), ints(4000, ib(24), isq(22)))); frz = "src.*|enc.*"; noblocks = True
# 6 ---- recommender: tables, dot interactions
class Rec(nn.Module):
    def __init__(s): super().__init__(); s.tables = nn.ModuleList(nn.EmbeddingBag(n, 48, mode="sum") for n in (60000, 40000, 90000, 5000, 900, 30000, 700, 12000)); s.bot = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 48)); s.top = nn.Sequential(nn.Linear(36 + 48, 768), nn.ReLU(), nn.Linear(768, 512), nn.ReLU(), nn.Linear(512, 1))
    def loss(s, dx, ids, y):
        v = [s.bot(dx)] + [t(ids[:, i]) for i, t in enumerate(s.tables)]; Z = torch.stack(v, 1); P = torch.bmm(Z, Z.mT); li, lj = torch.tril_indices(9, 9, -1); P = P[:, li, lj]
        return F.binary_cross_entropy_with_logits(s.top(torch.cat([v[0], P], 1)).squeeze(1), y)
    data = staticmethod(lambda: (flo(ib(4096), 13), ints(700, ib(4096), 8, 6), flo(ib(4096)))); frz = "tables.*"; noblocks = True; noseq = True
# 7 ---- actor and critic over a rollout, an evaluation that nobody put under no_grad
class A2C(nn.Module):
    def __init__(s): super().__init__(); s.body = nn.Sequential(nn.Conv2d(4, 32, 5, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 9 * 9, 512), nn.ReLU()); s.pi = nn.Linear(512, 9); s.v = nn.Linear(512, 1)
    def loss(s, obs, act, rew):
        T, E = rew.shape; h = s.body(obs.flatten(0, 1)); lp = s.pi(h).log_softmax(-1).view(T, E, -1); v = s.v(h).view(T, E)
        with torch.no_grad():
            R = torch.zeros_like(v[0]); ret = torch.zeros_like(v)
            for t in reversed(range(T)): R = rew[t] + .99 * R; ret[t] = R
        adv = ret - v; return -(lp.gather(-1, act[..., None]).squeeze(-1) * adv.detach()).mean() + .5 * adv.pow(2).mean() - .01 * -(lp * lp.exp()).sum(-1).mean()
    def ev(s, obs, act, rew): h = s.body(obs.flatten(0, 1)); return s.pi(h).softmax(-1)
    data = staticmethod(lambda: (flo(16, ib(24), 4, 50, 50), ints(9, 16, ib(24)), flo(16, ib(24)))); frz = "body.*"; noblocks = True; noseq = True
# 8 ---- two towers, all pairs of the batch
class TB(nn.TransformerEncoderLayer):
    pass
class Two(nn.Module):
    def __init__(s): super().__init__(); n = O.get("layers", 3); s.qe = nn.Embedding(9000, 224); s.q = nn.ModuleList(TB(224, 4, 672, batch_first=True, norm_first=True) for _ in range(n)); s.img = nn.Sequential(nn.Linear(1024, 1400), nn.GELU(), nn.LayerNorm(1400), nn.Linear(1400, 256)); s.qp = nn.Linear(224, 256); s.t = nn.Parameter(torch.zeros(()))
    def loss(s, x, im):
        h = s.qe(x)
        for b in s.q: h = ck(b, h)
        a = F.normalize(s.qp(h.mean(1)), dim=-1); b = F.normalize(s.img(im), dim=-1); L = s.t.exp() * a @ b.T; y = torch.arange(L.shape[0], device=D); return (F.cross_entropy(L, y) + F.cross_entropy(L.T, y)) / 2
    data = staticmethod(lambda: (ints(9000, ib(160), isq(20)), flo(ib(160), 1024))); frz = "qe.*|q.*"
# 9 ---- LoRA beside frozen matrices, an evaluation in each step without no_grad
class LL(nn.Module):
    def __init__(s, i, o, r=12): super().__init__(); s.base = nn.Linear(i, o, bias=False); s.base.weight.requires_grad_(False); s.A = nn.Parameter(torch.zeros(r, i)); s.B = nn.Parameter(torch.zeros(o, r))
    def forward(s, x): return s.base(x) + (x @ s.A.T) @ s.B.T * 2.0
class RMS(nn.Module):
    def __init__(s, d): super().__init__(); s.w = nn.Parameter(torch.ones(d), requires_grad=False)
    def forward(s, x): return s.w * (x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
class LB(nn.Module):
    def __init__(s, d): super().__init__(); s.n1 = RMS(d); s.q = LL(d, d); s.k = LL(d, d // 4); s.v = LL(d, d // 4); s.o = LL(d, d); s.n2 = RMS(d); s.g = LL(d, 5 * d // 2); s.u = LL(d, 5 * d // 2); s.dn = LL(5 * d // 2, d)
    def forward(s, x):
        b, t, d = x.shape; h = s.n1(x); sp = lambda z: z.view(b, t, -1, 48).transpose(1, 2); x = x + s.o(F.scaled_dot_product_attention(sp(s.q(h)), sp(s.k(h)), sp(s.v(h)), is_causal=True, enable_gqa=True).transpose(1, 2).reshape(b, t, d)); h = s.n2(x); return x + s.dn(F.silu(s.g(h)) * s.u(h))
class Lora(nn.Module):
    def __init__(s): super().__init__(); s.emb = nn.Embedding(7000, 384).requires_grad_(False); s.layers = nn.ModuleList(LB(384) for _ in range(O.get("layers", 4))); s.head = nn.Linear(384, 7000, bias=False).requires_grad_(False)
    def loss(s, x):
        h = s.emb(x)
        for l in s.layers: h = ck(l, h)
        return F.cross_entropy(s.head(h)[:, :-1].flatten(0, 1), x[:, 1:].flatten())
    def ev(s, x): return s.loss(x)
    data = staticmethod(lambda: (ints(7000, ib(5), isq(112)),)); frz = "layers.0.*|layers.1.*"
# 10 --- GAN: two nets, two optimizers
class GAN(nn.Module):
    def __init__(s): super().__init__(); s.G = nn.Sequential(nn.Linear(100, 512 * 16), nn.Unflatten(1, (512, 4, 4)), *[z for i, o in ((512, 256), (256, 128), (128, 64)) for z in (nn.Upsample(scale_factor=2), nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())], nn.Conv2d(64, 3, 3, padding=1), nn.Tanh()); s.Dn = nn.Sequential(*[z for i, o in ((3, 64), (64, 128), (128, 256), (256, 384)) for z in (nn.Conv2d(i, o, 4, 2, 1), nn.LeakyReLU(.2))], nn.Flatten(), nn.Linear(384 * 4, 1))
    data = staticmethod(lambda: (flo(ib(32), 3, 32, 32), flo(ib(32), 100))); noblocks = True; noseq = True; nofrz = True; gan = True
# 11 --- graph network with edges and virtual node
class GB(nn.Module):
    def __init__(s, d): super().__init__(); s.m = nn.Sequential(nn.Linear(3 * d, d), nn.ReLU(), nn.Linear(d, d)); s.e = nn.Linear(d, d); s.u = nn.Sequential(nn.Linear(2 * d, 2 * d), nn.LayerNorm(2 * d), nn.ReLU(), nn.Linear(2 * d, d))
    def forward(s, x, ea, ei): src, dst = ei; msg = s.m(torch.cat([x[src], x[dst], s.e(ea)], -1)); ag = torch.zeros_like(x).index_add(0, dst, msg); return x + s.u(torch.cat([x, ag], -1))
class GNN(nn.Module):
    def __init__(s): super().__init__(); d = 136; s.n = nn.Linear(40, d); s.ed = nn.Linear(12, d); s.gb = nn.ModuleList(GB(d) for _ in range(O.get("layers", 4))); s.out = nn.Linear(d, 12)
    def loss(s, x, ef, ei, g, y):
        h = s.n(x); ea = s.ed(ef)
        for b in s.gb: h = ck(b, h, ea, ei)
        p = torch.zeros(y.shape[0], h.shape[1], device=h.device, dtype=h.dtype).index_add(0, g, h); return F.l1_loss(s.out(p), y)
    data = staticmethod(lambda: (flo(ib(1600), 40), flo(ib(9600), 12), ints(1600, 2, ib(9600)), ints(64, ib(1600)), flo(ib(64), 12))); frz = "n.*|ed.*|gb.0.*|gb.1.*"; noseq = True
# 12 --- diffusion transformer with adaptive norms
class DB(nn.Module):
    def __init__(s, d): super().__init__(); s.n1 = nn.LayerNorm(d, elementwise_affine=False); s.a = nn.MultiheadAttention(d, 6, batch_first=True); s.n2 = nn.LayerNorm(d, elementwise_affine=False); s.f = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU("tanh"), nn.Linear(4 * d, d)); s.ada = nn.Sequential(nn.SiLU(), nn.Linear(d, 6 * d))
    def forward(s, x, c): a, b, g, e, f, h = s.ada(c)[:, None].chunk(6, -1); z = s.n1(x) * (1 + a) + b; x = x + g * s.a(z, z, z, need_weights=False)[0]; return x + h * s.f(s.n2(x) * (1 + e) + f)
class DiT(nn.Module):
    def __init__(s): super().__init__(); d = 300; s.x = nn.Linear(32, d); s.pos = nn.Parameter(torch.zeros(1, isq(144), d)); s.tm = nn.Sequential(nn.Linear(128, d), nn.SiLU(), nn.Linear(d, d)); s.cls = nn.Embedding(1001, d); s.blocks = nn.ModuleList(DB(d) for _ in range(O.get("layers", 5))); s.fin = nn.Linear(d, 32)
    def loss(s, x, t, y, n):
        h = s.x(x + n * .1) + s.pos; c = s.tm(t) + s.cls(y)
        for b in s.blocks: h = ck(b, h, c)
        return F.mse_loss(s.fin(h), n)
    data = staticmethod(lambda: (flo(ib(12), isq(144), 32), flo(ib(12), 128), ints(1000, ib(12)), flo(ib(12), isq(144), 32))); frz = "x.*|tm.*|cls.*|blocks.0.*"
# 13 --- speech: convolutions over time, then a transformer, CTC
class CB(nn.Module):
    def __init__(s, d): super().__init__(); s.n = nn.LayerNorm(d); s.pw = nn.Linear(d, 2 * d); s.dw = nn.Conv1d(d, d, 15, padding=7, groups=d); s.o = nn.Linear(d, d); s.n2 = nn.LayerNorm(d); s.qkv = nn.Linear(d, 3 * d); s.ao = nn.Linear(d, d); s.ff = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Dropout(.1), nn.Linear(4 * d, d))
    def forward(s, x):
        b, t, d = x.shape; q, k, v = s.qkv(s.n2(x)).view(b, t, 3, 4, d // 4).permute(2, 0, 3, 1, 4); x = x + s.ao(F.dropout((q @ k.mT / (d // 4) ** .5).softmax(-1), .1, s.training).matmul(v).transpose(1, 2).flatten(2)); x = x + s.o(F.silu(s.dw(F.glu(s.pw(s.n(x)), -1).mT).mT)); return x + .5 * s.ff(x)
class Speech(nn.Module):
    def __init__(s): super().__init__(); d = 216; s.fe = nn.Sequential(nn.Conv1d(80, d, 5, 2, 2), nn.GELU(), nn.Conv1d(d, d, 5, 2, 2), nn.GELU()); s.enc = nn.ModuleList(CB(d) for _ in range(O.get("layers", 5))); s.head = nn.Linear(d, 600)
    def loss(s, x, y):
        h = s.fe(x).mT
        for b in s.enc: h = ck(b, h)
        lp = s.head(h).log_softmax(-1); return F.nll_loss(lp.flatten(0, 1), y.flatten()[: lp.shape[0] * lp.shape[1]])
    data = staticmethod(lambda: (flo(ib(8), 80, isq(400)), ints(600, ib(8), isq(100)))); frz = "fe.*|enc.0.*|enc.1.*"
# 14 --- tied weights, loss in chunks
class TiedB(nn.Module):
    def __init__(s, d): super().__init__(); s.n1 = nn.LayerNorm(d); s.qkv = nn.Linear(d, 3 * d, bias=False); s.o = nn.Linear(d, d, bias=False); s.n2 = nn.LayerNorm(d); s.a = nn.Linear(d, 4 * d); s.b = nn.Linear(4 * d, d)
    def forward(s, x):
        b, t, d = x.shape; q, k, v = (z.view(b, t, 5, -1).transpose(1, 2) for z in s.qkv(s.n1(x)).chunk(3, -1)); x = x + s.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)); return x + s.b(F.relu(s.a(s.n2(x))).square())
class Tied(nn.Module):
    def __init__(s): super().__init__(); s.wte = nn.Embedding(16000, 320); s.h = nn.ModuleList(TiedB(320) for _ in range(O.get("layers", 5))); s.nf = nn.LayerNorm(320)
    def ch(s, h, y): return F.cross_entropy(F.linear(h, s.wte.weight), y, reduction="sum")
    def loss(s, x, y):
        h = s.wte(x)
        for b in s.h: h = ck(b, h)
        h = s.nf(h).flatten(0, 1); y = y.flatten(); return sum(checkpoint(s.ch, a, b, use_reentrant=False) for a, b in zip(h.chunk(4), y.chunk(4))) / y.numel()
    def ev(s, x, y): h = s.wte(x); [h := b(h) for b in s.h]; return s.nf(h).mean()
    data = staticmethod(lambda: (ints(16000, ib(6), isq(160)), ints(16000, ib(6), isq(160)))); frz = "h.0.*|h.1.*|h.2.*"
PROGS = dict(ssm=SSM, moe=MoE, unet=UNet, vit=ViT, s2s=S2S, rec=Rec, a2c=A2C, two=Two, lora=Lora, gan=GAN, gnn=GNN, dit=DiT, speech=Speech, tied=Tied)
def make_opt(ps):
    o = O.get("optim", "adamw"); ps = list(ps)
    return {"adamw": lambda: torch.optim.AdamW(ps, lr=1e-3), "loop": lambda: torch.optim.AdamW(ps, lr=1e-3, foreach=False), "sgd": lambda: torch.optim.SGD(ps, lr=1e-3), "momentum": lambda: torch.optim.SGD(ps, lr=1e-3, momentum=.9), "adam8": lambda: Adam8(ps), "host": lambda: CpuAdam(ps)}[o]()
def main(prog, opts, steps=3):
    O.clear(); O.update(opts); torch.manual_seed(0); cls = PROGS[prog]; m = cls().to(D)
    if O.get("bf16"): m = m.bfloat16()
    if O.get("freeze"):
        for n, p in m.named_parameters():
            if any(fnmatch.fnmatchcase(n, x) for x in O["freeze"].split("|")): p.requires_grad_(False)
    none = not O.get("s2n"); acc = O.get("accum", 1); offctx = (lambda: torch.autograd.graph.save_on_cpu()) if O.get("offact") else contextlib.nullcontext
    amp = lambda: torch.autocast("cuda", dtype=torch.bfloat16, enabled=bool(O.get("amp")))
    if getattr(cls, "gan", False):
        og, od = make_opt(m.G.parameters()), make_opt(m.Dn.parameters()); bce = lambda l, v: F.binary_cross_entropy_with_logits(l, torch.full_like(l, v))
        for i in range(steps):
            if O.get("nograd"):
                with torch.no_grad(): x, z = m.data(); f = m.G(z); bce(m.Dn(x), 1.) + bce(m.Dn(f), 0.); bce(m.Dn(f), 1.)
                continue
            for a in range(acc):
                x, z = m.data()
                with amp(), offctx(): f = m.G(z); ld = bce(m.Dn(x), 1.) + bce(m.Dn(f.detach()), 0.)
                (ld / acc).backward(); del ld, f, x, z
            od.step(); od.zero_grad(set_to_none=none)
            for a in range(acc):
                x, z = m.data()
                with amp(), offctx(): lg = bce(m.Dn(m.G(z)), 1.)
                (lg / acc).backward(); del lg, x, z
            og.step(); og.zero_grad(set_to_none=none); od.zero_grad(set_to_none=none)
        return m
    opt = make_opt(p for p in m.parameters() if p.requires_grad)
    for i in range(steps):
        if O.get("nograd"):
            with torch.no_grad(): d = m.data(); l = m.loss(*d); del l, d
            continue
        for a in range(acc):
            d = m.data()
            with amp(), offctx(): l = m.loss(*d) / acc
            l.backward(); del l, d
        opt.step(); opt.zero_grad(set_to_none=none)
        if hasattr(m, "ev"):
            with torch.no_grad() if O.get("evalng") else contextlib.nullcontext(), amp(): d = m.data(); r = m.ev(*d); del r, d
    return m
def variants(prog):
    c = PROGS[prog]; V = {"base": ({}, None), "b/2": ({"b": .5}, "batch=0.5"), "bx2": ({"b": 2}, "batch=2"), "sgd": ({"optim": "sgd"}, "optimizer=sgd"), "momentum": ({"optim": "momentum"}, "optimizer=momentum"), "adam8": ({"optim": "adam8"}, "optimizer=adam8bit"), "host": ({"optim": "host"}, "optimizer.device=host"), "loop": ({"optim": "loop"}, "foreach=off"), "accum2": ({"accum": 2}, "accumulate=2"), "bf16": ({"bf16": 1}, "precision=bf16"), "amp": ({"amp": 1}, "precision=amp"), "nograd": ({"nograd": 1}, "no_grad"), "s2n": ({"s2n": 1}, "set_to_none=off"), "offact": ({"offact": 1}, "offload=activations")}
    if not getattr(c, "noseq", 0): V["sx2"] = ({"s": 2}, "sequence=2")
    if not getattr(c, "noblocks", 0): V["ckpt"] = ({"ck": 1}, "checkpoint=blocks"); V["ckpt,bx2"] = ({"ck": 1, "b": 2}, "checkpoint=blocks,batch=2"); V["layers"] = ({"layers": {"ssm": 6, "moe": 6, "unet": 5, "vit": 9, "two": 5, "lora": 7, "gnn": 6, "dit": 8, "speech": 8, "tied": 8}[prog]}, "layers=%d" % {"ssm": 6, "moe": 6, "unet": 5, "vit": 9, "two": 5, "lora": 7, "gnn": 6, "dit": 8, "speech": 8, "tied": 8}[prog])
    if not getattr(c, "nofrz", 0): V["freeze"] = ({"freeze": c.frz}, "freeze=" + c.frz)
    if hasattr(c, "ev"): V["evalng"] = ({"evalng": 1}, "no_grad=evaluation")
    if not getattr(c, "nofrz", 0): V["adam8,accum2,b/2"] = ({"optim": "adam8", "accum": 2, "b": .5}, "optimizer=adam8bit,batch=0.5,accumulate=2")
    return V
