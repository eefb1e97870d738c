#!/bin/bash
# Makes all snapshots of testdata/torchsnap again. Needs $ROOT/{venv,tv,fake} (see fake_runtime/).
ROOT=${ROOT:?a folder with venv/, tv/ and fake/}; cd "$(dirname "$0")"
D=$ROOT/keep/dev; mkdir -p $D
F=$ROOT/fakecuda.sh; PY=$ROOT/venv/bin/python
V="$ROOT/fakev.sh LATEST v215"; V24="$ROOT/fakev.sh 2.4.1 v24"; V21="$ROOT/fakev.sh 2.1.2 v21"; V20="$ROOT/fakev.sh 2.0.1 v20"
q(){ "$@" 2>&1 | grep -vE 'no version information|DeviceProperties|Gloo|matplotlib|USDT|STAGE|CUPTI' | tail -3; }
export OUT=$D
q $F healthy.py 6 512 healthy.pickle
q $F leak.py 20 4096 leak_4mib_20steps.pickle
q $F leak_loss.py 8 leaky leak_loss.pickle
q $F leak_loss.py 8 fixed leak_loss_fixed.pickle
q $F pair.py before pair_before.pickle
q $F pair.py after pair_after.pickle
FAKE_MEM_MB=256 q $F frag.py 36 6 60 frag_oom.pickle
FAKE_MEM_MB=512 FAKE_OTHER_MB=64 q $F oom.py oom_observer.pickle
FAKE_MEM_MB=600 q $F died.py table.pickle; FAKE_MEM_MB=600 q $F died.py first_pass.pickle; FAKE_MEM_MB=700 q $F died.py shards.pickle; FAKE_MEM_MB=340 q $F died.py whole.pickle; FAKE_MEM_MB=400 q $F died.py ahead.pickle # failures
FAKE_NDEV=2 q $F twodev.py 10 twodev.pickle
FAKE_EVENT_DELAY=3 q $F streams.py streams.pickle
q $F ring.py 100 ring_100.pickle
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True q $F expand.py expandable.pickle
for m in state nocontext alloc cpp off annot pool snapmark; do q $F modes.py $m mode_$m.pickle; done
PYTORCH_CUDA_ALLOC_CONF=roundup_power2_divisions:4,garbage_collection_threshold:0.8,max_split_size_mb:64 q $F modes.py round mode_round.pickle
q $F segfree.py segfree.pickle
for s in all python; do q $F names.py 2 $s names_$s.pickle; done
q $V names.py 2 all t215_names.pickle
PYTHONPATH=../../../python/src q $F held.py held.pickle
q $F small.py 1500 small_leak_cycles.pickle
for m in meta host skip pool; do q $V new215.py $m t215_$m.pickle; done
q $V leak.py 12 1024 t215_leak_1mib_12steps.pickle
q $V healthy.py 4 384 t215_healthy.pickle
FAKE_NDEV=2 q $V twodev.py 6 t215_twodev.pickle
FAKE_EVENT_DELAY=2 q $V streams.py t215_streams.pickle
q $V ring.py 80 t215_ring_80.pickle
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True q $V expand.py t215_expandable.pickle
FAKE_MEM_MB=256 q $V frag.py 36 6 60 t215_frag_oom.pickle
q $V24 leak.py 7 2048 t241_leak.pickle
q $V21 leak.py 7 2048 t212_leak.pickle
q $V20 old_api.py t201
# the same snapshot in other pickle protocols
$PY - <<'PYEOF'
import pickle, os
s = pickle.load(open(os.environ["OUT"] + "/leak_4mib_20steps.pickle", "rb"))
for p in (2, 3, 5): pickle.dump(s, open(os.environ["OUT"] + f"/proto{p}_leak_4mib_20steps.pickle", "wb"), protocol=p)
pickle.dump(s, open(os.environ["OUT"] + "/proto0_leak_4mib_20steps.pickle", "wb"), protocol=0)
PYEOF
q $F cuda_prof.py cuprof_leak 6 leak; q $F cuda_prof.py cuprof_ok 5 ok; q $V cuda_prof.py t215_cuprof_leak 4 leak
