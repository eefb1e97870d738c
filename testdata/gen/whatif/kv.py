"""Generation with a cache of keys and values; prints the allocator's peak, and records into the folder OUT if that is set.
usage: kv.py KIND [f=1]   f: how many times as many tokens the cache holds"""
import sys, os, json, torch, torch.nn as nn, torch.nn.functional as F
kind = sys.argv[1]; opt = dict(a.split("=", 1) for a in sys.argv[2:]); f = float(opt.get("f", 1)); torch.manual_seed(0); dev = "cuda"
def start():
    if os.environ.get("OUT"):
        import memlane; r = memlane.record(os.environ["OUT"], stacks="all"); r.start(); return r
rec = start()
N = lambda n: int(n * f)
class Attn(nn.Module):
    def __init__(s, d, h): super().__init__(); s.h = h; s.qkv = nn.Linear(d, 3 * d); s.proj = nn.Linear(d, d)
    def forward(s, x, cache, layer):
        b, t, d = x.shape; q, k, v = s.qkv(x).view(b, t, 3, s.h, d // s.h).permute(2, 0, 3, 1, 4)
        k, v = cache.put(layer, k, v)
        return s.proj(F.scaled_dot_product_attention(q, k, v, is_causal=t > 1).transpose(1, 2).reshape(b, t, d))
class Block(nn.Module):
    def __init__(s, d, h=8): super().__init__(); s.n1 = nn.LayerNorm(d); s.attn = Attn(d, h); s.n2 = nn.LayerNorm(d); s.up = nn.Linear(d, 4 * d); s.down = nn.Linear(4 * d, d)
    def forward(s, x, c, i): x = x + s.attn(s.n1(x), c, i); return x + s.down(F.gelu(s.up(s.n2(x))))
class GPT(nn.Module):
    def __init__(s, v, d, n): super().__init__(); s.tok = nn.Embedding(v, d); s.blocks = nn.ModuleList(Block(d) for _ in range(n)); s.head = nn.Linear(d, v)
    def forward(s, x, c):
        h = s.tok(x)
        for i, b in enumerate(s.blocks): h = b(h, c, i)
        return s.head(h[:, -1])
class Fixed:
    def __init__(s, n, b, h, t, d): s.k = [torch.zeros(b, h, t, d, device=dev) for _ in range(n)]; s.v = [torch.zeros(b, h, t, d, device=dev) for _ in range(n)]; s.at = 0; s.n = n
    def put(s, i, k, v):
        t = k.shape[2]; e = s.at + t; s.k[i][:, :, s.at:e] = k; s.v[i][:, :, s.at:e] = v
        if i == s.n - 1: s.at = e
        return s.k[i][:, :, :e], s.v[i][:, :, :e]
class Pool:
    def __init__(s, n, blocks, h, d): s.kv = torch.zeros(n, 2, blocks, 16, h, d, device=dev); s.at = 0
    def put(s, i, k, v):
        s.kv[i, 0, 0, :1] = k[0, :, -1]; s.kv[i, 1, 0, :1] = v[0, :, -1]
        return k, v
class Growing:
    def __init__(s, n): s.k = [None] * n; s.v = [None] * n
    def put(s, i, k, v):
        s.k[i] = k.contiguous() if s.k[i] is None else torch.cat([s.k[i], k], 2); s.v[i] = v.contiguous() if s.v[i] is None else torch.cat([s.v[i], v], 2)
        return s.k[i], s.v[i]
with torch.no_grad():
    if kind in ("fixed", "pool", "growing"):
        m = GPT(4000, 512, 6).to(dev)
        c = Fixed(6, 4, 8, N(512), 64) if kind == "fixed" else Pool(6, N(400), 8, 64) if kind == "pool" else Growing(6)
        P, T = (N(192), N(48)) if kind == "growing" else (64, 24)
        x = m(torch.randint(0, 4000, (4, P), device=dev), c).argmax(-1, keepdim=True)
        for _ in range(T): x = m(x, c).argmax(-1, keepdim=True)
    else:
        from transformers import LlamaConfig, LlamaForCausalLM, StaticCache, DynamicCache, GPT2Config, GPT2LMHeadModel
        if "gpt2" in kind: m = GPT2LMHeadModel(GPT2Config(vocab_size=4000, n_embd=512, n_layer=6, n_head=8, n_positions=2048)).to(dev)
        else: m = LlamaForCausalLM(LlamaConfig(vocab_size=4000, hidden_size=512, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=8 if "mha" in kind else 2, intermediate_size=1024)).to(dev)
        m.eval(); ids = torch.randint(1, 4000, (4, 128 if "static" in kind else N(128)), device=dev)
        c = StaticCache(config=m.config, max_batch_size=4, max_cache_len=N(512), device=dev, dtype=torch.float32) if "static" in kind else DynamicCache()
        x, at = ids, 0
        for _ in range(16 if "static" in kind else N(32)):
            pos = torch.arange(at, at + x.shape[1], device=dev); at += x.shape[1]
            x = m(input_ids=x, past_key_values=c, use_cache=True, cache_position=pos, logits_to_keep=1).logits[:, -1].argmax(-1, keepdim=True)
if rec: rec.stop()
print("PEAKS", json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
