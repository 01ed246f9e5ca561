#!/bin/sh
# Runs every benchmark of a build folder ($1) and leaves one JSON file each in its bench/ folder.
# A benchmark that cannot run on this machine prints the reason and ends with status 77.
set -eu
build=$1
mkdir -p "$build/bench"
for program in "$build"/bin/*_bench; do
  name=$(basename "$program" _bench)
  status=0
  "$program" --json="$build/bench/$name.json" || status=$?
  [ "$status" -eq 0 ] || [ "$status" -eq 77 ] || exit "$status"
done
echo "JSON: $build/bench"
