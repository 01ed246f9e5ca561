#!/bin/sh
# Everything that needs a GPU in one command: conformance, random programs, rings and jobs, litmus
# tests, compute-sanitizer and the benchmarks. Leaves one JSON file and prints a table.
#
#   tools/gpu_check.sh [BUILD_BIN_FOLDER] [--out FILE] [--quick] [--budget SECONDS]
#                      [--only STEP] [--programs N]
#
# --only runs one step; --programs says how many random programs that step has to try, which then
# ends early. EVERKERNEL_SEED=N has random tests begin there.
# The folder (build/gpu/bin) may come from another machine: `cmake --preset gpu` makes such a build.
# Ends within nine minutes, or when the seconds of --budget are over, with 0 if everything ran and
# passed, 77 if there is no GPU, 2 if it cannot begin, else 1.
exec python3 -B "$(dirname "$0")/gpu_check.py" "$@"
