#!/bin/sh
# Runs every check that needs a GPU: conformance, random programs, rings, jobs and sessions, litmus
# tests, compute-sanitizer and the benchmarks. Leaves one JSON file and prints a table.
#
#   tools/gpu_check.sh [BUILD_BIN_FOLDER] [--out FILE] [--quick] [--budget SECONDS]
#                      [--part bounded|sessions] [--only STEP] [--programs N] [--code FOLDER]
#
# --part runs the steps of bounded launches, or those of sessions; --only runs one step. --programs
# N ends the step "random programs" after N programs; if it tried fewer in its time, it fails.
# --code keeps compiled code in that folder; tests that ran before then spend no time compiling.
# EVERKERNEL_SEED=N is the first seed of random tests.
# The folder (build/gpu/bin) may come from another machine: `cmake --preset gpu` makes such a build.
# Each part ends within nine minutes, or both after the seconds of --budget. Exit status: 0 if every
# step ran and passed, 77 if there is no GPU, 2 if the check cannot begin, else 1.
exec python3 -B "$(dirname "$0")/gpu_check.py" "$@"
