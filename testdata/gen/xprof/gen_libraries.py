"""gen_libraries.py FOLDER...: print formats/xplane/libraries.txt from installed packages or unpacked wheels.

Python tracers of XProf record the name of a file without its folder. The table names the modules that run between a program
and its allocations: a file name alone if only the library is likely to have one of that name, otherwise with the functions
that the library defines in it. Give several releases: functions come and go."""
import ast, collections, os, re, sys

ROOTS = [
    r"jax/_src/(numpy/|lax/|nn/|image/|interpreters/|state/|third_party/)?[^/]*$", r"jax/(experimental/)?[^/]*$",
    r"flax/(core|linen|nnx)/", r"flax/[^/]*$", r"flax/training/(train_state|common_utils|dynamic_scale|lr_schedule)",
    r"optax/(_src|transforms|tree_utils|losses)/", r"haiku/_src/[^/]*$", r"equinox/([^/]*|internal/[^/]*|nn/[^/]*)$", r"chex/_src/",
    r"tensorflow/python/(eager|eager/polymorphic_function|framework|ops|util|trackable|data/ops|distribute)/[^/]*$",
    r"keras/src/(utils/traceback_utils|utils/tf_utils|layers/layer|layers/core|models|trainers|backend/(common|tensorflow|jax)|optimizers|callbacks)",
    r"numpy/(_core|core|lib|linalg|random)/[^/]*$",
]
# A program has a module of its own with such a name, or may have one.
WORDS = set("""__init__ activation activations api array attention autodiff base basic callback callbacks checkpoints cluster common compat
compilation compile compiler config constants context conv core data dataset debugging deferred dense dispatch distributed dot dropout embed
embedding embeddings error errors execute executor export fft function functional functions gather general graph helpers image indexing init
initializers io layer layers layout lift linalg linear load loop loops lora loss losses main maps math masking memory mesh meta metric metrics
mlp model models module monitor monitoring network nn normalization optimizer optimizers options ops other parallel partitioning path pipeline
pool pooling primitives profiler profiling random recurrent registry reshape resnet rnn sampling save scale scatter schedule schedules
scheduler scope script sequential serialization sharding signal solver sort sorting special stack state stateful step stochastic struct
summary tensor text tools train trainer training transform transforms tree tuner types typing update util utils validation variable variables
version versions view visualization wrapper wrappers adam sgd adagrad adafactor adamw alias analytics asset attributes bias
cloning combine combinations cond converter cursor debug device ema extract fake filtering format fused gradients history identity ids importer
interop introspect iteration kernels lamb lion literals lookahead mixins muon nadam numerics numpy ode pad polynomial readers record records remote
resources sets shard slicing snapshot sparse spectral_norm stages statelib strings subscribe svd tape template test tracers train_state transfer
traversals values variants batch_norm layer_norm group_norm rms_norm data_structures early_stopping""".split())
# Modules of the standard library that call a program back, or that libraries call.
STANDARD = """_collections_abc _weakrefset abc ast asyncio collections concurrent contextlib copy copyreg dataclasses enum functools genericpath
importlib inspect itertools json linecache logging operator os pickle posixpath queue re reprlib runpy string textwrap threading tokenize
traceback warnings weakref""".split()
UNUSED = re.compile(r"rule$|lowering|abstract_eval|transpose|_jvp$|_vjp$|^test|_p$|^_?(assert|check_jaxpr|pp_|str_|repr)|"
                    r"^__(repr|str|eq|ne|lt|le|gt|ge|hash|reduce|getstate|setstate|copy|deepcopy)__$")
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
