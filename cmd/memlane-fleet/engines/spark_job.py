"""Reads captures on Apache Spark and merges their records on the driver.

    spark-submit spark_job.py CAPTURES RECORDS RESULTS [FLAG OF MAP ...]

CAPTURES is a file with the path or address of a capture on each line, RECORDS a
folder that is not there yet and that the driver and all workers reach: it becomes a
table. RESULTS is the folder of the results. memlane-fleet is on the PATH of the driver
and the workers. The environment variable PART is how much a task reads.
"""

import base64
import json
import os
import subprocess
import sys

from pyspark.sql import SparkSession

captures, records, results, *flags = sys.argv[1:]
size = os.environ.get("PART", "4GiB")  # if a worker dies, Spark repeats its tasks
parts = subprocess.run(["memlane-fleet", "parts", "--size", size], stdin=open(captures, "rb"), stdout=subprocess.PIPE, check=True).stdout.splitlines()


def read(part):
    # Not RDD.pipe: it starts programs with an empty environment, without PATH and
    # without the credentials of an object store.
    names = "\n".join(json.loads(part)).encode()
    for line in subprocess.run(["memlane-fleet", "map", *flags], input=names, stdout=subprocess.PIPE, check=True).stdout.splitlines():
        row = json.loads(line)
        yield row["capture"], row["state"], row.get("reason"), base64.b64decode(row["record"])


spark = SparkSession.builder.appName("memlane-fleet").getOrCreate()
rows = spark.sparkContext.parallelize(parts, max(1, len(parts))).flatMap(read)
spark.createDataFrame(rows, "capture string, state string, reason string, record binary").write.parquet(records)
subprocess.run(["memlane-fleet", "merge", "-o", results, "--captures", captures, records], check=True)
