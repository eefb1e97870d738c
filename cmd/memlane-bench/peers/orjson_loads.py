import sys

import orjson

with open(sys.argv[1], "rb") as f:
    trace = orjson.loads(f.read())
