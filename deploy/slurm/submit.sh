#!/usr/bin/env bash
# Converts takes on a Slurm cluster: lists them, submits an array of jobs, and a job that publishes the dataset when they have ended.
# Run it again to convert what is missing or new.
#
# Usage: submit.sh [OPTION...] DATASET INPUT... [-- OPTION OF takeset plan...]
#   --count K      tasks in each job of the array; default 1, and more where MaxArraySize needs it
#   --limit N      jobs of the array that run at once
#   --convert OPT  an option of takeset convert, such as --convert=--take-memory=8G; may be repeated
#   --sbatch OPT   an option of sbatch for the array, such as --sbatch=--time=2:00:00; may be repeated
#   --wait         wait until the dataset is published; exit with the code of takeset publish
# TAKESET names the command, which every node needs at the same path; default takeset.
set -euo pipefail

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 64; }
count=1 limit='' wait=() convert=() sbatch=() plan=()
while [ $# -gt 0 ]; do
  case $1 in
    --count | --limit)
      [ $# -ge 2 ] || usage
      if [ "$1" = --count ]; then count=$2; else limit=$2; fi
      shift 2
      ;;
    --convert=*) convert+=("${1#*=}") && shift ;;
    --sbatch=*) sbatch+=("${1#*=}") && shift ;;
    --wait) wait=(--wait) && shift ;;
    --) break ;;
    -*) usage ;;
    *) plan+=("$1") && shift ;;
  esac
done
[ "${1-}" = -- ] && shift
[[ $count =~ ^[1-9][0-9]{0,8}$ && ${limit:-1} =~ ^[1-9][0-9]{0,8}$ ]] || usage
[ ${#plan[@]} -ge 2 ] || usage

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export TAKESET=${TAKESET:-takeset}
dataset=${plan[0]}
"$TAKESET" plan "${plan[@]:1}" --output "$dataset" --tasks "$@"
dataset=$(cd "$dataset" && pwd)
mkdir -p "$dataset/logs"
logs=${dataset//%/%%}/logs  # % stands for something in names of logs

# The numbers of an array are below MaxArraySize.
size=$(scontrol show config | sed -n 's/^MaxArraySize *= *//p')
total=$("$TAKESET" status "$dataset" --format json | sed 's/.*"tasks":\([0-9]*\).*/\1/')
least=$(((total + ${size:-1001} - 1) / ${size:-1001}))
[ "$count" -ge "$least" ] || count=$least

missing=$("$TAKESET" status "$dataset" --format slurm --count "$count")
after=()
if [ -n "$missing" ]; then
  # A requeued job appends to its log. The batch script gets SIGTERM a minute before the time limit.
  job=$(sbatch --parsable --job-name=takeset --array="$missing${limit:+%$limit}" --requeue --open-mode=append --signal=B:TERM@60 \
    --output="$logs/%A_%a.log" ${sbatch[@]+"${sbatch[@]}"} "$here/convert.sh" "$dataset" --count "$count" ${convert[@]+"${convert[@]}"})
  job=${job%%;*}
  after=(--dependency="afterany:$job")
  echo "job $job: tasks in jobs $missing, $count in each"
fi
# After any end of the array: bad takes are part of a dataset, and publish refuses if a task has no result.
publish=$(sbatch --parsable --job-name=takeset-publish --requeue --open-mode=append --output="$logs/publish_%j.log" ${after[@]+"${after[@]}"} \
  ${wait[@]+"${wait[@]}"} "$here/publish.sh" "$dataset") || code=$?
echo "job ${publish%%;*}: takeset publish; log in $dataset/logs"
exit "${code:-0}"
