"""Reads captures on a Ray cluster and merges their records where it was started.

    python ray_job.py CAPTURES RESULTS [FLAG OF MAP ...]

CAPTURES is a file with the path or address of a capture on each line, RESULTS the
folder of the results. memlane-fleet is on the PATH of all nodes. The environment
variable PART is how much a task reads.
"""

import json
import os
import subprocess
import sys

import ray

captures, results, *flags = sys.argv[1:]
fleet = "memlane-fleet"
size = os.environ.get("PART", "4GiB")  # if a node dies, Ray repeats its tasks
parts = subprocess.run([fleet, "parts", "--size", size], stdin=open(captures, "rb"), stdout=subprocess.PIPE, check=True).stdout
retried = ray.remote(max_retries=3, retry_exceptions=[subprocess.CalledProcessError])


@retried
def read(names):
    return subprocess.run([fleet, "map", *flags], input="\n".join(names).encode(), stdout=subprocess.PIPE, check=True).stdout


@retried
def combine(*records):
    return subprocess.run([fleet, "combine"], input=b"".join(records), stdout=subprocess.PIPE, check=True).stdout


ray.init()  # the cluster of $RAY_ADDRESS
records = [read.remote(json.loads(part)) for part in parts.splitlines()]
while len(records) > 1:  # a tree of tasks, so that no machine holds the lines of all captures
    records = [combine.remote(*records[i : i + 16]) for i in range(0, len(records), 16)]
subprocess.run([fleet, "merge", "-o", results, "--captures", captures], input=ray.get(records[0]), check=True)
