import mt, torch, torch.nn as nn
class Q(nn.Module):
    def __init__(s, i, o):
        super().__init__(); s.register_buffer("w", torch.randint(-128, 127, (o, i), dtype=torch.int8)); s.register_buffer("scale", torch.ones(o, 1).half())
    def forward(s, x): return nn.functional.linear(x, s.w.to(x.dtype) * s.scale)
class B(nn.Module):
    def __init__(s, d): super().__init__(); s.n1 = nn.LayerNorm(d); s.n2 = nn.LayerNorm(d); s.qkv = Q(d, 3 * d); s.o = Q(d, d); s.u = Q(d, 4 * d); s.d = Q(4 * d, d)
    def forward(s, x):
        q, k, v = s.qkv(s.n1(x)).view(x.shape[0], x.shape[1], 3, 8, -1).permute(2, 0, 3, 1, 4)
        x = x + s.o(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape))
        return x + s.d(torch.relu(s.u(s.n2(x))))
class M(nn.Module):
    def __init__(s, d=512): super().__init__(); s.e = nn.Embedding(8000, d); s.b = nn.ModuleList(B(d) for _ in range(6)); s.h = nn.Linear(d, 8000, bias=False)
    def forward(s, i):
        x = s.e(i)
        for b in s.b: x = b(x)
        return s.h(x[:, -1])
@torch.no_grad()
def main():
    m = mt.model(M().half().cuda().eval())
    for i in range(4):
        with mt.step(i):
            with mt.phase("other", "data"): ids = mt.T("input", torch.randint(3, 8000, (4, 128)).cuda())
            for t in range(3): ids = torch.cat([ids, m(ids).argmax(-1, keepdim=True)], 1)
    mt.finish()
main()
