#!/bin/sh
# A tour of the command line: a job of a million items with its report, a small job that shows where
# its results come from, and the buffers underneath.
# Usage: tools/demo.sh PATH-OF-everkernel [CHUNKS]
#   CHUNKS: chunks of text in the job, each 66 items; 16384 unless given
set -eu

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: $0 PATH-OF-everkernel [CHUNKS]" >&2
  exit 2
fi
# The tour runs in a folder of its own, so relative paths must become absolute first.
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
jobs=$(cd "$(dirname "$0")/../examples/jobs" && pwd)
chunks=${2:-16384}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"

say() {
  printf '\n# %s\n' "$@"
}

everkernel() {
  printf '$ everkernel %s\n' "$*"
  "$program" "$@"
}

say "A job is a list of small work items over buffers. This one counts 64 words in chunks of log
# text: it folds every chunk, looks for every word in each, and brings the counts together."
"$jobs/log_scan.py" big "$chunks"
head -c 240 big/job.json
printf '...\n'

say "You define what an item does, in a small language that is verified first:"
sed -n '/^handler count/,/^}/p' big/log_scan.ek
everkernel check big/log_scan.ek

say "One command plans the job (dependencies, equal items, regions), compiles the handlers for it,
# feeds a ring of 1,024 slots as it drains, and prints a report:"
everkernel run big/job.json --outputs results

say "Python finds the same counts in the same text:"
cmp results/buffer-1.bin big/expected.bin
od -An -tu4 -N32 results/buffer-1.bin

say "A smaller job. --lineage shows which rules contributed to each output. The rules are automata
# that report every match as a hit."
everkernel run "$jobs/scan.json" --lineage | sed -n '1,2p;/^hits/,$p'

say "If an item fails, only the items that depend on it fail with it; the exit status is 1."
status=0
everkernel run "$jobs/faults.json" > faults.txt || status=$?
[ "$status" -eq 1 ]
sed -n '1,2p;/^faults/,/^$/p' faults.txt

say "Underneath is a ring of 64-byte slots that host and kernel share. By hand: 5 is added to
# control word 160, the first observable."
everkernel encode control --tenants 1 --observable-slots 1 -o control.bin
everkernel encode ring --slots 8 -o ring.bin
everkernel publish --ring ring.bin --slot 0 --tenant 0 --opcode ATOMIC_ADD --arg 5 --arg 160
everkernel dispatch --control control.bin --ring ring.bin --out ring
everkernel inspect --control ring/control.bin --ring ring/ring.bin --observables

say "docs/running-jobs.md explains jobs, docs/handlers.md explains handlers."
