#!/usr/bin/env bash
# Reads captures as a job array of Slurm, and merges their records in a job after it:
#
#     TASKS=100 bash slurm_job.sh CAPTURES RECORDS RESULTS [FLAG OF MAP ...]
#
# CAPTURES is a file with the path or address of a capture on each line, RECORDS a
# folder that all nodes reach, RESULTS the folder of the results. memlane-fleet is on
# the PATH of all nodes. A task that failed or was preempted can be run again by
# itself: scontrol requeue JOB_TASK.
set -euo pipefail
captures=$1 records=$2 results=$3
flags=("${@:4}")

if [ -z "${SLURM_ARRAY_TASK_ID:-}" ]; then
  mkdir -p "$records"
  array=$(sbatch --parsable --job-name=memlane-map --array="0-$((${TASKS:-100} - 1))" --cpus-per-task=1 --requeue "$0" "$@")
  sbatch --job-name=memlane-merge --dependency="afterok:${array%%;*}" \
    --wrap="$(printf '%q ' memlane-fleet merge -o "$results" --captures "$captures" "$records")"
  exit
fi

# Every so many-th capture. What is there under its name is whole.
part=part-$SLURM_ARRAY_TASK_ID
awk -v n="$SLURM_ARRAY_TASK_COUNT" -v task="$SLURM_ARRAY_TASK_ID" 'NR % n == task' "$captures" |
  memlane-fleet map "${flags[@]}" >"$records/.$part"
mv "$records/.$part" "$records/$part"
