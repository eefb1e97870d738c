"""keeper.py: what a program retains by mistake, or on purpose, through hooks (testdata/README.md, leaks). LK_KIND: none, activation, attached (with its graph), input, loss, graph (with all that it saved), gradient,
cat (one buffer that grows). LK_FORM: all, third (every third step), bounded, boundedN (the last 8 or N), cleared (every 10 steps). truth() runs after the dump. Nothing here reads the capture."""
import os, random, gc, collections
import torch
KIND, FORM = os.environ["LK_KIND"], os.environ["LK_FORM"]      # what is kept; how: all, third, bounded, cleared
R = random.Random(int(os.environ["LK_SEED"]))
BOUND = int(FORM[7:] or 8) if FORM.startswith("bounded") else None
kept = collections.deque(maxlen=BOUND) if BOUND else []
now = {"step": 0, "calls": 0}
hist = [None]
picked = []
def store(x):
    if FORM == "third" and now["step"] % 3: return
    kept.append(x)
def tensors(v):
    if isinstance(v, torch.Tensor): return [v] if v.is_cuda else []
    if hasattr(v, "to_tuple"): v = v.to_tuple()
    if isinstance(v, dict): v = list(v.values())
    return [t for x in v for t in tensors(x)] if isinstance(v, (list, tuple)) else []
def end_step(i):
    now["step"] += 1
    if FORM == "cleared" and now["step"] % 10 == 0: kept.clear(); hist[0] = None
def pick(model):
    all_ = [(k, m) for k, m in model.named_modules() if k and not isinstance(m, (torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.Dropout, torch.nn.Identity))] or [("", model)]
    return R.choice(all_)
def observe(model):
    """called for each root module"""
    if KIND in ("activation", "attached", "cat") and len(picked) < 1:
        name, m = pick(model); picked.append(name)
        def keep_output(module, args, out):
            for t in tensors(out)[:1]:
                if KIND == "cat":
                    x = t.detach().flatten(); hist[0] = x.clone() if hist[0] is None else torch.cat([hist[0], x]); 
                    if FORM == "bounded" and hist[0].numel() > 8 * x.numel(): hist[0] = hist[0][-8 * x.numel():].clone()
                else: store(t if KIND == "attached" else t.detach())
        m.register_forward_hook(keep_output)
    if KIND == "input" and not picked and os.environ["LK_TAGS"] == "0":
        picked.append("(root)")
        def keep_batch(module, args, kwargs):
            for t in tensors((args, kwargs)): store(t)
        model.register_forward_pre_hook(keep_batch, with_kwargs=True)
def tag(role, v):
    if KIND == "input" and role == "input" and os.environ["LK_TAGS"] == "1":
        for t in tensors(v): store(t)
if KIND in ("loss", "graph"):
    _bw = torch.autograd.backward
    def backward(tensors_, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
        for t in tensors([tensors_] if isinstance(tensors_, torch.Tensor) else list(tensors_)): store(t)
        return _bw(tensors_, grad_tensors, True if KIND == "graph" else retain_graph, create_graph, inputs=inputs)
    torch.autograd.backward = backward
if KIND == "gradient":
    from torch.optim.optimizer import register_optimizer_step_pre_hook
    def keep_gradients(opt, args, kwargs):
        ps = [p for g in opt.param_groups for p in g["params"] if p.grad is not None and p.grad.is_cuda]
        if id(opt) not in now: now[id(opt)] = R.sample(range(len(ps)), min(3, len(ps)))
        for k in now[id(opt)]:
            if k < len(ps): store(ps[k].grad.detach().clone())
    register_optimizer_step_pre_hook(keep_gradients)
def ptrs(ts):
    out = set()
    for t in ts:
        try:
            if t.layout == torch.sparse_coo: out |= ptrs([t._indices(), t._values()]); continue
            p = t.untyped_storage().data_ptr()
        except Exception: continue
        if p: out.add(p)
    return out
def truth(models, events):
    """after the dump: what is kept, by address: what the container holds, and what is freed with it"""
    own = set()
    for m in models: own |= ptrs(list(m.parameters()) + list(m.buffers()))
    gc.collect(); direct = ptrs([t for t in kept if t is not None] + ([hist[0]] if hist[0] is not None else [])) - own
    n, entries = len(events()), len(kept)
    kept.clear(); hist[0] = None; gc.collect()
    freed = {e[1] for e in events()[n:] if e[0] == "free_completed"}
    return {"held": sorted(direct | freed), "direct": len(direct), "freed": len(freed), "entries": entries, "module": picked}
