import pickle
import sys

with open(sys.argv[1], "rb") as f:
    snapshot = pickle.load(f)
