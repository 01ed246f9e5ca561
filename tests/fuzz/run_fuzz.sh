#!/bin/sh
# Usage: run_fuzz.sh PROGRAM CORPUS WORK LIMIT
# LIMIT is an option of libFuzzer: -runs=N with a fixed seed, or -max_total_time=SECONDS with a
# fresh one, which is printed.
# Runs a fuzz target on a copy of its stored corpus: new inputs stay in WORK, in the build folder.
set -u
program=$1
corpus=$2
work=$3
limit=$4
seed=0
case "$limit" in -runs=*) seed=1 ;; esac

rm -rf "$work"
mkdir -p "$work/corpus" "$work/artifacts"
cp "$corpus"/* "$work/corpus/" || exit 1

"$program" "$limit" -seed="$seed" -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
  -print_final_stats=1 -artifact_prefix="$work/artifacts/" "$work/corpus"
status=$?

# libFuzzer has an exit status for each of crash, leak, timeout and too much memory; an artifact is
# a failure even if the status is 0.
found=$(find "$work/artifacts" -type f)
if [ "$status" -eq 0 ] && [ -z "$found" ]; then
  exit 0
fi
for artifact in $found; do
  echo "artifact: $artifact"
  echo "replay: $program $artifact"
done
echo "failed: $program ended with status $status"
exit 1
