"""What autocast computes in 32 bits though a product of 16 is among its operands, and in 16 though a weight has 32 (also with AMP=1).
usage: promotes.py frozen|tied|edges|masks|heads
frozen: buffers scale and shift what convolutions make; tied: a head with a bias of its own on the weight of the embedding; edges: rows of nodes times weights of edges;
masks: a mask of 32 bits added to scores, then powers and means of a normalization; heads: normalizations by roots of queries and keys, after a pool whose indices stay integers."""
import os, sys
import torch, torch.nn as nn, torch.nn.functional as F
import record
torch.backends.cudnn.enabled = False; dev = "cuda"; torch.manual_seed(0)
class Frozen(nn.Module):
    def __init__(s):
        super().__init__(); s.convs = nn.ModuleList(nn.Conv2d(i, o, 3, padding=1, bias=b) for i, o, b in ((3, 32, False), (32, 32, False), (32, 64, True)))
        for i in range(2): s.register_buffer(f"scale{i}", torch.ones(1, 32, 1, 1)); s.register_buffer(f"shift{i}", torch.zeros(1, 32, 1, 1))
        s.head = nn.Linear(64, 10)
    def forward(s, x):
        for i in range(2): x = F.relu(s.convs[i](x) * getattr(s, f"scale{i}") + getattr(s, f"shift{i}"))
        return s.head(F.relu(s.convs[2](x)).mean((2, 3)))
    def loss(s): return F.cross_entropy(s(torch.randn(8, 3, 48, 48, device=dev)), torch.randint(0, 10, (8,), device=dev))
class Tied(nn.Module):
    def __init__(s): super().__init__(); s.words = nn.Embedding(3000, 128); s.layer = nn.TransformerEncoderLayer(128, 4, 256, 0., batch_first=True); s.bias = nn.Parameter(torch.zeros(3000))
    def loss(s): x = torch.randint(0, 3000, (4, 100), device=dev); return F.cross_entropy((F.linear(s.layer(s.words(x)), s.words.weight) + s.bias).flatten(0, 1), x.flatten())
class Edges(nn.Module):
    def __init__(s): super().__init__(); s.take, s.score, s.norm, s.head = nn.Linear(32, 128), nn.Parameter(torch.zeros(128)), nn.LayerNorm(128), nn.Linear(128, 7)
    def loss(s):
        x, i, j = torch.randn(1500, 32, device=dev), torch.randint(0, 1500, (9000,), device=dev), torch.randint(0, 1500, (9000,), device=dev)
        z = s.take(x); e = torch.exp((z * s.score).sum(-1)[i]); m = e[:, None] * z[i]
        return F.cross_entropy(s.head(s.norm(torch.zeros(1500, 128, device=dev, dtype=m.dtype).index_add(0, j, m))), torch.randint(0, 7, (1500,), device=dev))
class Masks(nn.Module):
    def __init__(s): super().__init__(); s.qkv, s.out, s.wide, s.back = nn.Linear(128, 384), nn.Linear(128, 128), nn.Linear(128, 512), nn.Linear(512, 128); s.register_buffer("mask", torch.zeros(96, 96))
    def loss(s):
        x = torch.randn(8, 96, 128, device=dev); q, k, v = s.qkv(x).view(8, 96, 3, 4, 32).permute(2, 0, 3, 1, 4); a = ((q @ k.mT) * 32 ** -.5 + s.mask).softmax(-1)
        x = x + s.out((a @ v).transpose(1, 2).reshape(8, 96, 128)); h = s.wide(x); h = h - h.mean(-1, keepdim=True); h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (x + s.back(F.gelu(h))).square().mean()
class Heads(nn.Module):
    def __init__(s): super().__init__(); s.stem, s.q, s.k, s.v, s.out, s.head = nn.Conv2d(3, 128, 3, padding=1), nn.Linear(128, 128), nn.Linear(128, 128), nn.Linear(128, 128), nn.Linear(128, 128), nn.Linear(128, 10); s.qn, s.kn = nn.RMSNorm(32), nn.RMSNorm(32)
    def loss(s):
        x = F.max_pool2d(F.relu(s.stem(torch.randn(8, 3, 24, 24, device=dev))), 2).flatten(2).mT; split = lambda z: z.view(8, 144, 4, 32)
        a = F.scaled_dot_product_attention(s.qn(split(s.q(x))).transpose(1, 2), s.kn(split(s.k(x))).transpose(1, 2), split(s.v(x)).transpose(1, 2)).transpose(1, 2).reshape(8, 144, 128)
        return F.cross_entropy(s.head((x + s.out(a)).mean(1)), torch.randint(0, 10, (8,), device=dev))
record.start("all")
model = {"frozen": Frozen, "tied": Tied, "edges": Edges, "masks": Masks, "heads": Heads}[sys.argv[1]]().to(dev); opt = torch.optim.AdamW(model.parameters())
for _ in range(2):
    with torch.autocast("cuda", torch.bfloat16, enabled="AMP" in os.environ): loss = model.loss()
    loss.backward(); opt.step(); opt.zero_grad(); del loss
print("RESERVED", torch.cuda.max_memory_reserved()); record.end()
