#!/bin/sh
# Runs every benchmark of a build folder ($1) and leaves one JSON file each in its bench/ folder.
set -eu
build=$1
mkdir -p "$build/bench"
for program in "$build"/bin/*_bench; do
  name=$(basename "$program" _bench)
  "$program" --json="$build/bench/$name.json"
done
echo "JSON: $build/bench"
