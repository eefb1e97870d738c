"""Reads captures on Apache Spark and merges their records on the driver.

    spark-submit spark_job.py CAPTURES RECORDS RESULTS [FLAG OF MAP ...]

CAPTURES is a file with the path or address of a capture on each line, RECORDS a
folder that is not there yet and that the driver and all workers reach, RESULTS the
folder of the results. memlane-fleet is on the PATH of the driver and the workers.
"""

import subprocess
import sys

from pyspark import SparkContext

PART = 10  # captures per task; if a worker dies, Spark repeats its tasks

captures, records, results, *flags = sys.argv[1:]
names = open(captures, "rb").read().splitlines()


def read(part):
    # Not RDD.pipe: it starts programs with an empty environment, without PATH and
    # without the credentials of an object store.
    command = ["memlane-fleet", "map", *flags]
    return subprocess.run(command, input=b"\n".join(part), stdout=subprocess.PIPE, check=True).stdout.splitlines()


parts = SparkContext(appName="memlane-fleet").parallelize(names, len(names) // PART + 1)
parts.mapPartitions(read).saveAsTextFile(records)
subprocess.run(["memlane-fleet", "merge", "-o", results, "--captures", captures, records], check=True)
