#!/usr/bin/env bash
# One job of the array: converts its tasks, and puts itself back into the queue where another attempt may help.
# Usage: convert.sh DATASET [OPTION OF takeset convert...]
set -u

# Slurm signals this script alone. The command ends with 75 within two seconds.
child='' signaled=''
trap 'signaled=1; [ -n "$child" ] && kill -TERM "$child" 2>/dev/null' TERM INT
"${TAKESET:-takeset}" convert --jobs "${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-1}}" "$@" &
child=$!
[ -z "$signaled" ] || kill -TERM "$child" 2>/dev/null
# A trapped signal ends wait, but not the command.
while true; do
  wait "$child"
  code=$?
  kill -0 "$child" 2>/dev/null || break
done

# 73, 74, 75: the disk, or no time left; above 128: killed, for instance for its memory. Slurm itself requeues jobs of lost nodes only.
if [ "$code" -ge 73 ] && [ "$code" -le 75 ] || [ "$code" -gt 128 ]; then
  if [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
    echo "exit code $code: requeued after attempt $((${SLURM_RESTART_COUNT:-0} + 1)) on $(hostname)"
    scontrol requeue "$SLURM_JOB_ID"
  fi
fi
exit "$code"
