"""Training steps of twelve programs of libraries; prints the allocator's peaks, and records into the folder OUT if that is set.
usage: libraries.py PROGRAM batch=2|optim=sgd|ckpt=1|accum=2|layers=4 (docs/evidence/rules.md has what was predicted)"""
import sys, os, json, torch, torch.nn.functional as F
from fnmatch import fnmatchcase
prog = sys.argv[1]; opt = dict(a.split("=", 1) for a in sys.argv[2:])
torch.backends.cudnn.enabled = False; dev = "cuda"; torch.manual_seed(0)
f = float(opt.get("batch", 1)); accum = int(opt.get("accum", 1)); ck = opt.get("ckpt") == "1"; seqf = float(opt.get("seq", 1))
rec = None
def start():
    global rec
    if os.environ.get("OUT"):
        import memlane; rec = memlane.record(os.environ["OUT"], stacks="all", modules=opt.get("modules") == "1"); rec.start()
def finish():
    if rec: rec.stop()
    st = torch.cuda.memory_stats(); print("PEAKS " + json.dumps({"allocated": st["allocated_bytes.all.peak"], "reserved": st["reserved_bytes.all.peak"]}))
def make_opt(ps):
    return {"adamw": lambda: torch.optim.AdamW(ps, lr=1e-4), "sgd": lambda: torch.optim.SGD(ps, lr=1e-4), "momentum": lambda: torch.optim.SGD(ps, lr=1e-4, momentum=.9), "fused": lambda: torch.optim.AdamW(ps, lr=1e-4, fused=True), "loop": lambda: torch.optim.AdamW(ps, lr=1e-4, foreach=False)}[opt.get("optim", "adamw")]()
def loop(model, batch, loss_of, steps=3):
    if "train" in opt:  # names of the parameters that are not frozen
        for n, p in model.named_parameters(): p.requires_grad_(any(fnmatchcase(n, f) for f in opt["train"].split("|")))
    if "peft" in opt:  # RANK:MODULE,MODULE
        from peft import LoraConfig, get_peft_model
        r, names = opt["peft"].split(":"); model = get_peft_model(model, LoraConfig(r=int(r), target_modules=names.split(","))).to(dev)
    o = make_opt([p for p in model.parameters() if p.requires_grad]); model.train()
    for _ in range(steps):
        for _ in range(accum):
            b = batch(); loss = loss_of(model, b) / accum; loss.backward(); del loss, b
        o.step(); o.zero_grad()
def ids(v, b, s): return torch.randint(0, v, (b, s), device=dev)
B = lambda n: int(n * f)
start()
L = lambda n: int(opt.get("layers", n))
if prog == "trainer_gpt2":
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
    m = GPT2LMHeadModel(GPT2Config(vocab_size=5000, n_embd=256, n_layer=L(6), n_head=4, n_positions=128))
    data = [{"input_ids": torch.randint(0, 5000, (128,)), "labels": torch.randint(0, 5000, (128,))} for _ in range(96)]
    a = TrainingArguments(output_dir="/tmp/tr", per_device_train_batch_size=B(8), max_steps=3, gradient_accumulation_steps=accum, gradient_checkpointing=ck, gradient_checkpointing_kwargs={"use_reentrant": False} if ck else None, optim={"adamw": "adamw_torch", "sgd": "sgd", "fused": "adamw_torch_fused"}[opt.get("optim", "adamw")], report_to=[], save_strategy="no", disable_tqdm=True, logging_strategy="no", max_grad_norm=0)
    Trainer(m, a, train_dataset=data).train()
elif prog == "lightning_bert":
    import lightning, transformers
    from transformers import BertConfig, BertForMaskedLM
    class M(lightning.LightningModule):
        def __init__(s): super().__init__(); s.m = BertForMaskedLM(BertConfig(vocab_size=4000, hidden_size=256, num_hidden_layers=L(5), num_attention_heads=4, intermediate_size=1024))
        def training_step(s, b, i): return s.m(input_ids=b[0], labels=b[1]).loss
        def configure_optimizers(s): return make_opt(s.parameters())
    m = M()
    if ck: m.m.gradient_checkpointing_enable({"use_reentrant": False})
    data = torch.utils.data.TensorDataset(torch.randint(0, 4000, (96, 96)), torch.randint(0, 4000, (96, 96)))
    lightning.Trainer(max_steps=3, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, accumulate_grad_batches=accum, enable_model_summary=False).fit(m, torch.utils.data.DataLoader(data, batch_size=B(8)))
elif prog == "llama":
    from transformers import LlamaConfig, LlamaForCausalLM
    m = LlamaForCausalLM(LlamaConfig(vocab_size=6000, hidden_size=320, num_hidden_layers=L(6), num_attention_heads=5, num_key_value_heads=5, intermediate_size=800)).to(dev)
    if ck: m.gradient_checkpointing_enable({"use_reentrant": False})
    loop(m, lambda: ids(6000, B(4), int(128*seqf)), lambda m, x: m(input_ids=x, labels=x, use_cache=False).loss)
elif prog == "t5":
    from transformers import T5Config, T5ForConditionalGeneration
    m = T5ForConditionalGeneration(T5Config(vocab_size=6000, d_model=256, d_kv=64, d_ff=1024, num_layers=L(4), num_heads=4, decoder_start_token_id=0, pad_token_id=0)).to(dev)
    if ck: m.gradient_checkpointing_enable({"use_reentrant": False})
    loop(m, lambda: (ids(6000, B(6), 96), ids(6000, B(6), 48)), lambda m, x: m(input_ids=x[0], labels=x[1], use_cache=False).loss)
