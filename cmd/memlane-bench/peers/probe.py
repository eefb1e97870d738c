# Prints the version of this Python and of the peers in it, "name version" to a line.
import importlib.metadata
import importlib.util
import os
import platform

print("Python", platform.python_version())
for name in ("xprof", "orjson", "protobuf", "torch"):
    try:
        print(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        pass
spec = importlib.util.find_spec("torch")
if spec and spec.submodule_search_locations:
    print("memory_viz", os.path.join(spec.submodule_search_locations[0], "cuda", "_memory_viz.py"))
