import pickle
import sys

for path in sys.argv[1:]:
    with open(path, "rb") as f:
        snapshot = pickle.load(f)