elif prog == "accelerate_opt":
    from accelerate import Accelerator; from transformers import OPTConfig, OPTForCausalLM
    m = OPTForCausalLM(OPTConfig(vocab_size=5000, hidden_size=256, num_hidden_layers=L(6), num_attention_heads=4, ffn_dim=1024, word_embed_proj_dim=256, max_position_embeddings=256))
    if ck: m.gradient_checkpointing_enable({"use_reentrant": False})
    ac = Accelerator(gradient_accumulation_steps=accum); o = make_opt(m.parameters())
    dl = torch.utils.data.DataLoader(torch.randint(0, 5000, (200, 128)), batch_size=B(6)); m, o, dl = ac.prepare(m, o, dl); m.train()
    for i, x in enumerate(dl):
        with ac.accumulate(m):
            loss = m(input_ids=x, labels=x).loss; ac.backward(loss); o.step(); o.zero_grad(); del loss, x
        if i == 3 * accum - 1: break
elif prog == "peft_gptneo":
    from transformers import GPTNeoConfig, GPTNeoForCausalLM; from peft import LoraConfig, get_peft_model
    m = GPTNeoForCausalLM(GPTNeoConfig(vocab_size=5000, hidden_size=256, num_layers=L(6), num_heads=4, attention_types=[[["global", "local"], 3]] if L(6) == 6 else [[["global", "local"], L(6)//2]], max_position_embeddings=256, window_size=256))
    m = get_peft_model(m, LoraConfig(r=8, target_modules=["q_proj", "v_proj"])).to(dev)
    if ck: m.enable_input_require_grads(); m.gradient_checkpointing_enable({"use_reentrant": False})
    loop(m, lambda: ids(5000, B(8), 128), lambda m, x: m(input_ids=x, labels=x, use_cache=False).loss)
elif prog == "timm_mixer":
    import timm
    m = timm.create_model("mixer_s32_224", num_classes=100).to(dev)
    if ck: m.set_grad_checkpointing()
    loop(m, lambda: (torch.randn(B(16), 3, 224, 224, device=dev), torch.randint(0, 100, (B(16),), device=dev)), lambda m, b: F.cross_entropy(m(b[0]), b[1]))
elif prog == "timm_deit":
    import timm
    m = timm.create_model("deit_tiny_patch16_224", num_classes=100, depth=L(12)).to(dev)
    if ck: m.set_grad_checkpointing()
    loop(m, lambda: (torch.randn(B(8), 3, 224, 224, device=dev), torch.randint(0, 100, (B(8),), device=dev)), lambda m, b: F.cross_entropy(m(b[0]), b[1]))
elif prog == "pyg_gat":
    from torch_geometric.nn import GATConv
    class G(torch.nn.Module):
        def __init__(s): super().__init__(); s.i = torch.nn.Linear(64, 256); s.c = torch.nn.ModuleList(GATConv(256, 64, heads=4) for _ in range(L(6))); s.o = torch.nn.Linear(256, 10)
        def forward(s, x, e):
            x = s.i(x)
            for c in s.c: x = x + F.elu(c(x, e))
            return s.o(x)
    m = G().to(dev); n = B(2000)
    loop(m, lambda: (torch.randn(n, 64, device=dev), torch.randint(0, 900, (2, 10 * n), device=dev), torch.randint(0, 10, (n,), device=dev)), lambda m, b: F.cross_entropy(m(b[0], b[1]), b[2]))
elif prog == "pyg_gin":
    from torch_geometric.nn import GINConv
    mlp = lambda: torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
    class G(torch.nn.Module):
        def __init__(s): super().__init__(); s.c = torch.nn.ModuleList(GINConv(mlp()) for _ in range(L(6))); s.o = torch.nn.Linear(256, 10)
        def forward(s, x, e):
            for c in s.c: x = c(x, e).relu()
            return s.o(x)
    m = G().to(dev); n = B(2000)
    loop(m, lambda: (torch.randn(n, 256, device=dev), torch.randint(0, 900, (2, 6 * n), device=dev), torch.randint(0, 10, (n,), device=dev)), lambda m, b: F.cross_entropy(m(b[0], b[1]), b[2]))
elif prog == "diffusers_dit":
    from diffusers import DiTTransformer2DModel
    m = DiTTransformer2DModel(num_attention_heads=4, attention_head_dim=64, in_channels=4, num_layers=L(6), sample_size=16, patch_size=2, num_embeds_ada_norm=100).to(dev)
    if ck: m.enable_gradient_checkpointing()
    loop(m, lambda: (torch.randn(B(16), 4, 16, 16, device=dev), torch.randint(0, 100, (B(16),), device=dev), torch.randint(0, 90, (B(16),), device=dev)), lambda m, b: F.mse_loss(m(b[0], timestep=b[1], class_labels=b[2]).sample[:, :4], b[0]))
elif prog == "diffusers_prior":
    from diffusers import PriorTransformer
    m = PriorTransformer(num_attention_heads=4, attention_head_dim=64, num_layers=L(6), embedding_dim=256, num_embeddings=77, additional_embeddings=4).to(dev)
    if ck: m.enable_gradient_checkpointing()
    loop(m, lambda: (torch.randn(B(16), 256, device=dev), torch.randint(0, 100, (B(16),), device=dev), torch.randn(B(16), 256, device=dev), torch.randn(B(16), 77, 256, device=dev)), lambda m, b: F.mse_loss(m(b[0], timestep=b[1], proj_embedding=b[2], encoder_hidden_states=b[3]).predicted_image_embedding, b[0]))
finish()
