import json
import sys

with open(sys.argv[1], "rb") as f:
    trace = json.load(f)
