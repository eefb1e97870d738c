"""SAC from pictures: a replay buffer on the device, augmented batches, twin critics, target nets, three optimizers; prints the allocator's peak, and records into
the file OUT if that is set.
usage: sac.py [b=2] [bf16=1] [amp=1]"""
import copy
import sys
from types import SimpleNamespace

import torch, torch.nn as nn, torch.nn.functional as F
import record

opt = dict(a.split("=", 1) for a in sys.argv[1:])
o = SimpleNamespace(n=lambda size: int(size * float(opt.get("b", 1))), dt=torch.bfloat16 if "bf16" in opt else torch.float32)


def forward(o):
    return torch.autocast("cuda", dtype=torch.bfloat16, enabled="amp" in opt)


def prepare(o, net):
    return net.to(o.dt)


def optimizer(o, params, make):
    return make(params)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.Sequential(nn.Conv2d(9, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 32, 3, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, 1), nn.ReLU(), nn.Flatten())
        self.out = nn.Sequential(nn.Linear(32 * 25 * 25, 100), nn.LayerNorm(100), nn.Tanh())

    def forward(self, x):
        return self.out(self.convs(x))


class Critic(nn.Module):
    def __init__(self, actions):
        super().__init__()
        self.encoder = Encoder()
        q = lambda: nn.Sequential(nn.Linear(100 + actions, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1))
        self.q1, self.q2 = q(), q()

    def forward(self, obs, act, detach=False):
        h = self.encoder(obs)
        h = torch.cat((h.detach() if detach else h, act), -1)
        return self.q1(h), self.q2(h)


class Actor(nn.Module):
    def __init__(self, encoder, actions):
        super().__init__()
        self.encoder = [encoder]  # the critic trains it
        self.net = nn.Sequential(nn.Linear(100, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 2 * actions))

    def forward(self, obs):
        mean, log_std = self.net(self.encoder[0](obs).detach()).chunk(2, -1)
        std = log_std.tanh().mul(4).exp()
        act = mean + std * torch.randn_like(mean)
        logp = (-0.5 * ((act - mean) / std).pow(2) - log_std).sum(-1, keepdim=True) - torch.log(1 - act.tanh().pow(2) + 1e-6).sum(-1, keepdim=True)
        return act.tanh(), logp


def shift(x, pad=4):
    n, c, h, w = x.shape
    x = F.pad(x, (pad,) * 4, "replicate")
    line = torch.linspace(-1, 1, h, device=x.device, dtype=x.dtype)
    grid = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1).expand(n, h, w, 2)
    return F.grid_sample(x, grid + torch.rand(n, 1, 1, 2, device=x.device, dtype=x.dtype) * 0.1, padding_mode="zeros", align_corners=False)


def train(o):
    size, actions, adam = 4000, 6, lambda p: torch.optim.Adam(p, lr=1e-3)
    critic = prepare(o, Critic(actions).cuda())
    target = copy.deepcopy(critic).requires_grad_(False)
    actor = prepare(o, Actor(critic.encoder, actions).cuda())
    log_alpha = nn.Parameter(torch.zeros((), device="cuda", dtype=o.dt))
    c_opt, a_opt, t_opt = optimizer(o, critic.parameters(), adam), optimizer(o, actor.parameters(), adam), optimizer(o, [log_alpha], adam)
    replay = torch.zeros(size, 2, 9, 64, 64, dtype=torch.uint8, device="cuda")
    acts, rewards = torch.zeros(size, actions, device="cuda", dtype=o.dt), torch.zeros(size, 1, device="cuda", dtype=o.dt)
    for step in range(3):
        at = torch.zeros(o.n(192), dtype=torch.long, device="cuda").random_(size).clamp_(0, size - 1).mul_(0)
        frames = replay[at]
        obs, after = shift(frames[:, 0].to(o.dt) / 255), shift(frames[:, 1].to(o.dt) / 255)
        act, reward = acts[at], rewards[at]
        with torch.no_grad(), forward(o):
            next_act, next_logp = actor(after)
            y = reward + 0.99 * (torch.min(*target(after, next_act)) - log_alpha.exp() * next_logp)
        with forward(o):
            q1, q2 = critic(obs, act)
            loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        c_opt.zero_grad()
        loss.backward()
        c_opt.step()
        with forward(o):
            new, logp = actor(obs)
            a_loss = (log_alpha.exp().detach() * logp - torch.min(*critic(obs, new, detach=True))).mean()
        a_opt.zero_grad()
        a_loss.backward()
        a_opt.step()
        t_opt.zero_grad()
        (-log_alpha.exp() * (logp.detach() - actions).mean()).backward()
        t_opt.step()
        with torch.no_grad():
            for p, q in zip(critic.parameters(), target.parameters()):
                q.mul_(0.99).add_(p, alpha=0.01)
    return critic, target, actor, c_opt, a_opt, t_opt


torch.backends.cudnn.enabled = False  # the stub of the runtime has none
record.start("all")
kept = train(o)
record.end()
