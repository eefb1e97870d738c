import mt, torch, torch.nn as nn, math, os
D, H, L = 512, 8, 6
class A(nn.Module):
    def __init__(s): super().__init__(); s.q = nn.Linear(D, D); s.k = nn.Linear(D, D); s.v = nn.Linear(D, D); s.o = nn.Linear(D, D)
    def forward(s, x, pool, slots):
        q, k, v = s.q(x), s.k(x), s.v(x)
        pool[0].index_copy_(0, slots[-x.shape[0]:], k); pool[1].index_copy_(0, slots[-x.shape[0]:], v)
        K, V = pool[0][slots].view(-1, H, D // H).transpose(0, 1), pool[1][slots].view(-1, H, D // H).transpose(0, 1)
        return s.o(nn.functional.scaled_dot_product_attention(q.view(-1, H, D // H).transpose(0, 1), K, V).transpose(0, 1).reshape(x.shape))
class B(nn.Module):
    def __init__(s): super().__init__(); s.n1 = nn.LayerNorm(D); s.n2 = nn.LayerNorm(D); s.a = A(); s.u = nn.Linear(D, 4 * D); s.d = nn.Linear(4 * D, D)
    def forward(s, x, pool, slots): x = x + s.a(s.n1(x), pool, slots); return x + s.d(nn.functional.gelu(s.u(s.n2(x))))
class M(nn.Module):
    def __init__(s): super().__init__(); s.e = nn.Embedding(9000, D); s.b = nn.ModuleList(B() for _ in range(L)); s.n = nn.LayerNorm(D); s.h = nn.Linear(D, 9000, bias=False)
    def forward(s, ids, pools, slots):
        x = s.e(ids)
        for b, p in zip(s.b, pools): x = b(x, p, slots)
        return s.h(s.n(x[-1:]))
TOKENS = int(os.environ.get("TOKENS", "512"))     # 2048 tokens: a pool has the size of an up projection
@torch.inference_mode()
def main():
    m = mt.model(M().half().cuda().eval()); pools = [[torch.zeros(TOKENS, D, dtype=torch.float16, device="cuda") for _ in range(2)] for _ in range(L)]
    mt.watch("cache", lambda: [x for p in pools for x in p])
    for i in range(4):
        with mt.step(i):
            with mt.phase("other", "data"): ids = mt.T("input", torch.randint(3, 9000, (70 + 13 * i,)).cuda())
            slots = mt.T("input", torch.arange(len(ids), device="cuda"))
            for t in range(5):
                ids = m(ids, pools, slots).argmax(-1); slots = torch.cat([slots, slots[-1:] + 1])
    mt.finish()
main()
