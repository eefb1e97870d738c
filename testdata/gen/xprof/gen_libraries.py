"""gen_libraries.py FOLDER...: print formats/xplane/libraries.txt from installed packages or unpacked wheels, and the folder of
Python's standard library.

Python tracers of XProf record the name of a file without its folder. The table names the modules that run between a program
and its allocations: a file name alone if only the library is likely to have one of that name, otherwise with the functions
that the library defines in it. Give several releases: functions come and go."""
import ast, collections, os, re, sys

ROOTS = [
    r"jax/_src/(?!pallas|mosaic|cudnn|debugger|tpu/|export)", r"jax/(experimental/)?[^/]*$", r"jax/(interpreters|numpy|nn|scipy)/", r"jaxlib/[^/]*$",
    r"jaxlib/mlir/(dialects/)?[^/]*$", r"opt_einsum/", r"flax/(core|linen|nnx)/", r"flax/[^/]*$",
    r"flax/training/(train_state|common_utils|dynamic_scale|lr_schedule)", r"optax/(_src|transforms|tree_utils|losses)/", r"haiku/_src/[^/]*$",
    r"equinox/([^/]*|internal/[^/]*|nn/[^/]*)$", r"chex/_src/",
    r"tensorflow/python/(eager|eager/polymorphic_function|framework|ops|ops/ragged|ops/numpy_ops|util|trackable|types|data/(ops|util)|distribute|"
    r"autograph/(core|impl|operators|utils)|profiler|profiler/internal|module|checkpoint)/[^/]*$", r"tensorflow/core/function/",
    r"keras/src/[^/]*$", r"keras/src/(activations|backend/([^/]*$|common|tensorflow|jax)|callbacks|dtype_policies|export|initializers|layers|"
    r"losses|metrics|models|ops|optimizers|quantizers|random|regularizers|saving|trainers|tree|utils)/", r"optree/[^/]*$",
    r"numpy/(_core|core|lib|linalg|random)/[^/]*$", r"(collections|re|logging|concurrent/futures|asyncio|json)/", r"(random|types|typing)\.py$",
]
# A program has a module of its own with such a name, or may have one.
WORDS = set("""__init__ activation activations adafactor adagrad adam adamw alias analytics api array asset attention attributes autodiff base basic
batch_norm bias callback callbacks checkpoints cloning cluster combinations combine common compat compilation compile compiler cond config
constants context contract conv converter core cursor data data_structures dataset debug debugging deferred dense device dispatch
distributed dot dropout early_stopping ema embed embedding embeddings error errors execute executor export extract fake fft filtering
format function functional functions fused gather general gradients graph group_norm helpers history identity ids image importer indexing
init initializers interop introspect io iteration kernels lamb layer layer_norm layers layout lift linalg linear lion literals load
lookahead loop loops lora loss losses main maps masking math memory mesh meta metric metrics mixins mlp model models module monitor
monitoring muon nadam network nn normalization numerics numpy ode ops optimizer optimizers options other pad parallel parser partitioning
path paths pipeline polynomial pool pooling primitives profiler profiling random readers record records recurrent registry remote reshape
resnet resources rms_norm rnn sampling save scale scatter schedule scheduler schedules scope script sequential serialization sets sgd
shard sharding signal slicing snapshot solver sort sorting sparse special spectral_norm stack stages state stateful statelib step
stochastic strings struct subscribe summary svd tape template tensor test text tools tracers train train_state trainer training transfer
transform transforms traversals tree tuner types typing update util utils validation values variable variables variants version versions
view visualization wrapper wrappers""".split())
# Modules of the standard library that call a program back, or that libraries call.
STANDARD = """_collections_abc _weakrefset abc ast asyncio collections concurrent contextlib copy copyreg dataclasses enum functools genericpath
importlib inspect itertools json linecache logging operator os pickle posixpath queue re reprlib runpy string textwrap threading tokenize
traceback warnings weakref""".split()
UNUSED = re.compile(r"^test|^__(repr|str|ne|lt|le|gt|ge|reduce|getstate|setstate)__$")
SKIP = re.compile(r"(^|/)(tests?|testing|benchmarks|examples)/|_test\.py$|test_util|conftest")


def functions(path):
    with open(path, encoding="utf8", errors="replace") as f:
        tree = ast.parse(f.read())
    found = {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
    return {n for n in found if not UNUSED.search(n)}


table = collections.defaultdict(set)
for root in sys.argv[1:]:
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)
            inside = os.path.relpath(path, root)
            if name.endswith(".py") and not SKIP.search(inside) and any(re.match(r, inside) for r in ROOTS):
                try:
                    table[name] |= functions(path)
                except SyntaxError:
                    pass
for name in STANDARD:
    table[name + ".py"] |= set()
for name in sorted(table):
    stem = name[:-3]
    if stem not in WORDS:
        print(name)
    elif table[name]:
        print(name + ":", *sorted(table[name]))
