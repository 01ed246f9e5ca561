#!/bin/sh
# A tour of the command line: makes the four shared buffers, fills the ring, runs it on the CPU and
# looks at the result.
# Usage: tools/demo.sh PATH-OF-everkernel
set -eu

if [ $# -ne 1 ]; then
  echo "usage: $0 PATH-OF-everkernel" >&2
  exit 2
fi
# The tour runs in a folder of its own, so a relative path must become absolute first.
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
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

# Words as little-endian bytes, each below 256. Four of them are a work item: op_handle,
# input_handle, output_handle, param.
words() {
  for word in "$@"; do
    # shellcheck disable=SC2059 # the format is the point: an octal escape a byte
    printf "\\$(printf '%03o' "$word")\\000\\000\\000"
  done
}

say "A megakernel and its host share four buffers. Here they are files."
everkernel encode control --tenants 2 --observable-slots 4 --priority-slots 32 -o control.bin
everkernel encode ring --slots 32 -o ring.bin
everkernel encode debug-log --records 8 -o debug_log.bin
everkernel encode io-queue --slots 4 -o io_queue.bin

say "Work is published into slots of the ring. STORE_U32 7 160: control word 160, the first
# observable, becomes 7 when a worker runs it."
everkernel publish --ring ring.bin --slot 12 --tenant 0 --opcode STORE_U32 --arg 7 --arg 160

say "Slots 6..11 are those of priority high: the control buffer above splits the ring that way."
everkernel publish --ring ring.bin --slot 6 --tenant 1 --priority high --opcode PRINTF --arg 1

say "Small operations share a slot: this one holds three."
everkernel publish --ring ring.bin --slot 13 --tenant 0 --packed STORE_U32:10,161 \
  --packed ATOMIC_ADD:32,161 --packed NOP

say "A batch is a file of 16-byte items and a fence that completes after them. Tenant 5 is not
# enabled in the control buffer, so these will have to wait."
{ words 64 1 2 7; words 64 1 3 8; words 65 1 4 0; } > items.bin
everkernel publish --ring ring.bin --slot 14 --tenant 5 --batch items.bin --tag 99

say "A slot that is in use is refused, and the ring stays as it was:"
if everkernel publish --ring ring.bin --slot 12 --tenant 0 --opcode NOP 2>&1; then
  echo "the slot should have been refused" >&2
  exit 1
fi

say "What a host sees: the counters of the control buffer, the ring by status, every slot that is
# not empty, and why a slot does not move. No kernel has run yet, so nothing is done, and the
# watchdog, which compares with an earlier control buffer (here the same), says so."
everkernel inspect --control control.bin --ring ring.bin --debug-log debug_log.bin \
  --io-queue io_queue.bin --previous-control control.bin

say "The same for programs, as one JSON object (its first 200 bytes):"
printf '$ everkernel inspect --ring ring.bin --json\n'
"$program" inspect --ring ring.bin --json > ring.json
head -c 200 ring.json
printf '...\n'

say "What opcodes 64 and 65 do is yours to say, in a small language that is verified first:"
cat > ops.ek <<'END'
handler add = 64 pure { for i in 0 .. len(input) { output[i] = input[i] + param; } }
handler square = 65 pure { for i in 0 .. len(input) { output[i] = input[i] * input[i]; } }
END
cat ops.ek
everkernel check ops.ek

say "Now the ring runs. Items name their data by handle: 1 is read, 2, 3 and 4 are written. What
# cannot run is named, and the exit status is 1: the batch of tenant 5 still waits."
words 1 2 3 4 > numbers.bin
words 0 0 0 0 > zeros.bin
status=0
everkernel dispatch --control control.bin --ring ring.bin --debug-log debug_log.bin \
  --io-queue io_queue.bin --handlers ops.ek --buffer 1=numbers.bin:r --buffer 2=zeros.bin \
  --buffer 3=zeros.bin --buffer 4=zeros.bin --out first || status=$?
[ "$status" -eq 1 ]
everkernel inspect --control first/control.bin --debug-log first/debug_log.bin --observables

say "With a control buffer in which six tenants may run, the rest of that ring runs too:"
everkernel encode control --tenants 6 --observable-slots 4 --priority-slots 32 -o six.bin
everkernel dispatch --control six.bin --ring first/ring.bin --schedule priority \
  --handlers ops.ek --buffer 1=numbers.bin:r --buffer 2=zeros.bin --buffer 3=zeros.bin \
  --buffer 4=zeros.bin --out second

say "The results: 1 2 3 4 plus 7, plus 8, and squared; and the tag of the fence, 99, in the first
# observable."
for handle in 2 3 4; do
  printf '$ od -An -tu4 second/buffer-%s.bin\n' "$handle"
  od -An -tu4 "second/buffer-$handle.bin"
done
everkernel inspect --control second/control.bin --ring second/ring.bin --observables
