"""Optimizers of which prog.py and kinds.py have no more than what they keep."""
import torch
class Adam8(torch.optim.Optimizer):  # as 8-bit optimizers keep it: a byte a state and element, a scale for 256
    def __init__(s, ps): super().__init__(ps, dict(lr=1e-3))
    @torch.no_grad()
    def step(s):
        for gr in s.param_groups:
            for p in gr["params"]:
                if p.grad is None: continue
                st = s.state[p]
                if not st:
                    for n in ("m", "v"): st[n] = torch.zeros(p.numel(), dtype=torch.uint8, device=p.device); st[n+"_scale"] = torch.zeros((p.numel()+255)//256, device=p.device)
                p.add_(p.grad, alpha=-1e-3)
class CpuAdam(torch.optim.Optimizer):  # state and update on the host
    def __init__(s, ps): super().__init__(ps, dict(lr=1e-3))
    @torch.no_grad()
    def step(s):
        for gr in s.param_groups:
            for p in gr["params"]:
                if p.grad is None: continue
                st = s.state[p]
                if not st: st["m"] = torch.zeros(p.shape); st["v"] = torch.zeros(p.shape)
                p.copy_(torch.zeros(p.shape))
