"""Reads captures on a Ray cluster and merges their records where it was started.

    python ray_job.py CAPTURES RESULTS [FLAG OF MAP ...]

CAPTURES is a file with the path or address of a capture on each line, RESULTS the
folder of the results. memlane-fleet is on the PATH of all nodes.
"""

import subprocess
import sys

import ray

PART = 10  # captures per task; if a node dies, Ray repeats its tasks

captures, results, *flags = sys.argv[1:]
names = open(captures, "rb").read().splitlines()


@ray.remote(max_retries=3, retry_exceptions=[subprocess.CalledProcessError])
def read(part):
    command = ["memlane-fleet", "map", *flags]
    return subprocess.run(command, input=b"\n".join(part), stdout=subprocess.PIPE, check=True).stdout


ray.init()  # the cluster of $RAY_ADDRESS
parts = [read.remote(names[i : i + PART]) for i in range(0, len(names), PART)]
records = b"".join(ray.get(parts))
subprocess.run(["memlane-fleet", "merge", "-o", results, "--captures", captures], input=records, check=True)
