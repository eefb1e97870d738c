"""Lightning: the optimizer calls the passes of its step. usage: lightning.py PASSES BATCH WIDTH OPTIMIZER, with OUT=snapshot.pickle"""
import sys,os,json,torch,torch.nn as nn,torch.nn.functional as F
import lightning.pytorch as L
N=int(sys.argv[1]); B=int(sys.argv[2]); d=int(sys.argv[3]); opt=sys.argv[4]
class Bl(nn.Module):
    def __init__(s,d): super().__init__(); s.n=nn.LayerNorm(d); s.a=nn.Linear(d,4*d); s.b=nn.Linear(4*d,d)
    def forward(s,x): return x+s.b(F.gelu(s.a(s.n(x))))
class M(L.LightningModule):
    def __init__(s): super().__init__(); s.m=nn.Sequential(nn.Linear(64,d),*[Bl(d) for _ in range(6)],nn.Linear(d,1000))
    def training_step(s,b,i): return F.cross_entropy(s.m(b[0]),b[1])
    def configure_optimizers(s): return getattr(torch.optim,opt)(s.parameters(),lr=1e-3)
torch.cuda.memory._record_memory_history(max_entries=1_000_000,stacks="all")
ds=torch.utils.data.TensorDataset(torch.randn(3*N*B,64),torch.randint(0,1000,(3*N*B,)))
t=L.Trainer(accelerator="gpu",devices=1,max_steps=3,accumulate_grad_batches=N,logger=False,enable_checkpointing=False,enable_progress_bar=False,enable_model_summary=False)
t.fit(M(),torch.utils.data.DataLoader(ds,batch_size=B))
torch.cuda.memory._dump_snapshot(os.environ["OUT"]); st=torch.cuda.memory_stats()
print("PEAKS",st["allocated_bytes.all.peak"],st["reserved_bytes.all.peak"])
